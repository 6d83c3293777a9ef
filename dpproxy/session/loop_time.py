"""The time of a thread: real time, without what the system let the thread wait for a processor.

Knows: the system's clock and its scheduler's books. Must not know: sessions, what the time is for. On a machine that does other
things too, or in a container with a part of a processor, the loop stands still while real time goes on. A session would seem to
pause while it waits for the loop, and half a processor to be free while nobody gets any. In the loop's own time a second is as
long as the loop can work for a second in it. Where the system tells nothing (macOS), it is real time.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import Final

BOOK: Final = "/proc/thread-self/schedstat"
"""Nanoseconds on a processor, nanoseconds of waiting for one, and a count."""
_SPELL: Final = 0.002
"""Seconds for which what was read holds: to read takes some microseconds, a stored answer takes some hundreds."""


class LoopTime:
    """Is the clock of the thread that first asks for it; it never goes back."""

    def __init__(self, book: str = BOOK, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = book, clock
        self._book: int | None = None
        self._read = self._last = -math.inf
        self._waited = 0.0

    def __call__(self) -> float:
        now = self._clock()
        if now >= self._read + _SPELL:
            self._read, self._waited = now, self._waiting()
        self._last = max(self._last, now - self._waited)
        return self._last

    def _waiting(self) -> float:
        """Seconds that the thread has waited so far."""
        if sys.platform != "linux":
            return 0.0
        try:
            if self._book is None:
                self._book = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            return int(os.pread(self._book, 100, 0).split()[1]) / 1e9
        except (OSError, IndexError, ValueError):  # a kernel without these books
            return self._waited

    def __del__(self) -> None:
        if self._book is not None:
            os.close(self._book)
