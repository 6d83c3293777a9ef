"""What rude clients do to a proxy: huge parameters and texts, answers that nobody reads, messages and logins that stop halfway.

Knows: the protocol's messages, sockets. Must not know: how the proxy defends itself, what is measured beside it. They run in a
process of their own that yields to everybody, since on a real network it is another machine. Each client does its part again as
soon as it is thrown out. What a client sends is put together before it begins, so that it takes no time of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import scramp

from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_authentication
from dpproxy.wire.framing import MAX_MESSAGE, MAX_SASL, BackendFramer

AGAIN: Final = 0.05
"""Seconds until a client that was thrown out comes again."""
STUCK: Final = 2.0
"""Seconds after which a client whose unread answers hold it up comes anew."""
TRICKLE: Final = 17
"""Silent connections a second: with the usual login timeout of a minute, as many as fill every place before login."""
FLOOD: Final = 1_000
"""Messages that a flood sends at once."""
MILLION: Final = ",".join(str(number) for number in range(1_000_000)).encode()


@dataclass(frozen=True)
class Where:
    """Says where the proxy and its console listen, and who the rude clients log in as. `at`: the address they come from."""

    host: str
    port: int
    console: int
    user: str
    at: str | None = None

    def source(self, number: int) -> tuple[str, int] | None:
        """Return the address of a client; `each` stands for one of its own."""
        if self.at == "each":
            return f"127.1.{number // 250}.{number % 250 + 1}", 0
        return (self.at, 0) if self.at is not None else None


class Raw:
    """A connection that says what it is given, and reads what it is asked to read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._framer = BackendFramer(frozenset())
        self._inbox: list[tuple[bytes, bytes]] = []

    @classmethod
    async def open(cls, where: Where, number: int = 0, port: int | None = None) -> Raw:
        local = where.source(number)
        return cls(*await asyncio.open_connection(where.host, port or where.port, local_addr=local))

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read(self) -> tuple[bytes, bytes]:
        """Return the next message. Raises EOFError."""
        while not self._inbox:
            data = await self.reader.read(1 << 18)
            if not data:
                raise EOFError
            buffer, spans, _ = self._framer.batch(data)
            self._inbox += [(tag, buffer[start + 5 : end]) for tag, start, end in spans]
        return self._inbox.pop(0)

    async def until(self, tag: bytes) -> None:
        while (await self.read())[0] != tag:
            pass

    async def login(self, user: str) -> None:
        """Log in with the name for a password, as the sample shop has it. Raises EOFError."""
        client = scramp.ScramClient(["SCRAM-SHA-256"], user, user)
        await self.send(front.startup(user, "shop", {}))
        while True:
            tag, payload = await self.read()
            code = read_authentication(payload).code if tag == b"R" else -1
            if tag == b"Z":
                return
            if code == 10:
                await self.send(front.sasl_initial("SCRAM-SHA-256", client.get_client_first().encode()))
            elif code == 11:
                client.set_server_first(payload[4:].decode())
                await self.send(front.sasl_response(client.get_client_final().encode()))


async def logged_in(where: Where, number: int) -> Raw:
    raw = await Raw.open(where, number)
    await raw.login(where.user)
    return raw


# what each does until it is thrown out; `done` counts what it has got through

Act = Callable[[Where, int, Callable[[], None]], Awaitable[None]]


def _asked(data: bytes) -> Act:
    """Send whole messages, read the answer, and again."""

    async def act(where: Where, number: int, done: Callable[[], None]) -> None:
        raw = await logged_in(where, number)
        with raw:
            while True:
                await raw.send(data)
                await raw.until(b"Z")
                done()

    return act


def _bound(sql: str) -> bytes:
    """A statement whose only parameter is a million integers, 6.9 MB."""
    return front.parse("", sql) + front.bind("", "", [b"{" + MILLION + b"}"]) + front.execute("") + front.SYNC


async def _unread(where: Where, number: int, done: Callable[[], None]) -> None:
    """Pipeline small statements without reading, until nothing more is taken."""
    one = front.parse("", "select 1") + front.bind("", "", []) + front.execute("") + front.SYNC
    raw = await logged_in(where, number)
    with raw:
        while True:
            async with asyncio.timeout(STUCK):
                await raw.send(one * 2000)
            done()


def _flood(one: bytes) -> Act:
    """Send one small message again and again, a thousand at once, and read whatever is answered."""

    async def act(where: Where, number: int, done: Callable[[], None]) -> None:
        raw = await logged_in(where, number)

        async def reads() -> None:
            while await raw.reader.read(1 << 18):
                pass
            raise EOFError

        with raw:
            reading = asyncio.ensure_future(reads())
            try:
                while not reading.done():
                    await raw.send(one * FLOOD)
                    done()
                    await asyncio.sleep(0)
                await reading
            finally:
                reading.cancel()

    return act


