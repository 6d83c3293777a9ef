"""Types of released queries are PostgreSQL's: each expression is asked of it."""

from __future__ import annotations

from typing import Any

import plan_harness
import psycopg
import pytest
from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.plan.context import Context
from dpproxy.plan.outer.types import Columns, TreeTypes
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.skeleton import parse_expression
from dpproxy.sql.types import type_name

COLUMNS = {
    "i": "int4",
    "l": "int8",
    "n": "numeric",
    "f": "float8",
    "d": "date",
    "s": "timestamp",
    "z": "timestamptz",
    "t": "text",
    "b": "bool",
}
SOURCE = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in COLUMNS.items())
EXPRESSIONS = (
    "i + l", "i * n", "i / f", "-n", "(i)", "i % 2", "l - i", "d + 1", "d - d", "s + INTERVAL '1 day'", "z - INTERVAL '1 month'",
    "d + INTERVAL '1 day'", "INTERVAL '1 hour' + s", "t || 'x'", "i > 3", "NOT b", "b AND i = 1", "t LIKE 'x%'", "i IS NULL",
    "i BETWEEN 1 AND 3", "i IN (1, 2)", "'x'", "7", "7.5", "true", "CASE WHEN b THEN i ELSE l END", "CASE WHEN b THEN NULL ELSE n END",
    "CASE i WHEN 1 THEN 1 ELSE 2.5 END", "greatest(i, n)", "least(l, i)", "coalesce(f, i)", "nullif(i, 0)", "abs(n)", "abs(f)",
    "round(n, 2)", "round(f)", "trunc(n)", "floor(n)", "ceil(f)", "ceil(i)", "floor(l)", "trunc(i)", "round(i)", "trim_scale(n)", "date_trunc('day', s)",
    "date_trunc('day', z)", "date_trunc('day', d)", "now()", "make_date(1, 2, 3)", "ln(n)", "ln(f)", "exp(i)", "sign(i)", "sign(n)", "sqrt(n)",
    "sqrt(i)", "power(n, 2)", "power(i, 2)", "power(i, n)", "power(f, n)", "mod(i, 2)", "mod(l, i)", "mod(n, 2)", "lower(t)", "left(t, 1)", "concat(i, t)", "to_char(s, 'YYYY')", "replace(t, 'a', 'b')",
    "length(t)", "strpos(t, 'a')", "ascii(t)", "split_part(t, ',', 1)", "md5(t)", "starts_with(t, 'a')", "trim(t)", "substring(t, 1, 2)",
    "substring(t FROM 1 FOR 2)", "extract(year FROM s)", "date_part('year', s)", "current_date", "current_timestamp", "localtimestamp",
    "age(s, s)", "CAST(t AS int2)", "t::date", "width_bucket(f, 0, 1, 4)", "repeat(t, 2)", "reverse(t)",
    "position('a' IN t)", "log(n)", "log(f)", "justify_hours(s - s)", "chr(65)", "translate(t, 'a', 'b')",
)  # fmt: skip
AGGREGATES = (
    "count(*)", "count(*) FILTER (WHERE b)", "sum(i)", "sum(l)", "sum(n)", "sum(f)", "avg(i)", "avg(f)", "avg(n)", "min(d)", "max(t)", "stddev(i)",
    "stddev(f)", "var_pop(n)", "variance(l)", "bool_and(b)", "every(b)", "string_agg(t, ',')", "corr(f, f)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY f)",
    "sum(i) FILTER (WHERE b)", "sum(i) OVER ()", "row_number() OVER (ORDER BY i)", "rank() OVER (ORDER BY i)", "ntile(4) OVER (ORDER BY i)",
    "percent_rank() OVER (ORDER BY i)", "cume_dist() OVER (ORDER BY i)", "lag(t) OVER (ORDER BY i)", "first_value(d) OVER (ORDER BY i)",
)  # fmt: skip
UNKNOWN = (
    "array_agg(i)",
    "json_agg(t)",
    "some_function(i)",
    "t + 1",
    "s - s",
    "d * 2",
    "nowhere",
    "q.nowhere",
    "o.i",
    "coalesce(i, nowhere)",
)


@pytest.fixture
def types(shop_catalog: Catalog) -> TreeTypes:
    policy = plan_harness.policy()
    return TreeTypes(Context(policy, shop_catalog, policy.roles["analyst"], "duckdb"), {})


def told(postgres: psycopg.Connection[Any], query: str) -> list[str]:
    """The types that PostgreSQL gives the outputs of a query, in our short names."""
    postgres.execute("DISCARD TEMP")
    postgres.execute(f"CREATE TEMP VIEW asked AS {query}".encode())
    rows = postgres.execute(
        "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = 'asked'::regclass AND attnum > 0 ORDER BY attnum"
    ).fetchall()
    found = [type_name(parse_expression(f"CAST(NULL AS {text})").args["to"]) for (text,) in rows]
    return [name or "" for name in found]


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *AGGREGATES])
def test_an_expression_has_the_type_it_has_in_postgresql(
    postgres: psycopg.Connection[Any], types: TreeTypes, expression: str
) -> None:
    query = f"SELECT {expression} AS x FROM (SELECT {SOURCE}) AS q"
    tree = parse_expression(query)
    found = types.columns(tree)
    assert [type_ for _, type_ in found] == told(postgres, to_sql(tree))


