"""Intervals of logarithms, exponentials, roots and powers, and of quotients by numbers on a grid.

Knows: exact rationals, the mathematics of each function. Must not know: SQL, types. Ends are rounded outward to a few digits:
what is clamped to them need not be the least interval, but must hold every value. Arguments for which a function has no value
(a logarithm of 0, a root of -1) count for nothing, since the generated SQL makes them NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dpproxy.tree import interval as iv
from dpproxy.tree.interval import OPEN, Interval

DIGITS = 6
LARGEST = 10**15  # of a bound worth having: grids are of BIGINT
EXPONENTS = 64  # powers up to these are computed exactly


def _outward(value: float, up: bool) -> Fraction | None:
    if not math.isfinite(value) or abs(value) > LARGEST:
        return None
    return Fraction(Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR).create_decimal(Decimal(value)))


def _rising(a: Interval, f: Callable[[Fraction], float]) -> Interval:
    """Of a function that rises."""
    ends = (None if end is None else f(end) for end in (a.lo, a.hi))
    lo, hi = (None if x is None else _outward(x, up) for x, up in zip(ends, (False, True), strict=True))
    return Interval(lo, hi)


def positive(a: Interval, grid: Fraction | None) -> Interval:
    """Return the part above 0 of an interval: of numbers on a grid, from its first step on."""
    if a.lo is not None and a.lo > 0:
        return a
    return Interval(grid, a.hi if a.hi is None or grid is None else max(a.hi, grid))


def logarithm(a: Interval, base: float = math.e) -> Interval:
    """Bound the logarithm of an interval above 0, or open below."""

    def log(x: Fraction) -> float:
        return (math.log(x.numerator) - math.log(x.denominator)) / math.log(base)

    above = Interval(a.lo if a.lo is not None and a.lo > 0 else None, a.hi if a.hi is not None and a.hi > 0 else None)
    return _rising(above, log)


def exponential(a: Interval) -> Interval:
    found = _rising(a, lambda x: math.exp(min(max(x, Fraction(-700)), Fraction(700))))
    return Interval(found.lo or Fraction(0), found.hi)


def root(a: Interval) -> Interval:
    """Square roots; of what is below 0 there are none."""
    none = Fraction(0)
    within = Interval(max(a.lo or none, none), None if a.hi is None else max(a.hi, none))
    return _rising(within, lambda x: math.sqrt(x) if x < LARGEST**2 else math.inf)


def power(a: Interval, b: Interval) -> Interval:
    """Bound a ^ b: of whole exponents exactly; of others where the base is not below 0."""
    if not (a.closed and b.closed):
        return OPEN
    (lo, hi), (least, most) = a.ends, b.ends
    if least == most and least.denominator == 1 and 0 <= least <= EXPONENTS:
        return _whole(lo, hi, int(least))
    if lo < 0 or (lo == 0 and least < 0):
        return OPEN
    corners = [_raised(x, y) for x in (lo, hi) for y in (least, most)]
    if any(c > LARGEST for c in corners):
        return OPEN
    low = min(corners) if lo > 0 else 0.0  # 0 ^ 0 is 1, and 0 ^ y is 0
    return Interval(_outward(low, up=False), _outward(max(*corners, 1.0 if lo == 0 and least <= 0 else 0.0), up=True))


def _raised(x: Fraction, y: Fraction) -> float:
    """Raised by its logarithm where floats would overflow."""
    if x == 0:
        return 0.0 if y > 0 else 1.0
    size = float(y) * (math.log(x.numerator) - math.log(x.denominator)) if abs(y) < LARGEST else math.inf
    return math.exp(size) if size < 600 else math.inf


def _whole(lo: Fraction, hi: Fraction, exponent: int) -> Interval:
    if (max(abs(lo), abs(hi)).__ceil__() + 1).bit_length() * exponent > 1000:
        return OPEN
    ends = (lo**exponent, hi**exponent)
    around = exponent % 2 == 0 and exponent > 0 and lo <= 0 <= hi
    return Interval(Fraction(0) if around else min(ends), max(ends))


def quotient(a: Interval, b: Interval, grid: Fraction | None) -> Interval:
    """a / b, where b = 0 yields NULL: of a divisor on a grid there is a least one above 0, and a greatest below."""
    plain = iv.divide(a, b)
    if plain.closed or grid is None or not (a.closed and b.closed):
        return plain
    (lo, hi), parts = b.ends, []
    if hi > 0:
        parts.append(iv.divide(a, Interval(grid, max(hi, grid))))
    if lo < 0:
        parts.append(iv.divide(a, Interval(min(lo, -grid), -grid)))
    return iv.hull(parts) if parts else Interval(Fraction(0), Fraction(0))
