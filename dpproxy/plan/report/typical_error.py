"""What is said after an answer: how far off it typically is (PRIVACY.md section 7; `omissions` says what bounds cut).

Knows: a plan's noise, what its columns are for, released values. Must not know: exact values. Everything said follows from the
plan and from what was released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.model import Typical
from dpproxy.plan.report import moment_errors, rank_errors
from dpproxy.plan.report.moment_errors import Float64
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_error import deviation, step_growth, typical_sum

Values = Sequence[npt.NDArray[np.int64]]
MOST = 3  # aggregates whose error is told: the rest is in EXPLAIN
HELPS = "a larger dpproxy.epsilon, fewer groups by a coarser key, or asking for less at a time"
MOSTLY_NOISE = 0.5
"""Of a typical error: from here on the interval at 95 %, two of them to both sides, is wider than the value is large."""


_AIMABLE = ("linear", "mean", "total")


def relative_error(what: Typical, values: Values) -> float | None:
    """Return the median over groups of deviation / value, at most 1; None without groups, and of errors stated in ranks."""
    known = _of_groups(what, values)
    return None if known is None else _median(*known)


def _median(value: Float64, error: Float64) -> float:
    return float(np.median(np.minimum(error / np.maximum(value, 1e-300), 1)))


def _of_groups(what: Typical, values: Values) -> tuple[Float64, Float64] | None:
    """How large the value is in each group, and its deviation, in grid units or those of the statistic."""
    if what.ranks or not len(values[what.columns[0]]):
        return None
    first = values[what.columns[0]].astype(float)
    if what.cells:
        return np.abs(first.mean(keepdims=True)) * what.cells, np.array(what.deviations[:1])
    what = _grown(what, values)
    if what.kind == "linear":
        return np.abs(first), np.full(first.size, what.deviations[0])
    if what.kind == "total":
        value = np.abs(values[what.columns[1]] + what.center * first)
        return value, np.full(first.size, np.hypot(what.deviations[1], what.center * what.deviations[0]))
    if what.kind == "moments":
        return _of_moments(what, values)
    rows = np.maximum(first, 1)
    mean = values[what.columns[1]] / rows
    return np.abs(what.center + mean), np.hypot(what.deviations[1], np.abs(mean) * what.deviations[0]) / rows


def _grown(what: Typical, values: Values) -> Typical:
    """With the deviations of all steps that are in each column."""
    if not what.steps:
        return what
    lasts = (int(values[step][0]) if step is not None else 0 for step in what.steps)
    return replace(what, deviations=tuple(step_growth(last) * d for last, d in zip(lasts, what.deviations, strict=True)))


def _of_moments(what: Typical, values: Values) -> tuple[Float64, Float64]:
    totals = [values[i].astype(float) * grid for i, grid in zip(what.columns, what.grids, strict=True)]
    deviations = [d * grid for d, grid in zip(what.deviations, what.grids, strict=True)]
    value = np.nan_to_num(np.abs(moment_errors.value(what.statistic, totals, what.centers)))
    return value, moment_errors.spread(what.statistic, totals, deviations, what.centers)


def _is_noise(what: Typical, values: Values) -> bool:
    """Whether most groups say hardly more than is known without data: the interval is wider than the value is large, or as
    wide as a mean's range; a selection may be any of its rows."""
    if what.ranks:
        return bool(what.columns) and float(np.median(values[what.columns[0]])) < rank_errors.few(what)
    known = _of_groups(what, values)
    return known is not None and _median(np.minimum(known[0], what.span), known[1]) >= MOSTLY_NOISE


def typical_aggregates(
    measurements: Sequence[Measurement], compiled: Sequence[Compiled], confidence: Fraction
) -> tuple[Typical, ...]:
    """Return the aggregates whose error can be stated. `confidence`: of errors in ranks."""
    found = []
    for number, (measurement, made) in enumerate(zip(measurements, compiled, strict=True)):
        told = (_typical(output, measurement, made, number) for output in made.outputs if output.bases)
        found += [t for t in told if t is not None]
        found += rank_errors.selected(measurement, made, number, confidence)
    return tuple({t.label: t for t in reversed(found)}.values())[::-1]


