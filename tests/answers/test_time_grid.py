"""`timing.quantum`: what ends between two points of the grid looks the same whenever it ended, whatever a client does.

The points come when the test says so, and what is to lie before them is awaited: nothing here depends on how fast a machine is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import ClassVar

import psycopg
import pytest
import pytest_asyncio

from dpproxy.answers import answering, statement_end
from dpproxy.answers.statement_end import TIMEOUT, Ending, Grid
from dpproxy.backends.base import BackendError
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data, read_report
from tests.worlds.town import DATA, Client, Town, town
from tests.worlds.wire_client import Wire, rows

SQL = "SELECT region, count(*) FROM people WHERE income < {} GROUP BY region"
SAFETY = 300.0  # seconds, on a machine that does a hundred other things
pytestmark = pytest.mark.asyncio(loop_scope="module")


Timers = list[tuple[Ending, float | None]]
CANCELLING: list[asyncio.Future[None]] = []
"""So that they are not forgotten before they end."""


class Steps(Grid):
    """A grid whose next point is `point()`. `waiting`: how many wait for it; `asked`: what is to be done on it."""

    made: ClassVar[list[Steps]] = []
    passed: ClassVar[int] = 0  # points of all of them

    def __init__(self, quantum_ms: int | None) -> None:
        super().__init__(quantum_ms)
        self.waiting = 0
        self.asked: list[Callable[[], object]] = []
        self._next = asyncio.Event()
        self.made.append(self)

    async def reached(self) -> None:
        if self:
            self.waiting += 1
            await self._next.wait()

    def then(self, work: Callable[[], object]) -> None:
        self.asked.append(work)

    def point(self, asked_first: bool = True) -> None:
        """What happens on one point has no order: either may come first."""
        type(self).passed += 1
        reached, self._next = self._next, asyncio.Event()
        asked, self.asked, self.waiting = self.asked, [], 0
        if asked_first:
            for work in asked:
                work()
        reached.set()
        if not asked_first:
            for work in asked:
                work()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "Grid", Steps)
        async with town(tmp_path_factory.mktemp("town")) as made:
            await made.reopen(timing_quantum_ms=1000)
            yield made


class Engine:
    """Begins when it is asked (`begun`), and ends when it may (`ends`)."""

    def __init__(self, world: Town, failing: bool = False) -> None:
        self.begun, self.ends, self._failing = asyncio.Event(), asyncio.Event(), failing
        world.backend.before = self._before

    async def _before(self) -> None:
        self.begun.set()
        await self.ends.wait()
        if self._failing:
            raise BackendError("row 4711 is bad")


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(SAFETY):
        while not true():
            await asyncio.sleep(0.01)


async def begun(client: Client, engine: Engine, sql: str) -> tuple[asyncio.Task[object], Steps]:
    """A statement whose measurement runs, and its grid."""
    Steps.made.clear()
    asking = asyncio.ensure_future(outcome(client, sql))
    async with asyncio.timeout(SAFETY):
        await engine.begun.wait()
    return asking, Steps.made[-1]


async def outcome(client: Client, sql: str) -> object:
    try:
        return await client.ask(sql)
    except psycopg.Error as error:
        return error.sqlstate


@pytest.fixture(autouse=True)
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    """Statements, and the time each was given: it is over when the test says so."""
    found: Timers = []
    monkeypatch.setattr(Ending, "limit", lambda self, seconds: found.append((self, seconds)))
    return found


async def wants_it_ended(client: Client, how: str, steps: Steps, timers: Timers) -> None:
    """A cancel request ends when it is heeded, which is on the next point."""
    if how == "cancel":
        CANCELLING.append(asyncio.ensure_future(client.connection.cancel_safe(timeout=SAFETY)))
    else:
        assert timers[-1][1] == TIMEOUTS[how]
        timers[-1][0].ask(TIMEOUT)
    await until(lambda: steps.asked)


TIMEOUTS = {"timeout": 420.0, "cancel": None}


async def prepared(client: Client, how: str) -> None:
    await client.ask(f"SET statement_timeout = '{7 if how == 'timeout' else 0}min'")


async def is_free(world: Town, sql: str) -> None:
    """Asked again, the answer is a stored one. It waits for a point as well."""
    world.backend.before = None
    async with world.client() as ada:
        Steps.made.clear()
        asking = asyncio.ensure_future(ada.ask(sql))
        while not asking.done():
            for steps in Steps.made:
                steps.point()
            await asyncio.sleep(0.01)
        assert len(asking.result()) == 4
        assert any("reused, epsilon 0" in notice for notice in ada.notices)


async def test_failures_leave_on_the_grid(slow: Town) -> None:
    engine = Engine(slow, failing=True)
    async with slow.client() as ada:
        asking, steps = await begun(ada, engine, SQL.format(100))
        engine.ends.set()
        await until(lambda: steps.waiting)
        assert not asking.done()
        steps.point()
        assert await asking == "58000"


@pytest.mark.parametrize("asked_first", [True, False])
@pytest.mark.parametrize("how", ["timeout", "cancel"])
@pytest.mark.parametrize("early", [True, False])
async def test_a_question_at_a_moment_of_the_clients_choice(
    slow: Town, how: str, early: bool, asked_first: bool, timers: Timers
) -> None:
    """The engine is through before it or after it, on the same stretch of the grid: the same answer, at the same time."""
    engine = Engine(slow)
    async with slow.client() as ada:
        sql = SQL.format(200 + 10 * early + 2 * asked_first + len(how))
        await prepared(ada, how)
        asking, steps = await begun(ada, engine, sql)
        if early:
            engine.ends.set()
            await until(lambda: steps.waiting)
        await wants_it_ended(ada, how, steps, timers)
        if not early:
            engine.ends.set()
            await until(lambda: steps.waiting)
        assert not asking.done()
        steps.point(asked_first)
        found = await asking
        assert isinstance(found, list)
        assert len(found) == 4
    await is_free(slow, sql)


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_it_is_heeded_on_the_next_point(slow: Town, how: str, timers: Timers) -> None:
    engine = Engine(slow)
    async with slow.client() as ada:
        await prepared(ada, how)
        asking, steps = await begun(ada, engine, SQL.format(300 + len(how)))
        await wants_it_ended(ada, how, steps, timers)
        assert not asking.done()
        steps.point()
        assert await asking == "57014"
    await slow.datasets["town"].paid.stop()


@pytest.mark.parametrize("early", [True, False])
async def test_a_client_that_leaves_learns_nothing_from_what_is_stored(slow: Town, early: bool) -> None:
    """It is stored on the same point, whenever it ended before."""
    engine, sql = Engine(slow), SQL.format(400 + early)
    lines = slow.datasets["town"].answered
    before = len(lines)
    async with slow.client() as ada:
        asking, steps = await begun(ada, engine, sql)
        if early:
            engine.ends.set()
            await until(lambda: steps.waiting)
        await ada.connection.close()
        assert not isinstance(await asking, list)
    engine.ends.set()
    await until(lambda: steps.waiting)
    assert len(lines) == before + 1
    assert lines[-1].outcome == "running"
    steps.point()
    await until(lambda: lines[-1].outcome == "kept")
    await is_free(slow, sql)


# What an attacker sees of two databases that differ by one person's rows, of which one takes long to measure.

VICTIM = "INSERT INTO people VALUES (1000, 'north', 'M', 5000);"
AMPLIFIED = """SELECT count(DISTINCT g * 100 + h) FROM people JOIN generate_series(1, 30) g ON income = 5000 AND sex = 'M'
JOIN generate_series(1, 30) h ON g <> h"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worlds(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Town, Town]]:
    """Without and with the victim."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "Grid", Steps)
        async with AsyncExitStack() as stack:
            both = [
                await stack.enter_async_context(town(tmp_path_factory.mktemp("town"), data)) for data in (DATA, DATA + VICTIM)
            ]
            for world in both:
                await world.reopen(timing_quantum_ms=1000)
            yield both[0], both[1]


class Seen:
    """All that comes to a client: on which point, the message, and what of it does not depend on noise."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.messages: list[tuple[int, bytes, str]] = []
        self._begun = Steps.passed
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while True:
            try:
                tag, payload = await self.wire.read()
            except (EOFError, TimeoutError):
                return
            text = str(read_report(payload)) if tag in (b"E", b"N") else payload.decode() if tag == b"C" else ""
            by_the_answer = re.sub("(typical error [^;]*(; mostly noise[^;]*)?|mostly noise[^;]*)", "typical error", text)
            self.messages.append((Steps.passed - self._begun, tag, by_the_answer))

    def answers(self) -> int:
        return sum(tag == b"Z" for _, tag, _ in self.messages)

    async def close(self) -> None:
        self._reading.cancel()
        await self.wire.close()


