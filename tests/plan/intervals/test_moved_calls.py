"""Calls around columns of subqueries: where they are moved to, where they stay, and that nothing else changes by it."""

from __future__ import annotations

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.context import Context
from dpproxy.plan.intervals.moved_calls import push
from dpproxy.plan.known_tables import KnownTables
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.effort import MOST, counted
from dpproxy.sql.statements import parse

BY_REGION = "SELECT region, count(*) AS n, sum(income) AS s FROM customers GROUP BY region"
WIDER = 'SELECT region, count(*) AS n, sum(income) AS s, dpproxy.low(count(*)) AS "dpproxy_low_1" FROM customers GROUP BY region'

MOVED = [
    (
        f"WITH t AS ({BY_REGION}) SELECT region, n, dpproxy.low(n) FROM t",
        f'WITH t AS ({WIDER}) SELECT region, n, "dpproxy_low_1" AS "low" FROM t',
    ),
    (
        f"SELECT dpproxy.high(s / n) * 2 AS h FROM ({BY_REGION}) AS t WHERE dpproxy.low(t.n) > 5 ORDER BY dpproxy.high(s / n)",
        'SELECT "dpproxy_high_1" * 2 AS h FROM (SELECT region, count(*) AS n, sum(income) AS s, dpproxy.high(sum(income) / count(*)) '
        'AS "dpproxy_high_1", dpproxy.low(count(*)) AS "dpproxy_low_2" FROM customers GROUP BY region) AS t '
        'WHERE "dpproxy_low_2" > 5 ORDER BY "dpproxy_high_1"',
    ),
]
"""A statement, and what is made of it."""

INSIDE = [
    ("SELECT n, dpproxy.low(n) FROM ({0}) AS t", "count(*)"),
    ("SELECT x, dpproxy.low(x) FROM (SELECT n * 2 AS x FROM ({0}) AS t WHERE n > 3) AS u", "count(*) * 2"),
    ("WITH t AS ({0}), u AS (SELECT t.n AS m, t.s FROM t) SELECT dpproxy.low(s / m) FROM u", "sum(income) / count(*)"),
    ("WITH t (r, c) AS ({0}) SELECT *, dpproxy.low(a) FROM t AS x (b, a)", "count(*)"),
    ("SELECT *, dpproxy.low(n) AS l FROM ({0}) AS t", "count(*)"),
    ("SELECT t.*, u.region, dpproxy.low(t.n) FROM ({0}) AS t JOIN ({0}) AS u ON t.region = u.region", "count(*)"),
    ("WITH t AS ({0}) SELECT * FROM t UNION ALL SELECT region, dpproxy.low(n), s FROM t", "count(*)"),
    ("SELECT k, dpproxy.low(v) FROM ({0} UNION ALL SELECT 'all', count(*), 0 FROM customers) AS t (k, v)", "count(*)"),
    ("SELECT region, dpproxy.low(100.0 * n / sum(n) OVER ()) FROM ({0}) AS t", "100.0 * count(*) / sum(count(*)) OVER ()"),
    ("SELECT region, sum(dpproxy.low(n)) FROM ({0}) AS t GROUP BY region HAVING count(*) > 0", "count(*)"),
    ("SELECT region, count(*) FROM ({0}) AS t WHERE dpproxy.low(n) > 3 GROUP BY region", "count(*)"),
    ("SELECT r, dpproxy.low(n) FROM ({0}) AS t JOIN (VALUES ('north')) AS f (r) ON r = region", "count(*)"),
    ("SELECT (SELECT max(dpproxy.low(n)) FROM ({0}) AS t) AS most", "count(*)"),
    ("SELECT n FROM (SELECT region, n, dpproxy.low(n) AS l FROM ({0}) AS t) AS u WHERE l > 3", "count(*)"),
    ("SELECT DISTINCT ON (region) region, dpproxy.low(n) FROM ({0}) AS t ORDER BY region, dpproxy.low(n)", "count(*)"),
]
"""A statement over the counts by region, and what the call stands around where it was moved to."""

