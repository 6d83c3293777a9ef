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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpproxy.mechanisms import exponential
from dpproxy.mechanisms.coins import Entropy
from dpproxy.mechanisms.exponential import MAX_DENOMINATOR, MAX_SIZE, Counts, Runs, score_step
from dpproxy.mechanisms.noise import Int64

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
