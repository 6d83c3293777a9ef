"""Names of output columns: PostgreSQL's own, whatever stands there."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from dpproxy.sql.output_names import output_name
from dpproxy.sql.statements import parse

ITEMS = [
    "a", "t.b", '"Mixed"', "a AS x", 'a AS "X y"', "a + b", "-a", "1", "'x'", "NULL", "(a)", "((a + 1))", "a::text", "(a + 1)::text", "1::int8",
    "'2024-01-01'::date", "CAST('1' AS numeric(10, 2))", "DATE '2024-01-01'", "INTERVAL '1 day'", "count(*)", "COUNT(a)", "sum(a) FILTER (WHERE a > 1)",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", "row_number() OVER ()", "upper('x')", "pg_catalog.upper('x')",
    "coalesce(a, 1)", "nullif(a, 1)", "greatest(a, b)", "least(a, b)", "CASE WHEN a > 1 THEN 1 END", "CASE WHEN a > 1 THEN 1 ELSE a END",
    "CASE WHEN a > 1 THEN 1 ELSE 2 END", "CASE WHEN a > 1 THEN 1 ELSE a + 1 END", "extract(year FROM now())", "substring('abc' FROM 2)", "position('a' IN 'b')",
    "trim('x ')", "trim(leading 'x' from 'xy')", "trim(trailing 'x' from 'xy')", "overlay('abc' placing 'x' from 2)", "ARRAY[1, 2]",
    "(ARRAY[1, 2])[1]", "(SELECT 1)", "(SELECT 1 AS one)", "(SELECT max(a) FROM t)", "EXISTS (SELECT 1)", "a IN (1, 2)", "a BETWEEN 1 AND 2",
    "a IS NULL", "NOT (a = 1)", "'x' || 'y'", "'x' LIKE 'y'", "current_date", "string_agg('x', ',')", "now() AT TIME ZONE 'UTC'", "a::text::int", "((a))::int",
    "(CASE WHEN true THEN 1 END)::text", "(SELECT a FROM t LIMIT 1)::text", "(DATE '2024-01-01', DATE '2024-01-02') OVERLAPS (DATE '2024-01-01', DATE '2024-01-02')",
]  # fmt: skip


@pytest.mark.parametrize("item", ITEMS)
def test_names_are_postgresqls(item: str, postgres: psycopg.Connection[Any]) -> None:
    aggregated = any(call in item.lower() for call in ("count(", "sum(", "percentile", "string_agg"))
    rows = 'WITH t (a, b, "Mixed") AS (VALUES (1, 2, 3))'
    cursor = postgres.execute(f"{rows} SELECT {item} FROM t{'' if aggregated else ' LIMIT 1'}".encode(), prepare=False)
    assert cursor.description is not None
    assert output_name(parse(f"SELECT {item} FROM t").expressions[0]) == cursor.description[0].name