async def attacked(world: Town, slow: bool, how: str, sql: str, timers: Timers) -> list[object]:
    """All that the attacker sees over the wire, with a second session looking on. In the `slow` world the engine is not through
    when the client asks for the end; it is before the next point."""
    engine = Engine(world)
    ada, eye = await Wire.open(world.port), await Wire.open(world.port)
    for wire in (ada, eye):
        await wire.login("ada", "town", "x")
    await ada.query("SET statement_timeout = '7min'")
    Steps.made.clear()
    seen, looks = Seen(ada), []

    async def look() -> None:
        """What another session of the role sees meanwhile."""
        looks.append(rows(await eye.query("SELECT epsilon, measurements, reused, outcome FROM dpproxy.answers")))

    ada.send(front.query(sql))
    async with asyncio.timeout(SAFETY):
        await engine.begun.wait()
    steps = Steps.made[-1]
    if not slow:
        engine.ends.set()
        await until(lambda: steps.waiting or seen.messages)
    await look()
    if how == "cancel":
        canceller = await Wire.open(world.port)
        canceller.send(front.cancel_request(*read_backend_key_data(next(p for t, p in ada.startup if t == b"K"))))
    elif how == "timeout":
        next(ending for ending, seconds in reversed(timers) if seconds == TIMEOUTS["timeout"]).ask(TIMEOUT)
    if how != "patience":
        await until(lambda: steps.asked or seen.messages)
    await look()
    engine.ends.set()
    await until(lambda: steps.waiting or seen.messages)
    await look()
    steps.point()
    await until(seen.answers)
    await look()
    ada.send(front.query(sql))  # again
    while seen.answers() < 2:
        for made in Steps.made:
            if made.waiting:
                made.point()
        await asyncio.sleep(0.01)
    await look()
    await seen.close()
    await eye.close()
    return [*seen.messages, *looks, world.spent()]


