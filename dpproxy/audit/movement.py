"""How far the exact columns of a measurement move between two neighbours, held against what the plan claims.

Knows: `Measurement`, Arrow tables. Must not know: noise, SQL. This is the promise a second time, from the outside: the kernel
derives it from the plan's tree, here it is seen in numbers (sensitivity in L0, Linf, and L1 or L2 over all cells where that
is what is bounded; Dwork & Roth 2014, definition 3.1). A group that comes or goes is the threshold's, which paid delta for
it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpproxy.amounts import MICRO
from dpproxy.mechanisms.charge_check import draw_epsilon
from dpproxy.mechanisms.exponential import Counts, Runs, counts, mode_runs, quantile_runs, score_step
from dpproxy.privacy.measurement import FirstRound, Measurement, Selection, Top
from dpproxy.privacy.selection_ranks import extreme_rank

ROUNDING = 1e-12
"""Of an L2 norm computed in doubles."""

Cells = tuple[Any, ...]


@dataclass(frozen=True)
class Exactly:
    """What an engine answered to the first query of a measurement: groups in its order, with their basis columns."""

    order: tuple[Hashable, ...]
    cells: Mapping[Hashable, Cells]

    @classmethod
    def read(cls, table: pa.Table, keys: int) -> Exactly:
        """Raises ValueError where a group is returned twice."""
        rows = rows_of(table)
        names = [row[:keys] for row in rows]
        repeated = next((name for name, times in Counter(names).items() if times > 1), None)
        if repeated is not None:
            raise ValueError(f"group {repeated} is returned twice")
        return cls(tuple(names), {row[:keys]: row[keys:] for row in rows})


def rows_of(table: pa.Table) -> list[Cells]:
    """Return rows that compare by value: NaN equals NaN, -0 is not 0, moments are numbers."""
    columns = []
    for column in table.columns:
        if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
            column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        columns.append([_plain(value) for value in column.to_pylist()])
    return list(zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return "NaN" if math.isnan(value) else "-0" if value == 0 and math.copysign(1, value) < 0 else value


@dataclass
class Moved:
    """The most that one unit moved: cells, groups, and each basis, as a part of what is claimed of it (1 is all of it)."""

    groups: int = 0
    parts: dict[str, float] = field(default_factory=dict)

    def note(self, label: str, moved: float, claimed: float) -> bool:
        """Note a movement; return whether it is within what is claimed."""
        part = moved / claimed if claimed else (0.0 if not moved else math.inf)
        self.parts[label] = max(part, self.parts.get(label, 0.0))
        return part <= 1 + ROUNDING


def place(m: Measurement, index: int) -> range:
    """Return where the columns of a basis stand: one, or one for each step."""
    first = sum(basis.steps for basis in m.bases[:index])
    return range(first, first + m.bases[index].steps)


def compared(m: Measurement, before: Exactly, after: Exactly, most: Moved) -> Iterator[str]:
    """Yield what two neighbours refute of a measurement's claims."""
    if m.dense and before.order != after.order:
        yield "a declared group appeared, vanished or moved"
    if [k for k in before.order if k in after.cells] != [k for k in after.order if k in before.cells]:
        yield "the order of groups depends on data"
    every = {**before.cells, **after.cells}
    changed = [k for k in every if before.cells.get(k) != after.cells.get(k)]
    most.groups = max(most.groups, len(changed))
    if len(changed) > m.l0:
        yield f"{len(changed)} groups changed, {m.l0} are claimed"
    for key in changed:
        yield from _group(m, before.cells.get(key), after.cells.get(key), most)
    yield from _norms(m, before, after, most)


def _group(m: Measurement, before: Cells | None, after: Cells | None, most: Moved) -> Iterator[str]:
    """One group. What counts below `min_units` is not returned by the engine; zeros stand for it where `min_units` is 1."""
    if before is None or after is None:
        yield from _came_or_went(m, before or after or ())
        if m.dense or (m.top.min_units if m.top else m.threshold.min_units if m.threshold else 1) > 1:
            return
    zeros = (0,) * sum(basis.steps for basis in m.bases)
    old, new = before or zeros, after or zeros
    for i, basis in enumerate(m.bases):
        moved = max(abs(old[j] - new[j]) for j in place(m, i))
        if not most.note(basis.label, moved, basis.linf):
            yield f"{basis.label} moved by {moved} in one group, {basis.linf} is claimed"


