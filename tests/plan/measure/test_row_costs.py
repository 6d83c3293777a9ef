"""What rows cost, held against data: no person makes more of theirs than is estimated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import plan_harness
import pytest
import shop_world

from dpproxy.engines import engine
from dpproxy.engines.relations import Renderer
from dpproxy.plan.context import MAX_STAGED_ROWS
from dpproxy.plan.measure import row_costs
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.properties import text_growth
from dpproxy.plan.properties.row_flows import AGAIN
from dpproxy.policy.catalog import Catalog
from dpproxy.tree.relation import Beside, Rows
from dpproxy.tree.spelling import Speller


def test_rows_that_nobody_counted_are_at_most_a_number() -> None:
    one = ((1, 1),)
    looked_up, listed, unknown = (Beside(frozenset(ids), None, most) for ids, most in [({1, 2}, one), ({1}, one), ({1}, ())])
    assert row_costs.most_staged_rows(None) == row_costs.most_staged_rows(looked_up) == MAX_STAGED_ROWS
    assert row_costs.most_staged_rows(listed) == row_costs.most_staged_rows(unknown) == row_costs.UNKNOWN
    assert row_costs.UNKNOWN < row_costs.ROWS < MAX_STAGED_ROWS


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
    spelled = Registry.speller_for

    def noted(self: Registry, rows: Rows, *rest: Any) -> Speller:
        seen.append((self, rows))
        return spelled(self, rows, *rest)

    monkeypatch.setattr(Registry, "speller_for", noted)
    plan_harness.plan(sql, told(shop, shop_catalog))
    registry, rows = seen[0]
    flow = row_costs.Estimate(registry.context, registry.beside, text_growth.CUTS[-1]).flow(rows.node)
    renderer = Renderer(engine("duckdb"))
    text = renderer.select(renderer.block(rows.node), ["count(*)"])

    def counted(unit: int | str | None) -> int:
        return int(shop.run(text, unit).column(0)[0].as_py())

    whole, moved = counted(None), 0
    for unit in shop.units:
        own, made = most_rows(shop, sql, unit), abs(whole - counted(unit))
        moved = max(moved, made)
        assert made <= flow.rows * own * (-(-own // AGAIN)) ** max(flow.power - 1, 0), f"{made} rows of {unit}, who has {own}"
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
