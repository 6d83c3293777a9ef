"""Time limits and throttling through the wire.

What `Watch` limits is looked at when the test says so (`Clock`); the limits of a login and of a
transaction, and a client's own timeout, are short and of real time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from dpproxy.limits.session_limits import SessionLimits, Watch
from dpproxy.server.server import Server
from dpproxy.session import inflow
from dpproxy.session.client import ClientSession
from dpproxy.sql.settings import STATEMENT_TIMEOUT
from dpproxy.wire import frontend_build as front
from tests.worlds.running import sleeping
from tests.worlds.scripted import Stage
from tests.worlds.waiting import SAFETY, until
from tests.worlds.wire_client import Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"


AGES = 3600.0
Hurried = Callable[..., Awaitable[Stage]]


@pytest_asyncio.fixture(loop_scope="module")
async def hurried(stage: Stage) -> AsyncIterator[Hurried]:
    """The same stage behind a server in a hurry about one thing: all else has time, however busy the machine is."""
    async with AsyncExitStack() as stack:

        async def made(**limits: float) -> Stage:
            times = {"login": AGES, "idle": AGES, "transaction": AGES, "statement": AGES} | limits
            server = Server({"shop": stage.dataset}, lambda *_: stage.facade.endpoint, limits=SessionLimits(20, 3, **times))
            port = await server.listen("127.0.0.1", 0)
            stack.push_async_callback(server.stop, drain=0)
            return Stage(server, stage.facade, stage.dataset, stage.engine, port)

        yield made


class Clock:
    """The server's looks at its sessions, at the times that the test says."""

    def __init__(self, at: Stage) -> None:
        assert at.server._watching is not None
        at.server._watching.cancel()
        self._server, self._watch, self._now = at.server, Watch[ClientSession](at.server.limits), 0.0
        self.passes(0)

    def passes(self, seconds: float) -> None:
        self._now += seconds
        self._watch.look(list(self._server._sessions.values()), self._now)


async def ended(wire: Wire) -> str:
    """The SQLSTATE with which the proxy closes."""
    code = report(await wire.until(b"E"))["C"]
    with pytest.raises(EOFError):
        await wire.read()
    return code


async def test_silence_before_the_login(hurried: Hurried) -> None:
    port = (await hurried(login=0.4)).port
    silent, asked = await Wire.open(port), await Wire.open(port)
    asked.send(front.startup("ada", "shop", {}))
    await asked.read()
    for wire in (silent, asked):
        with pytest.raises((EOFError, ConnectionError)):
            await wire.read()


async def test_slow_loris(hurried: Hurried) -> None:
    """A byte now and then does not prolong the time for the login."""
    wire = await Wire.open((await hurried(login=0.4)).port)
    for _ in range(15_000):
        wire.send(b"\0")
        await asyncio.sleep(0.02)
        if wire.reader.at_eof() or wire.reader.exception():
            return
    pytest.fail("it was listened to for five minutes")


async def test_a_message_that_does_not_go_on_ends_its_session_alone(hurried: Hurried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflow, "PAUSE", 0.2)
    at = await hurried(transaction=2)  # so that it is looked each half of a second
    wire, other = await at.connect(), await at.connect()
    wire.send(front.query("SELECT 1")[:-1])
    assert report(await wire.until(b"E"))["M"] == inflow.STOPPED
    assert rows(await other.query("SELECT 1")) == [("1",)]
    await other.close()


async def test_idle(hurried: Hurried) -> None:
    """The time counts from the last answer: what is asked within it goes on for longer than it."""
    at = await hurried(idle=4)
    wire, clock = await at.connect(), Clock(at)
    for _ in range(3):
        clock.passes(3)
        assert rows(await wire.query("SELECT 1")) == [("1",)]
    clock.passes(3)
    clock.passes(4)
    assert await ended(wire) == "57P05"


async def test_idle_in_a_transaction(hurried: Hurried) -> None:
    at = await hurried(transaction=0.4)
    begun, extended = await at.connect(), await at.connect()
    await begun.query("BEGIN")
    extended.send(front.parse("", "SELECT 1"), front.FLUSH)
    assert await ended(begun) == "25P03"
    assert await ended(extended) == "25P03"


async def runs(wire: Wire) -> None:
    """A statement that takes an hour, of which the first rows have come."""
    wire.send(front.query(sleeping(3600)))
    await wire.until(b"D")