QUERIES = (
    "SELECT * FROM (SELECT 1 AS a, 'x'::text AS b) AS t", "SELECT t.*, u.a AS c FROM (SELECT 1.5 AS a) AS t, (SELECT now() AS a) AS u",
    "SELECT * FROM (SELECT 1 AS a, 2.5 AS b) AS t(x, y)", "SELECT y FROM (SELECT 1 AS a, 2.5 AS b) AS t(x, y)", "SELECT * FROM (VALUES (1, 'x'), (2.5, 'y')) AS v",
    "SELECT v.b FROM (VALUES (1, 2), (2, 3::int8)) AS v(a, b)", "SELECT 1 AS a UNION ALL SELECT 2.5", "(SELECT 1::int2 AS a) UNION SELECT 2::int8",
    "WITH c AS (SELECT 1 AS a), d AS (SELECT a + 1.5 AS b FROM c) SELECT a, b FROM c, d", "SELECT x FROM generate_series(1, 3) AS x",
    "SELECT x FROM generate_series(1, 3::int8) AS g(x)", "SELECT * FROM generate_series(1, 2.5) AS g(x)",
    "SELECT g FROM generate_series(now(), now(), INTERVAL '1 day') AS g", "SELECT g FROM generate_series(date '2024-01-01', date '2024-01-02', INTERVAL '1 day') AS g",
    "SELECT g FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-02', INTERVAL '1 day') AS g", "SELECT * FROM unnest(ARRAY[1, 2.5]) AS u(x)",
    "SELECT * FROM unnest(CAST('{1}' AS int8[]), CAST('{x}' AS text[])) AS u(a, b)", "SELECT x, ordinality FROM unnest(ARRAY['a']) WITH ORDINALITY AS x",
    "SELECT w FROM regexp_split_to_table('a b', ' ') AS w", "SELECT unnest(string_to_array('a,b', ',')) AS w", "SELECT generate_series(1, 3) AS n",
    "SELECT a FROM (SELECT 1 AS a) AS t JOIN LATERAL (SELECT t.a + 1.5 AS b) AS u ON true",
    "SELECT * FROM (SELECT 1, 2.5) AS t(x, y)", "SELECT x FROM (SELECT sum(a), sum(b) FROM (SELECT 1 AS a, 2.5 AS b) AS s) AS t(x, y)",
    "SELECT * FROM (SELECT 'x'::text AS a, 1 AS k) AS t JOIN (SELECT 2.5 AS k, true AS b) AS u USING (k)",
    "SELECT * FROM (SELECT 'x'::text AS a, 1 AS k) AS t NATURAL JOIN (SELECT 2::int8 AS k, true AS b) AS u",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n, n * 1.5 AS m FROM r",
)  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_has_the_columns_it_has_in_postgresql(postgres: psycopg.Connection[Any], types: TreeTypes, query: str) -> None:
    postgres.execute("DISCARD TEMP")
    tree = parse_expression(query)
    names = [c.name for c in postgres.execute(query.encode()).description or ()]
    assert list(types.columns(tree)) == list(zip(names, told(postgres, query), strict=True))


@pytest.mark.parametrize("expression", UNKNOWN)
def test_what_is_not_known_has_no_type(types: TreeTypes, expression: str) -> None:
    assert types.columns(parse_expression(f"SELECT {expression} AS x FROM (SELECT {SOURCE}) AS q")) == (("x", ""),)


def test_tables_have_their_types_in_the_catalog_if_they_are_public(types: TreeTypes) -> None:
    public = dict(types.columns(parse_expression("SELECT p.title, list_price, p.added FROM products AS p")))
    assert public == {"title": "text", "list_price": "numeric", "added": "date"} or public["title"] == "varchar"
    assert types.columns(parse_expression("SELECT amount FROM orders")) == (("amount", ""),)


def test_released_ctes_are_known_by_name(types: TreeTypes, shop_catalog: Catalog) -> None:
    policy = plan_harness.policy()
    context = Context(policy, shop_catalog, policy.roles["analyst"], "duckdb")
    known = TreeTypes(context, {"m": parse_expression("SELECT 1.5 AS x"), "products": parse_expression("SELECT true AS title")})
    assert known.columns(parse_expression("SELECT x, title FROM m, products")) == (("x", "numeric"), ("title", "bool"))
    ((name, type_),) = known.columns(parse_expression("SELECT title FROM public.products"))
    assert name == "title"
    assert type_ in ("text", "varchar")


@pytest.mark.parametrize("query", ["SELECT 1 AS a, 2 AS b", "(VALUES (1))"])
def test_a_scalar_is_one_column_of_a_query(types: TreeTypes, query: str) -> None:
    with pytest.raises(Refusal):
        types.scalar(parse_expression(query))
    assert types.scalar(parse_expression("(SELECT 2.5)")) == "numeric"


def test_each_nested_query_is_looked_at_once(types: TreeTypes, monkeypatch: pytest.MonkeyPatch) -> None:
    """`*` over `*` over `*`: what each level looks at below it is looked at once, however deep."""
    looked, plain = 0, TreeTypes.columns

    def counted(self: TreeTypes, tree: exp.Expr) -> Columns:
        nonlocal looked
        looked += 1
        return plain(self, tree)

    monkeypatch.setattr(TreeTypes, "columns", counted)
    query = "SELECT 1 AS a"
    for level in range(12):
        query = f"SELECT * FROM ({query}) AS t{level}"
    assert types.columns(parse_expression(query)) == (("a", "int4"),)
    assert looked == 13
