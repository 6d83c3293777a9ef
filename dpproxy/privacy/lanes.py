"""Many whole numbers in one integer, which adds and subtracts them all at once.

Knows: bits. Must not know: what the numbers mean. Each number has a lane of 128 bits, of which it may fill 127: the highest one
guards the next lane. Two lanes of 127 bits add up to less than 2^128, so no sum runs over into its neighbour, and one that does
not fit shows in its guard. A difference borrows from a guard that was set for it, so that one below zero shows there too. Where
numbers do not fit there is None, and whoever asked adds them one by one: no sum is ever another than that of the numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

LANE: Final = 16
"""Bytes: a loss has numbers of up to 10**30 (`privacy.loss.UNREACHABLE`), and 10**8 of those add up to less than 2**127."""

MOST: Final = 64
"""Lanes in one integer: more than a loss has numbers."""

_TOP: Final = 1 << 8 * LANE - 1
_GUARDS: Final = sum(_TOP << 8 * LANE * i for i in range(MOST))
_TIMES: Final = 20
_LARGE: Final = sum(((1 << _TIMES + 1) - 1) << 8 * LANE * (i + 1) - _TIMES - 1 for i in range(MOST))


def packed(numbers: Sequence[int]) -> int | None:
    """Return the numbers as one, the first in the lowest lane; None where they do not fit."""
    if len(numbers) > MOST or not all(0 <= number < _TOP for number in numbers):
        return None
    return int.from_bytes(b"".join(number.to_bytes(LANE, "little") for number in numbers), "little")


def unpacked(lanes: int, count: int) -> tuple[int, ...]:
    """Return the numbers that were packed."""
    halves = struct.unpack(f"<{2 * count}Q", lanes.to_bytes(LANE * count, "little"))
    low, high = halves[::2], halves[1::2]
    return tuple(a | b << 64 for a, b in zip(low, high, strict=True)) if any(high) else low


def plus(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return None
    found = one + other
    return None if found & _GUARDS else found


def minus(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return None
    found = (one | _GUARDS) - other
    return found ^ _GUARDS if found & _GUARDS == _GUARDS else None


def times(one: int | None, count: int) -> int | None:
    """Return each number so many times. None also where some product might not fit: a number of up to 106 bits, fewer than 2^20
    times, does."""
    if one is None or not 0 < count < 1 << _TIMES or one & _LARGE:
        return None
    return one * count
