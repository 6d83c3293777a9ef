"""A marked query may have an index as large as its table has rows and memory allows; no other query has."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpproxy.backends.duckdb import PLACES, DuckDB
from dpproxy.backends.duckdb_stages import MOST_BITS, USUAL_BITS, indexing
from dpproxy.policy.model import DuckDBBackend
from dpproxy.sql.template import INDEXED

SETTING = "SELECT CAST(current_setting('perfect_ht_threshold') AS BIGINT) AS b0"
GROUPED = 'SELECT u, k, count(*) AS n FROM "large" GROUP BY u, k'
PERFECT = "perfect hash group"
ROWS, BITS = 40_000, 15


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"memory_limit": "4GB", "threads": 2}) as made:
        made.execute(f'CREATE TABLE "large" AS SELECT i % 1000 AS u, i % 10 AS k FROM range({ROWS}) AS t(i)')
        made.execute('CREATE TABLE "small" AS SELECT 1 AS x')
        yield made


def bits(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    with indexing(connection, query, PLACES):
        return setting(connection)


def setting(connection: duckdb.DuckDBPyConnection) -> int:
    return int(connection.execute(SETTING).fetchall()[0][0])


def test_a_marked_query_has_a_cell_for_each_row(connection: duckdb.DuckDBPyConnection) -> None:
    assert bits(connection, GROUPED + INDEXED.format(8)) == BITS
    assert setting(connection) == USUAL_BITS
    assert bits(connection, GROUPED) == USUAL_BITS


def test_a_small_table_has_no_large_index(connection: duckdb.DuckDBPyConnection) -> None:
    assert bits(connection, 'SELECT x FROM "small"' + INDEXED.format(8)) == USUAL_BITS
    assert bits(connection, "SELECT 1" + INDEXED.format(8)) == USUAL_BITS


def test_an_index_is_no_larger_than_there_is_memory_for(connection: duckdb.DuckDBPyConnection) -> None:
    """Of each thread and place: 2**27 bytes are 2**14 cells of 32 for each of 8, with room for twice that."""
    connection.execute(f"SET memory_limit = '{2**23} B'")
    assert bits(connection, GROUPED + INDEXED.format(8)) == 14
    assert bits(connection, GROUPED + INDEXED.format(64)) == 13


def test_no_index_is_larger_than_what_is_ever_set(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("SET memory_limit = '1TB'")
    connection.execute(f'INSERT INTO "large" SELECT 0, 0 FROM range({2**MOST_BITS + 2 ** (MOST_BITS - 1)})')
    connection.execute(f'INSERT INTO "large" SELECT 0, 0 FROM range({2**MOST_BITS})')
    assert bits(connection, GROUPED + INDEXED.format(8)) == MOST_BITS


def test_groups_are_indexed(connection: duckdb.DuckDBPyConnection) -> None:
    query = GROUPED + INDEXED.format(8)

    def plan() -> str:
        return str(connection.execute(f"EXPLAIN {query}").fetchall()[0][1]).lower()

    assert PERFECT not in plan()
    with indexing(connection, query, PLACES):
        assert PERFECT in plan()
        indexed = sorted(connection.execute(query).fetchall())
    assert indexed == sorted(connection.execute(query).fetchall())


async def test_the_backend_lets_a_locked_database_have_an_index(tmp_path: object) -> None:
    path = f"{tmp_path}/data.duckdb"
    with duckdb.connect(path) as made:
        made.execute('CREATE TABLE "large" AS SELECT i FROM range(5000000) AS t(i)')
    backend = DuckDB(DuckDBBackend(path, memory_limit="4GB", threads=2))
    try:
        marked = f'{SETTING} FROM (SELECT count(*) FROM "large"{INDEXED.format(8)}) AS s'
        found = [table.to_pydict()["b0"] for table in (await backend.run([SETTING, marked, SETTING]))._open()]
        assert found == [[18], [22], [18]]
    finally:
        await backend.close()
