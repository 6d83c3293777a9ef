"""How far off an answer may be, asked by a client: functions beside the aggregates, and EXPLAIN."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from psycopg import Connection

from .conftest import Town

TOLD = "SELECT region, count(*), dpproxy.low(count(*)), dpproxy.high(count(*)), dpproxy.stderr(count(*)) FROM people GROUP BY 1"


@pytest.fixture
def connection(town: Town) -> Iterator[Connection]:
    with psycopg.connect(town.dsn, autocommit=True) as opened:
        opened.execute("SET dpproxy.epsilon = 0.1")
        yield opened


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_an_interval_beside_its_value(connection: Connection, binary: bool, prepare: bool) -> None:
    cursor = connection.execute(TOLD, binary=binary, prepare=prepare)
    assert [(c.name, c.type_code) for c in cursor.description or ()] == [
        ("region", 25), ("count", 20), ("low", 20), ("high", 20), ("stderr", 701),
    ]  # fmt: skip
    rows = cursor.fetchall()
    assert len(rows) == 4
    for _, value, low, high, error in rows:
        assert high - value == 44  # ln(80) scales of 10, and one number more
        assert low == max(value - 44, 0)
        assert error == pytest.approx(14.1, abs=0.1)


def test_types_are_those_of_the_aggregates(connection: Connection) -> None:
    connection.execute("SET dpproxy.epsilon = 20")
    cursor = connection.execute(
        "SELECT dpproxy.low(avg(income)), dpproxy.high(sum(height)), dpproxy.low(stddev(height)), dpproxy.high(corr(height, income)), "
        "dpproxy.low(sum(income) / count(*)) AS ratio FROM people HAVING dpproxy.low(count(*)) > 0 ORDER BY dpproxy.high(avg(income))"
    )
    assert [c.type_code for c in cursor.description or ()] == [1700, 701, 701, 701, 1700]
    ((average, total, spread, correlation, ratio),) = cursor.fetchall()
    assert isinstance(average, Decimal)
    assert isinstance(ratio, Decimal)
    assert total > 170_000
    assert 0 <= spread < 14.5
    assert -1 <= correlation <= 1


def test_confidence(connection: Connection) -> None:
    widths = []
    for confidence in ("0.5", "0.95", "0.99"):
        connection.execute(f"SET dpproxy.confidence = {confidence}")
        ((value, high),) = connection.execute("SELECT count(*), dpproxy.high(count(*)) FROM people").fetchall()
        widths.append(high - value)
    assert widths == [21, 44, 60]
    connection.execute("SET dpproxy.confidence = 2")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="between"):
        connection.execute(TOLD)


def test_elsewhere_they_say_so(connection: Connection) -> None:
    """Over private rows before anything is charged, over anything else by the facade."""
    for sql in ("SELECT dpproxy.low(max(n)) FROM (SELECT count(*) AS n FROM people) AS t", "SELECT dpproxy.high(1)"):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="must stand around an aggregate"):
            connection.execute(sql)


@pytest.mark.parametrize("prepare", [False, True])
def test_around_a_column_of_a_query_around(connection: Connection, prepare: bool) -> None:
    """The same answer, at no further charge, with the names and types that PostgreSQL gives its columns."""
    wanted = connection.execute(f"{TOLD} ORDER BY 1").fetchall()
    around = "SELECT *, dpproxy.low(n), dpproxy.high(n), dpproxy.stderr(n) FROM t ORDER BY t.region"
    cursor = connection.execute(f"WITH t AS (SELECT region, count(*) AS n FROM people GROUP BY 1) {around}", prepare=prepare)
    assert [(c.name, c.type_code) for c in cursor.description or ()] == [
        ("region", 25), ("n", 20), ("low", 20), ("high", 20), ("stderr", 701),
    ]  # fmt: skip
    assert cursor.fetchall() == wanted


def test_in_a_copy_and_a_cursor(connection: Connection) -> None:
    with connection.cursor().copy(f"COPY ({TOLD}) TO STDOUT") as copy:
        assert len(list(copy.rows())) == 4
    with connection.transaction():
        cursor = psycopg.ServerCursor(connection, "told")
        assert len(cursor.execute(TOLD).fetchall()) == 4


def test_explain_as_json(connection: Connection) -> None:
    cursor = connection.execute(f"EXPLAIN (PRIVACY, FORMAT JSON) {TOLD}")
    assert [(c.name, c.type_code) for c in cursor.description or ()] == [("QUERY PLAN", 114)]
    ((told,),) = cursor.fetchall()
    (measurement,) = told[0]["Privacy Plan"]["Measurements"]
    assert measurement["Outputs"] == [{"Aggregate": "count(*)", "Within": 44.0, "Noise": [1]}]
    parameter = "SELECT count(*), avg(income) FROM people WHERE height < %s"
    ((told,),) = connection.execute(f"EXPLAIN (FORMAT JSON) {parameter}", (170,)).fetchall()
    assert json.dumps(told)
    lines = connection.execute(f"EXPLAIN (PRIVACY) {parameter}", (170,)).fetchall()
    assert lines[0][0].startswith("Differentially Private Answer")
    for wrong in ("EXPLAIN (FORMAT XML)", "EXPLAIN ANALYZE", "EXPLAIN (ANALYZE, PRIVACY)"):
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute(f"{wrong} {TOLD}")
