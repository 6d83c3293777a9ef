"""Statements around a query, as texts: PREPARE, EXECUTE, DEALLOCATE, SELECT INTO TEMP, in the simple protocol."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import Connection

from .conftest import REGIONS, Town


@pytest.fixture
def connection(town: Town) -> Iterator[Connection]:
    with psycopg.connect(town.dsn, autocommit=True) as opened:
        yield opened


def said(connection: Connection, sql: str) -> str:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql)
    return f"{caught.value.sqlstate} {caught.value.diag.message_primary}"


def test_execute_answers(connection: Connection) -> None:
    assert (
        connection.execute("PREPARE q AS SELECT region, count(*) AS n FROM people GROUP BY 1 ORDER BY 1").statusmessage
        == "PREPARE"
    )
    cursor = connection.execute("EXECUTE q")
    assert cursor.fetchall() == REGIONS
    assert cursor.statusmessage == "SELECT 4"
    connection.execute('DEALLOCATE q; PREPARE "Q 2" (int, text) AS SELECT count(*) FROM people WHERE id < $1 AND region <> $2')
    assert connection.execute("""EXECUTE "Q 2" (10 * 10, concat('we', 'st'))""").fetchone() == (75,)
    assert connection.execute("""/* again */ execute "Q 2"('200', 'none')""").fetchone() == (200,)


def test_errors_are_those_of_postgresql(connection: Connection) -> None:
    connection.execute("PREPARE q (int) AS SELECT count(*) FROM people WHERE id < $1")
    assert said(connection, "PREPARE q AS SELECT 1") == '42P05 prepared statement "q" already exists'
    assert said(connection, "EXECUTE q(1, 2)") == "42601 wrong number of parameters for prepared statement"
    assert said(connection, "EXECUTE q('x')") == '22P02 invalid input syntax for type integer: "x"'
    connection.execute("DEALLOCATE ALL")
    assert said(connection, "EXECUTE q(1)") == '26000 prepared statement "q" does not exist'
    assert said(connection, "PREPARE rows AS SELECT * FROM people").startswith("42501 answers are aggregates")
    assert said(connection, "EXECUTE rows") == '26000 prepared statement "rows" does not exist'


def test_no_answer_comes_from_the_empty_tables(connection: Connection) -> None:
    """What the facade would run by itself it would run over no rows."""
    connection.execute("PREPARE q AS SELECT count(*) FROM people")
    alone = "0A000 a prepared statement over private tables can only be executed by itself"
    for sql in ("EXPLAIN EXECUTE q", "CREATE TEMP TABLE t AS EXECUTE q", "CREATE TEMP TABLE t AS execute Q"):
        assert said(connection, sql).startswith(alone)
    assert connection.execute("SELECT 'execute q'").fetchone() == ("execute q",)
    assert connection.execute("SELECT 1; EXECUTE q").nextset()
    connection.prepare_threshold = 0
    connection.execute("SELECT count(*) FROM people WHERE id < %s", (100,))
    (name,) = connection.execute(
        "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%people WHERE id < $1%'"
    ).fetchone() or ("",)
    assert connection.execute(f'EXECUTE "{name}" (50)', prepare=False).fetchone() == (50,)


def test_prepare_is_a_simple_query(connection: Connection) -> None:
    with pytest.raises(psycopg.Error, match="must be a simple query"):
        connection.execute("PREPARE q AS SELECT count(*) FROM people", binary=True)


def test_select_into_a_temporary_table(connection: Connection) -> None:
    made = "SELECT region, count(*) AS n INTO TEMP TABLE counts FROM people GROUP BY region"
    assert connection.execute(made).statusmessage == "SELECT 4"
    assert connection.execute("SELECT region, n FROM counts ORDER BY 1").fetchall() == REGIONS
    assert said(connection, "SELECT count(*) INTO kept FROM people").startswith("0A000 only queries may read")
