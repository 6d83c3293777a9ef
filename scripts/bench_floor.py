"""A relay that does nothing but relay: what an event loop in Python costs, whatever a proxy does beside.

Knows: two unix sockets, the event loop of the proxy. Must not know: messages. A part of `bench`, which starts it as a program:
`bench_floor.py SOCKET SERVER`. What it is told by a client it tells the server, and the other way round, as it comes.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

from dpproxy.serve.runtime import run


class End(asyncio.Protocol):
    """Is one end of a relayed connection. `other`: where its bytes go; what comes before there is one waits."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: asyncio.Transport | None = None
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early.append(data)
        else:
            self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


class Client(End):
    """Is a client's end: it connects to the server by the unix socket `server`."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self._server = server
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        _, end = await asyncio.get_running_loop().create_unix_connection(End, self._server)
        self.other, end.other = end.transport, self.transport
        if self.other is not None:
            self.other.writelines(self.early)


async def relay(path: str, server: str) -> None:
    """Relay what comes by the unix socket `path` to the one at `server`, until it is told to end."""
    listener = await asyncio.get_running_loop().create_unix_server(lambda: Client(server), path)
    await listener.serve_forever()


if __name__ == "__main__":
    run(relay(*sys.argv[1:]))
