"""What the proxy itself tells a client: put together while more follows, and held up while the client does not read.

Knows: pieces of bytes, how large a piece is worth a write of its own. Must not know: what messages say, who asked. What the
facade says is relayed past it, so whoever relays flushes this first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

PIECE: Final = 16 * 1024
"""Bytes of an answer that are worth a piece of their own: each piece wakes the client."""


class Outflow:
    """Holds what one client is told until it is sent, through `write`."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()

    def tell(self, data: bytes) -> None:
        """Send something with what follows it, or at once where it has come to a `PIECE`."""
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= PIECE:
            self.flush()

    def flush(self) -> None:
        """Send what was told so far."""
        if self._held:
            data = b"".join(self._held)
            self._held.clear()
            self._held_bytes = 0
            self._write(data)

    async def drained(self) -> None:
        """Wait while the client does not read."""
        await self._writable.wait()

    def slow(self, slow: bool) -> None:
        """Note whether the client reads."""
        if slow:
            self._writable.clear()
        else:
            self._writable.set()
