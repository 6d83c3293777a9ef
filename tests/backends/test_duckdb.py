"""The DuckDB backend on small files: what it reads, what it refuses to do, how it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import duckdb
import pytest

from dpproxy.backends.base import BackendError, Runner
from dpproxy.backends.duckdb import DuckDB
from dpproxy.mechanisms.noise import Exact
from dpproxy.policy.model import DuckDBBackend
from dpproxy.sql.template import KEPT
from dpproxy.table_terms import TableName

SCHEMA = """
CREATE TABLE Foo(Id INTEGER PRIMARY KEY, "Weird Name" VARCHAR NOT NULL UNIQUE, a UTINYINT, b USMALLINT, c UINTEGER,
    d UBIGINT, e HUGEINT, f DECIMAL(10,2), g FLOAT, h DOUBLE, i TIMESTAMP_NS, j TIMESTAMPTZ, k TIME, l INTERVAL,
    m UUID, n ENUM('x','y'), o INTEGER[], p STRUCT(a INTEGER), q BLOB, r BOOLEAN, s DATE, t TIMESTAMP_S, u BIT,
    v DECIMAL(4,1)[], w UHUGEINT, x TINYINT, y SMALLINT, z BIGINT);
CREATE TABLE bar(id BIGINT, foo_id INTEGER REFERENCES Foo(Id), u1 INTEGER, u2 INTEGER, UNIQUE(u1, u2), CHECK(u1 > 0));
COMMENT ON TABLE bar IS 'hello';
COMMENT ON COLUMN bar.id IS 'the id';
CREATE VIEW seen AS SELECT id FROM bar;
CREATE SCHEMA "S2";
CREATE TABLE "S2".zed(x INTEGER, y DOUBLE, d DATE, t VARCHAR, empty INTEGER);
INSERT INTO "S2".zed VALUES (3, 1.5, '2020-01-02', 'a', NULL), (-1, 'NaN', '2021-01-02', 'b', NULL);
INSERT INTO Foo(Id, "Weird Name", e, l, n, o) VALUES (1, 'victim', 2**100, INTERVAL 3 DAYS, 'x', [1, 2]);
"""


@pytest.fixture(name="path")
def path_fixture(tmp_path: Path) -> str:
    path = str(tmp_path / "data.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute(SCHEMA)
    return path


@pytest.fixture(name="backend")
async def backend_fixture(path: str):
    backend = DuckDB(DuckDBBackend(path, memory_limit="500MB", threads=2))
    yield backend
    await backend.close()


async def test_public_rows_keep_every_digit(backend: DuckDB) -> None:
    foo = (await backend.introspect()).tables[TableName("public", "foo")]
    rows = await backend.public_rows(foo, ["id", "Weird Name", "e", "l", "n", "o"], 10)
    assert rows.to_pylist() == [{"id": 1, "Weird Name": "victim", "e": str(2**100), "l": "3 days", "n": "x", "o": "[1, 2]"}]


async def test_public_rows_are_capped(backend: DuckDB) -> None:
    zed = (await backend.introspect()).tables[TableName("s2", "zed")]
    assert (await backend.public_rows(zed, ["x"], 0)).num_rows == 1
    with pytest.raises(BackendError):
        await backend.public_rows(zed, ["x", "nosuch"], 5)


async def test_run_returns_arrow_in_order(backend: DuckDB) -> None:
    exact = await backend.run(["SELECT 'x' AS k0, 3::BIGINT AS b0", "SELECT 4::BIGINT AS n"])
    assert isinstance(exact, Exact)
    first, second = exact._open()
    assert first.to_pydict() == {"k0": ["x"], "b0": [3]}
    assert second.to_pydict() == {"n": [4]}


async def test_rows_come_in_the_order_of_the_query(backend: DuckDB) -> None:
    """Of many vectors, which several threads copy: a list of candidates would name other values by its numbers."""
    for _ in range(20):
        exact = await backend.run(["SELECT n AS b0 FROM (SELECT 50000 - i AS n FROM range(50000) AS t(i)) ORDER BY n"])
        (rows,) = exact._open()
        assert rows.column("b0").to_pylist() == list(range(1, 50001))


async def test_the_rounds_of_a_measurement_begin_once(backend: DuckDB) -> None:
    """Both read what the first began with; outside of a place each has its own, and nothing stays."""
    begin = 'WITH g AS (SELECT x, random() AS n FROM "S2".zed)' + KEPT.format("g", 1)
    queries = [
        f"{begin} SELECT CAST(sum(n) * 1e15 AS BIGINT) AS b0 FROM g",
        f"{begin}, f AS (SELECT * FROM g) SELECT sum(n) FROM f",
    ]

    async def numbers(runner: Runner) -> list[int]:
        answers = [(await runner.run([query]))._open()[0] for query in queries]
        return [round(table.column(0)[0].as_py() * factor) for table, factor in zip(answers, (1, 1e15), strict=True)]

    async with backend.snapshot(()) as place:
        one, other = await numbers(place)
        assert abs(one - other) <= 1
        assert await backend.violations(["SELECT count(*) FROM duckdb_tables() WHERE temporary"]) == (0,)
    one, other = await numbers(backend)
    assert abs(one - other) > 1


async def test_a_place_that_is_left_in_the_middle_is_closed(backend: DuckDB) -> None:
    slow = "WITH g AS (SELECT 1 AS x)" + KEPT.format("g", 1) + f", s AS ({SLOW}) SELECT * FROM g, s"

    async def asked() -> None:
        async with backend.snapshot(()) as place:
            await place.run([slow])

    task = asyncio.create_task(asked())
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.wait_for(backend.violations(["SELECT 1"]), 300) == (1,)


async def test_violations(backend: DuckDB) -> None:
    checks = ['SELECT count(*) FROM "main"."Foo"', 'SELECT count(*) FROM "main"."bar"']
    assert await backend.violations(checks) == (1, 0)


FORBIDDEN = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT getenv('HOME')",
    "SET threads = 1",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "COPY bar TO '/tmp/dpproxy-test.csv'",
    "ATTACH '/tmp/dpproxy-test.duckdb'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "INSERT INTO bar VALUES (1, 1, 1, 1)",
    "UPDATE bar SET id = 2",
    "DROP TABLE bar",
    "CREATE TABLE made(x INTEGER)",
    "SELECT * FROM python_variable",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_locked_down(backend: DuckDB, statement: str) -> None:
    python_variable = (await backend.run(["SELECT 1::BIGINT AS b0"]))._open()[0]
    assert python_variable is not None
    with pytest.raises(BackendError):
        await backend.run([statement])


async def test_errors_do_not_quote_data(backend: DuckDB) -> None:
    """Neither the text nor the chain of causes, which a logger would print."""
    with pytest.raises(BackendError) as caught:
        await backend.run(['SELECT CAST("Weird Name" AS INTEGER) FROM main."Foo"'])
    assert "victim" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_an_error_leaves_the_backend_usable(backend: DuckDB) -> None:
    with pytest.raises(BackendError, match="nosuch"):
        await backend.run(["SELECT * FROM nosuch"])
    assert (await backend.run(["SELECT 1::BIGINT AS b0"]))._open()[0].num_rows == 1


async def test_time_zone_is_utc_on_every_connection(backend: DuckDB) -> None:
    table = (await backend.run(["SELECT current_setting('TimeZone') AS z"]))._open()[0]
    assert table.to_pydict() == {"z": ["UTC"]}


SLOW = "SELECT count(*)::BIGINT AS b0 FROM range(1000000000000) r(i) WHERE i % 7 = 3"


async def test_cancelling_the_task_interrupts_the_engine(backend: DuckDB) -> None:
    """All workers are busy with endless queries; once cancelled, each must serve again."""
    tasks = [asyncio.create_task(backend.run([SLOW])) for _ in range(6)]  # two wait for a worker
    await asyncio.sleep(0.3)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(r, asyncio.CancelledError) for r in results)
    answers = await asyncio.wait_for(asyncio.gather(*(backend.run(["SELECT 1::BIGINT AS b0"]) for _ in range(6))), 300)
    assert len(answers) == 6


async def test_closing_interrupts(path: str) -> None:
    backend = DuckDB(DuckDBBackend(path))
    task = asyncio.create_task(backend.run([SLOW]))
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.wait_for(backend.close(), 300)
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_missing_file_is_a_backend_error(tmp_path: Path) -> None:
    with pytest.raises(BackendError):
        DuckDB(DuckDBBackend(str(tmp_path / "absent.duckdb")))


async def test_self_joins_are_not_taken_for_one_another(path: str) -> None:
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE staff(id INTEGER, boss INTEGER, name VARCHAR); CREATE TABLE sales(seller INTEGER)")
        connection.execute(
            "INSERT INTO staff VALUES (1, NULL, 'ann'), (2, 1, 'bob'), (3, 1, 'cid'), (4, 2, 'dan'), (5, 2, 'eve')"
        )
        connection.execute("INSERT INTO sales SELECT 3 FROM range(100)")
    names = "SELECT DISTINCT m.name FROM staff e CROSS JOIN staff m WHERE m.id = e.boss"
    sold = "SELECT m.name, count(*) AS n FROM staff e JOIN staff m ON m.id = e.boss JOIN sales s ON e.id = s.seller GROUP BY 1"
    backend = DuckDB(DuckDBBackend(path))
    found = await backend.violations(
        [f"SELECT a.n FROM ({names}) AS d LEFT JOIN ({sold}) AS a ON d.name = a.name ORDER BY d.name"]
    )
    assert found == (100,)
    await backend.close()


async def test_no_measurement_is_in_the_way_of_a_question(path: str) -> None:
    """Every place is taken, by statements without an end; the data's epoch, a probe and public rows are told all the same."""
    backend = DuckDB(DuckDBBackend(path, threads=2), places=2)
    running = [asyncio.create_task(backend.run([SLOW])) for _ in range(backend.places + 1)]
    try:
        assert await asyncio.wait_for(backend.violations(['SELECT max(x) FROM "S2".zed']), 300) == (3,)
        assert await asyncio.wait_for(backend.introspect(), 300)
        assert not any(task.done() for task in running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await backend.close()


@pytest.mark.parametrize(("memory", "threads", "bits"), [("64GB", 1, 20), ("4GB", 2, 18), ("4GB", 8, 16), ("100MB", 8, 12)])
async def test_units_index_a_table_that_fits_the_memory(path: str, memory: str, threads: int, bits: int) -> None:
    """Of every connection; and what it takes is not beyond half of the memory that queries may have."""
    backend = DuckDB(DuckDBBackend(path, memory, threads))
    try:
        (found,) = await backend.violations(["SELECT current_setting('perfect_ht_threshold')"])
    finally:
        await backend.close()
    assert found == bits
