"""HTTP connections of the operators' pages, which wait at a door until a request is whole.

Knows: uvicorn's protocol and when it has read a request. Must not know: pages, who is let in. Whatever uvicorn does with
a request it does here; what is added is that the door hears of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from dpproxy.console.http_door import Door


class ConsoleProtocol(H11Protocol):
    """Is one connection. `door`: where it was given a place when it was accepted."""

    door: Door

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._waits = True

    def connection_lost(self, exc: Exception | None) -> None:
        if self.client is not None:
            self.door.left(self.client)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._tell()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._tell()

    def _tell(self) -> None:
        """A reply may also be complete before its request is: then it waits on."""
        cycle = self.cycle
        waits = cycle is None or cycle.more_body or cycle.response_complete
        if self.client is not None and waits != self._waits:
            self._waits = waits
            (self.door.answered if waits else self.door.asked)(self.client)


def protocol_at(door: Door) -> type[asyncio.Protocol]:
    """Return the protocol of connections that wait at this door."""
    return type("ConsoleProtocol", (ConsoleProtocol,), {"door": door})
