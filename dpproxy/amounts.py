"""Units of budgets: the whole numbers in which amounts are counted.

Knows: two numbers. Must not know: anything else, so that every room can import them.
"""

from __future__ import annotations

from typing import Final

MICRO: Final = 10**6
"""Epsilon is counted in millionths."""
ATTO: Final = 10**18
"""Delta is counted in parts of 10^18."""
