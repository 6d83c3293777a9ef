"""What is charged is measured to its end and kept, whatever becomes of who asked; before the charge nothing costs anything."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
import pytest
import pytest_asyncio

from dpproxy.answers.dataset import AnswerEntry
from dpproxy.backends.base import BackendError
from dpproxy.limits import side_threads
from dpproxy.limits.session_limits import SessionLimits
from tests.worlds.town import Client, Town, town

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("town")) as made:
        yield made


class Gate:
    """Measurements wait at it. `reached` counts them."""

    def __init__(self) -> None:
        self.open, self.reached = asyncio.Event(), 0
        self._changed = asyncio.Condition()
        self.failure: Exception | None = None

    async def passed(self) -> None:
        async with self._changed:
            self.reached += 1
            self._changed.notify_all()
        await self.open.wait()
        if self.failure is not None:
            raise self.failure

    async def at(self, count: int) -> None:
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(lambda: self.reached >= count), 300)


@pytest_asyncio.fixture(loop_scope="module")
async def gate(world: Town) -> AsyncIterator[Gate]:
    made = Gate()
    world.backend.before = made.passed
    world.backend.asked.clear()
    yield made
    made.open.set()
    await world.datasets["town"].paid.finish(20)
    world.backend.before = None


@asynccontextmanager
async def opened(gate: Gate) -> AsyncIterator[None]:
    """Afterwards, however it ends: a client that is to be closed waits for its statement."""
    try:
        yield
    finally:
        gate.open.set()


@asynccontextmanager
async def opened_on_failure(gate: Gate) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        gate.open.set()
        raise


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not true():
            await asyncio.sleep(0.01)


_numbers = iter(range(10_000, 20_000))


def question() -> str:
    return f"SELECT region, sum(income) FROM people WHERE income <> {next(_numbers)} GROUP BY region"


Begin = Callable[[], "asyncio.Future[object]"]
Leave = Callable[[Client, Begin, Gate], Awaitable[None]]


async def by_cancel(ada: Client, begin: Begin, gate: Gate) -> None:
    asking = begin()
    await gate.at(1)
    await ada.connection.cancel_safe()
    with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
        await asking


async def by_timeout(ada: Client, begin: Begin, gate: Gate) -> None:
    """Before the charge it costs nothing: on a busy machine it takes longer to come so far."""
    for seconds in (0.3, 1, 4, 16, 64):
        await ada.ask(f"ROLLBACK; SET statement_timeout = '{seconds}s'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            await begin()
        if gate.reached:
            return


async def by_going(ada: Client, begin: Begin, gate: Gate) -> None:
    asking = begin()
    await gate.at(1)
    await ada.connection.close()
    with pytest.raises(psycopg.Error):
        await asking


async def by_death(ada: Client, begin: Begin, gate: Gate) -> None:
    """The socket is closed without a word."""
    asking = begin()
    await gate.at(1)
    with socket.socket(fileno=os.dup(ada.connection.fileno())) as plug:
        plug.shutdown(socket.SHUT_RDWR)
    with pytest.raises(psycopg.Error):
        await asking


WAYS = {by_cancel: "user request", by_timeout: "statement timeout", by_going: "client lost", by_death: "client lost"}


async def plain(ada: Client, sql: str) -> object:
    return await ada.ask(sql)


async def copied(ada: Client, sql: str) -> object:
    async with ada.connection.cursor() as cursor, cursor.copy(f"COPY ({sql}) TO STDOUT") as copy:  # type: ignore[arg-type]
        return [row async for row in copy.rows()]


async def by_cursor(ada: Client, sql: str) -> object:
    await ada.ask(f"BEGIN; DECLARE c CURSOR FOR {sql}")
    return await ada.ask("FETCH ALL FROM c; COMMIT")


async def bound(ada: Client, sql: str) -> object:
    return await (await ada.connection.execute(sql, prepare=True)).fetchall()  # type: ignore[arg-type]


def newest(world: Town) -> AnswerEntry:
    return world.datasets["town"].answered[-1]


@pytest.mark.parametrize("asked_by", [plain, copied, by_cursor, bound])
@pytest.mark.parametrize("leave", WAYS)
async def test_whoever_leaves_pays_once(
    world: Town, gate: Gate, leave: Leave, asked_by: Callable[..., Awaitable[object]]
) -> None:
    sql, before, untold = question(), world.account(), dict(world.datasets["town"].paid.untold)
    async with world.client() as ada, opened_on_failure(gate):
        await leave(ada, lambda: asyncio.ensure_future(asked_by(ada, sql)), gate)
    charged = before | {"analyst": before["analyst"] + 1, "all": before["all"] + 1}
    assert world.account() == charged
    async with world.client() as ada, world.client("bob") as bob, opened(gate):
        assert (await ada.ask("SELECT outcome FROM dpproxy.answers ORDER BY asked DESC LIMIT 1"))[0] == ("running",)
        again = asyncio.ensure_future(ada.ask(sql)), asyncio.ensure_future(bob.ask(sql))  # while it is being measured
        gate.open.set()
        first, second = await asyncio.wait_for(asyncio.gather(*again), 300)
        assert len(first) == 4
        assert first == second == await ada.ask(sql)
        assert ada.notices[0].startswith("reused, epsilon 0")
        kept = [
            row
            for row in await ada.ask("SELECT reused, outcome, asked FROM dpproxy.answers ORDER BY asked DESC LIMIT 4")
            if not row[0]
        ]
        assert [outcome for _, outcome, _ in kept] == ["kept"]
    assert world.account() == charged
    assert len(world.backend.asked) == 1
    key = ("analyst", WAYS[leave], "kept")
    assert world.datasets["town"].paid.untold[key] == untold.get(key, 0) + 1


async def test_the_operator_sees_it(world: Town, gate: Gate) -> None:
    async with world.client() as ada:
        await by_cancel(ada, lambda: asyncio.ensure_future(ada.ask(question())), gate)
        gate.open.set()
        await until(lambda: newest(world).outcome == "kept")
    town = world.datasets["town"]
    assert town.paid.untold["analyst", "user request", "kept"] > 0
    event = town.tallies.recent[-1]
    assert (event.verdict, event.reason_class, event.epsilon) == ("failed", "cancelled", 1_000_000), "the charge stands"


STAGED = "SELECT region, sum(income) FROM people WHERE {} AND income > (SELECT avg(income) FROM people WHERE {}) GROUP BY 1"


async def test_a_staged_statement_is_charged_as_far_as_it_came(world: Town, gate: Gate) -> None:
    """The inner measurement is finished and kept; the outer one, which nobody waits for, is not begun and not charged."""
    where, before = f"income <> {next(_numbers)}", world.spent()
    sql = STAGED.format(where, where)
    async with world.client() as ada:
        await by_cancel(ada, lambda: asyncio.ensure_future(ada.ask(sql)), gate)
        gate.open.set()
        await until(lambda: newest(world).outcome == "kept")
        inner = world.spent() - before
        assert 0 < inner < 1
        assert len(await ada.ask(sql)) == 4
        assert world.spent() - before == 1
        assert "1 of 2 measurements reused" in ada.notices[0]
    assert len(world.backend.asked) == 2


async def test_a_staged_statement_beyond_the_budget_is_refused_whole(world: Town) -> None:
    where = f"income <> {next(_numbers)}"
    async with world.client("eve") as eve:  # has 3 of her own
        await eve.ask("SET dpproxy.epsilon = 4")
        before = world.spent()
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            await eve.ask(STAGED.format(where, where))
        assert world.spent() == before


async def test_accuracy_is_one_statement(world: Town, gate: Gate) -> None:
    """Cancelled during its first answer it does not go on to the second."""
    sql, before = f"SELECT sum(income) FROM people WHERE income <> {next(_numbers)}", world.spent()
    async with world.client() as ada:
        await ada.ask("SET dpproxy.accuracy = '1%'")
        await by_cancel(ada, lambda: asyncio.ensure_future(ada.ask(sql)), gate)
        gate.open.set()
        await until(lambda: newest(world).outcome == "kept")
        first = world.spent() - before
        assert len(world.backend.asked) == 1
        await ada.ask(sql)
        assert len(world.backend.asked) == 2
        assert world.spent() - before > first


async def test_accuracy_is_one_timeout(world: Town, gate: Gate) -> None:
    """The client's time is of both answers together: when it is over during the first, there is no second."""
    sql = f"SELECT sum(income) FROM people WHERE income <> {next(_numbers)}"
    async with world.client() as ada, opened_on_failure(gate):
        await ada.ask("SET dpproxy.accuracy = '1%'")
        await by_timeout(ada, lambda: asyncio.ensure_future(ada.ask(sql)), gate)
        gate.open.set()
        await until(lambda: newest(world).outcome == "kept")
        assert len(world.backend.asked) == 1


