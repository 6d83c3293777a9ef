"""Counts of a large grid made fewer before a quantile is chosen from them: what is too far to be ever chosen is put together.

Knows: counts by grid point, ranks, eta. Must not know: tables, plans. A quantile of ten million different values needs those near
it: a point R ranks away is exp(-R epsilon / (2 k)) times as likely as the best (`exponential`). With R such that all points
beyond together have a chance of 2**-256, their counts are moved to one point of their own stretch: they keep below and
above what they were, so that every point that can be chosen keeps its rank and chance, and those that cannot still cannot.
2**-256 is never (`noise.ROUNDS`); the charge does not change.

No sorting: ranks are looked up in a coarse histogram of the grid, and a coarse cell is kept if any of its ranks is near.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpproxy.mechanisms.noise import Int64
from dpproxy.mechanisms.quantiles import PARTS
from dpproxy.privacy.selection_ranks import draws, extreme_rank

Rows = tuple[Int64, Int64, Int64]
"""Group, point, count."""

NEVER = 256
"""Bits."""

LARGE = 200_000
"""Points of one group from which this pays: below, they are chosen from in less than a second."""

CELLS = 2**16


def reach(size: int, per_unit: int, epsilon: Fraction) -> int:
    """Return the number of ranks beyond which no point is ever chosen, in one draw of `epsilon`."""
    return math.ceil((NEVER * math.log(2) + math.log(size) + math.log(PARTS)) * 2 * per_unit / epsilon) + 1


def windows(
    total: int, size: int, fractions: Sequence[Fraction], per_unit: int, epsilon: Fraction, offset: int = 0
) -> list[tuple[int, int]]:
    """Return the ranks (from, to) that a choice of any of the fractions, or one `offset` away, may look at. Of quantiles chosen
    one between others (`quantiles`) each level aims between cuts that may be off by what the levels before missed."""
    far, levels, found = reach(size, per_unit, epsilon), draws(fractions), []
    aim = extreme_rank(size, per_unit, epsilon)
    for fraction in fractions:
        middle = aim if fraction == 0 else total - aim if fraction == 1 else math.floor(fraction * total) + offset
        found.append((middle - levels * far, middle + levels * far))
    return found


def thinned(
    rows: Rows, groups: int, size: int, fractions: Sequence[Fraction], per_unit: int, epsilon: Fraction, offset: int = 0
) -> Rows:
    """Make the large groups smaller of rows (group, point, count) in any order."""
    large = np.flatnonzero(np.bincount(rows[0], minlength=groups) > LARGE)
    if not large.size:
        return rows
    rest = ~np.isin(rows[0], large) if groups > large.size else np.zeros(rows[0].size, dtype=bool)
    found = [tuple(column[rest] for column in rows)]
    for group in large.tolist():
        own = rows[0] == group if groups > 1 else slice(None)
        point, count = rows[1][own], rows[2][own]
        near = windows(int(count.sum()), size, fractions, per_unit, epsilon, offset)
        point, count = merged(point, count, size, near)
        found.append((np.full(point.size, group, dtype=np.int64), point, count))
    one, two, three = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return one, two, three


def merged(point: Int64, count: Int64, size: int, near: Sequence[tuple[int, int]]) -> tuple[Int64, Int64]:
    """Return points and counts of one group, with all that is in no window put together, stretch by stretch."""
    shift = max(0, (size - 1).bit_length() - (CELLS - 1).bit_length())
    cell = (point >> shift).astype(np.int32)
    held = np.bincount(cell, weights=count)
    upto = np.cumsum(held)
    kept = np.zeros(held.size, dtype=bool)
    for low, high in near:
        kept |= (upto >= low) & (upto - held <= high)
    stretch = np.cumsum(np.r_[0, np.diff(kept.astype(np.int8)) != 0])
    rows = kept[cell]
    far = np.flatnonzero(~kept & (held > 0))
    ids, place = np.unique(stretch[far], return_inverse=True)
    sums = np.zeros(ids.size, dtype=np.int64)
    np.add.at(sums, place, held[far].astype(np.int64))
    at = np.searchsorted(stretch, ids).astype(np.int64) << shift  # the first grid point of each stretch
    return np.r_[point[rows], at], np.r_[count[rows], sums]
