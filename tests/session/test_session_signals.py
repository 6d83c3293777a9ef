"""pg_cancel_backend and pg_terminate_backend: of sessions of one's own role, by either number they are known by, in both protocols."""

from __future__ import annotations

import asyncio

import pytest

from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data
from tests.worlds.scripted import Stage
from tests.worlds.waiting import until
from tests.worlds.wire_client import Wire, report, rows, tags

from .texts import GROUPS, PRIVATE

pytestmark = pytest.mark.asyncio(loop_scope="module")


def number(wire: Wire) -> int:
    """What the client was given for its session."""
    return read_backend_key_data(next(payload for tag, payload in wire.startup if tag == b"K"))[0]


async def running(wire: Wire, stage: Stage, sql: str) -> None:
    """Have a session work on something that waits."""
    wire.send(front.query(sql))
    if sql == PRIVATE:
        await asyncio.wait_for(stage.engine.started.wait(), 300)
    else:
        await until(lambda: any(s.progress[0].name == "STATEMENT" for s in stage.server.sessions()))


async def test_a_measurement_is_cancelled_by_the_number_of_its_session(stage: Stage) -> None:
    wire, other = await stage.connect(), await stage.connect()
    stage.engine.gate.clear()
    await running(wire, stage, PRIVATE)
    found = await other.query(f"SELECT pg_cancel_backend({number(wire)})")
    assert (rows(found), tags(found)) == ([("t",)], b"TDCZ")
    assert b"pg_cancel_backend" in found[0][1]
    assert report(await wire.until(b"Z"))["C"] == "57014"
    stage.engine.gate.set()
    assert rows(await wire.query(PRIVATE)) == GROUPS
    await wire.close()
    await other.close()


async def test_whatever_runs_on_the_facade_too_and_by_pg_backend_pid(stage: Stage) -> None:
    wire, other = await stage.connect(), await stage.connect()
    ((pid,),) = rows(await wire.query("SELECT pg_backend_pid()"))
    await running(wire, stage, "SELECT pg_sleep(60)")
    messages = await other.ask(
        front.parse("", "SELECT pg_catalog.pg_cancel_backend($1) AS heard", (23,)),
        front.bind("", "", (str(pid).encode(),)),
        front.describe("P", ""),
        front.execute(""),
    )
    assert rows(messages) == [("t",)]
    assert report(await wire.until(b"Z"))["C"] == "57014"
    await wire.close()
    await other.close()


async def test_a_session_is_terminated(stage: Stage) -> None:
    wire, other = await stage.connect(), await stage.connect()
    assert rows(await other.query(f"SELECT pg_terminate_backend({number(wire)}, 100), 1 AS one")) == [("t", "1")]
    assert report(await wire.until(b"E"))["C"] == "57P01"
    with pytest.raises(EOFError):
        await wire.read()
    other.send(front.query("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert report(await other.until(b"E"))["C"] == "57P01", "its own as well"


async def test_what_is_not_reached(stage: Stage) -> None:
    wire = await stage.connect()
    own = number(wire)
    assert rows(await wire.query(f"EXPLAIN SELECT pg_terminate_backend({own})"))
    assert rows(await wire.query("SELECT pg_cancel_backend(1), pg_terminate_backend(NULL)")) == [("f", None)]
    assert rows(await wire.query("SELECT pg_cancel_backend((SELECT 1))")) == [("f",)], "a constant, however it is written"
    assert report(await wire.query(f"SELECT pg_cancel_backend({own})"))["C"] == "57014", "the statement itself"
    for sql in (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
        f"SELECT pg_cancel_backend({own}) FROM shops",
        "SELECT pg_cancel_backend()",
    ):
        assert report(await wire.query(sql))["C"] in ("0A000", "42883"), sql
    assert rows(await wire.query(PRIVATE)) == GROUPS
    await wire.close()
