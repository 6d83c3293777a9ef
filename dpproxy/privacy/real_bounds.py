"""Real numbers with proven bounds: exp, ln, square roots and normal tails as pairs (lower, upper) of rationals.

Knows: arithmetic. Must not know: privacy, data, floats. Privacy numbers are compared with these bounds, always on
the side that can only make an answer noisier.

Why the bounds hold: `decimal`'s exp, ln and sqrt are correctly rounded (Python documentation, "The result is
correctly rounded using the ROUND_HALF_EVEN rounding mode"), hence within half a unit in the last place of the
`digits + GUARD` computed; arguments are rounded outwards first, results are widened by 10**-digits relatively.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

Bounds = tuple[Fraction, Fraction]

DIGITS = 40  # far beyond the 18 digits of an atto-delta divided by a million groups
GUARD = 10
SIGNIFICANT_BITS = 40  # of scales: a double holds them exactly, and 2**-40 costs no accuracy
_SMALLEST_EXPONENT = Fraction(-100_000)  # exp below this is bounded by exp of this: keeps integers small


def _context(digits: int, rounding: str) -> Context:
    return Context(prec=digits + GUARD, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX)


def _decimal(x: Fraction, digits: int, rounding: str) -> Decimal:
    """`x` to `digits + GUARD` places, rounded as asked; exact when it fits."""
    return _context(digits, rounding).divide(Decimal(x.numerator), Decimal(x.denominator))


def _widen(low: Decimal, high: Decimal, digits: int) -> Bounds:
    margin = Fraction(1, 10**digits)
    a, b = Fraction(low), Fraction(high)
    return a - abs(a) * margin, b + abs(b) * margin


def exp_bounds(x: Fraction, digits: int = DIGITS) -> Bounds:
    """Return (lower, upper) with lower <= e**x <= upper, relative width about 10**-digits."""
    if x == 0:
        return Fraction(1), Fraction(1)
    if x < _SMALLEST_EXPONENT:
        return Fraction(0), exp_bounds(_SMALLEST_EXPONENT, digits)[1]
    # |x| * 10**-prec is the absolute error of the rounded argument: more places for large arguments
    places = digits + len(str(int(abs(x))))
    low = _context(digits, ROUND_FLOOR).exp(_decimal(x, places, ROUND_FLOOR))
    high = _context(digits, ROUND_CEILING).exp(_decimal(x, places, ROUND_CEILING))
    return _widen(low, high, digits)


def ln_bounds(x: Fraction, digits: int = DIGITS) -> Bounds:
    """Return (lower, upper) of the natural logarithm of x > 0; absolute width about 10**-digits."""
    if x == 1:
        return Fraction(0), Fraction(0)
    low = _context(digits, ROUND_FLOOR).ln(_decimal(x, digits, ROUND_FLOOR))
    high = _context(digits, ROUND_CEILING).ln(_decimal(x, digits, ROUND_CEILING))
    return _widen(low, high, digits)


def sqrt_bounds(x: Fraction, digits: int = DIGITS) -> Bounds:
    """Return (lower, upper) of the square root of x >= 0."""
    low = _context(digits, ROUND_FLOOR).sqrt(_decimal(x, digits, ROUND_FLOOR))
    high = _context(digits, ROUND_CEILING).sqrt(_decimal(x, digits, ROUND_CEILING))
    return _widen(low, high, digits)


PI: Bounds = (
    Fraction(31415926535897932384626433832795028841, 10**37),
    Fraction(31415926535897932384626433832795028842, 10**37),
)


def normal_tail_bounds(z: Fraction, terms: int = 100) -> Bounds:
    """Return (lower, upper) of P(N(0,1) >= z) for z >= 1/4.

    Laplace's continued fraction of Mills' ratio, 1/(z + 1/(z + 2/(z + 3/(z + ...)))): with positive terms,
    consecutive convergents bracket its value (Abramowitz & Stegun 26.2.14). 100 terms give 2 digits at z = 1/4, 8
    at z = 1 and 16 at z = 2.
    """
    context = _context(DIGITS, ROUND_FLOOR)
    zd = _decimal(z, DIGITS, ROUND_FLOOR)  # exact for the dyadic z used here, else one more part in 10**50
    ratios = []
    for count in (terms, terms + 1):
        value = zd
        for i in range(count, 0, -1):
            value = context.add(zd, context.divide(Decimal(i), value))
        ratios.append(Fraction(context.divide(Decimal(1), value)))
    margin = Fraction(1, 10 ** (DIGITS - 5))  # 100 roundings of 10**-50 each
    e_low, e_high = exp_bounds(-z * z / 2)
    root_low, root_high = sqrt_bounds(2 * PI[0])[0], sqrt_bounds(2 * PI[1])[1]
    return e_low * min(ratios) * (1 - margin) / root_high, e_high * max(ratios) * (1 + margin) / root_low


def floor_log2(x: Fraction) -> int:
    """Return the largest integer n with 2**n <= x, for x > 0."""
    n = x.numerator.bit_length() - x.denominator.bit_length()
    return n if Fraction(2) ** n <= x else n - 1


def round_up(x: Fraction, bits: int = SIGNIFICANT_BITS) -> Fraction:
    """Return the smallest number >= x > 0 with `bits` significant bits."""
    unit = Fraction(2) ** (floor_log2(x) - bits + 1)
    return math.ceil(x / unit) * unit


def round_down(x: Fraction, bits: int = SIGNIFICANT_BITS) -> Fraction:
    """Return the largest number <= x > 0 with `bits` significant bits."""
    unit = Fraction(2) ** (floor_log2(x) - bits + 1)
    return math.floor(x / unit) * unit