async def test_an_engine_that_fails_has_nothing_to_keep(world: Town, gate: Gate) -> None:
    """The charge stands, and it is not tried again under it: whether something fails is an answer too."""
    sql, before, untold = question(), world.spent(), world.datasets["town"].paid.untold.copy()
    gate.failure = BackendError("row 4711 is bad")
    gate.open.set()
    async with world.client() as ada:
        for charges in (1, 2):
            with pytest.raises(psycopg.errors.SystemError):
                await ada.ask(sql)
            assert world.spent() - before == charges
            assert newest(world).outcome == "lost"
    assert world.datasets["town"].paid.untold - untold == {("analyst", "failed", "lost"): 2}


async def test_the_operators_limit_ends_it(world: Town, gate: Gate) -> None:
    try:
        async with world.client() as ada, opened_on_failure(gate):
            for seconds in (0.5, 4, 30):  # before the charge it costs nothing: a busy machine takes longer to come so far
                world.server.limits = SessionLimits(statement=seconds)
                with pytest.raises(psycopg.errors.QueryCanceled):
                    await ada.ask(question())
                if gate.reached:
                    break
            await until(lambda: newest(world).outcome == "lost")
    finally:
        world.server.limits = SessionLimits()


async def test_where_nothing_is_stored_it_is_kept_for_who_paid(world: Town) -> None:
    """Once, and for this role alone."""
    await world.reopen(reuse_seconds=0)
    gate = Gate()
    world.backend.before = gate.passed
    sql, before = question(), world.account()
    try:
        async with world.client() as ada, world.client("bob") as bob, world.client("cy") as cy:
            await by_cancel(ada, lambda: asyncio.ensure_future(ada.ask(sql)), gate)
            again = asyncio.ensure_future(bob.ask(sql))
            elsewhere = asyncio.ensure_future(cy.ask(sql))
            await gate.at(2)
            gate.open.set()
            assert len(await asyncio.wait_for(again, 300)) == 4
            assert bob.notices[0].startswith("reused, epsilon 0")
            await asyncio.wait_for(elsewhere, 300)
            assert cy.notices[0].startswith("charged epsilon 1")
            await bob.ask(sql)
            assert bob.notices[0].startswith("charged epsilon 1")
    finally:
        gate.open.set()
        await world.reopen()
    assert world.account() == before | {"analyst": before["analyst"] + 2, "other": before["other"] + 1, "all": before["all"] + 3}


