"""Distinct values of what tells rows apart are rows: one count, as long as nothing repeats them."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import plan_harness
import pytest
import shop_world

from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.table_terms import TableName

KEYS = {"customers": "customer_id", "orders": "order_id"}


@pytest.fixture
def keyed(shop_catalog: Catalog) -> Catalog:
    """The shop with primary keys."""
    tables = dict(shop_catalog.tables)
    for table, key in KEYS.items():
        name = TableName("public", table)
        columns = tuple(replace(c, nullable=c.nullable and c.name != key) for c in tables[name].columns)
        tables[name] = replace(tables[name], primary_key=(key,), columns=columns)
    return replace(shop_catalog, tables=tables)


def kinds(made: Plan) -> list[str]:
    """The columns measured, by the texts they are made from: `distinct` or not."""
    return [
        "distinct" if f"d{i} AS (" in str(m.queries[0].parts) else "count" for m in made.measurements for i in range(len(m.bases))
    ]


ROWS = [
    "SELECT count(DISTINCT order_id) FROM orders",
    "SELECT status, count(DISTINCT order_id), count(*) FROM orders GROUP BY status",
    "SELECT status, count(DISTINCT o.order_id), count(*) FROM orders o WHERE o.qty > 3 GROUP BY 1",
    "SELECT count(DISTINCT order_id), count(*) FROM (SELECT order_id, qty + 1 AS more FROM orders) t WHERE more > 2",
    "SELECT c.region, count(DISTINCT o.order_id), count(*) FROM orders o JOIN customers c USING (customer_id) GROUP BY 1",
    "SELECT c.region, count(DISTINCT o.order_id), count(*) FROM customers c, orders o WHERE o.customer_id = c.customer_id GROUP BY 1",
    "SELECT count(DISTINCT customer_id), count(*) FROM customers",
    "SELECT count(DISTINCT o.order_id), count(*) FROM orders o LEFT JOIN products p ON p.product_id = o.qty",
    "SELECT count(DISTINCT o.order_id), count(*) FROM orders o JOIN regions r ON r.region = o.status",
    "SELECT sum(1), count(*), count(1) FROM orders",
]
"""No two rows share a value: with `count(*)` beside it there is one column. Regions are four rows of four names."""

VALUES = [
    ("SELECT count(DISTINCT o.order_id), count(*) FROM orders o JOIN order_items i USING (order_id)", "items repeat orders"),
    ("SELECT count(DISTINCT o.order_id), count(*) FROM orders o JOIN visits v USING (customer_id)", "each order by each visit"),
    ("SELECT count(DISTINCT o.order_id), count(*) FROM orders o CROSS JOIN regions r", "once a region"),
    (
        "SELECT count(DISTINCT o.order_id), count(*) FROM orders o LEFT JOIN visits v USING (customer_id)",
        "each order by each visit",
    ),
    ("SELECT count(DISTINCT order_id), count(*) FROM (SELECT * FROM orders UNION ALL SELECT * FROM orders) t", "twice each"),
    ("SELECT count(DISTINCT qty), count(*) FROM orders", "no key"),
    ("SELECT count(DISTINCT order_id + 0), count(*) FROM orders", "computed: nothing is known of it"),
]


@pytest.mark.parametrize("sql", ROWS)
def test_rows_are_counted_once(sql: str, keyed: Catalog) -> None:
    made = plan_harness.plan(sql, keyed)
    assert kinds(made) == ["count"]


@pytest.mark.parametrize(("sql", "why"), VALUES)
def test_repeated_rows_are_told_apart_by_value(sql: str, why: str, keyed: Catalog) -> None:
    assert "distinct" in kinds(plan_harness.plan(sql, keyed)), why


def test_without_a_declared_key_nothing_is_a_key(shop_catalog: Catalog) -> None:
    assert kinds(plan_harness.plan("SELECT count(DISTINCT order_id) FROM orders", shop_catalog)) == ["distinct"]


@pytest.mark.parametrize("sql", ROWS[:9])
def test_the_engine_agrees(sql: str) -> None:
    """On data in which the keys are keys: each of these counts rows."""
    with duckdb.connect() as database:
        database.execute(shop_world.DDL)
        database.execute(
            "INSERT INTO customers (customer_id, region) SELECT i, 'north' FROM range(5) AS t(i);"
            "INSERT INTO orders (order_id, customer_id, qty, status) SELECT i, i % 5, i, ['open', 'paid'][1 + i % 2] FROM range(40) AS t(i);"
            "INSERT INTO products (product_id) SELECT * FROM range(30);"
            "INSERT INTO regions (region) VALUES ('open'), ('paid'), ('void'), ('other')"
        )
        rows = database.execute(sql if "count(*)" in sql else sql.replace(" FROM", ", count(*) FROM", 1)).fetchall()
    assert rows
    assert all(row[-1] == row[-2] for row in rows)
