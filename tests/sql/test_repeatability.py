"""What gives the same rows again: forms that look at nothing but their operands."""

from __future__ import annotations

import pytest

from dpproxy.sql.repeatability import steady

IMMUTABLE = frozenset(["unnest", "upper", "sqrt", "round", "count", "sum", "row_number"])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT m.k, greatest(m.n, 0), CASE WHEN m.n > 1 THEN CAST(m.s AS decimal) END FROM unnest($1::text[], $2::int8[]) AS m(k, n)",
        "SELECT upper(a) || 'b', pg_catalog.upper(a), round(sqrt(b)::numeric, 2) FROM t ORDER BY 1 LIMIT 3",
        "SELECT sum(n) OVER (ORDER BY n), row_number() OVER (), count(*) FILTER (WHERE a), count(DISTINCT b) FROM t",
        "SELECT date_trunc('month', a), extract(year FROM b), to_char(c, 'YYYY') FROM t GROUP BY ROLLUP (1, 2)",
        "SELECT coalesce(a, nullif(b, 1)), trim(c), substring(d FROM 1 FOR 2) FROM t WHERE a IN (SELECT 1) AND EXISTS (SELECT 1)",
        "WITH r AS (SELECT 1 AS x) SELECT x, interval '1 day', 'the know-how of nowadays' FROM r UNION ALL SELECT 2, '1 h', 'x'",
    ],
)
def test_steady(query: str) -> None:
    assert steady(query, IMMUTABLE)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT now()",
        'SELECT "now"()',
        "SELECT pg_catalog.now()",
        "SELECT current_date",
        "SELECT current_timestamp(3)",
        "SELECT localtime",
        "SELECT localtimestamp",
        "SELECT 'now'::timestamp",
        "SELECT date ' Today '",
        "SELECT a FROM t WHERE b < 'yesterday'",
        "SELECT random()",
        "SELECT set_config('a', 'b', false)",
        "SELECT pg_catalog.set_config('a', 'b', false)",
        "SELECT U&\"set\\005fconfig\"('a', 'b', false)",
        "SELECT nextval('s')",
        "SELECT other.upper('a')",
        "SELECT * FROM t TABLESAMPLE bernoulli (10)",
        "SELECT current_user",
        "SELECT unheard_of(1)",
        "SELECT upper(a), (SELECT max(now()) FROM t) FROM u",
        "SELECT a FROM t FOR UPDATE",
        "SELECT 1 INTO x",
        "SELECT 1 +",
    ],
)
def test_not_steady(query: str) -> None:
    assert not steady(query, IMMUTABLE)