# a place first, then the charge


async def test_a_place_first_then_the_charge(world: Town, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place of a role is taken: the next of its statements waits uncharged, may be cancelled, and is refused after a while.
    Another role has places of its own."""
    places = world.datasets["town"].seats
    before = world.account()
    async with _clients(world, "ada", places.each + 2) as clients, world.client("cy") as cy, opened(gate):
        *first, late, later = clients
        running = [asyncio.ensure_future(c.ask(question())) for c in first]
        await gate.at(places.each)
        waiting = asyncio.ensure_future(late.ask(question()))
        theirs = asyncio.ensure_future(cy.ask(question()))
        await gate.at(places.each + 1)  # cy's
        while not places._roles["analyst"]._waiters:  # what it waits for is planned first, beside the loop
            await asyncio.sleep(0.01)
        monkeypatch.setattr(places, "_patience", 0.2)
        with pytest.raises(psycopg.errors.TooManyConnections, match="being measured") as refused:
            await later.ask(question())
        assert "Nothing was charged" in (refused.value.diag.message_detail or "")
        await late.connection.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled) as cancelled:
            await waiting
        assert cancelled.value.diag.message_detail is None
        gate.open.set()
        await asyncio.gather(*running, theirs)
    count = places.each
    assert world.account() == before | {
        "analyst": before["analyst"] + count,
        "other": before["other"] + 1,
        "all": before["all"] + count + 1,
    }


@asynccontextmanager
async def _clients(world: Town, user: str, count: int) -> AsyncIterator[list[Client]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(world.client(user)) for _ in range(count)]


@pytest.mark.parametrize(("places", "roles", "each"), [(8, 1, 8), (8, 2, 4), (8, 3, 2), (8, 20, 2), (4, 0, 4)])
async def test_shares(places: int, roles: int, each: int) -> None:
    assert side_threads.share(places, roles) == each


async def test_no_engine_no_charge(world: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def gone(tables: object) -> AsyncIterator[None]:
        raise BackendError("connection refused")
        yield

    monkeypatch.setattr(world.backend, "snapshot", gone)
    before = world.spent()
    async with world.client() as ada:
        with pytest.raises(psycopg.errors.CannotConnectNow, match="cannot be reached"):
            await ada.ask(question())
    assert world.spent() == before


@pytest.mark.parametrize("sql", ["CREATE TEMP TABLE t AS {}", "SELECT * INTO TEMP t FROM ({}) AS x"])
async def test_temporary_tables_that_are_not_allowed(world: Town, sql: str) -> None:
    before = world.spent()
    async with world.client() as ada:
        with pytest.raises(psycopg.Error) as refused:
            await ada.connection.execute(sql.format(question()), prepare=False)  # type: ignore[arg-type]
        assert refused.value.sqlstate in ("42501", "0A000")
    assert world.spent() == before
