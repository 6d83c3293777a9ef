"""The PostgreSQL backend on embedded servers: what it reads, what it refuses to do, how it stops and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from scratch_postgres import Scratch, installations, scratch_server

from dpproxy.backends.base import BackendError
from dpproxy.backends.postgres import Postgres
from dpproxy.mechanisms.noise import Exact
from dpproxy.policy.catalog import SPELLINGS, Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.model import PostgresBackend
from dpproxy.table_terms import TableName

SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN small_positive AS positive CHECK (VALUE < 100);
CREATE TYPE pair AS (a int, b int);
CREATE TABLE people (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, "Weird Name" varchar(20) NOT NULL UNIQUE, a mood,
  b positive, c small_positive NOT NULL, d int[], e jsonb, f numeric(10, 2), g real, h double precision, i timestamp,
  j timestamptz, k time, l interval, m uuid, n char(3), o pair, p bytea, q boolean, r date, s smallint, t bigint, u oid,
  v money, w mood[], x int GENERATED ALWAYS AS (s + 1) STORED, y name, z timetz);
COMMENT ON TABLE people IS 'hello';
COMMENT ON COLUMN people.a IS 'the mood';
CREATE SCHEMA "S2";
CREATE TABLE "S2".visits (person int REFERENCES people, day date, page text, UNIQUE (person, day)) PARTITION BY RANGE (day);
CREATE TABLE "S2".visits_2024 PARTITION OF "S2".visits FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE VIEW seen AS SELECT id, b FROM people;
CREATE MATERIALIZED VIEW kept AS SELECT id FROM people JOIN "S2".visits_2024 ON person = id;
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child () INHERITS (parent);
CREATE TABLE loose (a int, b int);
CREATE UNIQUE INDEX ON loose (a) WHERE b > 0;
CREATE UNIQUE INDEX ON loose ((a + b));
CREATE UNIQUE INDEX ON loose (b) INCLUDE (a);
CREATE TABLE late (a int UNIQUE DEFERRABLE);
CREATE TABLE zed (x int, y double precision, d date, n numeric, t text, empty int, ts timestamptz);
INSERT INTO zed VALUES (3, 1.5, '2020-01-02', 1.50, '', NULL, '2024-01-01'), (-1, 'NaN', '2021-01-02', 2, NULL, NULL, 'infinity');
INSERT INTO people ("Weird Name", a, b, c, d, f, e) VALUES ('victim', 'sad', 1, 2, '{1,2}', 1.50, '{"k": 1}');
INSERT INTO "S2".visits VALUES (1, '2024-03-01', '/');
CREATE ROLE reader LOGIN;
GRANT SELECT ON people, zed, seen, "S2".visits TO reader;
GRANT USAGE ON SCHEMA "S2" TO reader;
CREATE TABLE secret (a int);
GRANT SELECT (a) ON loose TO reader;
"""

TYPES = {
    "id": "int4", "Weird Name": "varchar", "a": "text", "b": "int4", "c": "int4", "d": "int4[]", "e": "jsonb", "f": "numeric",
    "g": "float4", "h": "float8", "i": "timestamp", "j": "timestamptz", "k": "time", "l": "interval", "m": "uuid",
    "n": "bpchar", "o": "text", "p": "bytea", "q": "bool", "r": "date", "s": "int2", "t": "int8", "u": "int8", "v": "text",
    "w": "text", "x": "int4", "y": "text", "z": "timetz",
}  # fmt: skip
UNBOUNDED = {"d", "e", "o", "p", "v", "w", "z"}


@pytest.fixture(scope="module", params=sorted(installations()))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("data"), installations()[request.param]) as running:
        with psycopg.connect(running.conninfo(), autocommit=True) as connection:
            connection.execute(SCHEMA)
        yield running


@pytest.fixture(name="backend")
async def backend_fixture(server: Scratch) -> AsyncIterator[Postgres]:
    backend = Postgres(PostgresBackend(server.dsn()))
    yield backend
    await backend.close()


