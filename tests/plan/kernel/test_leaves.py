"""What is known of tables before any rule: their unit, or the way to it, by the backend's own names."""

from __future__ import annotations

import plan_harness

from dpproxy.plan.kernel.leaves import Leaf, Way, leaves
from dpproxy.policy.catalog import Catalog, TableName


def test_the_shop(shop_catalog: Catalog) -> None:
    found = leaves(plan_harness.policy(), shop_catalog)
    assert (found["main", "customers"].unit, found["main", "customers"].one) == ("customer_id", True)
    assert found["main", "orders"].unit == "customer_id"
    assert "order_id" in found["main", "orders"].reached
    assert found["main", "order_items"].way == Way("order_id", ("main", "orders"), "order_id")
    assert not found["main", "regions"].private
    assert frozenset(("customer_id",)) in found["main", "customers"].keys
    assert frozenset(("order_id",)) in found["main", "orders"].keys
    assert frozenset(("customer_id",)) not in found["main", "orders"].keys
    assert (found["main", "regions"].rows, found["main", "orders"].rows) == (4, None)
    assert found["main", "order_items"].private


def test_a_private_table_without_its_unit_is_no_leaf(shop_catalog: Catalog) -> None:
    """It is not taken for a public one: no rule knows it."""
    tables = dict(shop_catalog.tables)
    orders = tables[TableName("public", "orders")]
    rest = tuple(c for c in orders.columns if c.name not in ("customer_id", "order_id"))
    tables[orders.name] = type(orders)(orders.name, orders.source, rest)
    found = leaves(plan_harness.policy(), Catalog(tables))
    assert ("main", "orders") not in found
    assert ("main", "order_items") not in found
    assert not Leaf().private
