"""Conversations as scripts: what a client sends, what it hears, what it is charged."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from concurrent.futures import Future
from dataclasses import replace

import pytest

from dpproxy.budget.ledger import BudgetExhausted
from dpproxy.errors import AFTER_CHARGE
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data, read_parameter_description, read_row_description
from tests.worlds.running import sleeping
from tests.worlds.scripted import FAILURE, Stage
from tests.worlds.wire_client import Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"
GROUPS = [("e", "1"), ('n"\\', "20"), (None, "300")]
PRICE = 100_000  # micro-epsilon of one answer


async def test_a_private_query_is_answered_charged_and_explained(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    messages = await wire.query(PRIVATE)
    assert tags(messages) == b"TDDDNCZ"
    assert rows(messages) == GROUPS
    assert [(f.name, f.type) for f in read_row_description(messages[0][1])] == [("region", 25), ("n", 20)]
    assert report(messages, b"N")["M"].startswith("charged epsilon 0.1; role analyst has epsilon ")
    assert stage.spent() - before == PRICE
    assert stage.engine.asked == ["by region epsilon 0.1"]
    await wire.query("SET dpproxy.notices = off")
    assert tags(await wire.query(PRIVATE)) == b"TDDDCZ"
    await wire.close()


async def test_relay_costs_nothing(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    for sql in ("", "SELECT 1", "SELECT * FROM shops", "SELECT relname FROM pg_class WHERE relname = 'people'"):
        assert tags(await wire.query(sql))[-1:] == b"Z"
    assert tags(await wire.query("SET dpproxy.epsilon = 0.2; SHOW dpproxy.epsilon")) == b"CTDCZ"
    assert stage.spent() == before
    assert stage.engine.asked == []
    await wire.close()


@pytest.mark.parametrize(
    "text", ["SELECT nonsense FROM", "SELECT 1 AS region, 2 AS n", "SELECT $1::text[] AS region, $2::int8[] AS n"]
)
async def test_a_wrong_guess_at_the_outer_query_changes_nothing(stage: Stage, text: str) -> None:
    """What was parsed in advance is of another time: the answer, its columns and its price are as without it."""
    wire = await stage.connect()
    right = tags(await wire.query(PRIVATE))
    known = stage.server.memo(stage.dataset).outers._known
    (key,) = [k for k in known if k[1].strip() == PRIVATE]
    for wrong in (replace(known[key], text=text), replace(known[key], planned="other"), replace(known[key], oids=(25,))):
        before = stage.spent()
        known[key] = wrong
        await wire.query("SELECT 1")  # or what was just answered is shown again
        messages = await wire.query(PRIVATE)
        assert (tags(messages), rows(messages)) == (right, GROUPS)
        assert [(f.name, f.type) for f in read_row_description(messages[0][1])] == [("region", 25), ("n", 20)]
        assert stage.spent() - before == PRICE
        assert known[key].text != text, "the right one is learnt"
    known[key] = replace(known[key], text="SELECT nonsense FROM")
    await wire.query("BEGIN")
    assert (tags(await wire.query(PRIVATE)), (await wire.query("COMMIT"))[0][1]) == (right, b"COMMIT\0")
    await wire.close()


async def test_errors_are_the_statements_own_after_a_guess(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.query("CREATE TEMP TABLE mine (x int); CREATE TEMP TABLE other (x int)")
    sql = "SELECT region, count(*) AS n FROM people, mine GROUP BY 1"
    first = tags(await wire.query(sql))
    await wire.query("DROP TABLE mine")
    before = stage.spent()
    error = report(await wire.query(sql))
    assert (error["C"], error["M"]) == ("42P01", 'relation "mine" does not exist')
    assert stage.spent() == before
    await wire.query("CREATE TEMP TABLE mine (x int)")
    assert tags(await wire.query(sql)) == first
    await wire.close()


async def test_several_statements_stop_at_the_first_error(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    messages = await wire.query(f"SELECT 7; {PRIVATE}; SELECT 1/0; {PRIVATE}")
    assert tags(messages) == b"TDC" + b"TDDDNC" + b"TEZ"[1:]
    assert report(messages)["C"] == "22012"
    assert stage.spent() - before == PRICE
    await wire.close()


async def test_postgres_finds_the_errors_and_their_places(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    error = report(await wire.query("SELECT 1; SELECT nope FROM people"))
    assert (error["C"], error["P"]) == ("42703", "18")
    error = report(await wire.query("SELECT 1; /* é */ SELECT count(*) FORBIDDEN FROM people"))
    assert (error["C"], error["P"], error["H"]) == ("42501", "35", "try something else")
    assert report(await wire.query("SELECT count(*) FROM people WHERE"))["C"] == "42601"
    assert report(await wire.query("DELETE FROM people"))["C"] in ("0A000", "42501")
    assert report(await wire.query("SELECT count(*) FROM people WHERE id = $1"))["C"] == "42P02"
    assert report(await wire.query("/**/alter/* */ROLE current_user SET work_mem = 1"))["C"] == "42501"
    assert stage.spent() == before
    await wire.close()


async def test_a_refusal_aborts_the_transaction(stage: Stage) -> None:
    wire = await stage.connect()
    assert (await wire.query("BEGIN"))[-1][1] == b"T"
    assert (await wire.query(PRIVATE))[-1][1] == b"T"
    messages = await wire.query("SELECT FORBIDDEN FROM (SELECT count(*) AS FORBIDDEN FROM people) AS _")
    assert tags(messages) == b"EZ"
    assert messages[-1][1] == b"E"
    assert report(await wire.query(PRIVATE))["C"] == "25P02"
    assert (await wire.query("ROLLBACK"))[-1][1] == b"I"
    await wire.close()


async def test_settings_follow_the_transaction(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.query("BEGIN; SET LOCAL dpproxy.epsilon = 0.3")
    await wire.query(PRIVATE)
    await wire.query("ROLLBACK")
    await wire.query(PRIVATE)
    assert stage.engine.asked == ["by region epsilon 0.3", "by region epsilon 0.1"]
    await wire.close()


def prepared(sql: str, name: str = "", oids: tuple[int, ...] = ()) -> bytes:
    return front.parse(name, sql, oids) + front.describe("S", name)


async def test_public_tables_are_asked_in_other_engines_words(stage: Stage) -> None:
    wire = await stage.connect()
    sql = "SELECT id, count(*) AS n FROM shops GROUP BY ALL HAVING n > 0 ORDER BY id LIMIT 1"
    assert rows(await wire.query(sql)) == [("1", "1")]
    assert rows(await wire.query("SELECT median(id) FROM shops")) == [("1.5",)]
    messages = await wire.ask(
        prepared("SELECT count_if(id > $1) FROM shops", "m"), front.bind("", "m", (b"1",)), front.execute("")
    )
    assert rows(messages) == [("1",)]
    assert report(await wire.query("SELECT median(oid) FROM pg_class"), b"E")["C"] == "42883"  # no table of the dataset's
    await wire.close()


async def test_the_dance(stage: Stage) -> None:
    """Parse and Describe are free, each Bind is one answer, Execute pages it."""
    wire, before = await stage.connect(), stage.spent()
    sql = "SELECT region, count(*) AS n FROM people WHERE id > $1 AND region <> $2 GROUP BY 1"
    messages = await wire.ask(prepared(sql, "s"))
    assert tags(messages) == b"1tTZ"
    assert read_parameter_description(messages[1][1]) == (23, 25)
    assert stage.spent() == before
    values = (b"\0\0\0\5", b"it's")
    bind = front.bind("p", "s", values, (1, 0), (0, 1)) + front.describe("P", "p")
    messages = await wire.ask(bind, front.execute("p", 2), front.execute("p", 2), front.execute("p"))
    assert tags(messages) == b"N2TDDsDCCZ"
    assert [f.format for f in read_row_description(messages[2][1])] == [0, 1]
    assert messages[3][1].endswith(b"\0\0\0\x08" + (1).to_bytes(8, "big"))
    assert stage.spent() - before == PRICE
    assert stage.engine.asked == ["by region 5::int4 it's::text epsilon 0.1"]
    assert tags(await wire.ask(front.bind("", "s", (b"1", None)), front.execute(""))) == b"N2DDDCZ"
    assert stage.engine.asked[1] == "by region 1::int4 None::text epsilon 0.1"
    assert stage.spent() - before == 2 * PRICE
    assert tags(await wire.ask(front.close("S", "s"), front.bind("", "s", (b"1", b"2")))) == b"3EZ"
    await wire.close()


async def test_errors_skip_to_sync(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    run = front.bind("", "", ()) + front.execute("")
    bad = front.parse("", "SELECT count(*) FORBIDDEN FROM people")
    messages = await wire.ask(bad, run, front.parse("x", "SELECT 1"), front.describe("S", "x"))
    assert tags(messages) == b"EZ"
    assert report(messages)["P"] == "17"
    messages = await wire.ask(front.parse("", "SELECT nope FROM people"), run, front.parse("", PRIVATE), run)
    assert tags(messages) == b"EZ"
    messages = await wire.ask(front.parse("", "SELECT 1/0"), run, front.parse("", PRIVATE), run)
    assert tags(messages) == b"1EZ"
    assert stage.spent() == before
    assert tags(await wire.ask(front.parse("", PRIVATE), run)) == b"1N2DDDCZ"
    await wire.close()


async def test_a_wrong_parameter_is_postgres_own_error_and_free(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    await wire.ask(front.parse("s", "SELECT region, count(*) AS n FROM people WHERE id = $1 GROUP BY 1"))
    messages = await wire.ask(front.bind("", "s", (b"five",)), front.execute(""))
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "22P02")
    assert report(messages)["W"].startswith("unnamed portal parameter $1 = ")
    messages = await wire.ask(front.bind("", "s", ()), front.execute(""))
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "08P01")
    assert report(messages)["M"] == 'bind message supplies 0 parameters, but prepared statement "s" requires 1'
    assert stage.spent() == before
    await wire.close()


async def test_pipelines_keep_their_order(stage: Stage) -> None:
    """Relayed and private messages in one piece, and the piece cut anywhere."""
    wire = await stage.connect()
    one = front.parse("", "SELECT 1") + front.bind("", "", ()) + front.execute("")
    own = front.parse("", PRIVATE) + front.bind("", "", ()) + front.execute("")
    data = front.query("SELECT 5") + one + own + one + front.SYNC + front.query(PRIVATE) + front.query("SELECT 6")
    expected = b"TDCZ" + b"12DC" + b"1N2DDDC" + b"12DC" + b"Z" + b"TDDDNCZ" + b"TDCZ"
    wire.send(data)
    assert tags([m for _ in range(4) for m in await wire.until(b"Z")]) == expected
    for start in range(0, len(data), 7):
        wire.send(data[start : start + 7])
        await wire.writer.drain()
        await asyncio.sleep(0.001)
    assert tags([m for _ in range(4) for m in await wire.until(b"Z")]) == expected
    await wire.close()


async def test_flush_without_sync(stage: Stage) -> None:
    """asyncpg and psycopg's pipelines read replies before they send Sync."""
    wire = await stage.connect()
    wire.send(front.parse("a", "SELECT 1"), front.parse("b", PRIVATE), front.describe("S", "b"), front.FLUSH)
    assert tags(await wire.until(b"T")) == b"11tT"
    wire.send(front.bind("", "b", ()), front.execute("", 1), front.FLUSH)
    assert tags(await wire.until(b"s")) == b"N2Ds"
    wire.send(front.execute("", 0), front.SYNC)
    assert tags(await wire.until(b"Z")) == b"DDCZ"
    await wire.close()


