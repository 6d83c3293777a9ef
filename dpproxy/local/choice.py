"""Which mechanism is best: for values known by number, and how many levels for a number.

Knows: variances. Must not know: policies, data. The error of a value that nobody has decides, since most values of a long list
are rare. Direct response and projective geometry together are within 6 % of subset selection, the optimum of Ye and Barg 2018,
where there are up to 10,000 values and epsilon is up to 6. Floats decide which is better, and never what is promised.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from dpproxy.local.claims import Claim, Direct, Hashed, Plane
from dpproxy.local.laws import ClaimError, declared
from dpproxy.local.planes import primes, size

LISTED = 10**6
"""The most values that `automatic` numbers; above it they are hashed."""

PAIRS = 3 * 10**8
"""The most sums of candidates and points of a hyperplane: decoding by hyperplanes takes about a second for them."""

GRID = 2**24
"""The most cells of a Fourier transform, by which larger geometries are decoded."""

FUNCTIONS = 8192
"""Hash functions where values are hashed."""

LEVELS = 1025
"""The most levels of a number."""


@lru_cache(maxsize=256)
def automatic(candidates: int, epsilon: Fraction, seed: str = "automatic") -> Claim:
    """Return the claim of the least error for so many values.

    Raises ClaimError for fewer than two values, or an epsilon out of bounds.
    """
    bound = declared(epsilon)
    if candidates < 2:
        raise ClaimError("a randomised column has at least two values")
    if candidates > LISTED:
        return Hashed.within(bound, FUNCTIONS, seed)
    e = math.exp(bound)
    error, base, dimension = min(geometries(candidates, e), default=(math.inf, 0, 0))
    if unlisted_error(e / (e + candidates - 1), 1 / (e + candidates - 1)) <= error:
        return Direct.within(bound, candidates)
    return Plane.within(bound, candidates, base, dimension)


def geometries(candidates: int, e: float) -> Iterator[tuple[float, int, int]]:
    """Yield the error, prime and dimension of each geometry that has points enough and can be decoded."""
    for base in primes(4096):
        dimension = 3
        while size(base, dimension) < candidates:
            dimension += 1
        points, plane, both = (size(base, dimension - i) for i in range(3))
        if candidates * plane <= PAIRS or base**dimension <= GRID:
            scale = e * plane + points - plane
            yield unlisted_error(e * plane / scale, (e * both + plane - both) / scale), base, dimension


def unlisted_error(p: float, q: float) -> float:
    """Return the variance of one report for a value that nobody has."""
    return q * (1 - q) / (p - q) ** 2


@lru_cache(maxsize=256)
def levels(epsilon: Fraction) -> int:
    """Return how many levels make the least worst error of a mean. Raises ClaimError for an epsilon out of bounds."""
    e = math.exp(declared(epsilon))
    best, count = (worst_level_error(e, 2), 2), 3
    while count <= min(2 * best[1] + 2, LEVELS):  # one more level than is best makes it worse, and so does each further one
        best, count = min(best, (worst_level_error(e, count), count)), count + 1
    return best[1]


def worst_level_error(e: float, count: int) -> float:
    """Return the largest variance of one report about a number of [-1, 1], over all numbers.

    With levels v and a = p - q of direct response, a report tells v / a. Between two levels the mean of v^2 is linear in the
    number, so that the variance is a parabola there, whose top is at its vertex or at an end.
    """
    p, q = e / (e + count - 1), 1 / (e + count - 1)
    a, step = p - q, 2 / (count - 1)
    squares = q * count * (count + 1) / (3 * (count - 1))  # q times the sum of all v^2
    worst = 0.0
    for i in range(count // 2, count):  # the lower half mirrors the upper
        low, high = -1 + step * (i - 1), -1 + step * i
        slope = (low + high) / a  # of E[v^2] / a = ((low + high) x - low high) / a
        for x in (low, high, min(max(slope / 2, low), high)):
            worst = max(worst, squares / a**2 + slope * x - low * high / a - x * x)
    return worst
