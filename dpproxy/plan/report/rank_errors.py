"""How far off percentiles, least and greatest values and modes may be: in ranks, and of how many rows that is next to nothing.

Knows: the exponential mechanism's parameters. Must not know: data. How far a chosen value lies from the true one depends on how
close the rows lie beside it, which only ends that are asked for tell (`plan.intervals.quantile_ends`). By how many rows it may be
displaced is known beforehand; where there are fewer than twice as many, it may be anywhere among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal

from dpproxy.amounts import MICRO
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.specs import SelectionSpec
from dpproxy.plan.model import Typical
from dpproxy.privacy import selection_ranks
from dpproxy.privacy.measurement import Measurement, Selection
from dpproxy.privacy.real_bounds import ln_bounds


def ranks(selection: Selection, confidence: Fraction) -> int:
    """The exponential mechanism misses its best score by more than (ln size + ln 1/(1 - c)) / eta with probability 1 - c
    at most (McSherry & Talwar 2007, theorem 6); eta is at least epsilon / (2 sensitivity) a rank. MIN and MAX aim some
    ranks inside. Of a mode: by how many its count may be below the highest."""
    epsilon = Fraction(selection.epsilon // selection_ranks.draws(selection.fractions), MICRO)
    misses = ln_bounds(Fraction(selection.size))[1] + ln_bounds(1 / (1 - confidence))[1]
    per_rank = 2 if selection.kind == "quantile" else 1
    missed = -(-misses * per_rank * selection.sensitivity // epsilon)
    extreme = any(f in (0, 1) for f in selection.fractions)
    return missed + (selection_ranks.extreme_rank(selection.size, selection.sensitivity, epsilon) if extreme else 0)


def selected(measurement: Measurement, made: Compiled, number: int, confidence: Fraction) -> Iterator[Typical]:
    """Yield the errors of a measurement's selections; ends of intervals are no values of their own."""
    for output in made.outputs:
        if output.selection is None or measurement.selections[output.selection].offset:
            continue
        selection = measurement.selections[output.selection]
        counts = _counts(made, made.selections[output.selection])
        kind: Literal["ranks", "frequency"] = "frequency" if selection.kind == "mode" else "ranks"
        yield Typical(output.label, kind, number, counts, (), ranks=ranks(selection, confidence))


def _counts(made: Compiled, spec: SelectionSpec) -> tuple[int, ...]:
    """The column that counts the rows a selection is of, where there is one."""
    same = (i for i, s in enumerate(made.specs) if s.kind == "count" and s.where == spec.where and s.value in (None, spec.value))
    return tuple(same)[:1]


def told(wanted: Sequence[Typical]) -> list[str]:
    """Say how far each may be displaced."""
    return [f"{t.label} {_DISPLACED[t.kind].format(t.ranks)}{'' if t.columns else _few(t)}" for t in wanted if t.ranks]


_DISPLACED = {
    "ranks": "may be up to {} rows off in rank",
    "frequency": "has at most {} rows fewer than the most frequent value",
}


def few(what: Typical) -> int:
    """Return of how many rows a selection tells next to nothing."""
    return 2 * what.ranks


def _few(what: Typical) -> str:
    return f" (mostly noise of fewer than {few(what)} rows)"
