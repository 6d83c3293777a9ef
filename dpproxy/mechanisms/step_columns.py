"""Columns measured in steps of size, put together: how far up, and which groups the upper steps belong to.

Knows: noisy columns, their noise. Must not know: exact values, plans. Everything here is post-processing of noisy columns, one
for each step (`plan.measure.norm_scaling`): row j times 2**j, added up, is the whole, and each step doubles the noise.

How far up: a step is taken while it is visibly more than noise (`SEEN`), one after the other; and up to any step that is
beyond doubt (`CERTAIN`). Taken by mistake it doubles the noise: one time in fifty for the next one, so that the expected
harm is bounded (4/50 + 16/2500 + ...), one in a million for one far up.

Which groups: a total over groups is known better than each, so that of what nobody can have less than nothing of, a step's
total is divided over the groups by their profile. A group's share in it is what all steps taken say of that group, each weighed
by its own total: of groups alike in all steps that is the least inexact guess, whichever steps most rows are in. Where a step's
groups vary about it by more than noise does, each moves to its own noisy value by as much as that says (random effects); and a
group that is off by more than `UNLIKE` deviations takes it whole. The first step is every group's own, always.

Of steps not taken, a few are added as if they were of the last one that is - what scaling down to its size would leave of them -
where there are many groups to divide them over, so that their noise is small in each. All this is guesses about the data where
nothing better is known; `raw` is without, and intervals are about `raw`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpproxy.mechanisms.exact_answers import Int64

Float64 = npt.NDArray[np.float64]

SEEN = 2.1
CERTAIN = 4.8
UNLIKE = 4.0
"""Standard deviations."""

PROFILE = 5.0
"""Deviations that the steps taken must be in total, to say how they are divided."""

VARY = 2.0
"""Deviations by which a step's squares must be beyond those of noise: groups alike are taken to vary one time in fifty."""

LEFT, GROUPS_EACH = 4, 5
"""At most so many steps beyond the last are added, one for so many groups."""

MOST_CELLS = 200_000
"""Of noise to draw for one basis: of more groups than a twelfth of this the upper steps are put into the last one drawn."""

_HELD = 2**58  # of each upper step: all together, and the first, stay within 64 bits


@dataclass(frozen=True)
class Together:
    """Steps are added up to `value` and `raw` of each group, in the unit of the first step; `last`: the step up to which they
    go."""

    value: Int64
    raw: Int64
    last: int


def folded(columns: list[Int64]) -> list[Int64]:
    """Return exact columns, as many as noise shall be drawn for. A unit is in one of them either way, by no more than before."""
    count = max(1, min(len(columns), MOST_CELLS // max(columns[0].size, 1)))
    if count == len(columns):
        return columns
    rest = np.zeros_like(columns[0])
    for column in columns[count - 1 :]:
        rest = rest + np.clip(column, -_HELD, _HELD)
    return [*columns[: count - 1], rest]


def together(noisy: list[Int64], deviation: float, laplace: bool, signed: bool) -> Together:
    """Put together the noisy columns of all steps, each with noise of that standard deviation. `signed`: groups may have less
    than nothing."""
    matrix = np.array(noisy, dtype=np.float64)
    last = _last(matrix / deviation, laplace, signed)
    upper = matrix[1 : last + 1]
    raw = noisy[0] + _added(upper)
    shares = None if signed else _shares(matrix[: last + 1], deviation)
    if shares is None:
        return Together(raw.copy(), raw, last)
    left = matrix[last + 1 : last + 1 + min(LEFT, shares.size // GROUPS_EACH)]
    more = _whole(shares * (left.sum() * 2.0**last))
    return Together(noisy[0] + _added(_divided(upper, shares, deviation, laplace)) + more, raw, last)


def _added(upper: Float64) -> Int64:
    """Steps 1, 2, ... in the unit of the first."""
    return np.asarray(_whole(upper * 2.0 ** np.arange(1, len(upper) + 1)[:, None]).sum(axis=0))


def _whole(values: Float64) -> Int64:
    return np.clip(np.rint(values), -_HELD, _HELD).astype(np.int64)


def _last(units: Float64, laplace: bool, signed: bool) -> int:
    """The last step to take; `units` are values in deviations of their noise."""
    evidence = [_energy(row, laplace) for row in units] if signed else _sums(units, laplace).tolist()
    last = 0
    while last + 1 < len(evidence) and evidence[last + 1] >= SEEN:
        last += 1
    return max([last, *(j for j, found in enumerate(evidence) if found >= CERTAIN)])


def _sums(units: Float64, laplace: bool) -> Float64:
    """The totals over groups, as deviations of normal noise: Laplace tails of few groups count for less."""
    groups = max(units.shape[1], 1)
    heavy = 1 + 0.7 / groups if laplace else 1.0  # of one group 8.1 deviations are as unlikely as 4.8 normal ones
    return np.asarray(units.sum(axis=1) / (math.sqrt(groups) * heavy))


def _energy(row: Float64, laplace: bool) -> float:
    """The same of the sum of squares: G + 2 sqrt(G t) + 2 t is passed by noise with probability e**-t at most (Laurent &
    Massart 2000); a normal variable passes z with about e**(-z**2 / 2). Squares of Laplace noise vary more."""
    size, square = row.size, float((row * row).sum())
    spread, tail = (2.5 * size, 6.0) if laplace else (float(size), 2.0)
    over = square - size
    if over <= 0:
        return 0.0
    root = (math.sqrt(4 * spread + 4 * tail * over) - 2 * math.sqrt(spread)) / (2 * tail)  # of tail t + 2 sqrt(spread t) = over
    return math.sqrt(2) * root


def _shares(taken: Float64, deviation: float) -> Float64 | None:
    """How a total is divided over groups; None where that is not known well enough.

    Least squares: with totals T, group g's share is sum_j T_j Y_gj / sum_j T_j**2, of deviation 1 / sqrt(sum_j T_j**2).
    """
    totals = np.maximum(taken.sum(axis=1), 0)
    size = math.sqrt(float(totals @ totals))
    groups = taken.shape[1]
    if groups < 2 or size < PROFILE * deviation * math.sqrt(groups):
        return None
    share, noise = (totals / size) @ taken / size, deviation / size
    known = np.maximum(share - 2 * noise**2 / np.maximum(share, noise), 0)  # what is itself mostly noise has no share
    return np.asarray(known / max(float(known.sum()), noise))


def _divided(upper: Float64, shares: Float64, deviation: float, laplace: bool) -> Float64:
    """Each step's total over the groups, moved to the groups' own values as far as these vary by more than noise."""
    fit = np.maximum(upper.sum(axis=1), 0)[:, None] * shares
    off = upper - fit
    groups, fourth = shares.size, 5.0 if laplace else 2.0  # the variance of a squared deviation
    squares, variance = (fit * fit).sum(axis=1), deviation * deviation
    beyond = (off * off).sum(axis=1) - variance * (groups + VARY * math.sqrt(fourth * groups))
    effect = np.where(squares > variance, np.maximum(beyond, 0) / np.maximum(squares, variance), 0)[:, None] * fit * fit
    own = np.where(np.abs(off) > UNLIKE * deviation, 1.0, effect / (effect + variance))
    return np.asarray(fit + own * off)
