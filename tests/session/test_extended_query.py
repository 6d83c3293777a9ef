"""Extended queries over private tables: Parse is free, each Bind is one answer, errors skip to Sync."""

from __future__ import annotations

import pytest

from dpproxy.policy.model import PARAMETER_BYTES
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_parameter_description, read_row_description
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import report, tags

from .texts import PRICE, PRIVATE, PUBLIC, prepared

pytestmark = pytest.mark.asyncio(loop_scope="module")


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


async def test_parameters_of_more_bytes_than_the_policy_allows_are_refused_unread_and_free(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    await wire.ask(front.parse("s", "SELECT region, count(*) AS n FROM people WHERE region = ANY ($1) GROUP BY 1", (1009,)))
    long = b"{" + b"a," * (PARAMETER_BYTES // 2) + b"}"
    messages = await wire.ask(front.bind("", "s", (long,)), front.execute(""))
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "54001")
    assert "1,048,576 bytes" in report(messages)["M"]
    assert (stage.spent(), stage.engine.asked) == (before, [])
    messages = await wire.ask(front.parse("", "SELECT length($1)", (25,)), front.bind("", "", (long,)), front.execute(""))
    assert tags(messages) == b"12DCZ"  # what names no private table is PostgreSQL's
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


@pytest.mark.parametrize("sql", [PRIVATE, PUBLIC])
async def test_portals_live_as_long_as_their_transaction(stage: Stage, sql: str) -> None:
    """Paged over several Syncs, paid once; at its end a portal has no more rows, and after the transaction it is gone."""
    wire, before = await stage.connect(), stage.spent()
    await wire.query("BEGIN")
    note = b"N" if sql == PRIVATE else b""
    messages = await wire.ask(front.parse("s", sql), front.bind("p", "s", ()), front.execute("p", 1))
    assert tags(messages) == b"1" + note + b"2DsZ"
    assert tags(await wire.ask(front.execute("p", 1))) == b"DsZ"
    assert tags(await wire.ask(front.execute("p", 1), front.execute("p", 1))) == b"DsCZ"
    assert tags(await wire.ask(front.execute("p"))) == b"CZ", "no rows twice"
    assert report(await wire.ask(front.bind("p", "s", ())))["C"] == "42P03", "the name is taken"
    await wire.query("ROLLBACK")
    assert report(await wire.ask(front.execute("p")))["C"] == "34000"
    assert (stage.spent() - before) in ((PRICE, 2 * PRICE) if sql == PRIVATE else (0,))
    await wire.close()


async def test_close(stage: Stage) -> None:
    wire = await stage.connect()
    assert tags(await wire.ask(front.close("S", "no"), front.close("P", "no"))) == b"33Z"
    run = front.bind("p", "s", ()) + front.close("P", "p") + front.execute("p")
    messages = await wire.ask(front.parse("s", PRIVATE), run)
    assert (tags(messages), report(messages)["C"]) == (b"1N23EZ", "34000")
    assert tags(await wire.ask(front.close("S", "s"), front.close("S", "s"))) == b"33Z"
    assert report(await wire.ask(front.describe("S", "s")))["C"] == "26000"
    await wire.close()


async def test_several_statements_in_one_parse(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    for sql in ("SELECT 1; SELECT 2", f"SELECT 1; {PRIVATE}", f"{PRIVATE}; {PRIVATE}"):
        assert report(await wire.ask(front.parse("", sql)))["C"] == "42601"
    assert stage.spent() == before
    await wire.close()
