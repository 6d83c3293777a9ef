"""Several quantiles of one column from one budget: the middle one first, then those on either side of it.

Knows: integers, scores, random bits. Must not know: tables, plans. Kaplan, Schnapp, Stemmer 2022, "Differentially private
approximate quantiles": m quantiles need ceil(log2(m + 1)) levels, and each level costs what one quantile does.

Why: on a level the grid is cut into segments at points chosen before, and every contribution lies in one of them. A
unit with k_j contributions in segment j moves the scores of that segment's draw alone, by k_j steps; with the eta of one
draw of `epsilon` for k contributions the loss lies in an interval of length epsilon k_j / k, and these add up to epsilon at
most: the level is a bounded-range mechanism of epsilon (`Loss.bounded_range`). Levels compose one after the other.

A value that many rows share must be cut in the middle, or its rows would all fall on one side and move the quantiles
there. So each point is `PARTS` cells, and its i-th contribution lies in cell i // BLOCK mod PARTS, in bit-reversed order:
one contribution more is one more in one cell, and many fill the cells evenly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpproxy.mechanisms import exponential
from dpproxy.mechanisms.coins import Entropy
from dpproxy.mechanisms.exponential import MAX_DENOMINATOR, MAX_SIZE, Counts, Runs, score_step
from dpproxy.mechanisms.noise import Int64
from dpproxy.privacy.selection_ranks import draws, extreme_rank

PARTS = 64
"""Cells of a point: a quantile is cut to a 64th of the rows that share a value."""

BLOCK = 16
"""Contributions that share a cell before the next one is used: fewer than any epsilon of use tells apart."""

_REVERSED = np.array([int(f"{i:06b}"[::-1], 2) for i in range(PARTS)], dtype=np.int64)


@dataclass(frozen=True)
class Segment:
    """What is left to do in a stretch of the grid: fractions `wanted` (their indexes), between `low` and `high`; the cells of
    its contributions are first..end-1, those of its candidates first..last, in each group."""

    wanted: tuple[int, ...]
    low: Fraction
    high: Fraction
    first: Int64
    end: Int64
    last: Int64


def quantiles(
    data: Counts, size: int, fractions: Sequence[Fraction], per_unit: int, epsilon: Fraction, entropy: Entropy
) -> list[Int64]:
    """Choose a grid point for each group and fraction, all strictly between 0 and 1 and different; `epsilon` is spent on each
    level.

    Raises ValueError for sizes and fractions out of range.
    """
    if not 0 < size <= MAX_SIZE or len(set(fractions)) < len(fractions) or not all(0 < f < 1 for f in fractions):
        raise ValueError("grid or fractions out of range")
    parts = PARTS if size * PARTS <= MAX_SIZE else 1
    cells, whole = spread(data, parts), np.full(data.groups, size * parts, dtype=np.int64)
    order = tuple(sorted(range(len(fractions)), key=fractions.__getitem__))
    open_ = [Segment(order, Fraction(0), Fraction(1), np.zeros_like(whole), whole, whole - 1)]
    found: dict[int, Int64] = {}
    while open_:
        following: list[Segment] = []
        for segment in open_:
            runs, eta = level(cells, size * parts, fractions, segment, per_unit, epsilon)
            chosen = exponential.choose(runs, eta, entropy)
            found[middle(segment)] = chosen
            following += halves(segment, fractions, chosen)
        open_ = following
    return [found[i] // parts for i in range(len(fractions))]


def middle(segment: Segment) -> int:
    """Return the index of the fraction that is chosen first."""
    return segment.wanted[len(segment.wanted) // 2]


def level(
    cells: Counts, size: int, fractions: Sequence[Fraction], segment: Segment, per_unit: int, epsilon: Fraction
) -> tuple[Runs, Fraction]:
    """Return the candidates and eta of the middle quantile of a segment, by the segment's own contributions alone."""
    fraction = (fractions[middle(segment)] - segment.low) / (segment.high - segment.low)
    if fraction.denominator > MAX_DENOMINATOR:
        fraction = fraction.limit_denominator(MAX_DENOMINATOR)
        fraction = min(max(fraction, Fraction(1, MAX_DENOMINATOR)), 1 - Fraction(1, MAX_DENOMINATOR))
    inside = (cells.point >= segment.first[cells.group]) & (cells.point < segment.end[cells.group])
    own = Counts(cells.group[inside], cells.point[inside], cells.count[inside], cells.groups)
    runs = exponential.quantile_runs(own, size, fraction, 1)
    return _within(runs, segment), epsilon / (2 * per_unit * score_step(fraction))


def halves(segment: Segment, fractions: Sequence[Fraction], chosen: Int64) -> Iterator[Segment]:
    """Yield what is left below and above a chosen quantile; the contributions on it are above."""
    at = len(segment.wanted) // 2
    cut = fractions[segment.wanted[at]]
    if segment.wanted[:at]:
        yield Segment(segment.wanted[:at], segment.low, cut, segment.first, np.maximum(chosen, segment.first), chosen)
    if segment.wanted[at + 1 :]:
        yield Segment(segment.wanted[at + 1 :], cut, segment.high, chosen, segment.end, segment.last)


def _within(runs: Runs, segment: Segment) -> Runs:
    """The runs cut to the segment's candidates, gaps anew from the best of these."""
    start = np.maximum(runs.start, segment.first[runs.group])
    end = np.minimum(runs.start + runs.length - 1, segment.last[runs.group])
    keep = np.flatnonzero(start <= end)
    group, gap = runs.group[keep], runs.gap[keep]
    best = np.minimum.reduceat(gap, np.searchsorted(group, np.arange(runs.groups)))
    return Runs(group, start[keep], (end - start + 1)[keep], gap - best[group], runs.groups)


def spread(data: Counts, parts: int) -> Counts:
    """Spread the contributions of each point over its cells."""
    if parts == 1:
        return data
    used = np.minimum(-(-data.count // BLOCK), parts)
    row = np.repeat(np.arange(data.count.size), used)
    turn = np.arange(row.size) - np.repeat(np.cumsum(used) - used, used)
    rounds, rest = np.divmod(data.count[row], BLOCK * parts)
    count = rounds * BLOCK + np.clip(rest - turn * BLOCK, 0, BLOCK)
    return exponential.counts(data.group[row], data.point[row] * parts + _REVERSED[turn], count, data.groups)


# Counts of a large grid made fewer before a quantile is chosen from them: what is too far to be ever chosen is put together.
#
# Knows: counts by grid point, ranks, eta. Must not know: tables, plans. A quantile of ten million different values needs those
# near it: a point R ranks away is exp(-R epsilon / (2 k)) times as likely as the best (`exponential`). With R such that all
# points beyond together have a chance of 2**-256, their counts are moved to one point of their own stretch: they keep below and
# above what they were, so that every point that can be chosen keeps its rank and chance, and those that cannot still cannot.
# 2**-256 is never (`noise.ROUNDS`); the charge does not change.
#
# No sorting: ranks are looked up in a coarse histogram of the grid, and a coarse cell is kept if any of its ranks is near.

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
