"""What is parsed and printed again means the same to PostgreSQL: the outer query is such a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpproxy.errors import Refusal
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.statements import parse

LINES = [line for line in (Path(__file__).parent / "round_trip.txt").read_text().splitlines() if line and line[0] != "#"]
SAME = [f"SELECT {line}" for line in LINES if line[0] != "!"]
HAZARDS = [f"SELECT {line[1:]}" for line in LINES if line[0] == "!"]


def said(connection: psycopg.Connection[Any], sql: str) -> tuple[list[tuple[str, int]], list[tuple[str, ...]]]:
    cursor = connection.execute(sql.encode(), prepare=False)
    return [(c.name, c.type_code) for c in cursor.description or ()], [tuple(map(str, row)) for row in cursor]


@pytest.mark.slow
@pytest.mark.parametrize("sql", SAME)
def test_the_same_to_postgresql(sql: str, postgres: psycopg.Connection[Any]) -> None:
    assert said(postgres, to_sql(parse(sql))) == said(postgres, sql)


@pytest.mark.parametrize("sql", SAME)
def test_printing_comes_to_rest(sql: str) -> None:
    """Text printed from a printed text stays as it is."""
    twice = to_sql(parse(to_sql(parse(sql))))
    assert to_sql(parse(twice)) == twice


@pytest.mark.parametrize("sql", HAZARDS)
def test_what_is_read_differently_is_refused(sql: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse(sql)
    assert caught.value.position is not None or caught.value.sqlstate == "42601"


@pytest.mark.parametrize(
    "call",
    [
        "to_char(a, 'YYYY')", "date_part('dow', a)", "string_agg(a, ',')", "generate_series(1, 2)", "If_Exists(a)", "ROUND(a, 2)",
        "jsonb_build_object('k', a)", "regexp_replace(a, 'x', 'y')", "log(2, a)", "pg_catalog.lower(a)", "my_schema.f(a, b)",
    ],
)  # fmt: skip
def test_function_names_stay_as_written(call: str) -> None:
    assert to_sql(parse(f"SELECT {call} FROM t")) == f"SELECT {call} FROM t"


def test_names_in_quotes_call_what_postgresql_calls() -> None:
    assert to_sql(parse('SELECT "count"(*), CASE WHEN "sum"(x) > 1 THEN "Own"(y) END FROM t')) == (
        'SELECT count(*), CASE WHEN sum(x) > 1 THEN "Own"(y) END FROM t'
    )
    with pytest.raises(Refusal):
        parse('SELECT "coalesce"(x, 1) FROM t')
