"""Whatever can be foreseen to fail costs nothing: each of these statements fails on PostgreSQL itself, whatever the numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from dpproxy.sql.statements import Made, made, split
from dpproxy.wire import frontend_build as front
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"
GROUPS = 3


@pytest_asyncio.fixture(loop_scope="module")
async def wire(stage: Stage) -> AsyncIterator[Wire]:
    made = await stage.connect()
    yield made
    await made.close()


FAILING = {
    "exists already": (["CREATE TEMP TABLE t (a int)"], f"CREATE TEMP TABLE t AS {PRIVATE}", "42P07"),
    "the same by INTO": (
        ["CREATE TEMP TABLE t (a int)"],
        "SELECT region, count(*) AS n INTO TEMP t FROM people GROUP BY 1",
        "42P07",
    ),
    "in quotes": (['CREATE TEMP TABLE "A b" (a int)'], f'CREATE TEMP TABLE "A b" AS {PRIVATE}', "42P07"),
    "columns of one name": ([], f"CREATE TEMP TABLE t (a, a) AS {PRIVATE}", "42701"),
    "too many names": ([], f"CREATE TEMP TABLE t (a, b, c) AS {PRIVATE}", "42601"),
    "an unknown option": ([], f"CREATE TEMP TABLE t WITH (no_such = 1) AS {PRIVATE}", "22023"),
    "an unknown tablespace": ([], f"CREATE TEMP TABLE t TABLESPACE nowhere AS {PRIVATE}", "42704"),
    "no transaction": ([], f"DECLARE c CURSOR FOR {PRIVATE}", "25P01"),
    "a cursor in use": (["BEGIN", "DECLARE c CURSOR FOR SELECT 1"], f"DECLARE c CURSOR FOR {PRIVATE}", "42P03"),
    "a cursor both ways": (["BEGIN"], f"DECLARE c SCROLL NO SCROLL CURSOR FOR {PRIVATE}", "42P11"),
    "an unknown format": ([], f"COPY ({PRIVATE}) TO STDOUT WITH (FORMAT parquet)", "22023"),
    "an unknown option of COPY": ([], f"COPY ({PRIVATE}) TO STDOUT WITH (colour 'red')", "42601"),
    "a delimiter of two characters": ([], f"COPY ({PRIVATE}) TO STDOUT WITH (DELIMITER '||')", "0A000"),
    "an unknown encoding": ([], f"COPY ({PRIVATE}) TO STDOUT WITH (ENCODING 'morse')", "22023"),
    "a failed transaction": (["BEGIN", "SELECT 1 / 0"], PRIVATE, "25P02"),
    "a failed transaction, copied": (["BEGIN", "SELECT 1 / 0"], f"COPY ({PRIVATE}) TO STDOUT", "25P02"),
}


@pytest.mark.parametrize("case", FAILING)
@pytest.mark.parametrize("extended", [False, True])
async def test_it_fails_uncharged(stage: Stage, wire: Wire, case: str, extended: bool) -> None:
    before, (first, sql, code) = stage.spent(), FAILING[case]
    if extended and " INTO TEMP " in sql:
        pytest.skip("SELECT INTO is for simple queries")
    for statement in first:
        await wire.query(statement)
    if extended:
        messages = await wire.ask(front.parse("", sql), front.bind("", "", []), front.execute(""))
    else:
        messages = await wire.query(sql)
    assert report(messages)["C"] == code, report(messages)
    assert (stage.spent(), stage.engine.asked) == (before, [])
    await wire.query("ROLLBACK")
    assert rows(await wire.query("SELECT count(*) FROM pg_class WHERE relname = 't' AND pg_table_is_visible(oid)")) == [
        ("1" if any(" t " in s for s in first) else "0",)
    ]


BINDS = {
    "a portal in use": ([front.parse("", "SELECT 1"), front.bind("p", "", [])], front.bind("p", "s", []), "42P03"),
    "formats of two columns, for three": ([], front.bind("", "s", [], (), [0, 1, 0]), "08P01"),
    "an unknown format": ([], front.bind("", "s", [], (), [7]), "22023"),
    "too many values": ([], front.bind("", "s", [b"1"]), "08P01"),
}


@pytest.mark.parametrize("case", BINDS)
async def test_a_bind_that_fails_is_uncharged(stage: Stage, wire: Wire, case: str) -> None:
    first, bind, code = BINDS[case]
    before = stage.spent()
    messages = await wire.ask(front.parse("s", PRIVATE), *first, bind, front.execute(""))
    assert report(messages)["C"] == code, report(messages)
    assert (stage.spent(), stage.engine.asked) == (before, [])


@pytest.mark.parametrize("extended", [False, True])
async def test_if_not_exists_of_what_exists_does_nothing(stage: Stage, wire: Wire, extended: bool) -> None:
    before, sql = stage.spent(), f"CREATE TEMP TABLE IF NOT EXISTS t AS {PRIVATE}"
    await wire.query("CREATE TEMP TABLE t (a int)")
    if extended:
        messages = await wire.ask(front.parse("", sql), front.bind("", "", []), front.execute(""))
    else:
        messages = await wire.query(sql)
    assert b"E" not in tags(messages)
    assert "already exists, skipping" in report(messages, b"N")["M"]
    assert (stage.spent(), stage.engine.asked) == (before, [])
    assert rows(await wire.query("SELECT count(*) FROM t")) == [("0",)]


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize("spelled", ["t", "pg_temp.t", '"T u"', "IF NOT EXISTS t", "t (a, b)", "t ON COMMIT PRESERVE ROWS"])
async def test_what_is_tried_leaves_nothing_behind(
    stage: Stage, wire: Wire, spelled: str, transaction: bool, extended: bool
) -> None:
    if transaction:
        await wire.query("BEGIN")
    name = '"T u"' if '"' in spelled else "t"
    for _ in range(2):
        sql = f"CREATE TEMP TABLE {spelled} AS {PRIVATE}"
        before = stage.spent()
        if extended:
            messages = await wire.ask(front.parse("", sql), front.bind("", "", []), front.execute(""))
        else:
            messages = await wire.query(sql)
        assert b"E" not in tags(messages), report(messages)
        assert stage.spent() > before
        assert rows(await wire.query(f"SELECT count(*) FROM {name}")) == [(str(GROUPS),)]
        await wire.query(f"DROP TABLE {name}")


@pytest.mark.parametrize("extended", [False, True])
async def test_cursors_are_as_they_were(stage: Stage, wire: Wire, extended: bool) -> None:
    for sql, begin in ((f"DECLARE c CURSOR FOR {PRIVATE}", True), (f"DECLARE c SCROLL CURSOR WITH HOLD FOR {PRIVATE}", False)):
        if begin:
            await wire.query("BEGIN")
        if extended:
            messages = await wire.ask(front.parse("", sql), front.bind("", "", []), front.execute(""))
        else:
            messages = await wire.query(sql)
        assert b"E" not in tags(messages), report(messages)
        assert len(rows(await wire.query("FETCH ALL FROM c"))) == GROUPS
        await wire.query("CLOSE c")
        await wire.query("COMMIT")


async def test_a_declare_behind_a_begin_of_the_same_flight(stage: Stage, wire: Wire) -> None:
    first = front.parse("", "BEGIN") + front.bind("", "", []) + front.execute("")
    declare = front.parse("", f"DECLARE c CURSOR FOR {PRIVATE}") + front.bind("", "", []) + front.execute("")
    messages = await wire.ask(first, declare)
    assert b"E" not in tags(messages), report(messages)
    assert len(rows(await wire.query("FETCH ALL FROM c"))) == GROUPS
    await wire.query("COMMIT")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TEMP TABLE t AS SELECT n FROM people", Made("t")),
        ("CREATE TEMPORARY TABLE IF NOT EXISTS pg_temp.T (a) AS SELECT n FROM people", Made("T", unless=True)),
        ('CREATE TEMP TABLE "a ""b" WITH (fillfactor = 10) AS SELECT n FROM people', Made('"a ""b"')),
        ("SELECT n INTO TEMP TABLE t FROM people", Made("t")),
        ("DECLARE c BINARY CURSOR WITH HOLD FOR SELECT n FROM people", Made("c", held=True)),
        ("DECLARE hold CURSOR WITHOUT HOLD FOR SELECT n FROM people", Made("hold")),
        ('CREATE TEMP TABLE U&"\\0061" AS SELECT n FROM people', None),
        ("COPY (SELECT n FROM people) TO STDOUT", None),
        ("SELECT n FROM people", None),
    ],
)
async def test_what_a_statement_makes(sql: str, expected: Made | None) -> None:
    (statement,) = split(sql, frozenset({"people"}))
    assert made(statement) == expected
    assert made(replace(statement, kind="select")) is None
