"""Released arrays as sources: PostgreSQL makes of them the rows that were released, grouping sets as one table."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from dpproxy.plan.outer.staged_rows import array_source, session_local, sets_source, with_columns
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.types import wire_type

FINE = [("k0", "text"), ("k1", "int4"), ("b0", "int8")]
ROWS = [("a", 1, 10), ("a", 2, 20), ("b", 1, 5)]


def rows(source: object, items: str, postgres: psycopg.Connection[Any]) -> list[tuple[object, ...]]:
    text = to_sql(source)  # type: ignore[arg-type]
    arrays = [[row[i] for row in ROWS] for i in range(3)]
    for i, array in enumerate(arrays):
        literal = ", ".join(repr(x) for x in array)
        text = text.replace(f"${i + 2}", f"(ARRAY[{literal}])")
    return postgres.execute(f"SELECT {items} FROM {text}".encode()).fetchall()


def test_arrays_are_rows(postgres: psycopg.Connection[Any]) -> None:
    assert rows(array_source("m", 2, FINE), "m.k0, m.k1, m.b0", postgres) == ROWS


def test_sets_that_are_added_up(postgres: psycopg.Connection[Any]) -> None:
    """Bit i of `g` says that key i is left out."""
    fine = array_source("m", 2, FINE)
    branches = [(fine, (0, 1), False, []), (fine, (0,), True, []), (fine, (1,), True, []), (fine, (), True, [])]
    found = rows(sets_source("s", branches, ["text", "int4"], ["b0"]), "k0, k1, b0, g", postgres)
    expected = [(*row, 0) for row in ROWS] + [
        ("a", None, 30, 2),
        ("b", None, 5, 2),
        (None, 1, 15, 1),
        (None, 2, 20, 1),
        (None, None, 35, 3),
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_the_last_step_is_the_largest(postgres: psycopg.Connection[Any]) -> None:
    fine = array_source("m", 2, [("k0", "text"), ("k1", "int4"), ("t0", "int8")])
    assert rows(sets_source("s", [(fine, (), True, [])], ["text", "int4"], ["t0"]), "t0, g", postgres) == [(20, 3)]


def test_columns_that_are_the_same_in_all_rows(postgres: psycopg.Connection[Any]) -> None:
    found = rows(with_columns(array_source("m", 2, FINE), "m", ["7 AS h0"]), "m.k1, m.h0", postgres)
    assert found == [(1, 7), (2, 7), (1, 7)]


def test_more_items_and_queries_of_with(postgres: psycopg.Connection[Any]) -> None:
    fine = array_source("m", 2, FINE)
    found = rows(sets_source("s", [(fine, (0, 1), False, ["2 AS h0"])], ["text", "int4"], ["b0"]), "b0, h0, g", postgres)
    assert found == [(10, 2, 0), (20, 2, 0), (5, 2, 0)]
    cte = sets_source("s", [(fine, (0, 1), False, [])], ["text", "int4"], ["b0"], "w AS (SELECT 1)")
    assert rows(cte, "pg_typeof(b0)::text", postgres) == [("bigint",)] * 3


@pytest.mark.parametrize(
    ("type_", "wire", "local"),
    [("timestamptz", "timestamp", "(x)::timestamp"), ("timestamp", "timestamp", "x"), ("text", "text", "x")],
)
def test_instants_travel_as_local_times(type_: str, wire: str, local: str) -> None:
    assert (wire_type(type_), session_local("x", type_)) == (wire, local)
    assert f"{wire.upper()}[]" in to_sql(array_source("m", 1, [("k0", type_)])).upper()