STAYS = [
    "SELECT dpproxy.low(n) FROM (SELECT DISTINCT region, count(*) AS n FROM customers GROUP BY region) AS t",
    "SELECT region, n, dpproxy.low(n) FROM ({0}) AS t GROUP BY region, n",
    "SELECT sum(n), dpproxy.low(n) FROM ({0}) AS t",
    "SELECT dpproxy.low(sum(n)) FROM ({0}) AS t",
    "SELECT dpproxy.low(5), n FROM ({0}) AS t",
    "SELECT dpproxy.low(t.n / u.n) FROM ({0}) AS t JOIN ({0}) AS u USING (region)",
    "SELECT dpproxy.low(n) FROM ({0}) AS t NATURAL JOIN (VALUES ('north')) AS f (region)",
    "SELECT t, dpproxy.low(n) FROM ({0}) AS t",
    "SELECT to_json(t.*), dpproxy.low(n) FROM ({0}) AS t",
    "SELECT *, dpproxy.low(n) FROM ({0}) AS t JOIN (VALUES ('north')) AS f (region) USING (region)",
    "SELECT dpproxy.low(n) FROM ({0} UNION {0}) AS t",
    "SELECT dpproxy.low(n + 1) FROM ({0} UNION ALL {0}) AS t",
    "SELECT dpproxy.low(sum(n) OVER ()) FROM ({0}) AS t WHERE region > 'a'",
    "SELECT dpproxy.low(sum(n) OVER ()) FROM ({0} LIMIT 2) AS t",
    "SELECT dpproxy.low((SELECT 1) + n) FROM ({0}) AS t",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT dpproxy.low(n) FROM t",
    "SELECT (SELECT dpproxy.low(t.n)) FROM ({0}) AS t",
]
"""Where a column more would be seen, would change rows, or would mean something else."""


def moved(sql: str, catalog: Catalog) -> str:
    policy, tree = plan_harness.policy(), parse(sql)
    push(tree, KnownTables(Context(policy, catalog, policy.roles["analyst"], "duckdb")))
    return to_sql(tree)


def same(sql: str) -> str:
    return to_sql(parse(sql))


@pytest.mark.parametrize(("before", "after"), MOVED)
def test_what_becomes_of_a_statement(before: str, after: str, shop_catalog: Catalog) -> None:
    assert same(moved(before, shop_catalog)) == same(after)


@pytest.mark.parametrize(("form", "around"), INSIDE)
def test_a_call_is_moved_to_an_aggregate(form: str, around: str, shop_catalog: Catalog) -> None:
    """What is measured is what would be without the call, and the answer's columns have their names."""
    sql = form.format(BY_REGION)
    found = moved(sql, shop_catalog)
    assert same(f"SELECT dpproxy.low({around})").removeprefix("SELECT ") in found
    assert [c.name for c in parse(found).selects] == [c.name for c in parse(moved(found, shop_catalog)).selects]
    plain = sql.replace(f"dpproxy.low({sql.partition('dpproxy.low(')[2].partition(')')[0]})", "1") if "OVER" not in sql else ""
    made = plan_harness.plan(sql, shop_catalog)
    if plain:
        assert made.measurements == plan_harness.plan(plain, shop_catalog).measurements


@pytest.mark.parametrize("form", STAYS)
def test_a_call_stays_where_it_would_be_seen(form: str, shop_catalog: Catalog) -> None:
    sql = form.format(BY_REGION)
    assert moved(sql, shop_catalog) == same(sql)
    with pytest.raises(Refusal, match=r"dpproxy.low\(\) must stand around an aggregate"):
        plan_harness.plan(sql, shop_catalog)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT dpproxy.low(m) FROM (SELECT max(n) AS m FROM ({0}) AS t) AS u", "must stand around an aggregate"),
        ("SELECT dpproxy.low(region) FROM ({0}) AS t", "must stand around an aggregate"),
        ("SELECT dpproxy.low(n) FROM (SELECT mode() WITHIN GROUP (ORDER BY sex) AS n FROM customers) AS t", "not available for mode"),
        ("SELECT dpproxy.stderr(m) FROM (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY income) AS m FROM customers) AS t", "not"),
    ],
)  # fmt: skip
def test_where_there_is_no_interval_the_words_are_those_of_the_aggregate(sql: str, says: str, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal, match=says):
        plan_harness.plan(sql.format(BY_REGION), shop_catalog)


def test_a_constant_of_a_union_is_its_own_interval(shop_catalog: Catalog) -> None:
    both = f"({BY_REGION} UNION ALL SELECT 'x', -5, 0) AS t"
    low, spread = (moved(f"SELECT dpproxy.{name}(n) FROM {both}", shop_catalog) for name in ("low", "stderr"))
    assert "UNION ALL SELECT 'x', -5, 0, -5 AS" in low
    assert "UNION ALL SELECT 'x', -5, 0, CAST(0 AS DOUBLE PRECISION) AS" in spread


def test_work_is_in_proportion_to_what_is_written(shop_catalog: Catalog) -> None:
    """A column that stands twice in the next one doubles with each level; many calls are moved by some steps each."""
    levels = BY_REGION
    for _ in range(15):
        levels = f"SELECT n + n AS n FROM ({levels}) AS t"
    found = moved(f"SELECT dpproxy.low(n) FROM ({levels}) AS t", shop_catalog)
    assert len(found) < 40_000
    calls = ", ".join(f"dpproxy.low(n + {i})" for i in range(500))
    _, steps = counted(lambda: moved(f"SELECT {calls} FROM (SELECT * FROM ({BY_REGION}) AS t) AS u", shop_catalog))
    assert steps < MOST
