"""What a measurement reads while others load, rewrite, rename and replace its tables: all of one committed state, or nothing.

Each load is one transaction, open when the measurement begins; the measurement waits for its lock (`pg_locks` shows it), and then
the load is committed. What it says is the load's last state, never a table that is half there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.backends import postgres as postgres_module
from dpproxy.backends import postgres_snapshot
from dpproxy.backends.base import BackendError, Locked, Unreadable
from dpproxy.backends.postgres import Postgres
from dpproxy.policy.catalog import CatalogColumn, CatalogTable
from dpproxy.policy.model import PostgresBackend
from dpproxy.table_terms import TableName

SCHEMA = """
DROP SCHEMA public CASCADE; DROP SCHEMA IF EXISTS staging CASCADE; CREATE SCHEMA public; CREATE SCHEMA staging;
CREATE TABLE visits (id int, n int NOT NULL DEFAULT 1); INSERT INTO visits SELECT i FROM generate_series(1, 10) AS i;
CREATE TABLE parts (id int, n int DEFAULT 1) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (11);
CREATE TABLE parts_2 (id int, n int DEFAULT 1);
INSERT INTO parts SELECT i FROM generate_series(1, 10) AS i; INSERT INTO parts_2 SELECT i FROM generate_series(11, 20) AS i;
CREATE TABLE parent (id int, n int DEFAULT 1); CREATE TABLE child () INHERITS (parent);
INSERT INTO child SELECT i FROM generate_series(1, 10) AS i;
CREATE VIEW seen AS SELECT id, n FROM visits;
CREATE MATERIALIZED VIEW kept AS SELECT id, n FROM visits;
CREATE TABLE staging.visits (id int, n int DEFAULT 1);
CREATE FUNCTION public.all_visits() RETURNS bigint LANGUAGE plpgsql STABLE AS
  $$ BEGIN RETURN (SELECT count(*) FROM public.visits); END $$;
CREATE VIEW called AS SELECT id, all_visits()::int AS n FROM parent;
CREATE FUNCTION public.all_kept() RETURNS bigint LANGUAGE plpgsql STABLE AS
  $$ BEGIN RETURN (SELECT count(*) FROM public.kept); END $$;
