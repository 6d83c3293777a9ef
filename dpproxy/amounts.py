"""Units of budgets: the whole numbers in which amounts are counted, and the windows after which they begin anew.

Knows: two numbers, six words. Must not know: anything else, so that every room can import them.
"""

from __future__ import annotations

from typing import Final, Literal

MICRO: Final = 10**6
"""Epsilon is counted in millionths."""
ATTO: Final = 10**18
"""Delta is counted in parts of 10^18."""

Window = Literal["day", "week", "month", "quarter", "year", "never"]
"""The time after which a budget begins anew, by the calendar."""
