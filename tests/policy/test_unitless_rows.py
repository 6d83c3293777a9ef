"""Rows that belong to no unit: what a catalog lets there be."""

from __future__ import annotations

from dataclasses import replace

from dpproxy.policy.catalog import Catalog, ForeignKey
from dpproxy.policy.data_claims import UnitlessRows, told, unitless_rows
from tests.policy.good import catalog, loaded, table

ORDERS, ITEMS = table("orders"), table("order_items")


def of(name: str, found: Catalog) -> tuple[UnitlessRows, ...]:
    policy = loaded().policy
    return unitless_rows(policy.tables[table(name)], policy, found)


def not_null(found: Catalog, name: str, column: str) -> Catalog:
    changed = found.tables[table(name)]
    columns = tuple(replace(c, nullable=c.nullable and c.name != column) for c in changed.columns)
    return Catalog({**found.tables, changed.name: replace(changed, columns=columns)})


def test_a_way_to_the_unit_may_end_at_each_step() -> None:
    found = catalog()
    assert of("customers", found) == (), "a customer has an id"
    assert of("products", found) == ()
    assert of("orders", found) == (UnitlessRows(ORDERS, "customer_id"),)
    assert of("order_items", found) == (UnitlessRows(ITEMS, "order_id", ORDERS), UnitlessRows(ORDERS, "customer_id"))


def test_constraints_of_the_database_are_believed() -> None:
    found = not_null(not_null(catalog(), "orders", "customer_id"), "order_items", "order_id")
    assert of("orders", found) == ()
    assert of("order_items", found) == (UnitlessRows(ITEMS, "order_id", ORDERS),), "NOT NULL, but of no order perhaps"
    key = ForeignKey(("order_id",), ORDERS, ("order_id",))
    items = replace(found.tables[ITEMS], foreign_keys=(key,))
    assert of("order_items", Catalog({**found.tables, ITEMS: items})) == ()


def test_words() -> None:
    assert told(UnitlessRows(ORDERS, "customer_id"), "customer") == (
        "rows of orders whose customer_id is NULL (they belong to no customer)"
    )
    assert told(UnitlessRows(ITEMS, "order_id", ORDERS), "customer") == (
        "rows of order_items whose order_id is NULL or not in orders (they belong to no customer)"
    )