CREATE VIEW called_kept AS SELECT id, all_kept()::int AS n FROM parent;
GRANT USAGE ON SCHEMA public TO reader; GRANT USAGE ON SCHEMA staging TO reader;
GRANT SELECT (id, n) ON visits, parts, parent, seen, kept, called, called_kept, staging.visits TO reader;
"""
FILL = "INSERT INTO {} SELECT i FROM generate_series(1, 20) AS i"

LOADS = {
    "truncated": ("visits", ["TRUNCATE visits", FILL.format("visits")]),
    "rewritten": ("visits", ["ALTER TABLE visits ADD weight float DEFAULT random()"]),
    "with a column filled anew": (
        "visits",
        [
            "ALTER TABLE visits DROP n CASCADE",
            "ALTER TABLE visits ADD n int",
            "UPDATE visits SET n = 2",
            "GRANT SELECT (n) ON visits TO reader",
        ],
    ),
    "renamed": (
        "visits",
        [FILL.format("staging.visits"), "DROP TABLE visits CASCADE", "ALTER TABLE staging.visits SET SCHEMA public"],
    ),
    "a partition": ("parts", ["TRUNCATE parts_1", "INSERT INTO parts_1 SELECT i, 2 FROM generate_series(1, 10) AS i"]),
    "a child": ("parent", ["TRUNCATE child", FILL.format("child")]),
    "a view's table": ("seen", ["TRUNCATE visits", FILL.format("visits")]),
    "a view": ("seen", [FILL.format("staging.visits"), "CREATE OR REPLACE VIEW seen AS SELECT id, n FROM staging.visits"]),
    "a materialized view": ("kept", [FILL.format("visits"), "REFRESH MATERIALIZED VIEW kept"]),
}
TOLD = {"rewritten": 10, "a materialized view": 30}
"""Sums of `n` after each load; 20 where nothing else is said."""


@pytest.fixture(scope="module", name="server")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("data")) as running:
        with psycopg.connect(running.conninfo(), autocommit=True) as owner:
            owner.execute("CREATE ROLE reader LOGIN")
        yield running


@pytest.fixture(name="owner")
def owner_fixture(server: Scratch) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.conninfo(), autocommit=True) as owner:
        owner.execute(SCHEMA)
        yield owner


@pytest.fixture(name="backend")
async def backend_fixture(server: Scratch) -> AsyncIterator[Postgres]:
    backend = Postgres(PostgresBackend(server.dsn(user="reader")))
    yield backend
    await backend.close()


def table(name: str, *columns: str) -> tuple[CatalogTable, ...]:
    found = tuple(CatalogColumn(c, c, "int4") for c in columns or ("id", "n"))
    return (CatalogTable(TableName("public", name), ("public", name), found),)


def summed(name: str) -> str:
    return f'SELECT coalesce(sum(n), 0)::int8 AS b0 FROM public."{name}"'


async def measured(backend: Postgres, name: str, *columns: str) -> int:
    async with backend.snapshot(table(name, *columns)) as runner:
        return int((await runner.run([summed(name)]))._open()[0].column("b0")[0].as_py())


def waiting(server: Scratch) -> int:
    with psycopg.connect(server.conninfo(), autocommit=True) as looking:
        query = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND usename = 'reader'"
        return int(looking.execute(query).fetchone()[0])  # type: ignore[index]


async def until_waiting(server: Scratch, number: int = 1) -> None:
    async with asyncio.timeout(300):
        while await asyncio.to_thread(waiting, server) < number:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("load", LOADS)
async def test_a_load_that_is_open(load: str, server: Scratch, backend: Postgres, owner: psycopg.Connection[Any]) -> None:
    name, statements = LOADS[load]
    assert await measured(backend, name) == 10
    with owner.transaction():
        for statement in statements:
            owner.execute(statement.encode())
        measuring = asyncio.ensure_future(measured(backend, name))
        await until_waiting(server)
    assert await measuring == TOLD.get(load, 20)


async def test_what_the_operator_asks_is_whole(server: Scratch, backend: Postgres, owner: psycopg.Connection[Any]) -> None:
    """Checks of promises, the public tables' rows and sizes, the epoch."""
    (visits,) = table("visits")
    asked = {
        "violations": lambda: backend.violations(["SELECT count(*) FROM public.visits"]),
        "number": lambda: backend.number("SELECT count(*) FROM visits"),
        "rows": lambda: backend.public_rows(visits, ["id"], 100),
        "states": lambda: backend.public_states([visits]),
        "run": lambda: backend.run(["SELECT count(*)::int8 AS n FROM public.visits"]),
    }
    for ask in asked.values():
        with owner.transaction():
            owner.execute("TRUNCATE visits")
            owner.execute(FILL.format("visits").encode())
            asking = asyncio.ensure_future(ask())
            await until_waiting(server)
        found: Any = await asking
        told = found if isinstance(found, int) else found._open()[0]["n"][0].as_py() if hasattr(found, "_open") else found
        assert told in (20, (20,)) or getattr(told, "num_rows", 0) == 20 or str(told.get(visits.name, "")).startswith("20 ")


