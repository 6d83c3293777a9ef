"""What is said after an answer: how far off it typically is (PRIVACY.md section 7; `cuts` says what bounds cut).

Knows: a plan's noise, what its columns are for, released values. Must not know: exact values. Everything said follows from the
plan and from what was released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.model import Typical
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_error import deviation, step_growth

Values = Sequence[npt.NDArray[np.int64]]
MOST = 3  # aggregates whose error is told: the rest is in EXPLAIN
HELPS = "a larger dpproxy.epsilon, fewer groups by a coarser key, or asking for less at a time"
MOSTLY_NOISE = 0.5
"""Of a typical error: from here on the interval at 95 %, two of them to both sides, is wider than the value is large."""


_KINDS: Mapping[str, Literal["linear", "mean", "total"]] = {"linear": "linear", "mean": "mean", "total": "total"}


def relative_error(what: Typical, values: Values) -> float | None:
    """Return the median over groups of deviation / value, at most 1; None without groups."""
    if not len(values[what.columns[0]]):
        return None
    first = values[what.columns[0]].astype(float)
    if what.kind == "linear":
        grown = 1.0 if what.step is None else step_growth(int(values[what.step][0]))
        value, error = np.abs(first), np.full(first.size, what.deviations[0] * grown)
    elif what.kind == "total":
        value = np.abs(values[what.columns[1]] + what.center * first)
        error = np.full(first.size, np.hypot(what.deviations[1], what.center * what.deviations[0]))
    else:
        rows = np.maximum(first, 1)
        mean = values[what.columns[1]] / rows
        value = np.abs(what.center + mean)
        error = np.hypot(what.deviations[1], np.abs(mean) * what.deviations[0]) / rows
    return float(np.median(np.minimum(error / np.maximum(value, 1e-300), 1)))


def typical_aggregates(measurements: Sequence[Measurement], compiled: Sequence[Compiled]) -> tuple[Typical, ...]:
    """Return the aggregates whose error can be told."""
    found = []
    for number, (measurement, made) in enumerate(zip(measurements, compiled, strict=True)):
        for output in made.outputs:
            kind = _KINDS.get(output.kind)
            if kind is None or not output.bases:
                continue
            bases = [measurement.bases[i] for i in output.bases]
            center = made.specs[output.bases[1]].shift if kind != "linear" else 0
            raw = measurement.step_column(output.bases[0]) if kind == "linear" else None
            step = raw + 1 if raw is not None else None
            found.append(Typical(output.label, kind, number, output.bases, tuple(map(deviation, bases)), center, step))
    return tuple({t.label: t for t in reversed(found)}.values())[::-1]


def aimable(compiled: Sequence[Compiled]) -> bool:
    """Tell whether `typical_aggregates` says the error of every aggregate, and there are some."""
    kinds = {output.kind for made in compiled for output in made.outputs}
    return bool(kinds) and kinds <= set(_KINDS)


def worst_error(wanted: Sequence[Typical], values: Mapping[int, Values]) -> float:
    """Return the largest typical error; 1 where nothing was released that could tell."""
    known = [relative_error(t, values[t.measurement]) for t in wanted if t.measurement in values]
    return max((1.0 if error is None else error for error in known), default=1.0)


def errors_by_label(wanted: Sequence[Typical], values: Mapping[int, Values]) -> dict[str, float]:
    """Return the typical errors that can be told, by label."""
    known = ((t.label, relative_error(t, values[t.measurement])) for t in wanted if t.measurement in values)
    return {label: error for label, error in known if error is not None}


def typical_errors_told(wanted: Sequence[Typical], values: Mapping[int, Values]) -> str:
    """`typical error 2 % of count(*), 5 % of sum(amount)`, and what is mostly noise; empty when there is nothing to say."""
    known = list(errors_by_label(wanted, values).items())
    texts = [f"{percent(error)} of {label}" for label, error in known[:MOST]]
    noise = [label for label, error in known if error >= MOSTLY_NOISE]
    told = [f"typical error {', '.join(texts)}"] if texts else []
    return "; ".join([*told, *([_mostly_noise(noise)] if noise else [])])


def _mostly_noise(labels: Sequence[str]) -> str:
    named = ", ".join(labels[:MOST]) + (f" and {len(labels) - MOST} more" if len(labels) > MOST else "")
    return f"mostly noise: {named} ({HELPS} would help)"


def percent(error: float) -> str:
    return "100 % or more" if error >= 1 else f"{100 * error:.2g} %"