async def test_statements_of_the_facade(hurried: Hurried) -> None:
    """PostgreSQL's own timeout as long as the client leaves it alone, the proxy's when it does not."""
    at = await hurried(statement=3600)
    wire = await at.connect()
    assert rows(await wire.query("SHOW statement_timeout")) == [("1h",)]
    await wire.query("SET statement_timeout = '100ms'")
    assert report(await wire.query("SELECT pg_sleep(600)"))["M"] == "canceling statement due to statement timeout"
    await wire.query("SET statement_timeout = 0")
    await runs(wire)
    clock = Clock(at)
    clock.passes(3600)
    error = report(await wire.until(b"Z"))
    assert (error["C"], error["M"]) == ("57014", "canceling statement due to user request")
    assert rows(await wire.query("SELECT 1")) == [("1",)]
    await wire.close()


async def test_measurements(hurried: Hurried) -> None:
    at = await hurried(statement=4)
    at.engine.gate.clear()
    before = at.engine.cancelled
    wire = await at.connect()
    wire.send(front.query(PRIVATE))
    async with asyncio.timeout(SAFETY):
        await at.engine.started.wait()
    Clock(at).passes(4)
    error = report(await wire.until(b"Z"))
    assert error["C"] == "57014"
    assert error["M"].startswith("canceling statement due to statement timeout")
    await until(lambda: at.engine.cancelled > before)  # a moment later: the limit counts from the charge
    at.engine.gate.set()
    assert len(rows(await wire.query(PRIVATE))) == 3
    await wire.close()


async def test_the_clients_own_timeout_is_of_the_client_alone(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.query("SET statement_timeout = '3s'")
    stage.engine.gate.clear()
    try:
        error = report(await wire.query(PRIVATE))
        assert error["C"] == "57014"
        assert error["M"].startswith("canceling statement due to statement timeout")
        await wire.query("BEGIN; SET LOCAL statement_timeout = 0; ROLLBACK")
        wire.send(front.parse("", PRIVATE), front.bind("", "", []))
        wire.send(front.execute(""), front.sync())
        error = report(await wire.until(b"Z"))
        assert error["C"] == "57014"
        assert error["M"].startswith("canceling statement due to statement timeout")
    finally:
        stage.engine.gate.set()
    assert len(rows(await wire.query(PRIVATE))) == 3
    await wire.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", None),
        (None, None),
        ("700ms", 0.7),
        ("3s", 3),
        ("10min", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("5", 0.005),
        ("x", None),
    ],
)
async def test_times_as_postgresql_shows_them(text: str | None, expected: float | None) -> None:
    assert STATEMENT_TIMEOUT.parse(text) == pytest.approx(expected)


async def test_prodding_does_not_prolong(hurried: Hurried) -> None:
    """What a client sends is no progress; only what is answered is."""
    at = await hurried(statement=4)
    wire, other = await at.connect(), await at.connect()
    await wire.query("SET statement_timeout = 0")
    await runs(wire)
    clock = Clock(at)
    for _ in range(4):
        wire.send(front.FLUSH)
        await other.query("SELECT 1")  # when this is answered, that has been heard
        clock.passes(1)
    assert report(await wire.until(b"Z"))["C"] == "57014", "long before it would have ended"
    await wire.close()


async def test_connections_of_one_user(hurried: Hurried) -> None:
    at = await hurried()
    wires = [await at.connect() for _ in range(3)]
    fourth = await at.connect()
    assert (tags(fourth.startup[-1:]), report(fourth.startup)["C"]) == (b"E", "53300")
    for wire in wires:
        await wire.close()
    while at.server.occupancy():
        await asyncio.sleep(0.01)
    again = await at.connect()
    assert again.startup[-1][0] == b"Z"
    await again.close()


async def test_sockets_ask_whether_anybody_is_there(stage: Stage) -> None:
    wire = await stage.connect()
    session = next(s for s in stage.server._sessions.values())
    found = session._transport.get_extra_info("socket")
    assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 300_000
    await wire.close()


async def test_guesses_are_bounded(stage: Stage) -> None:
    """Whoever has used up a user's guesses at an address is not heard any more; other users of the address are."""
    throttle, loop = stage.server.throttle, asyncio.get_running_loop()
    while throttle.begin("127.0.0.1", "mallory", loop.time() + 60) == 0.0:
        pass
    wire = await Wire.open(stage.port)
    await wire.login(user="mallory", password="wrong")
    assert report(wire.startup) == {**report(wire.startup), "C": "28000", "M": "too many failed logins, try again later"}
    other = await stage.connect()
    assert other.startup[-1][0] == b"Z"
    await other.close()
