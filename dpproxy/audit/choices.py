"""Choices by score (quantiles, extremes, modes, the highest groups) on two neighbours: the whole distribution, not a sample.

Knows: `Measurement`, counts, the mechanism's runs. Must not know: SQL, dice. A choice has no cell that could move by a
sensitivity. Its distribution is known exactly, though: P(point) ~ exp(-eta * gap). So the privacy loss of each point is
computed on both neighbours, and the interval in which the losses of all points lie must be no longer than the epsilon of the
draw (bounded range: Dong, Durfee, Rogers 2020), which is what is charged.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpproxy.amounts import MICRO
from dpproxy.audit.movement import Cells, Exactly, Moved, place, rows_of
from dpproxy.mechanisms.charge_check import draw_epsilon
from dpproxy.mechanisms.exponential import Counts, Runs, counts, mode_runs, quantile_runs, score_step
from dpproxy.privacy.measurement import Measurement, Selection, Top
from dpproxy.privacy.selection_ranks import extreme_rank

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