def _half(tag: bytes, length: int, left: int) -> bytes:
    """A message that lacks its last bytes."""
    return tag + length.to_bytes(4, "big") + b"x" * (length - 4 - left)


async def _half_message(where: Where, number: int, done: Callable[[], None]) -> None:
    raw = await logged_in(where, number)
    with raw:
        await raw.send(_half(b"Q", MAX_MESSAGE, 100_000))
        done()
        await raw.until(b"E")


async def _half_token(where: Where, number: int, done: Callable[[], None]) -> None:
    raw = await Raw.open(where, number)
    with raw:
        await raw.send(front.startup(where.user, "shop", {}))
        await raw.read()
        await raw.send(_half(b"p", MAX_SASL, 1_000))
        done()
        await raw.until(b"E")


async def _silent(where: Where, number: int, done: Callable[[], None]) -> None:
    """Connect and say nothing; those beyond the first thousand come one by one."""
    await asyncio.sleep(max(0, number - 1000) / TRICKLE)
    raw = await Raw.open(where, number)
    with raw:
        done()
        await raw.reader.read(1)
        await asyncio.sleep(1 if number > 1000 else 0)


async def _half_request(where: Where, number: int, done: Callable[[], None]) -> None:
    raw = await Raw.open(where, number, where.console)
    with raw:
        await raw.send(b"GET /login HTTP/1.1\r\nHost: localhost\r\nX-Half: ")
        done()
        await raw.reader.read(1 << 16)


@dataclass(frozen=True)
class Rudeness:
    """Is one way of being rude. `sessions` at once; `at`: from which address, as in `Where`."""

    sessions: int
    act: Act
    at: str | None = None


ARRAY: Final = "SELECT count(*) FROM customers WHERE income = ANY ($1::int[])"
LONG: Final = 16_000_000
RUDENESSES: Final[dict[str, Rudeness]] = {
    "R1 EXPLAIN, a million integers bound": Rudeness(1, _asked(_bound(f"EXPLAIN {ARRAY}"))),
    "R1 SELECT, a million integers bound": Rudeness(1, _asked(_bound(ARRAY))),
    "R2 texts of 16 MB without a private name": Rudeness(12, _asked(front.query("SELECT 1 -- " + "customer " * (LONG // 9)))),
    "R3 pipelines nobody reads": Rudeness(3, _unread),
    "R4 half messages of 16 MB": Rudeness(40, _half_message),
    "R5 silent connections of an address": Rudeness(1400, _silent, "127.0.0.2"),
    "R5 silent connections of the polite one's": Rudeness(1400, _silent),
    "R5 silent connections, each of its own": Rudeness(1400, _silent, "each"),
    "R6 half SASL tokens of 64 kB": Rudeness(990, _half_token),
    "R7 half requests to the console": Rudeness(300, _half_request),
    "R8 floods of Sync": Rudeness(4, _flood(front.SYNC)),
    "R8 floods of Flush": Rudeness(4, _flood(front.FLUSH)),
    "R8 floods of Close": Rudeness(4, _flood(front.close("S", "none"))),
}
"""By name. Silent connections: 1,001 at once, the others one by one."""


# the process in which they run


def _run(name: str, where: Where, ready: Any, count: Any) -> None:
    os.setsid()
    os.nice(10)
    with contextlib.suppress(OSError):  # no Linux, or none that shares the processors out by sessions
        Path("/proc/self/autogroup").write_text("10")
    rudeness = RUDENESSES[name]
    where = Where(where.host, where.port, where.console, where.user, rudeness.at)

    def done() -> None:
        count.value += 1

    async def client(number: int) -> None:
        for _ in itertools.count():
            with contextlib.suppress(OSError, EOFError, TimeoutError, scramp.ScramException):
                await rudeness.act(where, number, done)
            await asyncio.sleep(AGAIN)

    async def all_of_them() -> None:
        ready.set()
        await asyncio.gather(*(client(number) for number in range(1, rudeness.sessions + 1)))

    asyncio.run(all_of_them())


@contextlib.contextmanager
def rude(name: str, where: Where) -> Iterator[Any]:
    """Let the clients begin; yields what counts the things they got through."""
    context = multiprocessing.get_context("spawn")
    ready, count = context.Event(), context.Value("q", 0)
    process = context.Process(target=_run, args=(name, where, ready, count), daemon=True)
    process.start()
    try:
        if not ready.wait(120):
            raise TimeoutError("the rude clients did not begin")
        yield count
    finally:
        process.kill()
        process.join()


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