@pytest.mark.parametrize("how", ["patience", "timeout", "cancel"])
async def test_two_databases_look_the_same(worlds: tuple[Town, Town], how: str, timers: Timers) -> None:
    """The attack of a cheap amplified statement with a timeout of the attacker's own: an answer without the victim, an error with
    her. On one stretch of the grid there is none."""
    sql = f"{AMPLIFIED} WHERE h < {len(how)}"
    without, with_victim = [await attacked(world, slow, how, sql, timers) for slow, world in enumerate(worlds)]
    assert without == with_victim
    messages = [m for m in without if isinstance(m, tuple) and len(m) == 3]
    assert [m[:2] for m in messages if m[1] in b"EDZ"] == [(1, b"D"), (1, b"Z"), (2, b"D"), (2, b"Z")]


async def test_without_a_grid_all_is_as_soon_as_may_be(tmp_path: Path) -> None:
    async with town(tmp_path) as world, world.client() as ada:
        engine = Engine(world)
        asking = asyncio.ensure_future(outcome(ada, SQL.format(1)))
        async with asyncio.timeout(SAFETY):
            await engine.begun.wait()
        await ada.connection.cancel_safe()
        assert await asking == "57014", "while the engine goes on"
        await world.datasets["town"].paid.stop()


@pytest.mark.parametrize(("now", "wait"), [(100.25, 0.75), (101.0, 0.0), (107.5, 0.5)])
async def test_points_are_multiples_from_the_beginning(monkeypatch: pytest.MonkeyPatch, now: float, wait: float) -> None:
    clock = [100.0]
    monkeypatch.setattr(statement_end.time, "monotonic", lambda: clock[0])
    steps = Grid(1000)
    clock[0] = now
    assert (bool(steps), steps.wait) == (True, wait)
    assert not Grid(None)
    assert Grid(None).wait == 0.0
