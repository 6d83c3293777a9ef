"""Names and types at their limits: what PostgreSQL does with them, and a session that goes on."""

from __future__ import annotations

import pytest

from dpproxy.wire import frontend_build as front
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"


@pytest.mark.parametrize(
    "name", ["x" * 63, "x" * 64, "x" * 9000, "x" * 50_000, "é" * 40, "x" * 62 + "é", "x" * 62 + "ࠀ", "x" * 61 + "𐀀"]
)
async def test_long_names_of_statements(stage: Stage, name: str) -> None:
    wire = await stage.connect()
    for sql, width in (("SELECT 7", 1), (PRIVATE, 3), ("SELECT 8", 1)):
        found = await wire.ask(front.parse(name, sql), front.bind("", name, ()), front.execute(""), front.close("S", name[:70]))
        assert len(rows(found)) == width
    assert rows(await wire.query("SELECT 1")) == [("1",)]
    await wire.close()


async def test_names_that_begin_alike_are_one(stage: Stage) -> None:
    """As to PostgreSQL: the statement over private tables must not be found as the empty original."""
    wire = await stage.connect()
    one, other = "x" * 62 + "é", "x" * 62 + "è!"  # cut within the last character
    found = await wire.ask(front.parse(one, PRIVATE), front.bind("", other, ()), front.execute(""))
    assert len(rows(found)) == 3
    assert report(await wire.ask(front.parse(other, "SELECT 1")))["C"] == "42P05"
    await wire.ask(front.close("S", other))
    assert rows(await wire.ask(front.parse(one, "SELECT 1"), front.bind("", other, ()), front.execute(""))) == [("1",)]
    await wire.close()


@pytest.mark.parametrize("oid", [999_999, 4_294_967_295])
async def test_types_that_do_not_exist(stage: Stage, oid: int) -> None:
    wire, before = await stage.connect(), stage.spent()
    error = report(await wire.ask(front.parse("", PRIVATE.replace("GROUP", "WHERE $1 IS NULL GROUP"), [oid])))
    assert (error["C"], error["M"]) == ("42704", f"type with OID {oid} does not exist")
    assert stage.spent() == before
    for strange in (600, 2249):  # point, record
        found = await wire.ask(front.parse("", PRIVATE.replace("GROUP", "WHERE $1 IS NULL GROUP"), [strange]))
        assert tags(found) == b"1Z"
    await wire.close()