def _came_or_went(m: Measurement, cells: Cells) -> Iterator[str]:
    """A group is there with one unit and not without it: it may weigh no more than the threshold reckons with."""
    if m.top is not None:
        score = cells[place(m, m.top.score)[0]]
        if score > m.top.min_units * m.bases[m.top.score].linf:
            yield f"a group appeared or vanished at a score of {score}"
    elif m.threshold is not None:
        units, basis = cells[place(m, m.threshold.basis)[0]], m.bases[m.threshold.basis]
        if units > m.threshold.min_units * basis.fine:
            told = f"a group appeared or vanished at {units / basis.fine:g} units"
            yield f"{told}, the threshold reckons with {m.threshold.min_units}"


def _norms(m: Measurement, before: Exactly, after: Exactly, most: Moved) -> Iterator[str]:
    """Where what is bounded is a norm over all cells of the measurement."""
    both = [(cells, after.cells[key]) for key, cells in before.cells.items() if key in after.cells]
    for i, basis in enumerate(m.bases):
        if basis.norm:
            moved = [abs(old[j] - new[j]) for old, new in both for j in place(m, i)]
            total = float(sum(moved)) if basis.norm == 1 else math.sqrt(sum(x * x for x in moved))
            claimed = basis.linf if basis.running is None else basis.running.within  # before it is coded
            if not most.note(basis.label, total, claimed):
                yield f"{basis.label} moved by {total:g} in all groups together (L{basis.norm}), {claimed} is claimed"


def compared_rounds(m: Measurement, first: FirstRound, before: Exactly, after: Exactly, most: Moved) -> Iterator[str]:
    """Yield the same of the first of two rounds, whose query returns what each group weighs, and a number of it."""
    basis, shared = m.bases[first.basis], [k for k in before.cells if k in after.cells]
    if any(before.cells[k][1] != after.cells[k][1] for k in shared):
        yield "a group has another number on a neighbour"
    total = math.sqrt(sum((before.cells[k][0] - after.cells[k][0]) ** 2 for k in shared))
    if not most.note(f"{basis.label}, first round", total, basis.linf):
        yield f"{basis.label} of the first round moved by {total:g} in all, {basis.linf} is claimed"
    least = m.threshold.min_units if m.threshold is not None else 1
    for key in before.cells.keys() ^ after.cells.keys():
        if {**before.cells, **after.cells}[key][0] > least * basis.fine:
            yield "a group of the first round appeared or vanished at more than its threshold reckons with"


# Choices by score (quantiles, extremes, modes, the highest groups) on two neighbours: the whole distribution, not a sample.
#
# Knows: `Measurement`, counts, the mechanism's runs. Must not know: SQL, dice. A choice has no cell that could move by a
# sensitivity. Its distribution is known exactly, though: P(point) ~ exp(-eta * gap). So the privacy loss of each point is
# computed on both neighbours, and the interval in which the losses of all points lie must be no longer than the epsilon of the
# draw (bounded range: Dong, Durfee, Rogers 2020), which is what is charged.


DOUBLES = 1e-9
"""Of epsilon: what logarithms in doubles may be off by."""

Points = Mapping[Hashable, Mapping[int, int]]
"""By group, how many contributions lie on each point of the grid."""


def points(table: pa.Table, keys: int, among: Sequence[Hashable]) -> Points:
    """Return the contributions of the groups `among` that a selection's query returned."""
    found: dict[Hashable, dict[int, int]] = {name: {} for name in among}
    for row in rows_of(table):
        if row[:keys] in found:
            bucket, n = row[keys:]
            found[row[:keys]][bucket] = found[row[:keys]].get(bucket, 0) + n
    return found


def compared_points(m: Measurement, s: Selection, before: Points, after: Points, most: Moved) -> Iterator[str]:
    """Yield what two neighbours refute of a selection's claims."""
    changed = [g for g in before if g in after and before[g] != after[g]]
    if len(changed) > m.l0:
        yield f"{s.label}: {len(changed)} groups changed, {m.l0} are claimed"
    for group in changed:
        old, new = before[group], after[group]
        moved = sum(abs(old.get(p, 0) - new.get(p, 0)) for p in old.keys() | new.keys())
        if not most.note(f"{s.label}, contributions", moved, s.sensitivity):
            yield f"{s.label}: {moved} contributions of a group moved, {s.sensitivity} are claimed"
        for told in _losses(s, old, new, most):
            yield f"{s.label}: {told}"


