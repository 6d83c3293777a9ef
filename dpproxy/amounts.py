"""Units of budgets: the whole numbers in which amounts are counted. And how amounts are spelled for people.

Knows: numbers. Must not know: anything else, so that every room can import them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

MICRO: Final = 10**6
"""Epsilon is counted in millionths."""
ATTO: Final = 10**18
"""Delta is counted in parts of 10^18."""


def digits(value: float | Decimal, count: int = 6) -> str:
    """Spell a number in so many significant digits and without an exponent: 711300, not 7.113e+05."""
    return f"{Decimal(f'{value:.{count}g}'):f}"
