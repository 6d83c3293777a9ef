"""A session in debt waits before its next message, in both protocols, can be ended meanwhile, and loses nothing. The clock is
the test's: whether somebody waits does not depend on how fast the machine is."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

import pytest

from dpproxy.errors import QUERY_CANCELED
from dpproxy.limits import turns as turns_module
from dpproxy.limits.fair_share import LATELY, QUANTUM, Account
from dpproxy.limits.turns import RELAYED, Turns
from dpproxy.session import client as client_module
from dpproxy.session.client import ClientSession
from dpproxy.session.inflow import Message
from dpproxy.session.message_flow import MESSAGES, Step
from dpproxy.session.tracker import Tracker
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from tests.session.texts import GROUPS, PRIVATE
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROLE = ("shop", "analyst")


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(stage: Stage) -> Iterator[Clock]:
    """The clock of the stage's turns."""
    clock, before = Clock(), stage.server.turns
    stage.server.turns = Turns(clock)
    yield clock
    stage.server.turns = before


async def indebted(stage: Stage) -> tuple[Wire, Account]:
    """A session that has taken eight seconds, and now has to wait; another role works."""
    turns = stage.server.turns
    neighbour = turns.opened(("shop", "neighbour"))
    neighbour.fresh += 0.001
    wire = await stage.connect()
    account = list(stage.server.sessions())[-1].account
    account.fresh += 4.0
    assert not turns.late(account), "the first turn in debt: nobody is before it"
    account.fresh += 4.0
    return wire, account


async def waits(account: Account) -> None:
    """Until the session waits for its turn."""
    async with asyncio.timeout(60):
        while account.turn is None:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("sql", ["SELECT 7", PRIVATE])
async def test_a_query_waits_for_its_turn(stage: Stage, clock: Clock, sql: str) -> None:
    wire, account = await indebted(stage)
    wire.send(front.query(sql))
    await waits(account)
    assert account.turn is not None
    clock.now = account.turn
    messages = await wire.until(b"Z")
    assert rows(messages) == (GROUPS if sql == PRIVATE else [("7",)])
    assert stage.server.turns.delayed()[ROLE][0] == 1
    await wire.close()


async def test_it_is_let_go_when_nobody_else_works(stage: Stage, clock: Clock) -> None:
    wire, account = await indebted(stage)
    wire.send(front.query("SELECT 7"))
    await waits(account)
    clock.now = LATELY + 0.1
    assert account.turn is not None
    assert account.turn > clock.now
    assert rows(await wire.until(b"Z")) == [("7",)]
    await wire.close()


async def test_a_statement_is_cancelled_while_it_waits(stage: Stage, clock: Clock) -> None:
    wire, account = await indebted(stage)
    wire.send(front.query("SELECT 7"))
    await waits(account)
    (session,) = [s for s in stage.server.sessions() if s.account is account]
    session.cancel()
    messages = await wire.until(b"Z")
    assert tags(messages) == b"EZ"
    assert report(messages)["C"] == QUERY_CANCELED
    clock.now = 1000.0
    assert rows(await wire.query("SELECT 8")) == [("8",)], "the session goes on"
    await wire.close()


async def test_a_pipeline_is_cancelled_up_to_its_sync(stage: Stage, clock: Clock) -> None:
    wire, account = await indebted(stage)
    one = front.parse("", "SELECT 1") + front.bind("", "", ()) + front.execute("")
    wire.send(one + one + front.SYNC)
    await waits(account)
    (session,) = [s for s in stage.server.sessions() if s.account is account]
    session.cancel()
    assert tags(await wire.until(b"Z")) == b"EZ"
    clock.now = 1000.0
    wire.send(one + front.SYNC)
    assert tags(await wire.until(b"Z")) == b"12DCZ"
    await wire.close()


async def test_a_pipeline_that_waited_is_answered_in_order(stage: Stage, clock: Clock) -> None:
    wire, account = await indebted(stage)
    data = front.query("SELECT 1") + front.query(PRIVATE) + front.query("SELECT 2")
    wire.send(data[:20])
    wire.send(data[20:])
    await waits(account)
    clock.now = 1000.0
    got = [rows(await wire.until(b"Z")) for _ in range(3)]
    assert got == [[("1",)], GROUPS, [("2",)]]
    await wire.close()


async def test_a_client_that_goes_while_it_waits_is_gone(stage: Stage, clock: Clock) -> None:
    wire, account = await indebted(stage)
    wire.send(front.query("SELECT 7"), front.TERMINATE)
    await waits(account)
    wire.writer.close()
    async with asyncio.timeout(60):
        while any(s.account is account for s in stage.server.sessions()):
            await asyncio.sleep(0.01)
    assert stage.server.turns.delayed()[ROLE][0] == 1


