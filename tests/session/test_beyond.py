"""Statements that reach beyond their session are refused in both protocols, however they are spelled; and what PostgreSQL cannot
read is refused by it, in both protocols alike."""

from __future__ import annotations

import pytest

from dpproxy.wire import frontend_build as front
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")

BEYOND = [
    "LISTEN news",
    "listen\n\"People\"",
    "/* /* nested */ */ LISTEN -- x\n news",
    "NOTIFY news",
    "nOtIfY news, 'payload'",
    "-- x\nNOTIFY/**/news",
    "ALTER ROLE CURRENT_USER SET dpproxy.epsilon = 1",
    "ALTER /* /* */ */ ROLE CURRENT_USER SET work_mem = '1GB'",
    "alter user current_user reset all",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
    "DROP OWNED BY CURRENT_USER",
    "drop/**/owned by \"analyst@shop\" cascade",
    "REASSIGN OWNED BY CURRENT_USER TO CURRENT_USER",
    "CREATE RULE r AS ON INSERT TO t DO ALSO NOTIFY news",
    "CREATE PRIVACY POLICY p AS () RETURNS PRIVACY_BUDGET -> PRIVACY_BUDGET(BUDGET_NAME => 'analysts')",
    "show privacy policies",
    "CREATE OR REPLACE RULE r AS ON INSERT TO t DO ALSO NOTIFY news",
]  # fmt: skip


@pytest.mark.parametrize("sql", BEYOND)
async def test_refused_in_both_protocols(stage: Stage, sql: str) -> None:
    wire = await stage.connect()
    told = []
    for found in (
        await wire.query(sql),
        await wire.query(f"SELECT 1; {sql}"),
        await wire.ask(front.parse("", sql), front.bind("", "", ()), front.execute("")),
    ):
        told.append(report(found))
        assert b"C" not in tags(found), "nothing of a text that holds one is run"
        assert told[-1]["C"] in ("0A000", "42501")
    assert len({error["M"] for error in told}) == 1
    assert rows(await wire.query("SELECT 2")) == [("2",)]
    await wire.close()


@pytest.mark.parametrize(
    "sql", ["DO $$ BEGIN NOTIFY news; END $$", "EXPLAIN NOTIFY news", "PREPARE p AS NOTIFY news", "COPY (NOTIFY x) TO STDOUT"]
)
async def test_nothing_else_holds_one(stage: Stage, sql: str) -> None:
    wire = await stage.connect()
    for found in (await wire.query(sql), await wire.ask(front.parse("", sql), front.bind("", "", ()), front.execute(""))):
        assert report(found)["C"] in ("0A000", "42501", "42601")
        assert b"C" not in tags(found)
    await wire.close()


async def test_words_that_only_look_like_it(stage: Stage) -> None:
    wire = await stage.connect()
    for sql in ("SELECT 'listen' AS notify", "UNLISTEN *", "SELECT 1 AS rule, 2 AS owned", "/* notify */ SHOW timezone"):
        assert b"E" not in tags(await wire.query(sql)), sql
        assert b"E" not in tags(await wire.ask(front.parse("", sql), front.bind("", "", ()), front.execute(""))), sql
    await wire.close()


@pytest.mark.parametrize(
    "sql",
    ["\ufeffSELECT region, count(*) FROM people GROUP BY 1", "\ufeffSELECT 1", "FROB people", "SELECT\u00a01 FROM people x y z"],
)
async def test_what_postgresql_cannot_read_it_refuses_itself(stage: Stage, sql: str) -> None:
    wire = await stage.connect()
    simple = report(await wire.query(sql))
    extended = report(await wire.ask(front.parse("", sql)))
    assert simple == extended
    assert simple["C"] == "42601"
    assert simple["M"].startswith("syntax error at or near")
    assert rows(await wire.query("SELECT 2")) == [("2",)]
    await wire.close()


@pytest.mark.parametrize(
    "params",
    [
        {"options": "-c dpproxy.foo=bar"},
        {"options": "-cdpproxy.foo=bar"},
        {"options": "-c geqo=off --DPproxy.foo=bar"},
        {"options": "-c dpproxy\\.foo=bar"},
        {"dpproxy.foo": "bar"},
    ],
)
async def test_settings_at_the_start_are_those_of_set(stage: Stage, params: dict[str, str]) -> None:
    wire = await stage.connect(**params)
    error = report(wire.startup)
    assert (error["S"], error["C"], error["M"]) == ("FATAL", "42704", 'unrecognized configuration parameter "dpproxy.foo"')


async def test_known_settings_at_the_start(stage: Stage) -> None:
    wire = await stage.connect(options="-c dpproxy.epsilon=0.7 --dpproxy.notices=off", **{"dpproxy.confidence": "0.9"})
    found = rows(await wire.query("SELECT current_setting('dpproxy.epsilon'), current_setting('dpproxy.notices')"))
    assert found == [("0.7", "off")]
    await wire.close()
