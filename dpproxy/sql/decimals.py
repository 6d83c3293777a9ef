"""Rationals as decimal text for formulas the facade computes.

Knows: arithmetic. Must not know: anything else.
"""

from __future__ import annotations

from fractions import Fraction

MAX_DIGITS = 40  # decimals of a grid: policies' resolutions and products of a few of them have far fewer


def decimal(value: Fraction) -> str:
    """Return a rational with a power-of-ten denominator as a decimal literal; others to the nearest double."""
    if value.denominator == 1:
        return str(value.numerator)
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
        if digits > MAX_DIGITS:
            return repr(float(value))
    whole = abs(value * 10**digits).numerator
    text = str(whole).rjust(digits + 1, "0")
    return f"{'-' if value < 0 else ''}{text[:-digits]}.{text[-digits:]}"