def _losses(s: Selection, old: Mapping[int, int], new: Mapping[int, int], most: Moved) -> Iterator[str]:
    """Of each draw that is one choice. Of several fractions chosen between each other the contributions are what is compared."""
    epsilon = Fraction(draw_epsilon(s), MICRO)
    inner = [f for f in s.fractions if 0 < f < 1]
    fractions: Sequence[Fraction | None] = (
        [None] if s.kind == "mode" else [f for f in s.fractions if len(inner) < 3 or f in (0, 1)]
    )
    for fraction in fractions:
        one, other = (_runs(s, fraction, _counts(given), epsilon) for given in (old, new))
        eta = epsilon / s.sensitivity if fraction is None else epsilon / (2 * s.sensitivity * score_step(fraction))
        width = loss_range(one, other, float(eta))
        if not most.note(f"{s.label}, privacy loss", width / (1 + DOUBLES), float(epsilon)):
            yield f"losses of its points lie {width:.4g} apart, a draw is charged {float(epsilon):.4g}"


def _counts(given: Mapping[int, int]) -> Counts:
    bucket = np.array(list(given), dtype=np.int64)
    n = np.array(list(given.values()), dtype=np.int64)
    return counts(np.zeros_like(bucket), bucket, n, 1)


def _runs(s: Selection, fraction: Fraction | None, data: Counts, epsilon: Fraction) -> Runs:
    if fraction is None:
        return mode_runs(data, s.size)
    return quantile_runs(data, s.size, fraction, extreme_rank(s.size, s.sensitivity, epsilon), s.offset)


def loss_range(one: Runs, other: Runs, eta: float) -> float:
    """Return the length of the interval that holds the losses ln(P(x) / Q(x)) of all points x of a grid, of one group."""
    edges = np.unique(np.r_[one.start, other.start])
    losses = _log_chances(one, eta, edges) - _log_chances(other, eta, edges)
    return float(losses.max() - losses.min())


def _log_chances(runs: Runs, eta: float, at: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The logarithm of each point's chance, at the beginnings of stretches on which no chance changes."""
    own = np.log(runs.length.astype(np.float64)) - eta * runs.gap
    whole = own.max() + np.log(np.exp(own - own.max()).sum())
    found: npt.NDArray[np.float64] = -eta * runs.gap[np.searchsorted(runs.start, at, side="right") - 1] - whole
    return found


def compared_scores(m: Measurement, top: Top, before: Exactly, after: Exactly, most: Moved) -> Iterator[str]:
    """Yield what two neighbours refute of the choice of the highest groups: scores of one unit's groups all grow, or all shrink,
    and the losses of one choice among the groups of both, and "no further one", lie within its epsilon."""
    at, linf = place(m, top.score)[0], m.bases[top.score].linf
    shared = [k for k in before.order if k in after.cells]
    old, new = (_scores(found.cells, shared, at, top.absent) for found in (before, after))
    grown = new - old
    if (grown > 0).any() and (grown < 0).any():
        yield "one unit raises some scores and lowers others"
    eta = top.epsilon / MICRO / linf
    if shared:
        chances = [
            eta * scores - np.log(np.exp(eta * (scores - scores.max())).sum()) - eta * scores.max() for scores in (old, new)
        ]
        losses = chances[0] - chances[1]
        width = float(losses.max() - losses.min())
        if not most.note("choice of groups, privacy loss", width / (1 + DOUBLES), top.epsilon / MICRO):
            yield f"losses of a choice of groups lie {width:.4g} apart, a choice is charged {top.epsilon / MICRO:.4g}"


def _scores(cells: Mapping[Hashable, Cells], groups: Sequence[Hashable], at: int, absent: int | None) -> npt.NDArray[np.float64]:
    scores = [cells[group][at] for group in groups]
    return np.array(scores if absent is None else [*scores, absent], dtype=np.float64)