async def test_who_is_to_leave_does_not_wait(stage: Stage, clock: Clock) -> None:
    wire, account = await indebted(stage)
    wire.send(front.query("SELECT 7"))
    await waits(account)
    (session,) = [s for s in stage.server.sessions() if s.account is account]
    session.leave("the policy has changed")
    assert account.turn == -math.inf or account.turn is None
    assert report(await wire.until(b"E"))["M"] == "the policy has changed"


KINDS = {
    "Query": front.query(""),
    "Parse": front.parse("", "SELECT 1"),
    "Bind": front.bind("", "s", ()),
    "Close": front.close("S", ""),
    "Describe": front.describe("S", "s"),
    "Execute": front.execute("none"),
    "Flush": front.FLUSH,
    "Sync": front.SYNC,
    "FunctionCall": back.message(b"F", bytes(8)),
    "CopyData": back.message(b"d", b""),
    "CopyDone": back.message(b"c", b""),
    "CopyFail": back.message(b"f", b"\0"),
}


async def test_every_kind_that_does_not_end_the_session_is_here() -> None:
    ends = (Step.LEAVE, Step.INVALID)
    assert KINDS.keys() == {each.name for each in MESSAGES if each.ready not in ends}


@pytest.mark.parametrize("kind", KINDS)
async def test_no_kind_of_message_is_worked_on_beyond_its_turn(
    stage: Stage, clock: Clock, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each message is made to take a whole turn: then there are as many turns as messages, and others come between any two. The
    messages are sent in one piece, and none is taken while the clock stands."""
    wire, account = await indebted(stage)
    neighbour = stage.server.turns.opened(("shop", "another neighbour"))
    taken, take = 0, ClientSession.next

    def costly(session: ClientSession) -> Message:
        nonlocal taken
        taken += 1
        session.account.fresh += 2 * QUANTUM
        return take(session)

    monkeypatch.setattr(ClientSession, "next", costly)
    wire.send(KINDS[kind] * 6, front.SYNC)
    for number in range(1, 8):
        await waits(account)
        assert taken == number, "it is taken, and waits"
        assert account.turn is not None
        neighbour.fresh += 0.001
        clock.now = account.turn
        async with asyncio.timeout(60):
            while account.turn == clock.now:
                await asyncio.sleep(0.01)
    monkeypatch.undo()
    assert stage.server.turns.delayed()[ROLE][0] == 7
    if kind in ("Query", "Sync", "FunctionCall"):
        for _ in range(6):
            await wire.until(b"Z")
    await wire.until(b"Z")
    clock.now = 1000.0
    assert rows(await wire.query("SELECT 8")) == [("8",)], "the session goes on"
    await wire.close()


@pytest.mark.parametrize("piece", [front.SYNC * 200, front.FLUSH * 200 + front.SYNC], ids=["counted at a glance", "looked at"])
async def test_what_is_passed_on_at_once_is_put_down_as_well(stage: Stage, monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    """The clock goes on by ten milliseconds with each look: a piece of many messages is worth more than one of one."""
    now = 0.0

    def slower(name: str) -> None:
        work = getattr(Tracker, name)

        def longer(*given: object) -> None:
            nonlocal now
            now += 0.01
            work(*given)

        monkeypatch.setattr(Tracker, name, longer)

    wire = await stage.connect()
    account = list(stage.server.sessions())[-1].account
    assert rows(await wire.query("SELECT 1")) == [("1",)]
    before = account.fresh + account.taken
    for module in (client_module, turns_module):
        monkeypatch.setattr(module, "thread_time", lambda: now)
    slower("passed")
    slower("forward")
    wire.send(piece)
    await wire.until(b"Z")
    assert now > 0
    assert account.fresh + account.taken - before >= now - RELAYED
    await wire.close()


async def test_turns_of_many_sessions_of_a_role_are_counted_not_timed(stage: Stage, clock: Clock) -> None:
    """Of sixteen that wait, one goes on each time the line moves."""
    turns = stage.server.turns
    neighbour = turns.opened(("shop", "neighbour"))
    neighbour.fresh += 0.001
    accounts = [turns.opened(ROLE) for _ in range(16)]
    for _ in range(2):  # a turn that took 20 milliseconds, then another ask
        for account in accounts:
            account.fresh += 0.1
            turns.late(account)
    begun: list[int] = []
    while len(begun) < 15:
        clock.now += 0.01
        neighbour.fresh += 0.001
        going = [i for i, account in enumerate(accounts) if account.turn is not None and not turns.late(account)]
        assert len(going) <= 1
        begun += going
    assert len(set(begun)) == 15
    assert clock.now > 15 * 0.1, "far more than what fifteen turns take"
