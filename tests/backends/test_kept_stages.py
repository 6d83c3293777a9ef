"""What two queries begin with is computed once on a connection, and means the same."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpproxy.backends.duckdb_stages import KeptStages, said
from dpproxy.sql.template import KEPT

BEGIN = "WITH r AS (SELECT i % 3 AS k FROM numbers), g AS (SELECT k, count(*) AS n FROM r GROUP BY k)"
FIRST = f"SELECT k, n + 1 AS more FROM ({BEGIN}{KEPT.format('g', 1)} SELECT * FROM g) AS w ORDER BY k"
SECOND = f"{BEGIN}{KEPT.format('g', 1)}, f AS (SELECT k, n * 2 AS n FROM g) SELECT sum(n) FROM f"
TWO = f"{BEGIN}{KEPT.format('g', 1)}, s AS (SELECT sum(n) AS n FROM g){KEPT.format('s', 2)}"


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


def test_one_table_is_made_of_another(connection: duckdb.DuckDBPyConnection) -> None:
    stages = KeptStages(connection)
    looking, other = (
        f"SELECT n + 1 FROM ({TWO} SELECT * FROM s) AS w",
        f"{TWO}, f AS (SELECT max(n) AS most FROM g) SELECT * FROM s, f",
    )
    for query, rows in ((looking, [(11,)]), (other, [(10, 4)])):
        assert connection.execute(query).fetchall() == rows
        read = stages.read(query)
        assert "numbers" not in read
        connection.execute("ALTER TABLE numbers RENAME TO elsewhere")  # whatever is read now was kept
        assert connection.execute(read).fetchall() == rows
        connection.execute("ALTER TABLE elsewhere RENAME TO numbers")
    assert tables(connection) == ["kept0", "kept1"]
    assert connection.execute("SELECT * FROM kept1").fetchall() == [(10,)]


def test_it_is_the_connection_s_alone(connection: duckdb.DuckDBPyConnection) -> None:
    with connection.cursor() as one:
        KeptStages(one).read(FIRST)
        assert tables(one) == ["kept0"]
        with connection.cursor() as other:
            assert other.execute(KeptStages(other).read(SECOND)).fetchall() == [(20,)]
    with connection.cursor() as later:
        assert later.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall() == [(0,)]


def test_a_constant_is_no_mark(connection: duckdb.DuckDBPyConnection) -> None:
    """It has two quotation marks for one; and of marks the last ones count, after which nobody's words stand."""
    constant = KEPT.format("r", 1).replace("'", "''")
    plain = f"SELECT '{constant}'"
    assert not said(plain)
    assert KeptStages(connection).read(plain) == plain
    named = TWO.replace("FROM numbers", f'FROM (SELECT i, i AS "x{KEPT.format("r", 2)}" FROM numbers) AS named')
    stages = KeptStages(connection)
    assert connection.execute(stages.read(f"{named} SELECT * FROM s")).fetchall() == [(10,)]
    marked = SECOND.replace("FROM numbers", f"FROM numbers WHERE '{constant}' <> ''")
    assert connection.execute(stages.read(marked)).fetchall() == [(20,)]