def unique(catalog: Catalog, name: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    table = catalog.tables[TableName("public", name)]
    return table.primary_key, table.unique


async def test_introspection_of_types(backend: Postgres) -> None:
    people = (await backend.introspect()).tables[TableName("public", "people")]
    assert {c.name: c.type for c in people.columns} == TYPES
    assert {c.name for c in people.columns if not c.bounded} == UNBOUNDED
    assert {c.name for c in people.columns if not c.nullable} == {"id", "Weird Name", "c"}
    assert people.source == ("public", "people")
    assert people.comment == "hello"
    assert people.column("a").comment == "the mood"  # type: ignore[union-attr]


NOT_KEPT = """
CREATE SCHEMA said;
SET search_path = said, public;
CREATE DOMAIN there AS int NOT NULL;
CREATE TABLE base (id int NOT NULL, d there);
CREATE VIEW joined AS SELECT base.d, x.id FROM zed LEFT JOIN base ON false LEFT JOIN base AS x ON false;
CREATE FOREIGN DATA WRAPPER none;
CREATE SERVER away FOREIGN DATA WRAPPER none;
CREATE FOREIGN TABLE far (id int NOT NULL) SERVER away;
CREATE TABLE parts (id int NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE half_away (id int NOT NULL) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE half_away_1 PARTITION OF half_away FOR VALUES FROM (0) TO (10) SERVER away;
"""


async def test_what_is_said_not_to_be_null_and_may_be(server: Scratch, backend: Postgres) -> None:
    """Views and foreign tables keep nothing, nor do parents, whose children may differ; of domains PostgreSQL itself says so."""
    with psycopg.connect(server.conninfo(), autocommit=True) as owner:
        owner.execute(NOT_KEPT)
        unchecked = owner.info.server_version >= 180000
        if unchecked:
            owner.execute("CREATE TABLE unchecked (id int); INSERT INTO unchecked VALUES (NULL)")
            owner.execute("ALTER TABLE unchecked ADD CONSTRAINT there NOT NULL id NOT VALID")
        tables = (await backend.introspect()).tables
        owner.execute("DROP SCHEMA said CASCADE; DROP FOREIGN DATA WRAPPER none CASCADE")
    said = [TableName("said", n) for n in ("base", "joined", "far", "parts", "half_away", *(("unchecked",) if unchecked else ()))]
    found = {
        name.name: {c.name for c in tables[name].columns if not c.nullable} for name in (*said, TableName("public", "parent"))
    }
    assert found == {name: {"id"} if name in ("base", "parts") else set() for name in found}


async def test_what_cannot_be_computed_with_says_why(backend: Postgres) -> None:
    people = (await backend.introspect()).tables[TableName("public", "people")]
    reasons = {c.name: c.reason for c in people.columns}
    assert {name for name, reason in reasons.items() if reason} == UNBOUNDED
    assert reasons["d"] == "arrays have no bounds"
    assert reasons["e"] == "of type jsonb, which has no bounds"
    assert reasons["o"] == "of type pair, which is not one of PostgreSQL's own"


async def test_collations_of_many_spellings(server: Scratch, backend: Postgres) -> None:
    """The wheel has no ICU to make one with, so a collation is told to be one."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(
            """CREATE COLLATION lax FROM "C"; CREATE TABLE spelled (a text COLLATE lax, b text COLLATE "C", c text)"""
        )
        connection.execute("UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'lax'")
        try:
            table = (await backend.introspect()).tables[TableName("public", "spelled")]
        finally:
            connection.execute("DROP TABLE spelled; DROP COLLATION lax")
    assert [(c.name, c.type, c.bounded) for c in table.columns] == [
        ("a", "text", False),
        ("b", "text", True),
        ("c", "text", True),
    ]
    assert table.columns[0].reason == SPELLINGS
    assert [c.collated for c in table.columns] == [True, True, False]  # those of a name, a number are their type's own


async def test_introspection_of_tables_and_keys(backend: Postgres) -> None:
    catalog = await backend.introspect()
    names = {"people", "seen", "kept", "parent", "child", "loose", "late", "zed", "secret"}
    assert set(catalog.tables) == {*(TableName("public", n) for n in names), TableName("S2", "visits")}
    assert unique(catalog, "people") == (("id",), (("Weird Name",),))
    visits = catalog.tables[TableName("S2", "visits")]
    assert visits.unique == (("person", "day"),)
    assert visits.foreign_keys == (ForeignKey(("person",), TableName("public", "people"), ("id",)),)
    # rows of a child count as the parent's, whose key says nothing of them; so for what is not enforced on all rows, at once
    assert unique(catalog, "parent") == ((), ())
    assert unique(catalog, "loose") == ((), (("b",),))
    assert unique(catalog, "late") == ((), ())
    read = {name.name: sorted(map(str, table.reads)) for name, table in catalog.tables.items() if table.reads}
    assert read == {"seen": ["people"], "kept": ["S2.visits", "people"]}, "of a partition the whole table"
    assert not any(c.public_range for t in catalog.tables.values() for c in t.columns)


async def test_what_the_role_may_not_read_does_not_exist(server: Scratch) -> None:
    backend = Postgres(PostgresBackend(server.dsn(user="reader")))
    catalog = await backend.introspect()
    await backend.close()
    assert {str(t) for t in catalog.tables} == {"people", "zed", "seen", "S2.visits", "loose"}
    assert [c.name for c in catalog.tables[TableName("public", "loose")].columns] == ["a"]
    assert unique(catalog, "loose") == ((), ())


async def test_ranges_of_public_tables_only(backend: Postgres) -> None:
    zed = TableName("public", "zed")
    catalog = await backend.with_public_ranges(await backend.introspect(), frozenset({zed}))
    ranges = {c.name: c.public_range for c in catalog.tables[zed].columns}
    expected = {"x": ("-1", "3"), "d": ("2020-01-02", "2021-01-02"), "n": ("1.50", "2")}
    assert ranges == {"y": None, "t": None, "empty": None, "ts": None, **expected}
    assert catalog.tables[TableName("public", "people")].columns[0].public_range is None


async def test_public_rows(backend: Postgres) -> None:
    catalog = await backend.introspect()
    people, zed = (catalog.tables[TableName("public", n)] for n in ("people", "zed"))
    rows = await backend.public_rows(people, ["id", "Weird Name", "a", "d", "f", "e", "q"], 10)
    (row,) = rows.to_pylist()
    assert row == {"id": 1, "Weird Name": "victim", "a": "sad", "d": "{1,2}", "f": "1.50", "e": '{"k": 1}', "q": None}
    assert (await backend.public_rows(zed, ["x"], 0)).num_rows == 1
    with pytest.raises(BackendError):
        await backend.public_rows(zed, ["x", "nosuch"], 5)


async def test_values_come_through_unharmed(backend: Postgres) -> None:
    """NULL is no empty string, nor a text that looks like NULL; quotes, newlines and other alphabets are kept."""
    texts = ["", None, "\\N", "\\.", "NULL", 'a"b', "a,b", "l1\nl2\r\n", "é中😀", " pad ", "\\"]
    values = ", ".join("(NULL::text)" if t is None else "(E'" + t.replace("\\", "\\\\").replace("'", "''") + "')" for t in texts)
    query = f"SELECT v AS k0, row_number() OVER () AS b0, v IS NULL AS k1 FROM (VALUES {values}) AS t(v)"
    (table,) = (await backend.run([query]))._open()
    assert table.column("k0").to_pylist() == texts
    assert table.column("b0").to_pylist() == list(range(1, len(texts) + 1))
    assert table.column("k1").to_pylist() == [t is None for t in texts]
    for text in texts:  # a column alone: an empty line is a row too
        chosen = "NULL::text" if text is None else "E'" + text.replace("\\", "\\\\") + "'"
        (alone,) = (await backend.run([f"SELECT {chosen} AS k0"]))._open()
        assert alone.to_pydict() == {"k0": [text]}


async def test_types_of_results(backend: Postgres) -> None:
    query = "SELECT 1::int2 AS a, 2::int4 AS b, 3::int8 AS c, true AS d, 'NaN'::float8 AS e, 'infinity'::date AS f, 1.50 AS g"
    (table,) = (await backend.run([query]))._open()
    expected = {"a": [1], "b": [2], "c": [3], "d": [True], "e": ["NaN"], "f": ["infinity"], "g": ["1.50"]}
    assert table.to_pydict() == expected
    (empty,) = (await backend.run([f"{query} WHERE false"]))._open()
    assert empty.num_rows == 0
    assert empty.schema == table.schema


async def test_run_returns_tables_in_order(backend: Postgres) -> None:
    exact = await backend.run(["SELECT 'x'::text AS k0, 3::int8 AS b0", "SELECT 4::int8 AS n"])
    assert isinstance(exact, Exact)
    first, second = exact._open()
    assert first.to_pydict() == {"k0": ["x"], "b0": [3]}
    assert second.to_pydict() == {"n": [4]}


async def test_one_snapshot_a_call(server: Scratch, backend: Postgres) -> None:
    """The second query starts after a row was added, and does not see it."""
    query = "SELECT count(*)::int8 AS n FROM public.zed"
    running = asyncio.create_task(backend.run([f"{query}, pg_sleep(0.5)", query]))
    await asyncio.sleep(0.2)
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("INSERT INTO zed(x) VALUES (99)")
    first, second = (await running)._open()
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("DELETE FROM zed WHERE x = 99")
    assert first.to_pydict() == second.to_pydict() == {"n": [2]}


COUNT = "SELECT count(*)::int8 AS n FROM public.zed"
ZED = (CatalogTable(TableName("public", "zed"), ("public", "zed"), (CatalogColumn("x", "x", "int4"),)),)


async def test_one_snapshot_a_statement(server: Scratch, backend: Postgres) -> None:
    """Measurements one after the other, as a statement's are, see what the first saw; the next statement does not."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        async with backend.snapshot(ZED) as runner:
            found = [(await runner.run([COUNT]))._open()[0]]
            connection.execute("INSERT INTO zed(x) VALUES (99)")
            found += (await runner.run([COUNT, COUNT]))._open()
        found += (await backend.run([COUNT]))._open()
        connection.execute("DELETE FROM zed WHERE x = 99")
    assert [table.to_pydict()["n"] for table in found] == [[2], [2], [2], [3]]
    assert at_work(server) == 0


async def test_a_lost_snapshot_is_not_replaced(server: Scratch, backend: Postgres) -> None:
    """A restart before its first run is not noticed; after it the data would be of another moment."""
    await backend.run([COUNT])
    async with backend.snapshot(ZED) as runner:
        await asyncio.to_thread(server.restart)
        await runner.run([COUNT])
        await asyncio.to_thread(server.restart)
        with pytest.raises(BackendError):
            await runner.run([COUNT])
    assert (await backend.run([COUNT]))._open()[0].to_pydict() == {"n": [2]}


async def test_a_snapshot_is_cancelled(server: Scratch, backend: Postgres) -> None:
    async with backend.snapshot(ZED) as runner:
        await runner.run([COUNT])
        task = asyncio.create_task(runner.run([SLOW]))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await backend.run([COUNT])
    assert at_work(server) == 0


async def test_violations(backend: Postgres) -> None:
    assert await backend.violations(["SELECT count(*) FROM public.zed", "SELECT 0"]) == (2, 0)


async def test_session_settings(backend: Postgres) -> None:
    names = ("TimeZone", "DateStyle", "search_path", "transaction_isolation", "transaction_read_only", "statement_timeout", "jit")
    names = (*names, "enable_nestloop")
    items = ", ".join(f"current_setting('{n}') AS {n.lower()}" for n in names)
    for _ in range(2):  # on a connection that served already, too
        (table,) = (await backend.run([f"SELECT {items}"]))._open()
        found = [table.column(n.lower())[0].as_py() for n in names]
        assert found == ["UTC", "ISO, YMD", "pg_catalog", "repeatable read", "on", "10min", "off", "off"]


async def test_an_administrators_settings_stand(server: Scratch) -> None:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE ROLE slow LOGIN; ALTER ROLE slow SET statement_timeout = '1h'")
    by_role, by_dsn = server.dsn(user="slow"), server.dsn() + "&statement_timeout=5000"
    for dsn, expected in ((by_role, "1h"), (by_dsn, "5s")):
        backend = Postgres(PostgresBackend(dsn))
        (table,) = (await backend.run(["SELECT current_setting('statement_timeout') AS s"]))._open()
        await backend.close()
        assert table.to_pydict() == {"s": [expected]}


WRITES = [
    "WITH i AS (INSERT INTO public.zed(x) VALUES (1) RETURNING x) SELECT x FROM i",
    "CREATE TABLE public.made AS SELECT 1 AS a",
    "DROP TABLE public.zed",
    "SELECT nextval('public.people_id_seq')",
    "SET TimeZone = 'CET'",
]


@pytest.mark.parametrize("statement", WRITES)
async def test_nothing_is_written(backend: Postgres, statement: str) -> None:
    with pytest.raises(BackendError):
        await backend.run([statement])
    assert await backend.violations(["SELECT count(*) FROM public.zed"]) == (2,)


@pytest.mark.parametrize(
    "query",
    [
        'SELECT "Weird Name"::int AS a FROM public.people',
        'SELECT ("Weird Name"::text || chr(49))::numeric AS a FROM public.people',
        'SELECT ("Weird Name"::text)::public.mood AS a FROM public.people',
        "SELECT to_date(\"Weird Name\", 'YYYY') AS a FROM public.people",
    ],
)
async def test_errors_do_not_quote_data(backend: Postgres, query: str) -> None:
    """Neither the text nor the chain of causes, which a logger would print."""
    with pytest.raises(BackendError) as caught:
        await backend.run([query])
    assert "victim" not in str(caught.value)
    assert str(caught.value).startswith("22")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_an_error_leaves_the_backend_usable(backend: Postgres) -> None:
    with pytest.raises(BackendError, match="nosuch"):
        await backend.run(["SELECT * FROM nosuch"])
    assert (await backend.run(["SELECT 1::int8 AS b0"]))._open()[0].num_rows == 1


SLOW = "SELECT count(*) AS b0 FROM generate_series(1, 100000000000) AS r(i) WHERE i % 7 = 3"


def working(server: Scratch, which: str = "AND locktype = 'virtualxid'") -> list[int]:
    """Process numbers of the proxy's sessions inside a transaction."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        query = "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE application_name = 'dpproxy'"
        return [int(pid) for (pid,) in connection.execute(f"{query} {which}".encode())]


def at_work(server: Scratch) -> int:
    return len(working(server))


async def test_cancelling_the_task_interrupts_the_engine(server: Scratch) -> None:
    """All places of the pool are busy with endless queries; once cancelled, each must serve again."""
    backend = Postgres(PostgresBackend(server.dsn()), places=3)
    tasks = [asyncio.create_task(backend.run([SLOW])) for _ in range(5)]  # two wait for a place
    async with asyncio.timeout(300):
        while at_work(server) != 3:
            await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(r, asyncio.CancelledError) for r in results)
    await asyncio.wait_for(asyncio.gather(*(backend.run(["SELECT 1::int8 AS b0"]) for _ in range(6))), 300)
    assert at_work(server) == 0
    await backend.close()


async def test_no_measurement_is_in_the_way_of_a_question(server: Scratch) -> None:
    """Every place is taken, by statements without an end; the data's epoch, a probe and public rows are told all the same."""
    backend = Postgres(PostgresBackend(server.dsn()), places=2)
    running = [asyncio.create_task(backend.run([SLOW])) for _ in range(2)]
    try:
        assert await asyncio.wait_for(backend.violations(["SELECT count(*) FROM public.zed"]), 300) == (2,)
        assert await asyncio.wait_for(backend.introspect(), 300)
        assert not any(task.done() for task in running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await backend.close()


async def test_a_place_is_connected_before_anything_is_read(server: Scratch, backend: Postgres) -> None:
    """A server that is away is met when the place is taken; one that restarts while it is held is not noticed."""
    async with backend.snapshot(ZED) as runner:
        await asyncio.to_thread(server.restart)
        assert (await runner.run([COUNT]))._open()[0].to_pydict() == {"n": [2]}
    nowhere = Postgres(PostgresBackend("postgresql://nobody@127.0.0.1:1/none"), places=1)
    with pytest.raises(BackendError):
        async with nowhere.snapshot(()):
            raise AssertionError("there is no such place")
    await nowhere.close()


async def test_a_server_that_confirms_nothing_keeps_nobody(server: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session's process is stopped in the middle of a statement, so that neither the cancellation nor the end of the
    transaction is answered."""
    monkeypatch.setattr("dpproxy.backends.postgres.CLOSE_TIMEOUT", 0.3)
    backend = Postgres(PostgresBackend(server.dsn()), places=1)

    async def slow() -> None:
        async with backend.snapshot(()) as runner:
            await runner.run([SLOW])

    await frozen(server, backend, asyncio.create_task(slow()))


async def test_a_lock_that_is_never_confirmed_keeps_nobody(server: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the other connection's process that is stopped, which waits for the table."""
    monkeypatch.setattr("dpproxy.backends.postgres.CLOSE_TIMEOUT", 0.3)
    backend = Postgres(PostgresBackend(server.dsn()), places=1)
    with psycopg.connect(server.conninfo()) as owner:
        owner.execute("LOCK TABLE zed")
        await frozen(server, backend, asyncio.create_task(backend.run([COUNT])), "AND NOT granted")


async def frozen(server: Scratch, backend: Postgres, task: asyncio.Task[Any], *which: str) -> None:
    """Stop a process of the task's, cancel the task, and ask something else."""
    async with asyncio.timeout(300):
        while not (pids := working(server, *which)):
            await asyncio.sleep(0.05)
    os.kill(pids[0], signal.SIGSTOP)
    try:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(task), 300)
        await asyncio.wait_for(backend.run(["SELECT 1::int8 AS b0"]), 300)  # its place is free again
    finally:
        os.kill(pids[0], signal.SIGCONT)
    await backend.close()


async def test_closing_interrupts(server: Scratch) -> None:
    backend = Postgres(PostgresBackend(server.dsn()))
    task = asyncio.create_task(backend.run([SLOW]))
    await asyncio.sleep(0.3)
    await asyncio.wait_for(backend.close(), 300)
    with pytest.raises((asyncio.CancelledError, BackendError)):
        await task
    for _ in range(100):
        if not at_work(server):
            break
        await asyncio.sleep(0.05)
    assert at_work(server) == 0
    with pytest.raises(BackendError, match="closed"):
        await backend.run(["SELECT 1"])


async def test_the_timeout_ends_a_statement(server: Scratch) -> None:
    backend = Postgres(PostgresBackend(server.dsn() + "&statement_timeout=300"))
    with pytest.raises(BackendError, match="57014"):
        await asyncio.wait_for(backend.run([SLOW]), 300)
    await backend.close()


async def test_a_restart_is_not_noticed(server: Scratch, backend: Postgres) -> None:
    await asyncio.gather(*(backend.run(["SELECT 1::int8 AS b0"]) for _ in range(3)))
    await asyncio.to_thread(server.restart)
    (table,) = (await backend.run(["SELECT 2::int8 AS b0"]))._open()
    assert table.to_pydict() == {"b0": [2]}


async def test_a_restart_under_a_running_statement(server: Scratch, backend: Postgres) -> None:
    task = asyncio.create_task(backend.run(["SELECT pg_sleep(1), 5::int8 AS b0"]))
    await asyncio.sleep(0.3)
    await asyncio.to_thread(server.restart)
    (table,) = (await asyncio.wait_for(task, 300))._open()
    assert table.column("b0").to_pylist() == [5]


CONFLICT = """
CREATE FUNCTION public.conflict() RETURNS int8 LANGUAGE plpgsql AS $$ BEGIN
  IF (SELECT count(*) FROM public.late) = 0 THEN
    RAISE 'canceling statement due to conflict with recovery' USING ERRCODE = '40001';
  END IF;
  RETURN 7; END $$
"""


async def test_a_conflict_with_recovery_is_tried_again(server: Scratch, backend: Postgres) -> None:
    """As on a standby whose primary removes rows; the last attempt's error is passed on."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(CONFLICT)
        task = asyncio.create_task(backend.run(["SELECT public.conflict() AS n"]))
        await asyncio.sleep(0.1)
        connection.execute("INSERT INTO late VALUES (1)")
        try:
            assert (await task)._open()[0].to_pydict() == {"n": [7]}
        finally:
            connection.execute("DELETE FROM late; DROP FUNCTION conflict()")


async def test_tables_that_change_meanwhile(server: Scratch, backend: Postgres) -> None:
    """A column of another type is read as that; one that is gone is an error, after which all else is read as before."""
    asked = "SELECT a AS n FROM public.shifting"
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE shifting (a int, b text); INSERT INTO shifting VALUES (5, 'x')")
        try:
            for _ in range(2):
                assert (await backend.run([asked]))._open()[0].to_pydict() == {"n": [5]}
            connection.execute("ALTER TABLE shifting ALTER a TYPE text")
            assert (await backend.run([asked]))._open()[0].to_pydict() == {"n": ["5"]}
            connection.execute("ALTER TABLE shifting DROP a")
            with pytest.raises(BackendError, match="42703"):
                await backend.run([asked])
            found = await backend.introspect()
            assert [c.name for c in found.tables[TableName("public", "shifting")].columns] == ["b"]
        finally:
            connection.execute("DROP TABLE shifting")
    assert (await backend.run([COUNT]))._open()[0].to_pydict() == {"n": [2]}


async def test_no_server_is_a_backend_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpproxy.backends.postgres.TRIES", (0.0, 0.01))
    backend = Postgres(PostgresBackend(f"postgresql://nobody@/x?host={tmp_path}", "hunter2"))
    with pytest.raises(BackendError) as caught:
        await backend.introspect()
    await backend.close()
    assert "hunter2" not in str(caught.value)
