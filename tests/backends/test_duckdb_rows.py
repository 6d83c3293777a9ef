"""What is read of DuckDB is one query, however long its text is; a long one keeps nobody from the interpreter."""

from __future__ import annotations

import duckdb
import pytest

from dpproxy.backends.base import BackendError
from dpproxy.backends.duckdb_stages import PARSED_AT_ONCE, as_table

LONG = " " * PARSED_AT_ONCE


class Connection:
    """Refuses to parse a long text for Python, which keeps the interpreter's lock."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def extract_statements(self, text: str) -> object:
        assert len(text) <= PARSED_AT_ONCE, "a long text"
        return self._connection.extract_statements(text)

    def execute(self, query: str) -> object:
        return self._connection.execute(query)


@pytest.mark.parametrize("padding", ["", LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    "text", ["CREATE TEMP TABLE made(i INT)", "SELECT 1; SELECT 2", "", "SET threads = 1", "SELECT ';' || '''' ; SELECT 2"]
)
def test_what_is_read_is_one_query(text: str, padding: str) -> None:
    with duckdb.connect() as connection:
        with pytest.raises(BackendError, match="not a query"):
            as_table(connection, padding + text)
        assert as_table(connection, "SELECT 1 AS i UNION ALL SELECT NULL").to_pydict() == {"i": [1, None]}
        assert connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


@pytest.mark.parametrize("text", ["SELECT 'a;''b;' AS x", "WITH q AS (SELECT ';' AS x) SELECT x FROM q", 'SELECT 1 AS ";"'])
def test_a_long_query_is_not_parsed_for_python(text: str) -> None:
    """Semicolons in its quotes are none."""
    with duckdb.connect() as connection:
        short = as_table(connection, text)
        assert as_table(Connection(connection), text + LONG) == short  # type: ignore[arg-type]
