"""Rounds of work that is done again and again, and who waits for the end of one that began after they asked.

Knows: counting, waiting. Must not know: what is done. Who asks while a round is under way has to wait for the next one: this one
may have read already what they have changed since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Rounds:
    """Counts rounds, in one event loop."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None  # the end of a round that has not begun

    @contextmanager
    def round(self) -> Iterator[None]:
        """Do the work of one round."""
        awaited, self._next = self._next, None
        try:
            yield
        finally:
            if awaited is not None and not awaited.done():
                awaited.set_result(None)

    def next(self) -> asyncio.Future[None]:
        """Return what is done when the next round to begin has ended; many may wait for it."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._next)
