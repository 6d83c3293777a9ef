"""Names that mean to PostgreSQL what they do not mean to the planner: no statement over private tables is answered then.

A domain called `text` over numeric lets PostgreSQL pass round(name::text); the engine would raise for the first row whose name is
no number, and whether there is such a row would be told by an error.
"""

from __future__ import annotations

import pytest

from dpproxy.wire import frontend_build as front
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"
HIDING = [
    ('CREATE DOMAIN pg_temp."text" AS numeric', 'DROP DOMAIN pg_temp."text"', "text"),
    ("CREATE DOMAIN pg_temp.int8 AS text", "DROP DOMAIN pg_temp.int8", "int8"),
    ("CREATE TYPE pg_temp.date AS (x int)", "DROP TYPE pg_temp.date", "date"),
    ("CREATE TEMP TABLE shops (id numeric)", "DROP TABLE pg_temp.shops", "shops"),
    ("CREATE TEMP VIEW shops AS SELECT 1 AS id", "DROP VIEW pg_temp.shops", "shops"),
    ("CREATE TEMP SEQUENCE shops", "DROP SEQUENCE pg_temp.shops", "shops"),
    ('CREATE DOMAIN pg_temp."text" AS int[]', 'DROP DOMAIN pg_temp."text"', "text"),
    ('CREATE TEMP TABLE "float8" (id int)', 'DROP TABLE pg_temp."float8"', "float8"),
]


@pytest.mark.parametrize(("hide", "drop", "name"), HIDING)
async def test_hidden_names(stage: Stage, hide: str, drop: str, name: str) -> None:
    wire, before = await stage.connect(), stage.spent()
    assert b"E" not in tags(await wire.query(hide))
    for sql in (PRIVATE, f"COPY ({PRIVATE}) TO STDOUT", f"EXPLAIN {PRIVATE}", f"PREPARE p AS {PRIVATE}"):
        found = report(await wire.query(sql))
        assert found["C"] == "0A000"
        assert f'"{name}"' in found["M"]
    assert report(await wire.ask(front.parse("s", PRIVATE)))["C"] == "0A000"
    assert stage.engine.asked == []
    assert stage.spent() == before
    await wire.query(drop)
    assert len(rows(await wire.query(PRIVATE))) == 3
    await wire.close()


async def test_names_hidden_after_a_statement_was_prepared(stage: Stage) -> None:
    wire = await stage.connect()
    assert b"E" not in tags(await wire.ask(front.parse("s", PRIVATE)))
    await wire.query("BEGIN; CREATE TEMP TABLE shops (id numeric)")
    assert report(await wire.ask(front.bind("", "s", ()), front.execute("")))["C"] == "0A000"
    await wire.query("ROLLBACK")
    assert len(rows(await wire.ask(front.bind("", "s", ()), front.execute("")))) == 3
    await wire.close()


async def test_other_temporary_names_hide_nothing(stage: Stage) -> None:
    wire, other = await stage.connect(), await stage.connect()
    await other.query("CREATE TEMP TABLE mine (x int); CREATE TEMP TABLE shops (id numeric)")
    await wire.query("CREATE TEMP TABLE mine (x int); CREATE DOMAIN pg_temp.own AS text")
    assert len(rows(await wire.query(PRIVATE))) == 3
    assert len(rows(await wire.ask(front.parse("", PRIVATE), front.bind("", "", ()), front.execute("")))) == 3
    await wire.close()
    await other.close()
