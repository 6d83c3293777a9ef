"""What one person can make a statement cost: refused beyond a limit, and never more than is said."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.measure import amplification
from dpproxy.plan.properties import text_growth
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName

ME = "birth_year = 1970 AND sex = 'M'"  # a condition that one person satisfies
YEARS = "generate_series(timestamp '2024-01-01', timestamp '2024-12-31', interval '1 day')"

REFUSED = {
    "two series": f"SELECT count(DISTINCT g * 100000 + h) FROM customers c JOIN generate_series(1, 3000) g ON {ME} "
    "JOIN generate_series(1, 3000) h ON g <> h",
    "a series of series": f"SELECT count(*) FROM customers JOIN (SELECT 1 AS x FROM generate_series(1, 1000) g, "
    f"generate_series(1, 1000) h) s ON {ME}",
    "a series of a parameter's kind": "SELECT count(*) FROM customers JOIN generate_series(now()::timestamp, now()::timestamp + "
    "interval '9000 minutes', '1 minute') g ON extract(year from g) * 0 = birth_year * 0 JOIN generate_series(now()::timestamp, "
    "now()::timestamp + interval '9000 minutes', '1 minute') h ON extract(year from h) * 0 = birth_year * 0",
    "for each row": f"SELECT count(*) FROM customers WHERE {ME} AND "
    "(SELECT count(*) FROM generate_series(1, 3000) g, generate_series(1, 3000) h WHERE g <> birth_year) > 1",
    "for each of many rows": "SELECT count(*) FROM customers JOIN generate_series(1, 200) g ON g <> birth_year WHERE "
    "(SELECT count(*) FROM generate_series(1, 200) h WHERE h <> g * birth_year) > 1",
    "beside a row": f"SELECT count(*) FROM (SELECT * FROM customers WHERE {ME}) c CROSS JOIN "
    "(SELECT count(*) AS n FROM generate_series(1, 30000) g, generate_series(1, 30000) h WHERE g <> h) x",
    "a list": f"SELECT count(*) FROM customers JOIN (VALUES {', '.join(['(1)'] * 300)}) u(x) ON x = CASE WHEN {ME} THEN 1 END "
    f"JOIN (VALUES {', '.join(['(1)'] * 300)}) w(y) ON x = y",
    "outer joins": f"SELECT count(c.customer_id) FROM generate_series(1, 300) g LEFT JOIN customers c ON {ME} "
    "LEFT JOIN generate_series(1, 300) h ON h <> c.birth_year",
    "a branch each": "SELECT count(*) FROM (" + " UNION ALL ".join(["SELECT customer_id FROM customers, "
    "generate_series(1, 4000) g"] * 10) + ") t",
    "rows of one again and again": "SELECT count(*) FROM orders a "
    + " ".join(f"JOIN orders o{i} USING (customer_id)" for i in range(2)),
    "a subquery for each pair": "SELECT count(*) FROM orders a, orders z WHERE z.customer_id = a.customer_id AND a.qty > "
    "(SELECT avg(b.qty) FROM orders b WHERE b.customer_id = a.customer_id AND b.amount < a.amount + z.amount)",
    "a subquery of pairs": "SELECT count(*) FROM orders a WHERE a.qty > (SELECT avg(b.qty) FROM orders b, orders c "
    "WHERE b.customer_id = a.customer_id AND c.customer_id = b.customer_id)",
    "a subquery in a subquery": "SELECT count(*) FROM orders a WHERE a.qty > (SELECT avg(b.qty) FROM orders b WHERE b.customer_id = "
    "a.customer_id AND b.qty > (SELECT avg(c.qty) FROM orders c WHERE c.customer_id = b.customer_id))",
    "a subquery as a key": "SELECT (SELECT max(b.qty) FROM orders b WHERE b.customer_id = a.customer_id), count(*) "
    "FROM orders a JOIN orders z USING (customer_id) GROUP BY 1",
    "a filter for each pair": "SELECT count(*) FILTER (WHERE a.qty > (SELECT avg(b.qty) FROM orders b WHERE "
    "b.customer_id = a.customer_id AND b.qty > z.qty)) FROM orders a, orders z WHERE z.customer_id = a.customer_id",
    "rows around NOT IN": "SELECT count(*) FROM orders a, orders z WHERE z.customer_id = a.customer_id AND a.qty NOT IN "
    "(SELECT b.qty FROM orders b WHERE b.customer_id = a.customer_id AND b.amount < z.amount)",
    "a column of a subquery beside rows": "SELECT count(*) FROM (SELECT customer_id, (SELECT avg(b.qty) FROM orders b WHERE "
    "b.customer_id = a.customer_id) AS x FROM orders a) d JOIN visits v USING (customer_id) WHERE v.secs > d.x",
    "a frame over pairs": "SELECT count(*) FROM (SELECT customer_id, max(a.qty) OVER (PARTITION BY customer_id ORDER BY a.ts ROWS "
    "BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS x FROM orders a JOIN orders b USING (customer_id)) d WHERE x > 3",
    "a frame of pairs": "SELECT count(*) FROM (SELECT customer_id, min(a.qty) OVER (PARTITION BY customer_id ORDER BY a.ts, b.ts ROWS "
    "BETWEEN 4000 PRECEDING AND CURRENT ROW) AS x FROM orders a JOIN orders b USING (customer_id)) d WHERE x > 3",
    "a series for each pair": "SELECT count(*) FROM orders a JOIN orders b USING (customer_id) JOIN generate_series(1, 4000) g ON g > a.qty",
    "replaced twice": f"SELECT count(DISTINCT replace(replace(CASE WHEN {ME} THEN repeat('x', 500) END, 'x', '{'y' * 200}'), "
    f"'y', '{'z' * 230}')) FROM customers",
    "sixteen times a little": "SELECT "
    + ", ".join(f"count(DISTINCT CASE WHEN {ME} THEN replace(repeat(name, 50), '{c}', '{'y' * 6}') END)" for c in "abcdefghijklmnop")
    + " FROM customers",
    "constants": "SELECT " + ", ".join(f"count(DISTINCT CASE WHEN {ME} THEN '{i}{'x' * 3000}' END)" for i in range(20))
    + f" FROM customers JOIN {YEARS} d ON signup <= d",
    "a megabyte of each of many rows": f"SELECT count(DISTINCT CASE WHEN {ME} THEN repeat(note, 900) END) FROM orders JOIN customers "
    "USING (customer_id)",
    "a text of public rows and of one's own": "SELECT count(DISTINCT o.status) FROM orders o WHERE 'x' < (SELECT "
    "max(repeat(p.title || o.note, 50)) FROM products p WHERE p.product_id = o.qty)",
    "fifty texts of a row": "SELECT " + ", ".join(f"(SELECT count(DISTINCT note || '{i}' || coupon) FROM orders)" for i in range(50)),
    "a pattern": f"SELECT count(DISTINCT regexp_replace(repeat(name, 900), 'x', '{'y' * 900}', 'g')) FROM customers",
    "padded": "SELECT count(DISTINCT " + " || ".join(f"lpad(CASE WHEN {ME} THEN 'x' END, 1000, '{i}')" for i in range(20))
    + f") FROM customers JOIN {YEARS} d ON signup <= d",
    "a chain": "SELECT count(DISTINCT concat(" + ", ".join(["repeat(region, 1000)"] * 40) + ")) FROM customers",
}  # fmt: skip

ANSWERED = {
    "a calendar": f"SELECT d::date, region || '-' || sex, count(*) FROM customers JOIN {YEARS} d ON signup <= d GROUP BY 1, 2",
    "a public table": "SELECT title, sum(quantity) FROM order_items JOIN products USING (product_id) GROUP BY 1",
    "a megabyte of the only row": "SELECT count(DISTINCT repeat(name, 900)) FROM customers",
    "replaced by few": "SELECT count(replace(note, 'a', left(coupon, 10))) FROM orders",
    "a label of pairs": "SELECT a.category || ' + ' || b.category, count(*) FROM orders a JOIN orders b USING (customer_id) GROUP BY 1",
    "a short frame of pairs": "SELECT count(*) FROM (SELECT customer_id, min(a.qty) OVER (PARTITION BY customer_id ORDER BY a.ts, b.ts "
    "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS x FROM orders a JOIN orders b USING (customer_id)) d WHERE x > 3",
    "pairs": "SELECT count(*) FROM orders a JOIN orders b USING (customer_id) WHERE a.qty < b.qty",
    "a subquery for each row": "SELECT count(*) FROM orders a WHERE a.qty > (SELECT avg(b.qty) FROM orders b WHERE b.customer_id = "
    "a.customer_id AND b.amount < a.amount)",
    "a subquery of a table with one row": "SELECT count(*) FROM orders a JOIN orders z USING (customer_id) WHERE a.qty > "
    "(SELECT max(c.score) FROM customers c WHERE c.customer_id = a.customer_id)",
    "a subquery of pairs for one row": "SELECT count(*) FROM customers k WHERE 1 < (SELECT count(*) FROM orders b, orders c "
    "WHERE b.customer_id = k.customer_id AND c.customer_id = b.customer_id AND b.amount < c.amount)",
    "somebody else's pairs": "SELECT count(*) FROM orders a JOIN orders z USING (customer_id) WHERE EXISTS (SELECT 1 FROM visits v "
    "WHERE v.customer_id = a.customer_id) AND a.customer_id IN (SELECT customer_id FROM visits)",
    "aggregated first": "SELECT count(*) FROM orders a JOIN orders z USING (customer_id) JOIN (SELECT customer_id, avg(qty) AS q "
    "FROM orders GROUP BY 1) b USING (customer_id) WHERE a.qty > b.q",
    "a frame": "SELECT count(*) FROM (SELECT customer_id, max(qty) OVER (PARTITION BY customer_id ORDER BY ts ROWS "
    "BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS x FROM orders) d WHERE x > 3",
    "a path": "SELECT c.region, count(*) FROM customers c JOIN orders o USING (customer_id) JOIN order_items i USING (order_id) "
    "JOIN visits v ON v.customer_id = c.customer_id GROUP BY 1",
    "labels": "SELECT count(DISTINCT lower(concat(name, ' ', region, ' ', status)) || coupon) FROM customers JOIN orders "
    "USING (customer_id)",
    "a long CASE": "SELECT " + ", ".join(
        f"sum(CASE WHEN qty > {i} THEN least(qty, {i}) ELSE 0 END)" for i in range(100)
    ) + " FROM orders",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal, match="this statement could take too much work") as caught:
        plan_harness.plan(REFUSED[name], shop_catalog)
    assert (caught.value.sqlstate, bool(caught.value.hint)) == ("54000", True)


@pytest.mark.parametrize("name", ANSWERED)
def test_answered(name: str, shop_catalog: Catalog) -> None:
    assert plan_harness.plan(ANSWERED[name], shop_catalog).measurements


def test_the_refusal_says_limit_estimate_and_remedy(shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal) as caught:
        plan_harness.plan(REFUSED["two series"], shop_catalog)
    said = f"one row of a customer would become 9,000,000 rows, of at most {amplification.ROWS:,}"
    assert said in caught.value.message
    assert (
        caught.value.hint
        == "Join by equalities with unique columns, join fewer tables or shorter series, or aggregate before joining."
    )


def test_tables_that_nobody_counted_are_large(shop_catalog: Catalog) -> None:
    tables = {name: replace(table, rows=None) for name, table in shop_catalog.tables.items()}
    uncounted = replace(shop_catalog, tables=tables)
    sql = "SELECT count(*) FROM customers CROSS JOIN (SELECT count(*) AS n FROM regions, products WHERE region <> kind) x"
    assert plan_harness.plan(sql, shop_catalog).measurements
    with pytest.raises(Refusal, match="joins of public tables would make 104,000,001 rows"):
        plan_harness.plan(sql, uncounted)


def test_longer_texts_are_cut_shorter(shop_catalog: Catalog) -> None:
    """One text may be long; where there are many, or each is made often, columns are cut so that all stay within the limit."""

    def cut(sql: str) -> int:
        (query,) = plan_harness.plan(sql, shop_catalog).measurements[0].queries
        text = "".join(map(str, query.parts))
        (length,) = {c for c in text_growth.CUTS if f", {c})" in text}
        return length

    only = cut("SELECT count(DISTINCT concat(name, region)) FROM customers")
    one = cut("SELECT count(DISTINCT concat(name, coupon)) FROM customers JOIN orders USING (customer_id)")
    many = cut("SELECT " + ", ".join(f"count(DISTINCT concat(name, '{i}', coupon))" for i in range(8))
               + " FROM customers JOIN orders USING (customer_id)")  # fmt: skip
    often = cut(f"SELECT count(DISTINCT concat(name, region, name)) FROM customers JOIN {YEARS} d ON signup <= d")
    assert only > one > many == often == text_growth.CUTS[-1], "of people who have one row longer ones"


ITEMS_TWICE = (
    "SELECT count(*) FROM order_items a JOIN orders x ON x.order_id = a.order_id JOIN order_items b ON b.order_id = a.order_id AND "
    "b.product_id = a.product_id JOIN order_items c ON c.order_id = a.order_id AND c.product_id = a.product_id"
)


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_rows_that_meet_by_a_listed_key_are_no_more(
    engine: Dialect, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_harness, "engine", engine)
    policy = plan_harness.policy()
    items = TableName("public", "order_items")
    for keys, answered in (((), False), ((("order_id", "quantity"),), False), ((("order_id", "product_id"),), True)):
        listed = replace(policy, tables={**policy.tables, items: replace(policy.tables[items], keys=keys)})
        if answered:
            assert plan_harness.plan(ITEMS_TWICE, shop_catalog, listed).measurements
        else:
            with pytest.raises(Refusal, match="to the power of 3"):
                plan_harness.plan(ITEMS_TWICE, shop_catalog, listed)
