"""Lists in a SELECT without FROM, written as a table of FROM: the same rows to PostgreSQL, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from dpproxy.sql.dialect import to_sql
from dpproxy.sql.skeleton import as_rows
from dpproxy.sql.statements import parse

MADE = [
    "SELECT unnest(ARRAY[3, 1, NULL])", "SELECT generate_series(1, 9, 4) AS n", "SELECT regexp_split_to_table('a-b-c', '-')",
    "SELECT string_to_table('x,y', ',')", "SELECT generate_subscripts(ARRAY['a', 'b'], 1)", "SELECT json_array_elements_text('[1, 2]')",
    "(SELECT UNNEST(ARRAY['a']))",
]  # fmt: skip


@pytest.mark.parametrize("sql", MADE)
def test_the_same_rows(sql: str, postgres: psycopg.Connection[Any]) -> None:
    tree = as_rows(parse(sql))
    assert " FROM " in to_sql(tree)
    assert postgres.execute(to_sql(tree).encode()).fetchall() == postgres.execute(sql.encode()).fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT unnest(ARRAY[1]), 2",
        "SELECT upper('x')",
        "SELECT unnest(ARRAY[1]) LIMIT 1",
        "SELECT unnest(ARRAY[1]) ORDER BY 1",
        "SELECT DISTINCT unnest(ARRAY[1, 1])",
        "SELECT unnest(x) FROM t",
        "SELECT unnest(x)",
        "SELECT unnest(ARRAY(SELECT 1))",
        "SELECT unnest(ARRAY[1]) WHERE false",
        "SELECT unnest(ARRAY[1]) + 1",
    ],
)
def test_others_stay(sql: str) -> None:
    tree = parse(sql)
    assert as_rows(tree) is tree