def _typical(output: Output, measurement: Measurement, made: Compiled, number: int) -> Typical | None:
    bases, specs = [measurement.bases[i] for i in output.bases], [made.specs[i] for i in output.bases]
    of = (number, output.bases, tuple(map(deviation, bases)))
    steps = _last_steps(measurement, output.bases)
    if moment_errors.known(output.statistic):
        grids, centers = (tuple(float(x) for x in given) for given in ((s.grid for s in specs), (s.center for s in specs)))
        return Typical(output.label, "moments", *of, steps=steps, statistic=output.statistic, grids=grids, centers=centers)
    if output.kind == "linear" or len(bases) == 1:
        if (sums := typical_sum(bases[0])) is not None:
            cells, spread = sums
            return Typical(output.label, "linear", number, output.bases[:1], (spread,), cells=cells)
        return Typical(output.label, "linear", *of, steps=steps)
    if output.kind == "mean":
        span = max(abs(specs[1].lo), abs(specs[1].hi))
        return Typical(output.label, "mean", *of, specs[1].about, steps, span)
    return Typical(output.label, "total", *of, specs[1].shift, steps) if output.kind == "total" else None


def _last_steps(measurement: Measurement, bases: Sequence[int]) -> tuple[int | None, ...]:
    """The columns that say which is the last step of each of these; nothing where none has steps."""
    raw = [measurement.step_column(i) for i in bases]
    return tuple(None if place is None else place + 1 for place in raw) if any(place is not None for place in raw) else ()


def aimable(compiled: Sequence[Compiled]) -> bool:
    """Tell whether every aggregate has an error that an epsilon can be found for, and there are some."""
    kinds = {output.kind for made in compiled for output in made.outputs}
    return bool(kinds) and kinds <= set(_AIMABLE)


def worst_error(wanted: Sequence[Typical], values: Mapping[int, Values]) -> float:
    """Return the largest typical error; 1 where nothing was released that could tell."""
    known = [relative_error(t, values[t.measurement]) for t in wanted if t.measurement in values]
    return max((1.0 if error is None else error for error in known), default=1.0)


def errors_by_label(wanted: Sequence[Typical], values: Mapping[int, Values]) -> dict[str, float]:
    """Return the typical errors that can be told, by label."""
    known = ((t.label, relative_error(t, values[t.measurement])) for t in wanted if t.measurement in values)
    return {label: error for label, error in known if error is not None}


def typical_errors_told(wanted: Sequence[Typical], values: Mapping[int, Values]) -> str:
    """`typical error 2 % of count(*), 5 % of sum(amount)`, by how many rows percentiles may be displaced, and what is mostly
    noise: of that no percentage is told, since it would be one of what noise made of the value. Empty when there is nothing to
    say."""
    seen = [t for t in wanted if t.measurement in values]
    noise = [t.label for t in seen if _is_noise(t, values[t.measurement])]
    known = {label: error for label, error in errors_by_label(seen, values).items() if label not in noise}
    texts = [f"{percent(error)} of {label}" for label, error in known.items()]
    told = [f"typical error {', '.join(texts[:MOST])}"] if texts else []
    told += rank_errors.told(seen)[:MOST]
    return "; ".join([*told, *([_mostly_noise(noise)] if noise else [])])


def _mostly_noise(labels: Sequence[str]) -> str:
    named = ", ".join(labels[:MOST]) + (f" and {len(labels) - MOST} more" if len(labels) > MOST else "")
    return f"mostly noise: {named} ({HELPS} would help)"


def percent(error: float) -> str:
    return "100 % or more" if error >= 1 else f"{100 * error:.2g} %"
