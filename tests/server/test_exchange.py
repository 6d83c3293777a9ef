"""A dataset that is exchanged under its sessions: who goes at once, who may end, and that nothing is begun."""

from __future__ import annotations

import asyncio

import pytest

from dpproxy.wire import frontend_build as front
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import Message, Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"


async def rest(wire: Wire) -> list[Message]:
    """All that comes until the proxy closes."""
    found: list[Message] = []
    while True:
        try:
            found.append(await wire.read())
        except EOFError:
            return found


async def test_idle_sessions_and_transactions_go_at_once(stage: Stage) -> None:
    wires = [await stage.connect() for _ in range(3)]
    await wires[1].query("BEGIN")
    await wires[2].query("BEGIN; SELECT nonsense")
    await asyncio.wait_for(stage.server.exchange(stage.dataset, 6000), 300)
    for wire in wires:
        assert report(await rest(wire))["C"] == "57P01"


@pytest.mark.parametrize("behind", [PRIVATE, "SELECT 2"])
async def test_an_answer_in_the_making_is_told_and_nothing_behind_it(stage: Stage, behind: str) -> None:
    """Neither a statement of the same text nor a message that waits."""
    before = stage.spent()
    stage.engine.gate.clear()
    same, next_one = await stage.connect(), await stage.connect()
    same.send(front.query(f"{PRIVATE}; {behind}"))
    next_one.send(front.query(PRIVATE), front.query(behind))
    while len(stage.engine.asked) < 2:
        await asyncio.sleep(0.01)
    leaving = asyncio.ensure_future(stage.server.exchange(stage.dataset, 60))
    await asyncio.sleep(0)
    stage.engine.gate.set()
    for wire in (same, next_one):
        found = await rest(wire)
        assert len(rows(found)) == 3
        assert report(found)["C"] == "57P01"
        assert tags(found).count(b"C") == 1
    await leaving
    assert stage.spent() - before == 200_000, "micro-epsilon: two answers"


async def test_a_prepared_answer_can_be_fetched_and_no_other(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.ask(front.parse("s", PRIVATE))
    stage.engine.gate.clear()
    stage.engine.started.clear()
    run = front.bind("", "s", ()) + front.execute("")
    wire.send(run + front.SYNC + run + front.SYNC)
    await asyncio.wait_for(stage.engine.started.wait(), 300)
    leaving = asyncio.ensure_future(stage.server.exchange(stage.dataset, 60))
    await asyncio.sleep(0)
    stage.engine.gate.set()
    found = await rest(wire)
    assert len(rows(found)) == 3
    assert report(found)["C"] == "57P01"
    await leaving


async def test_what_does_not_end_is_ended(stage: Stage) -> None:
    wire = await stage.connect()
    wire.send(front.query("SELECT pg_sleep(600)"))
    other = await stage.connect()
    while rows(await other.query("SELECT 1")) != [("1",)]:
        pass
    await stage.server.exchange(stage.dataset, 0.1)
    assert report(await rest(wire))["C"] == "57P01"
    assert report(await rest(other))["C"] == "57P01"
