"""In which whole numbers amounts of budget are counted: whatever is charged, limited, told or drawn counts in these.

Knows: two numbers. Must not know: anything else, so that every room can import them.
"""

from __future__ import annotations

from typing import Final

MICRO: Final = 10**6
"""Epsilon is counted in millionths."""
ATTO: Final = 10**18
"""Delta is counted in parts of 10^18."""