async def test_names_can_be_used_again(stage: Stage) -> None:
    wire = await stage.connect()
    run = front.bind("", "", ()) + front.execute("")
    assert tags(await wire.ask(front.parse("", PRIVATE), run)) == b"1N2DDDCZ"
    assert tags(await wire.ask(front.parse("", "SELECT 1"), run)) == b"12DCZ"
    assert tags(await wire.ask(front.parse("n", PRIVATE))) == b"1Z"
    again = await wire.ask(front.parse("n", "SELECT 1"))
    assert report(again)["C"] == "42P05"
    assert tags(await wire.ask(front.bind("", "n", ()), front.execute(""))) == b"N2DDDCZ"
    await wire.query("DEALLOCATE n")
    assert report(await wire.ask(front.bind("", "n", ())))["C"] == "26000"
    assert tags(await wire.ask(front.parse("n", "SELECT 2"), front.bind("", "n", ()), front.execute(""))) == b"12DCZ"
    await wire.ask(front.parse("m", PRIVATE))
    await wire.query("DISCARD ALL")
    before = stage.spent()
    assert report(await wire.ask(front.bind("", "m", ())))["C"] == "26000"
    assert stage.spent() == before
    await wire.close()


async def test_a_setting_changed_after_parse_counts_at_bind(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.ask(front.parse("s", PRIVATE))
    await wire.query("SET dpproxy.epsilon = 0.5")
    await wire.ask(front.bind("", "s", ()), front.execute(""))
    assert stage.engine.asked == ["by region epsilon 0.5"]
    await wire.close()


async def test_a_setting_that_does_not_exist_cannot_be_set(stage: Stage) -> None:
    """PostgreSQL lets every name with a prefix be set: who mistypes one would believe it to hold."""
    wire = await stage.connect()
    for text in ("SET dpproxy.epsilom = 0.5", 'SELECT 1; set local "dpproxy".Epsilom TO 1', "SET SESSION dpproxy . epsilom = 1"):
        told = report(await wire.query(text))
        assert (told["C"], told["M"]) == ("42704", 'unrecognized configuration parameter "dpproxy.epsilom"')
        assert text[int(told["P"]) - 1 :].lower().startswith(("dpproxy", '"dpproxy'))
    assert report(await wire.ask(front.parse("", "SET dpproxy.x = 1")))["C"] == "42704"
    assert (
        tags(await wire.query("SELECT 'set dpproxy.x = 1'; SET dpproxy.Notices = off; SET LOCAL dpproxy.other TO on"))
        == b"TDCCCZ"
    )
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


async def test_columns_are_the_originals(stage: Stage) -> None:
    wire = await stage.connect()
    messages = await wire.query('SELECT region, count(*) AS "WRONG" FROM people GROUP BY 1')
    assert [(f.name, f.type) for f in read_row_description(messages[0][1])] == [("region", 25), ("WRONG", 20)]
    assert rows(messages) == GROUPS
    await wire.close()


async def test_utilities(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    assert tags(await wire.query(f"COPY ({PRIVATE}) TO STDOUT")) == b"HdddcNCZ"
    await wire.query(f"BEGIN; DECLARE c CURSOR FOR {PRIVATE}")
    assert rows(await wire.query("FETCH 2 FROM c")) == GROUPS[:2]
    await wire.query("COMMIT")
    await wire.query(f"CREATE TEMP TABLE kept AS {PRIVATE}")
    assert stage.spent() - before == 3 * PRICE
    assert rows(await wire.query("SELECT * FROM kept ORDER BY n")) == GROUPS
    messages = await wire.query(f"EXPLAIN {PRIVATE}")
    assert (tags(messages).replace(b"D", b""), rows(messages)[0], messages[-2][1]) == (
        b"TCZ",
        ("costs epsilon 0.1",),
        b"EXPLAIN\0",
    )
    assert report(await wire.query(f"EXPLAIN (FORMAT XML) {PRIVATE}"))["C"] == "0A000"
    assert report(await wire.query(f"EXPLAIN ANALYZE {PRIVATE}"))["C"] == "0A000"
    assert report(await wire.query(f"EXPLAIN (PRIVACY, WHATEVER) {PRIVATE}"))["C"] == "42601"
    messages = await wire.ask(
        front.parse("", f"DECLARE d CURSOR WITH HOLD FOR {PRIVATE}"), front.bind("", "", ()), front.execute("")
    )
    assert tags(messages) == b"1N2CZ"
    assert rows(await wire.query("FETCH ALL FROM d")) == GROUPS
    assert stage.spent() - before == 4 * PRICE
    await wire.close()


async def test_a_copy_in_passes_through(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.query("CREATE TEMP TABLE t (x int)")
    wire.send(front.query("COPY t FROM STDIN"))
    assert (await wire.read())[0] == b"G"
    wire.send(b"d\0\0\0\x06" + b"5\n", b"c\0\0\0\x04")
    assert tags(await wire.until(b"Z")) == b"CZ"
    assert rows(await wire.query("SELECT * FROM t")) == [("5",)]
    assert rows(await wire.query(PRIVATE)) == GROUPS
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
    assert report(messages)["M"] == AFTER_CHARGE.message
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


async def cancel(stage: Stage, wire: Wire, wrong: bool = False) -> None:
    pid, secret = read_backend_key_data(next(p for t, p in wire.startup if t == b"K"))
    other = await Wire.open(stage.port)
    other.send(front.cancel_request(pid, bytes(len(secret)) if wrong else secret))
    with pytest.raises(EOFError):
        await other.read()


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


async def test_a_client_that_leaves_is_finished_for(stage: Stage) -> None:
    wire, cancelled, before = await stage.connect(), stage.engine.cancelled, stage.spent()
    stage.engine.gate.clear()
    wire.send(front.query(PRIVATE))
    await asyncio.wait_for(stage.engine.started.wait(), 300)
    wire.writer.transport.abort()
    while stage.server.occupancy():
        await asyncio.sleep(0.01)
    stage.engine.gate.set()
    other = await stage.connect()
    assert rows(await other.query(PRIVATE)) == GROUPS
    assert (stage.engine.cancelled, stage.spent() - before) == (cancelled, PRICE)
    await other.close()


async def test_messages_wait_behind_a_private_statement(stage: Stage) -> None:
    wire = await stage.connect()
    stage.engine.gate.clear()
    wire.send(front.query(PRIVATE), front.query("SELECT 1"))
    await asyncio.wait_for(stage.engine.started.wait(), 300)
    wire.send(front.query("SELECT 2"))
    await asyncio.sleep(0.05)
    stage.engine.gate.set()
    got = [await wire.until(b"Z") for _ in range(3)]
    assert [rows(m)[0][0] for m in got] == ["e", "1", "2"]
    await wire.close()


async def test_function_calls_and_unknown_messages(stage: Stage) -> None:
    wire = await stage.connect()
    wire.send(b"F\0\0\0\x08\0\0\0\0")
    messages = await wire.until(b"Z")
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "0A000")
    wire.send(b"?\0\0\0\x04")
    assert report(await wire.until(b"E"))["C"] == "08P01"
    with pytest.raises(EOFError):
        await wire.read()


async def test_oversized_messages_end_the_connection_only(stage: Stage) -> None:
    wire, other = await stage.connect(), await stage.connect()
    wire.send(b"Q\x7f\xff\xff\xff")
    assert report(await wire.until(b"E"))["C"] == "08P01"
    assert rows(await other.query("SELECT 1")) == [("1",)]
    await other.close()


async def test_invalid_utf8_in_a_private_statement(stage: Stage) -> None:
    wire = await stage.connect()
    text = PRIVATE.encode() + b" -- \xff\0"
    wire.send(b"Q" + (len(text) + 4).to_bytes(4, "big") + text)
    messages = await wire.until(b"Z")
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "22021")
    assert rows(await wire.query(PRIVATE)) == GROUPS
    await wire.close()


async def test_a_slow_client_stops_the_facade_not_the_proxy(stage: Stage) -> None:
    """200 MB of rows for a client that does not read: the proxy must not hold them."""
    wire = await stage.connect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wire.reader._limit = 1 << 16
    wire.send(front.query("SELECT repeat('x', 1000) FROM generate_series(1, 200000)"))
    await asyncio.sleep(1.5)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "kilobytes"
    wire.writer.transport.abort()


async def test_an_empty_text_and_a_lost_facade(stage: Stage) -> None:
    wire, own = await stage.connect(), await stage.connect()
    assert tags(await wire.query("")) == b"IZ"
    pid = (await wire.query("SELECT pg_backend_pid()"))[1][1][6:]
    os.kill(int(pid), signal.SIGTERM)
    assert report(await wire.until(b"E"))["C"] == "57P01"
    with pytest.raises(EOFError):
        await wire.read()
    assert rows(await own.query(PRIVATE)) == GROUPS
    await own.close()
