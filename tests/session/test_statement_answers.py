"""What is between a session and its answers: settings of the moment, staged values, failures, the end of a statement."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import replace

import pytest

from dpproxy.errors import AFTER_CHARGE
from dpproxy.ledger.ledger import BudgetExhausted
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data
from tests.worlds.running import sleeping
from tests.worlds.scripted import FAILURE, Stage
from tests.worlds.wire_client import Wire, report, rows, tags

from .texts import GROUPS, PRICE, PRIVATE, cancel

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_settings_follow_the_transaction(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.query("BEGIN; SET LOCAL dpproxy.epsilon = 0.3")
    await wire.query(PRIVATE)
    await wire.query("ROLLBACK")
    await wire.query(PRIVATE)
    assert stage.engine.asked == ["by region epsilon 0.3", "by region epsilon 0.1"]
    await wire.close()


async def test_a_setting_changed_after_parse_counts_at_bind(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.ask(front.parse("s", PRIVATE))
    await wire.query("SET dpproxy.epsilon = 0.5")
    await wire.ask(front.bind("", "s", ()), front.execute(""))
    assert stage.engine.asked == ["by region epsilon 0.5"]
    await wire.close()


async def test_settings_of_the_session_do_not_garble_parameters(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.query("SET DateStyle = 'German'; SET bytea_output = escape; SET IntervalStyle = iso_8601")
    where = "$1::date > '1999-01-01' AND $2::bytea > '' AND $3::interval > '0'"
    sql = f"SELECT region, count(*) AS n FROM people WHERE {where} GROUP BY 1"
    await wire.ask(front.parse("s", sql))
    await wire.ask(front.bind("", "s", (b"24.12.2020", b"a\\000b", b"1 day 2 hours")), front.execute(""))
    assert stage.engine.asked == [r"by region 2020-12-24::date \x610062::bytea 1 day 02:00:00::interval epsilon 0.1"]
    await wire.query("SET client_encoding = 'BIG5'")
    assert report(await wire.query(PRIVATE))["C"] == "0A000"
    await wire.close()


async def test_staged_measurements(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    assert rows(await wire.query("SELECT region, count(*) AS n FROM people AS STAGED GROUP BY 1")) == GROUPS
    assert stage.engine.asked[-1] == "by region epsilon 0.1 above 321::int8"
    assert stage.spent() - before == 2 * PRICE
    await wire.close()


async def test_a_failing_engine_says_always_the_same(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    seen = set()
    for failure in (FAILURE, ValueError("secret 1"), MemoryError("secret 2")):
        stage.engine.failure = failure
        messages = await wire.query(PRIVATE)
        assert tags(messages) == b"EZ"
        seen.add(messages[0][1])
        messages = await wire.ask(front.parse("", PRIVATE), front.bind("", "", ()), front.execute(""))
        assert tags(messages) == b"1EZ"
        seen.add(messages[1][1])
    assert len(seen) == 1
    assert report(messages)["M"] == AFTER_CHARGE.told
    assert stage.spent() - before == 6 * PRICE, "nothing is refunded"
    stage.engine.failure = None
    assert rows(await wire.query(PRIVATE)) == GROUPS
    await wire.close()


async def test_an_exhausted_budget_stops_before_the_engine(stage: Stage) -> None:
    class Empty:
        def submit(self, request: object) -> object:
            future: Future[object] = Future()
            future.set_exception(BudgetExhausted("role", (0, 0), None, (PRICE, 0), "shop"))
            return future

    wire = await stage.connect()
    session = list(stage.server._sessions.values())[-1]
    session.dataset = replace(stage.dataset, ledger=Empty())
    assert report(await wire.query(PRIVATE))["C"] == "53400"
    assert stage.engine.asked == []
    await wire.close()


async def test_cancel_is_heard_and_what_is_charged_goes_on(stage: Stage) -> None:
    wire, before, cancelled = await stage.connect(), stage.spent(), stage.engine.cancelled
    stage.engine.gate.clear()
    wire.send(front.query(PRIVATE))
    await asyncio.wait_for(stage.engine.started.wait(), 300)
    await cancel(stage, wire, wrong=True)
    await asyncio.sleep(0.05)
    assert not wire.reader._buffer, "a wrong key does nothing"  # type: ignore[attr-defined]
    await cancel(stage, wire)
    messages = await wire.until(b"Z")
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "57014")
    assert report(messages)["D"] == "What was charged is measured to its end and kept."
    assert stage.engine.cancelled == cancelled
    stage.engine.gate.set()
    assert rows(await wire.query(PRIVATE)) == GROUPS
    assert stage.spent() - before == PRICE
    await wire.close()


async def test_what_is_asked_after_a_cancel_request_has_ended_is_not_cancelled(stage: Stage) -> None:
    wire = await stage.connect()
    for _ in range(20):
        await cancel(stage, wire)  # nothing runs
        assert tags(await wire.query("SELECT pg_sleep(0.02)")) == b"TDCZ"
    await wire.close()


async def test_cancel_reaches_the_facade(stage: Stage) -> None:
    wire = await stage.connect()
    wire.send(front.query(sleeping(3600)))
    await wire.until(b"D")  # it runs
    await cancel(stage, wire)
    assert report(await wire.until(b"Z"))["C"] == "57014"
    await wire.close()


async def test_cancel_takes_one_statement_of_several(stage: Stage) -> None:
    """What waits behind the cancelled one is answered, as with PostgreSQL."""
    wire, before = await stage.connect(), stage.spent()
    stage.engine.gate.clear()
    wire.send(front.query(PRIVATE), front.query("SELECT 5"), front.query(PRIVATE))
    await asyncio.wait_for(stage.engine.started.wait(), 300)
    pid, secret = read_backend_key_data(next(p for t, p in wire.startup if t == b"K"))
    other = await Wire.open(stage.port)
    other.send(front.cancel_request(pid, secret))
    messages = await wire.until(b"Z")
    stage.engine.gate.set()
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "57014")
    assert rows(await wire.until(b"Z")) == [("5",)]
    assert len(rows(await wire.until(b"Z"))) == 3
    assert stage.spent() - before == PRICE, "the cancelled one was paid for, and kept"
    await wire.close()


async def test_a_cancel_request_for_an_idle_session_does_nothing(stage: Stage) -> None:
    wire = await stage.connect()
    pid, secret = read_backend_key_data(next(p for t, p in wire.startup if t == b"K"))
    other = await Wire.open(stage.port)
    other.send(front.cancel_request(pid, secret))
    await other.reader.read()
    await asyncio.sleep(0.1)
    assert len(rows(await wire.query(PRIVATE))) == 3
    await wire.close()


async def test_a_setting_that_does_not_exist_cannot_be_set(stage: Stage) -> None:
    """PostgreSQL lets every name with a prefix be set: who mistypes one would believe it to hold."""
    wire = await stage.connect()
    for text in ("SET dpproxy.epsilom = 0.5", 'SELECT 1; set local "dpproxy".Epsilom TO 1', "SET SESSION dpproxy . epsilom = 1"):
        told = report(await wire.query(text))
        said = 'unrecognized configuration parameter "dpproxy.epsilom"'
        assert (told["C"], "H" in told) == ("42704", False)
        assert told["M"].startswith(f"{said}. "), "what to do instead is in the message: tools drop hints"
        assert text[int(told["P"]) - 1 :].lower().startswith(("dpproxy", '"dpproxy'))
    assert report(await wire.ask(front.parse("", "SET dpproxy.x = 1")))["C"] == "42704"
    assert (
        tags(await wire.query("SELECT 'set dpproxy.x = 1'; SET dpproxy.Notices = off; SET LOCAL dpproxy.other TO on"))
        == b"TDCCCZ"
    )
    await wire.close()
