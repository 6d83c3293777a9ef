"""What one person can make a statement cost: refused beyond a limit, and never more than is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import plan_harness
import pytest
import shop_world

from dpproxy.errors import Refusal
from dpproxy.plan.context import MAX_STAGED_ROWS
from dpproxy.plan.engines import engine
from dpproxy.plan.engines.base import Engine
from dpproxy.plan.engines.relations import Renderer
from dpproxy.plan.logical.relation import Beside, Rows
from dpproxy.plan.measure import amplification
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.properties import text_growth
from dpproxy.plan.properties.row_flows import AGAIN
from dpproxy.policy.catalog import Catalog

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
    "replaced twice": f"SELECT count(DISTINCT replace(replace(CASE WHEN {ME} THEN repeat('x', 500) END, 'x', '{'y' * 200}'), "
    f"'y', '{'z' * 230}')) FROM customers",
    "sixteen times a little": "SELECT "
    + ", ".join(f"count(DISTINCT CASE WHEN {ME} THEN replace(repeat(name, 50), '{c}', '{'y' * 6}') END)" for c in "abcdefghijklmnop")
    + " FROM customers",
    "constants": "SELECT " + ", ".join(f"count(DISTINCT CASE WHEN {ME} THEN '{i}{'x' * 3000}' END)" for i in range(20))
    + f" FROM customers JOIN {YEARS} d ON signup <= d",
    "a pattern": f"SELECT count(DISTINCT regexp_replace(repeat(name, 900), 'x', '{'y' * 900}', 'g')) FROM customers",
    "padded": "SELECT count(DISTINCT " + " || ".join(f"lpad(CASE WHEN {ME} THEN 'x' END, 1000, '{i}')" for i in range(20))
    + f") FROM customers JOIN {YEARS} d ON signup <= d",
    "a chain": "SELECT count(DISTINCT concat(" + ", ".join(["repeat(region, 1000)"] * 40) + ")) FROM customers",
}  # fmt: skip

ANSWERED = {
    "a calendar": f"SELECT d::date, region || '-' || sex, count(*) FROM customers JOIN {YEARS} d ON signup <= d GROUP BY 1, 2",
    "a public table": "SELECT title, sum(quantity) FROM order_items JOIN products USING (product_id) GROUP BY 1",
    "pairs": "SELECT count(*) FROM orders a JOIN orders b USING (customer_id) WHERE a.qty < b.qty",
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


def test_rows_that_nobody_counted_are_at_most_a_number() -> None:
    one = ((1, 1),)
    looked_up, listed, unknown = (Beside(frozenset(ids), None, most) for ids, most in [({1, 2}, one), ({1}, one), ({1}, ())])
    assert amplification.most_staged_rows(None) == amplification.most_staged_rows(looked_up) == MAX_STAGED_ROWS
    assert amplification.most_staged_rows(listed) == amplification.most_staged_rows(unknown) == amplification.UNKNOWN
    assert amplification.UNKNOWN < amplification.ROWS < MAX_STAGED_ROWS


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

    one = cut("SELECT count(DISTINCT concat(name, coupon)) FROM customers JOIN orders USING (customer_id)")
    many = cut("SELECT " + ", ".join(f"count(DISTINCT concat(name, '{i}', coupon))" for i in range(8))
               + " FROM customers JOIN orders USING (customer_id)")  # fmt: skip
    often = cut(f"SELECT count(DISTINCT concat(name, region)) FROM customers JOIN {YEARS} d ON signup <= d")
    assert one > many > often


# --- held against data

COUNTED = [
    "SELECT count(*) FROM customers CROSS JOIN products p JOIN products q USING (product_id)",
    "SELECT count(*) FROM (SELECT customer_id FROM customers UNION ALL SELECT customer_id FROM customers) t CROSS JOIN regions",
    "SELECT count(*) FROM customers LEFT JOIN products ON product_id < 0",
    "SELECT count(*) FROM customers JOIN orders USING (customer_id)",
    "SELECT count(*) FROM orders a JOIN orders b USING (customer_id)",
    "SELECT count(*) FROM orders a LEFT JOIN orders b ON a.customer_id = b.customer_id AND a.qty < b.qty",
    "SELECT count(*) FROM orders JOIN order_items USING (order_id)",
    "SELECT count(*) FROM orders LEFT JOIN order_items USING (order_id) LEFT JOIN products USING (product_id)",
    "SELECT count(*) FROM order_items JOIN products ON order_items.product_id = products.product_id",
    "SELECT count(*) FROM customers JOIN regions ON regions.region = customers.region",
    "SELECT count(*) FROM customers CROSS JOIN regions CROSS JOIN products",
    "SELECT count(*) FROM customers LEFT JOIN regions ON regions.region <> customers.region",
    "SELECT count(*) FROM customers c JOIN (VALUES (1), (1), (2)) v(x) ON x = c.score - c.score + 1",
    "SELECT count(*) FROM customers FULL JOIN visits USING (customer_id)",
    "SELECT count(*) FROM orders o FULL JOIN customers c ON o.customer_id = c.customer_id AND o.qty < -1000",
    "SELECT count(*) FROM (SELECT customer_id, status FROM orders UNION ALL SELECT customer_id, page FROM visits) t, regions",
    "SELECT count(*) FROM (SELECT DISTINCT customer_id, status FROM orders) t JOIN (SELECT customer_id, count(*) AS n "
    "FROM visits GROUP BY 1) v USING (customer_id)",
    "SELECT count(*) FROM (SELECT customer_id, status, count(*) AS n FROM orders GROUP BY 1, 2) a "
    "JOIN (SELECT customer_id, status, max(qty) AS m FROM orders GROUP BY 1, 2) b USING (customer_id, status)",
    "SELECT count(*) FROM regions r JOIN (SELECT region AS x FROM regions) s ON s.x = r.region JOIN customers c ON c.region = x",
    "SELECT count(*) FROM (SELECT p.kind, q.kind AS other FROM products p JOIN products q ON p.kind = q.kind) t "
    "JOIN order_items i ON i.quantity > 3 OR t.kind <> 'x'",
]


@pytest.fixture(scope="module")
def shop() -> plan_harness.Shop:
    return plan_harness.Shop(3)


@pytest.mark.parametrize("sql", COUNTED)
def test_no_person_makes_more_rows_than_estimated(
    sql: str, shop: plan_harness.Shop, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the relation with and without each person, against the estimate times the rows of that person."""
    seen: list[tuple[Registry, Rows]] = []
    spelled = Registry.engine_for

    def noted(self: Registry, rows: Rows, *rest: Any) -> Engine:
        seen.append((self, rows))
        return spelled(self, rows, *rest)

    monkeypatch.setattr(Registry, "engine_for", noted)
    plan_harness.plan(sql, told(shop, shop_catalog))
    registry, rows = seen[0]
    flow = amplification.Estimate(registry.context, registry.beside, text_growth.CUTS[-1]).flow(rows.node)
    renderer = Renderer(engine("duckdb"))
    text = renderer.select(renderer.block(rows.node), ["count(*)"])

    def counted(unit: int | str | None) -> int:
        return int(shop.run(text, unit).column(0)[0].as_py())

    whole, moved = counted(None), 0
    for unit in shop.units:
        own, made = most_rows(shop, sql, unit), abs(whole - counted(unit))
        moved = max(moved, made)
        assert made <= flow.rows * own * (-(-own // AGAIN)) ** flow.again, f"{made} rows of {unit}, who has {own}"
    assert moved > 0, "nobody has rows"


def told(shop: plan_harness.Shop, found: Catalog) -> Catalog:
    """The catalog with what is known of this shop's public tables."""
    tables = dict(found.tables)
    for name, table in tables.items():
        if table.rows is not None:
            counts = [
                f'(SELECT max(n) FROM (SELECT count(*) AS n FROM "main".{name.name} GROUP BY {c.name}))' for c in table.columns
            ]
            rows, *most = (
                column[0].as_py()
                for column in shop.run(f'SELECT (SELECT count(*) FROM "main".{name.name}), {", ".join(counts)}').columns
            )
            columns = tuple(replace(c, most=n) for c, n in zip(table.columns, most, strict=True))
            tables[name] = replace(table, rows=rows, columns=columns)
    return replace(found, tables=tables)


def most_rows(shop: plan_harness.Shop, sql: str, unit: int | str) -> int:
    """In the one of the statement's private tables where it has most."""
    sizes = [0]
    for table in (t for t in shop_world.TABLES if t in sql and t not in ("regions", "products")):
        there, left = (shop.run(f'SELECT count(*) FROM "main".{table}', u).column(0)[0].as_py() for u in (None, unit))
        sizes.append(abs(there - left))
    return max(sizes)
