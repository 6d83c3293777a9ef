"""Simple queries over private tables: one message, its statements in order, one ReadyForQuery."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_row_description
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import report, rows, tags

from .texts import GROUPS, PRICE, PRIVATE, prepared

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
    assert (error["C"], error["P"], "H" in error) == ("42501", "35", False)
    assert error["M"].endswith(". try something else"), "tools that show no hints show this"
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


async def test_empty_statements(stage: Stage) -> None:
    wire = await stage.connect()
    messages = await wire.ask(front.parse("", ""), front.describe("S", ""), front.bind("", "", ()), front.execute(""))
    assert tags(messages) == b"1tn2IZ"
    for text in (";", " -- nothing\n", "/* people */", ";;SELECT 1;;"):
        assert tags(await wire.query(text)) == (b"TDCZ" if "SELECT" in text else b"IZ")
    assert tags(await wire.ask(front.parse("", "/* people */"), front.bind("", "", ()), front.execute(""))) == b"12IZ"
    await wire.close()


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


async def test_notices_are_on_or_off_as_postgresql_reads_it(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    await wire.query("SET dpproxy.notices = 'banana'")
    messages = await wire.query(PRIVATE)
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "22023")
    assert report(messages)["M"].startswith('parameter "dpproxy.notices" requires a Boolean value')
    assert (stage.spent(), stage.engine.asked) == (before, [])
    for value, told in (("f", b""), ("tr", b"N"), ("of", b"")):
        await wire.query(f"SET dpproxy.notices = '{value}'")
        assert tags(await wire.query(PRIVATE)) == b"TDDD" + told + b"CZ"
    await wire.close()
