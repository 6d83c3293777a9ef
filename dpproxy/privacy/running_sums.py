"""Sums over runs of groups - totals so far, the last 30 days - measured with less noise than groups added up have.

Knows: integers, floats of the noise's covariance. Must not know: data, SQL, keys. Where a unit is in one group alone, sums over
the last w groups of n are A x, with A[t, s] = 1 where 0 <= t - s < w. Noise on each x adds up to w of it in a sum. The matrix
mechanism (Li, Miklau, Hay, McGregor, Rastogi 2015) writes A = L R, adds noise to R x, and tells L (R x + z) = A x + L z. With R
the root of A, by the root of its power series (1 - x**w) / (1 - x), the noise of a sum grows with log w alone (Fichtenberger,
Henzinger, Upadhyay 2023; Henzinger, Upadhyay, Upadhyay 2023).

Noise is added to integers (docs/adr/0002). So what is used is no root but whole numbers near it: `coefficients`, `PARTS` times
the series, rounded. They make a lower triangular Toeplitz matrix of whole numbers, R, and R x is whole. What a unit changes is
one group, by `within` at most, hence R x by `within` times a column of R; of all columns the first is the longest, as the others
are its beginnings. `column_square` is its square, exactly. R has no zero on its diagonal, so that x = R**-1 (R x): whatever R
was rounded to, decoding gives x back, and costs nothing (post-processing). Rounding decides how good it is, never whether it is
private or right.

What is told of each group is rounded so that sums from the first group on are those told, to the nearest: two roundings in a sum,
whatever its length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul

PARTS = 1024
"""Of a grid unit: coefficients of a year of days are 30 of these and more, so that rounding costs a thousandth of the
precision."""

MOST_GROUPS = 2048
"""In one run: five years of days. What is computed of a matrix takes time in proportion to the square, here a fifth of a
second."""

ROUNDING = 1
"""Grid units by which two roundings move a sum, at most."""


@dataclass(frozen=True)
class Running:
    """Of a basis: its groups follow one another by key number `key`, separately for each value of the other keys, `length` of
    them at most; sums of `width` of them are asked for (`length`: of all so far). A unit changes one group, by `within` grid
    units at most."""

    key: int
    length: int
    width: int
    within: int


@lru_cache(maxsize=256)
def series(length: int, width: int) -> tuple[float, ...]:
    """Return the first coefficients of the root of (1 - x**width) / (1 - x). Raises ValueError for numbers below 1."""
    if length < 1 or width < 1:
        raise ValueError("a run has a group, and a sum")
    inverse = list(accumulate(range(1, length), lambda c, k: c * (2 * k - 1) / (2 * k), initial=1.0))  # of (1 - x)**-1/2
    jumps = accumulate(range(1, (length - 1) // width + 1), lambda c, j: c * (2 * j - 3) / (2 * j), initial=1.0)  # (1 - x)**1/2
    found = [0.0] * length
    for j, jump in enumerate(jumps):
        for k in range(j * width, length):
            found[k] += jump * inverse[k - j * width]
    return tuple(found)


@lru_cache(maxsize=256)
def coefficients(length: int, width: int) -> tuple[int, ...]:
    """Return the whole numbers of R: its first column, the longest. The first of them is `PARTS`."""
    return tuple(round(PARTS * c) for c in series(length, width))


def column_square(running: Running) -> int:
    """Return the square of the norm of R's longest column, in squared parts."""
    return sum(c * c for c in coefficients(running.length, running.width))


def changed(running: Running) -> int:
    """Return the l2 norm of what one unit changes of R x, in parts of a grid unit, rounded up."""
    square = running.within * running.within * column_square(running)
    return math.isqrt(max(square, 1) - 1) + 1


@lru_cache(maxsize=256)
def decoder(length: int, width: int) -> tuple[float, ...]:
    """Return the first column of R**-1, in grid units: what a unit of noise in R x does to the groups from there on."""
    first, *rest = map(float, coefficients(length, width))
    found = [1 / first]
    while len(found) < length:
        found.append(-sum(map(mul, rest, reversed(found))) / first)
    return tuple(found)


@lru_cache(maxsize=1024)
def spread(length: int, width: int, cells: int) -> float:
    """Return by what the noise's deviation in R x (in parts) is multiplied in sums of `cells` groups (in grid units): that at the
    end of the run, where it is largest."""
    return math.sqrt(math.fsum(x * x for x in _summed(length, width, cells)))


@lru_cache(maxsize=64)
def spreads(length: int, width: int) -> tuple[float, ...]:
    """Return the same of sums of 1, 2, ... groups: of the difference of what is summed and the same some groups before."""
    whole = _summed(length, width, length)
    squares = [0.0, *accumulate(x * x for x in whole)]
    products = (sum(map(mul, whole[cells:], whole)) for cells in range(1, length + 1))
    return tuple(math.sqrt(squares[-1] + squares[length - c] - 2 * x) for c, x in enumerate(products, 1))


@lru_cache(maxsize=64)
def spreads_from_start(length: int, width: int) -> tuple[float, ...]:
    """Return it of sums of the first 1, 2, ... groups."""
    return tuple(map(math.sqrt, accumulate(x * x for x in _summed(length, width, length))))


def _summed(length: int, width: int, cells: int) -> list[float]:
    """What a unit of noise does to sums of `cells` groups, from that group on."""
    whole = list(accumulate(decoder(length, width)))
    return [x - (whole[k - cells] if k >= cells else 0.0) for k, x in enumerate(whole)]


@lru_cache(maxsize=256)
def typical_spread(length: int, width: int, cells: int) -> float:
    """Return what `spread` is of the last sum of `cells` groups, as the root of the mean square over all such sums."""
    return math.sqrt(math.fsum(accumulate(x * x for x in _summed(length, width, cells))) / length)


def typical_cells(length: int, cells: int) -> float:
    """Return how many groups are in a sum of the last `cells` in the mean: of groups that are measured by themselves, its
    variance in theirs."""
    return (cells * (cells + 1) / 2 + (length - cells) * cells) / length


def ratio(running: Running, width: int) -> float:
    """Return the deviation of sums of `width` groups, typically, in that of the same Gaussian noise on each group."""
    noise = math.sqrt(column_square(running)) * typical_spread(running.length, running.width, width)
    return noise / math.sqrt(typical_cells(running.length, width))