async def test_who_stands_behind_a_loader_lets_it_pass(
    server: Scratch, backend: Postgres, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader comes between the first lock and the second: it waits for the one, and the other stands behind it."""
    truncating: list[asyncio.Future[Any]] = []
    lock = postgres_snapshot._briefly

    def truncate() -> None:
        with psycopg.connect(server.conninfo()) as loader:
            loader.execute("TRUNCATE visits")
            loader.execute(FILL.format("visits").encode())

    async def behind(connection: Any, locks: Any) -> Any:
        if not truncating:
            truncating.append(asyncio.ensure_future(asyncio.to_thread(truncate)))
            async with asyncio.timeout(300):
                while owner.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
                    await asyncio.sleep(0.02)
        return await lock(connection, locks)

    monkeypatch.setattr(postgres_snapshot, "_briefly", behind)
    assert await measured(backend, "visits") == 20
    await truncating[0]


async def test_a_partition_that_comes_in_the_middle(backend: Postgres, owner: psycopg.Connection[Any]) -> None:
    """What nobody was told yet is read again; what follows on something told is not of its state, and is not read."""
    attach = b"ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (11) TO (21)"
    async with backend.snapshot(table("parts")) as runner:
        owner.execute(attach)
        (found,) = (await runner.run([summed("parts")]))._open()
        assert found.to_pydict() == {"b0": [20]}
    owner.execute("ALTER TABLE parts DETACH PARTITION parts_2")
    async with backend.snapshot(table("parts")) as runner:
        assert (await runner.run([summed("parts")]))._open()[0].to_pydict() == {"b0": [10]}
        owner.execute(attach)
        with pytest.raises(BackendError, match="replaced while they were read"):
            await runner.run([summed("parts")])


async def test_schemas_that_change_their_names(backend: Postgres, owner: psycopg.Connection[Any]) -> None:
    """No table's lock is in the way of that."""
    async with backend.snapshot(table("visits")) as runner:
        with owner.transaction():
            owner.execute(FILL.format("staging.visits").encode())
            owner.execute("ALTER SCHEMA public RENAME TO former")
            owner.execute("ALTER SCHEMA staging RENAME TO public")
        try:
            assert (await runner.run([summed("visits")]))._open()[0].to_pydict() == {"b0": [20]}
        finally:
            owner.execute("ALTER SCHEMA public RENAME TO staging; ALTER SCHEMA former RENAME TO public")


async def test_a_table_that_only_a_function_reads(backend: Postgres, owner: psycopg.Connection[Any]) -> None:
    """It is met while the view is read, each time: it may, as long as it is what the snapshot has."""
    assert await measured(backend, "called") == 100


@pytest.mark.parametrize(
    ("view", "load"),
    [
        ("called", f"TRUNCATE visits; {FILL.format('visits')}"),
        ("called_kept", f"{FILL.format('staging.visits')}; {FILL.format('visits')}; REFRESH MATERIALIZED VIEW kept"),
    ],
)
async def test_a_table_that_only_a_function_reads_is_rewritten(
    view: str, load: str, backend: Postgres, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the snapshot and the reading, the second time: it has been met before, and the snapshot has none of its rows."""
    begun, whole = [], postgres_module.whole

    async def loaded(*arguments: Any, **more: Any) -> Any:
        found = await whole(*arguments, **more)
        begun.append(found)
        if len(begun) == 2:
            await found.connection.fetchval("SELECT count(*) FROM pg_class")
            owner.execute(load.encode())
        return found

    monkeypatch.setattr(postgres_module, "whole", loaded)
    assert await measured(backend, view) == 10 * (20 if view == "called" else 30)
    assert len(begun) == 3


async def test_a_table_that_takes_anothers_place_behind_the_snapshot(
    backend: Postgres, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second connection has its snapshot, and locks a table that was filled and named after it: it begins anew."""
    tried, briefly = [], postgres_snapshot._briefly

    async def behind(connection: Any, locks: Any) -> Any:
        tried.append(await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'former'"))
        if len(tried) == 1:
            with owner.transaction():
                owner.execute(FILL.format("staging.visits").encode())
                owner.execute("ALTER SCHEMA public RENAME TO former")
                owner.execute("ALTER SCHEMA staging RENAME TO public")
        return await briefly(connection, locks)

    monkeypatch.setattr(postgres_snapshot, "_briefly", behind)
    try:
        assert await measured(backend, "visits") == 20
    finally:
        owner.execute("ALTER SCHEMA public RENAME TO staging; ALTER SCHEMA former RENAME TO public")
    assert tried == [0, 1]


async def test_who_waits_for_a_loader_is_not_idle(
    backend: Postgres, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction that is to read is not ended while the other waits for its locks, however soon idle ones are; then it is
    as others are."""
    limits, briefly = [], postgres_snapshot._briefly

    async def watched(connection: Any, locks: Any) -> Any:
        limits.append(await connection.fetchval("SHOW idle_in_transaction_session_timeout"))
        found = await briefly(connection, locks)
        limits.append(await connection.fetchval("SHOW idle_in_transaction_session_timeout"))
        return found

    monkeypatch.setattr(postgres_snapshot, "_briefly", watched)
    owner.execute("ALTER ROLE reader SET idle_in_transaction_session_timeout = '7min'")
    try:
        assert await measured(backend, "visits") == 10
    finally:
        owner.execute("ALTER ROLE reader RESET idle_in_transaction_session_timeout")
    assert limits == ["0", "7min"]


async def test_patience_ends(backend: Postgres, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_snapshot.whole, "__defaults__", (0.05, ()))
    with owner.transaction():
        owner.execute("LOCK TABLE visits")
        with pytest.raises(Locked, match="55P03"):
            async with backend.snapshot(table("visits")):
                raise AssertionError("it is locked")


@pytest.mark.parametrize(
    ("change", "undo", "column"),
    [
        ("ALTER TABLE visits RENAME TO gone", "ALTER TABLE gone RENAME TO visits", "id"),
        ("ALTER TABLE visits RENAME n TO m", "ALTER TABLE visits RENAME m TO n", "n"),
        ("REVOKE SELECT (n) ON visits FROM reader", "GRANT SELECT (n) ON visits TO reader", "n"),
        ("REVOKE USAGE ON SCHEMA public FROM reader", "GRANT USAGE ON SCHEMA public TO reader", "id"),
    ],
)
async def test_what_is_not_there_is_met_at_the_door(
    change: str, undo: str, column: str, backend: Postgres, owner: psycopg.Connection[Any]
) -> None:
    owner.execute(change.encode())
    try:
        with pytest.raises(Unreadable):
            async with backend.snapshot(table("visits", column)):
                raise AssertionError("it is not there")
        if column == "n":
            async with backend.snapshot(table("visits", "id")) as runner:
                await runner.run(["SELECT count(id)::int8 AS b0 FROM public.visits"])
    finally:
        owner.execute(undo.encode())
    assert await measured(backend, "visits") == 10


async def test_a_column_of_another_type_is_met_at_the_door(
    server: Scratch, backend: Postgres, owner: psycopg.Connection[Any]
) -> None:
    """Also where the change is committed while the measurement waits, after its snapshot. Other columns are read as before."""
    catalog = await backend.introspect()
    found = catalog.tables[TableName("staging", "visits")]
    (number,) = (c for c in found.columns if c.name == "n")
    both, one = replace(found, columns=(number,)), replace(found, columns=tuple(c for c in found.columns if c.name == "id"))
    with owner.transaction():
        owner.execute("ALTER TABLE staging.visits ALTER n TYPE bigint")
        measuring = asyncio.ensure_future(backend.snapshot((both,)).__aenter__())
        await until_waiting(server)
    with pytest.raises(Unreadable, match="integer, now bigint"):
        await measuring
    async with backend.snapshot((one,)) as runner:
        assert (await runner.run(["SELECT count(id)::int8 AS n FROM staging.visits"]))._open()[0].to_pydict() == {"n": [0]}
    owner.execute("ALTER TABLE staging.visits ALTER n TYPE int")
    async with backend.snapshot((both,)):
        pass
