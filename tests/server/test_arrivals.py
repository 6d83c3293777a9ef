"""Places before a login: who is ended for a newcomer, what is counted and logged of it; and through sockets, that a login gets in."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop
from structlog.testing import capture_logs

from dpproxy.facade.cluster import Endpoint
from dpproxy.limits.session_limits import SessionLimits
from dpproxy.server import connection
from dpproxy.server.server import QUIET, Arrivals, Server
from dpproxy.server.tls import MOST_OF_A_HANDSHAKE, load_tls
from dpproxy.telemetry.tallies import Tallies
from dpproxy.wire import frontend_build as front
from tests.worlds.certificates import certificate
from tests.worlds.scripted import Stage
from tests.worlds.waiting import until
from tests.worlds.wire_client import PASSWORD, Wire, rows

CONNECTIONS = 8
WAITING = 2 * CONNECTIONS


@dataclass(eq=False)
class Arrival:
    address: str
    ended: bool = False

    def abort(self) -> None:
        self.ended = True


def test_the_oldest_of_the_fullest_address_is_ended_and_counted() -> None:
    tallies = Tallies()
    arrivals = Arrivals(4, tallies)
    lone, first, second = Arrival("10.0.0.1"), Arrival("10.0.0.2"), Arrival("10.0.0.2")
    for each in (lone, first, second):
        arrivals.entered(each)
    arrivals.heard(first)
    assert tallies.counted().logins == ()
    for address in ("10.0.0.2", "10.0.0.3", "10.0.0.4"):
        arrivals.entered(Arrival(address))
    assert (lone.ended, first.ended, second.ended) == (False, True, True)
    assert tallies.counted().logins == ((("", "gave way"), 2),)
    assert len(arrivals) == 4


def test_the_log_hears_of_a_flood_once_a_minute() -> None:
    now = [0.0]
    arrivals = Arrivals(2, Tallies(), lambda: now[0])
    with capture_logs() as logged:
        for _ in range(100):
            arrivals.entered(Arrival("10.0.0.1"))
        now[0] = QUIET
        arrivals.entered(Arrival("10.0.0.1"))
    assert [(line["event"], line["address"], line["closed"]) for line in logged] == [
        ("connections without a login gave way", "10.0.0.1", 1),
        ("connections without a login gave way", "10.0.0.1", 99),
    ]


# through sockets


@pytest_asyncio.fixture(loop_scope="module")
async def crowded(stage: Stage, tmp_path: Path) -> AsyncIterator[tuple[Stage, Path]]:
    """A server with few places, by TCP and by a unix socket."""
    server = Server({"shop": stage.dataset}, lambda *_: stage.facade.endpoint, limits=SessionLimits(CONNECTIONS, CONNECTIONS))
    port = await server.listen("127.0.0.1", 0)
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as local:
        local.bind(str(path))
        await server.listen_locally(local)
        yield replace(stage, server=server, port=port), path
        await server.stop(0)


async def silent(crowded: tuple[Stage, Path], local: bool) -> asyncio.StreamWriter:
    stage, path = crowded
    opened = asyncio.open_unix_connection(path) if local else asyncio.open_connection("127.0.0.1", stage.port)
    return (await opened)[1]


@pytest.mark.parametrize("local", [False, True], ids=["tcp", "unix"])
@pytest.mark.parametrize(
    "first",
    [b"", b"\0", front.startup("ada", "shop", {})[:-1], front.startup("ada", "shop", {}), front.ssl_request()],
    ids=["silent", "a byte", "half a packet", "a user's name", "asked for TLS"],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_right_login_gets_in_however_many_wait(crowded: tuple[Stage, Path], local: bool, first: bytes) -> None:
    """From the same address, which is the harder case, and while more come between its steps."""
    stage, path = crowded
    held = []
    for _ in range(3 * WAITING):
        held.append(await silent(crowded, local))
        held[-1].write(first)
    opened = asyncio.open_unix_connection(path) if local else asyncio.open_connection("127.0.0.1", stage.port)
    wire = Wire(*await opened)
    for _ in range(CONNECTIONS // 2):
        held.append(await silent(crowded, local))
    await wire.login(password=PASSWORD)
    assert rows(await wire.query("SELECT 1")) == [("1",)]
    assert len(stage.server.arrivals()) <= WAITING
    for writer in (wire.writer, *held):
        writer.transport.abort()
    await until(lambda: not stage.server.arrivals() and not stage.server.occupancy())


def handshakes() -> int:
    """How many go on, as tasks of the loop."""
    return sum("_encrypted" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def begun(port: int, hello: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has asked for TLS, and says so much of its greeting."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(front.ssl_request())
    assert await reader.readexactly(1) == b"S"
    writer.write(hello)
    return reader, writer


GREETING = b"\x16\x03\x01\x40\0\x01\x02\0\0\x03\x03" + bytes(16_378) + (b"\x16\x03\x01\x40\0" + bytes(16_384)) * 7
"""The beginning of a ClientHello of 131,072 bytes, in records."""


@pytest.mark.parametrize("hello", [b"", GREETING[:10_000]], ids=["silent", "half a greeting"])
@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_handshake_that_gives_way_leaves_nothing(
    factory: Callable[[], asyncio.AbstractEventLoop], hello: bytes, tmp_path: Path
) -> None:
    """uvloop takes a handshake for done whose connection the server ends: such a connection was kept until the login's time was up."""

    async def flooded() -> None:
        tls = load_tls(certificate(tmp_path, "server"))
        server = Server({}, lambda *_: Endpoint(), limits=SessionLimits(CONNECTIONS, CONNECTIONS), tls=tls)
        port = await server.listen("127.0.0.1", 0)
        held = [await begun(port, hello) for _ in range(2 * WAITING)]
        await until(lambda: len(server.arrivals()) == handshakes() == WAITING // 2)
        for _, writer in held:
            writer.transport.abort()
        await until(lambda: not handshakes() and not server.arrivals())
        gc.collect()
        assert not [each for each in gc.get_objects() if type(each) is connection.Arrival]
        await server.stop(0)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(flooded())


@pytest.mark.asyncio(loop_scope="module")
async def test_a_greeting_that_does_not_end_is_not_kept(
    crowded: tuple[Stage, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    stage, _ = crowded
    stage.server.tls = load_tls(certificate(tmp_path_factory.mktemp("tls"), "server"))
    reader, writer = await begun(stage.port, GREETING[: MOST_OF_A_HANDSHAKE - 1])
    await until(lambda: handshakes() == 1)
    writer.write(GREETING[MOST_OF_A_HANDSHAKE - 1 : MOST_OF_A_HANDSHAKE + 1])
    with contextlib.suppress(OSError):
        assert await reader.read() == b""
    writer.transport.abort()
    await until(lambda: not handshakes() and not stage.server.arrivals())


@pytest.mark.asyncio(loop_scope="module")
async def test_a_flood_of_one_way_in_leaves_the_other(crowded: tuple[Stage, Path]) -> None:
    """Who waits by TCP keeps the place while the unix socket is flooded, though silent from its first byte on."""
    stage, _ = crowded
    patient = await Wire.open(stage.port)
    await until(lambda: len(stage.server.arrivals()) == 1)
    held = [await silent(crowded, True) for _ in range(3 * WAITING)]
    await until(lambda: len(stage.server.arrivals()) == WAITING // 2 + 1)
    await patient.login(password=PASSWORD)
    assert rows(await patient.query("SELECT 1")) == [("1",)]
    for writer in (patient.writer, *held):
        writer.transport.abort()
    await until(lambda: not stage.server.arrivals() and not stage.server.occupancy())
