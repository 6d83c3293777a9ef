"""A cable between a proxy and a PostgreSQL on this machine that is as long as a test wants it.

Knows: unix sockets, PostgreSQL's names of them. Must not know: messages. What enters at one end leaves at the other `delay`
seconds later, in order. `crossings` counts how often the proxy began to speak after the server did: what it waited for, one after
the other, on each connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

SOCKET = ".s.PGSQL.5432"


class Cable:
    """Is laid from a socket in `near` to the one in `far`. `delay` may be changed at any time."""

    def __init__(self, near: Path, far: Path) -> None:
        self.near, self.delay, self.crossings = near, 0.0, 0
        self._far = far

    async def laid(self) -> asyncio.Server:
        return await asyncio.start_unix_server(self._connected, self.near / SOCKET)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(str(self._far / SOCKET))
        spoke = ["server"]
        with contextlib.closing(writer), contextlib.closing(back):
            ways = [self._passed(reader, back, "proxy", spoke), self._passed(there, writer, "server", spoke)]
            tasks = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, who: str, spoke: list[str]) -> None:
        """`spoke`: whose words were the last on this connection."""
        while data := await reader.read(1 << 16):
            self.crossings += who == "proxy" and spoke[0] == "server"
            spoke[0] = who
            await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()


@contextlib.contextmanager
def cable(near: Path, far: Path) -> Iterator[Cable]:
    """Lay one for as long as the block lasts, in a thread of its own."""
    loop, made = asyncio.new_event_loop(), Cable(near, far)
    server = loop.run_until_complete(made.laid())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
