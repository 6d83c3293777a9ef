"""What two queries begin with is computed once on a connection, and means the same."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpproxy.backends.kept_stages import KeptStages, said
from dpproxy.sql.template import KEPT

BEGIN = "WITH r AS (SELECT i % 3 AS k FROM numbers), g AS (SELECT k, count(*) AS n FROM r GROUP BY k)"
FIRST = f"SELECT k, n + 1 AS more FROM ({BEGIN}{KEPT.format('g')} SELECT * FROM g) AS w ORDER BY k"
SECOND = f"{BEGIN}{KEPT.format('g')}, f AS (SELECT k, n * 2 AS n FROM g) SELECT sum(n) FROM f"


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute("CREATE TABLE numbers AS SELECT i FROM range(10) AS t(i)")
        yield made


def tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE temporary ORDER BY 1").fetchall()
    return [name for (name,) in found]


def test_what_both_begin_with_is_made_once(connection: duckdb.DuckDBPyConnection) -> None:
    stages = KeptStages(connection)
    for query, rows in ((FIRST, [(0, 5), (1, 4), (2, 4)]), (SECOND, [(20,)])):
        assert connection.execute(query).fetchall() == rows
        read = stages.read(query)
        assert "numbers" not in read
        assert connection.execute(read).fetchall() == rows
    assert tables(connection) == ["kept0"]
    other = stages.read(SECOND.replace("% 3", "% 4"))
    assert connection.execute(other).fetchall() == [(20,)]
    assert tables(connection) == ["kept0", "kept1"]


def test_it_is_the_connection_s_alone(connection: duckdb.DuckDBPyConnection) -> None:
    with connection.cursor() as one:
        KeptStages(one).read(FIRST)
        assert tables(one) == ["kept0"]
        with connection.cursor() as other:
            assert other.execute(KeptStages(other).read(SECOND)).fetchall() == [(20,)]
    with connection.cursor() as later:
        assert later.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall() == [(0,)]


def test_a_constant_is_no_mark(connection: duckdb.DuckDBPyConnection) -> None:
    """It has two quotation marks for one; and of marks the last one counts, after which nobody's words stand."""
    constant = KEPT.format("r").replace("'", "''")
    plain = f"SELECT '{constant}'"
    assert not said(plain)
    assert KeptStages(connection).read(plain) == plain
    marked = SECOND.replace("FROM numbers", f"FROM numbers WHERE '{constant}' <> ''")
    assert connection.execute(KeptStages(connection).read(marked)).fetchall() == [(20,)]
