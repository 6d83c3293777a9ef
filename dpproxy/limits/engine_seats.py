"""Places on the engine: a measurement takes one before it is charged, and each role has its own.

Knows: names of roles, numbers. Must not know: engines, charges. The places are dealt out once and for all, not to who comes
first: so what one role asks never waits for what another asks, and how long its own statements wait says nothing about the
other's. Who waits longer than `PATIENCE` is refused, at no charge.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from dpproxy.errors import TOO_MANY_CONNECTIONS, Refusal

PATIENCE: Final = 60.0
"""Seconds: a dashboard asks for thirty answers at once, of which the last wait for the first; a frozen backend frees nobody."""

LEAST: Final = 2
"""Places of a role, however many roles there are: one slow statement does not stop all the others."""


def share(places: int, roles: int) -> int:
    """Return the places of one role, on an engine on which `places` statements run well at once."""
    return max(LEAST, places // max(roles, 1))


class Seats:
    """Deals out places on the engine: `each` is what every role has."""

    def __init__(self, each: int = 8, patience: float = PATIENCE) -> None:
        self.each, self._patience = each, patience
        self._roles: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def taken(self, role: str) -> AsyncIterator[None]:
        """Hold a place; roles' statements get theirs in the order of coming. Raises Refusal after `PATIENCE`."""
        places = self._roles.setdefault(role, asyncio.Semaphore(self.each))
        try:
            async with asyncio.timeout(self._patience):
                await places.acquire()
        except TimeoutError:
            raise self._refusal() from None
        try:
            yield
        finally:
            places.release()

    def _refusal(self) -> Refusal:
        at_once = f"{self.each} statements" if self.each > 1 else "one statement"
        return Refusal(
            TOO_MANY_CONNECTIONS,
            "too many statements of your role are being measured",
            detail=f"A role may have {at_once} measured at once; no place became free within {self._patience:g} seconds. "
            "Nothing was charged.",
            hint="Ask again when some of them have ended.",
        )
