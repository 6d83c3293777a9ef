"""While a long statement is planned other sessions are answered, and the proxy can end. Nothing here looks at a clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from dpproxy.answers.plan_cache import SHORT, MemoizedCall, PlanCache
from dpproxy.answers.statement_end import TIMEOUT, Ending
from dpproxy.limits.rota import Place, Rota
from dpproxy.limits.side_threads import SideThreads, metered
from dpproxy.server.server import Server
from dpproxy.sql import effort
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")
LIMIT = 120  # seconds until a test that hangs is given up


def long(what: str) -> str:
    """Of its own in each test: what has been planned is remembered."""
    return f"SELECT region, count(*) AS n FROM people WHERE region <> '{what * SHORT}' GROUP BY 1"


class Gate:
    """A function that says when it is asked, and answers when it may."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        self.plain = plain
        self.asked, self.open = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        text = str(arguments[0])
        if len(text) > SHORT:
            self.asked.set()
            assert self.open.wait(LIMIT)
        return self.plain(*arguments)


async def asked(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.asked.wait, LIMIT)


@pytest.fixture(params=["_split", "_plans"])
def gate(request: pytest.FixtureRequest, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Splitting or planning stands still."""
    planner = stage.dataset.plans
    assert isinstance(planner, PlanCache)
    planner.forget()
    remembered: MemoizedCall[Any] = getattr(planner, request.param)
    gate = Gate(remembered._function)
    monkeypatch.setattr(remembered, "_function", gate)
    yield gate
    gate.open.set()


@pytest.mark.parametrize("around", ["{}", "EXPLAIN {}"])
async def test_others_are_answered_meanwhile(stage: Stage, gate: Gate, around: str) -> None:
    heavy, other = await stage.connect(), await stage.connect()
    heavy.send(front.query(around.format(long(f"q{len(around)}"))))
    await asked(gate)
    assert rows(await other.query("SELECT 1")) == [("1",)]
    assert len(rows(await other.query("SELECT region, count(*) AS n FROM people GROUP BY 1"))) == 3
    gate.open.set()
    assert b"D" in tags(await heavy.until(b"Z"))
    await heavy.close()
    await other.close()


async def test_others_are_answered_meanwhile_by_messages(stage: Stage, gate: Gate) -> None:
    heavy, other = await stage.connect(), await stage.connect()
    heavy.send(front.parse("", long("m")), front.bind("", "", []), front.execute(""), front.SYNC)
    await asked(gate)
    assert rows(await other.query("SELECT 1")) == [("1",)]
    gate.open.set()
    assert b"D" in tags(await heavy.until(b"Z"))
    await heavy.close()
    await other.close()


async def test_who_waits_may_leave(stage: Stage, gate: Gate) -> None:
    heavy = await stage.connect()
    heavy.send(front.query(long("l")))
    await asked(gate)
    heavy.writer.close()
    other = await stage.connect()
    assert rows(await other.query("SELECT 1")) == [("1",)]
    gate.open.set()
    again = await stage.connect()
    assert len(rows(await again.query(long("l")))) == 3, "what was planned unheard is known, or planned again"


async def test_the_end_does_not_wait(stage: Stage, gate: Gate) -> None:
    """As SIGTERM has it: the server stops although planning stands still."""
    server = Server({"shop": stage.dataset}, lambda *_: stage.facade.endpoint)
    port = await server.listen("127.0.0.1", 0)
    heavy = await Wire.open(port)
    await heavy.login()
    heavy.send(front.query(long("e")))
    await asked(gate)
    await server.stop(drain=0)
    assert not gate.open.is_set()
    with pytest.raises((EOFError, ConnectionError)):
        await heavy.until()


async def test_refusals_come_through(stage: Stage) -> None:
    wire = await stage.connect()
    sql = long("r").replace("count(*)", "count(*) /* FORBIDDEN */")
    told = report(await wire.query(sql))
    assert (told["C"], told["M"].endswith(". try something else")) == ("42501", True)


async def test_what_is_known_is_not_asked_aside(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = await stage.connect()
    first = rows(await wire.query(long("k")))

    async def never(*_: Any) -> Any:
        raise AssertionError("it is remembered")

    monkeypatch.setattr(SideThreads, "run", never)
    assert rows(await wire.query(long("k"))) == first
    assert rows(await (await stage.connect()).query("SELECT region, count(*) AS n FROM people GROUP BY 1")) == first


async def cancel(stage: Stage, wire: Wire) -> None:
    key = read_backend_key_data(next(payload for tag, payload in wire.startup if tag == b"K"))
    other = await Wire.open(stage.port)
    other.send(front.cancel_request(*key))


@pytest.mark.parametrize("message", ["simple", "extended"])
async def test_a_cancel_request_is_heard_at_once(stage: Stage, gate: Gate, message: str) -> None:
    """While planning stands still: it does not wait for its end."""
    heavy, other = await stage.connect(), await stage.connect()
    text = long(message)
    if message == "simple":
        heavy.send(front.query(text))
    else:
        heavy.send(front.parse("", text), front.bind("", "", []), front.execute(""), front.SYNC)
    await asked(gate)
    await cancel(stage, heavy)
    told = report(await heavy.until(b"Z"))
    assert (told["C"], told["M"]) == ("57014", "canceling statement due to user request")
    assert rows(await other.query("SELECT 1")) == [("1",)]
    assert rows(await heavy.query("SELECT 1")) == [("1",)]
    assert not gate.open.is_set()
    gate.open.set()
    assert len(rows(await heavy.query(text))) == 3
    await heavy.close()
    await other.close()


@pytest.mark.parametrize("gate", ["_plans"], indirect=True)
@pytest.mark.parametrize("message", ["simple", "extended", "by name"])
async def test_a_timeout_is_heard_at_once(stage: Stage, gate: Gate, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own, from when it is known; it comes here when the test says so."""
    endings: list[tuple[Ending, float | None]] = []
    monkeypatch.setattr(Ending, "limit", lambda self, seconds: endings.append((self, seconds)))
    heavy = await stage.connect()
    await heavy.query("SET statement_timeout = '7min'")
    text = long(f"timeout {message}")
    if message == "simple":
        heavy.send(front.query(text))
    elif message == "extended":
        heavy.send(front.parse("", text), front.bind("", "", []), front.execute(""), front.SYNC)
    else:
        heavy.send(front.query(f"PREPARE p AS {text}"))
    await asked(gate)
    assert [seconds for _, seconds in endings] == [420.0]
    endings[0][0].ask(TIMEOUT)
    told = report(await heavy.until(b"Z"))
    assert (told["C"], told["M"]) == ("57014", "canceling statement due to statement timeout")
    assert not gate.open.is_set()
    gate.open.set()
    assert len(rows(await heavy.query(text))) == 3
    await heavy.close()


async def test_what_nobody_waits_for_stops_at_its_next_step(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that would take for ever, one step after the other."""
    planner = stage.dataset.plans
    assert isinstance(planner, PlanCache)
    planner.forget()
    begun, ended, given_up = threading.Event(), threading.Event(), threading.Event()

    def endless() -> None:
        while not given_up.is_set():
            begun.set()
            effort.step(0)

    def planned(*_: Any) -> Any:
        try:
            return effort.counted(endless)
        except effort.Stopped:
            ended.set()
            raise

    plain = planner._plans._function
    monkeypatch.setattr(planner._plans, "_function", planned)
    heavy = await stage.connect()
    heavy.send(front.query(long("s")))
    assert await asyncio.to_thread(begun.wait, LIMIT)
    await cancel(stage, heavy)
    assert report(await heavy.until(b"Z"))["C"] == "57014"
    try:
        assert await asyncio.to_thread(ended.wait, LIMIT)
    finally:
        given_up.set()
    monkeypatch.setattr(planner._plans, "_function", plain)
    assert len(rows(await heavy.query(long("s")))) == 3, "nothing is remembered of a plan that was not made"
    await heavy.close()


async def test_places() -> None:
    """Two at a time; the third begins when one has ended, also one whose asker has left."""
    aside, gates = SideThreads(2), [threading.Event() for _ in range(3)]
    begun = [threading.Event() for _ in range(3)]

    def work(i: int) -> int:
        begun[i].set()
        assert gates[i].wait(LIMIT)
        if i == 2:
            raise KeyError(i)
        return i

    tasks = [asyncio.create_task(aside.run(lambda i=i: work(i))) for i in range(3)]  # type: ignore[misc]
    assert await asyncio.to_thread(begun[0].wait, LIMIT)
    assert await asyncio.to_thread(begun[1].wait, LIMIT)
    assert not begun[2].is_set()
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert not begun[2].is_set(), "what has begun keeps its place"
    gates[0].set()
    assert await asyncio.to_thread(begun[2].wait, LIMIT)
    gates[1].set()
    gates[2].set()
    assert await tasks[1] == 1
    with pytest.raises(KeyError):
        await tasks[2]


@dataclass
class Payer:
    place: Place
    fresh: float = 0.0
    resumed: float = 0.0


async def test_roles_and_users_take_turns_however_much_one_has_waiting() -> None:
    """Nobody waits behind all that another has sent."""
    aside, rota, gate, order = SideThreads(1), Rota(), threading.Event(), list[str]()

    def piece(who: str) -> Callable[[], Coroutine[Any, Any, None]]:
        def work() -> None:
            assert gate.wait(LIMIT)
            sum(range(200_000))
            order.append(who)

        return lambda: aside.run(work)

    sent = ["a.x"] * 5 + ["a.y", "b.z"]
    tasks = [asyncio.create_task(metered(piece(who), Payer(Place(rota, tuple(who.split(".")))))) for who in sent]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    tasks[4].cancel()
    gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (order[0], sorted(order[1:3]), order[3:]) == ("a.x", ["a.y", "b.z"], ["a.x"] * 3)
    await asyncio.wait_for(aside.run(lambda: None), LIMIT)
