"""Tables of a policy: the way from a row to its unit, and how much of one unit counts."""

from __future__ import annotations

import pytest

from dpproxy.policy.model import Bounds, Step, UnitPath
from dpproxy.table_terms import TableName

from .good import GOOD, loaded, problems, table


def test_units_and_bounds() -> None:
    tables = loaded().policy.tables
    customers, orders, items, products = tables.values()
    assert customers.one
    assert customers.bounds == Bounds(1, 1)
    assert not orders.one
    assert orders.bounds == Bounds(10, 5)
    assert items.unit is not None
    assert items.unit.steps == (Step("order_id", table("orders"), "order_id"),)
    assert items.unit.column == "customer_id"
    assert items.bounds == Bounds(20, None)
    assert products.kind.shown
    assert products.columns == {}


def test_the_greatest_number_of_rows_is_stated_or_one_or_nobody_s_word() -> None:
    """A table of one row a unit has one at most; of others the policy says it, or nothing is known."""
    text = GOOD.replace("    bounds: { rows_per_group: 10, groups: 5 }", "    bounds: { rows: 10 }\n    rows_at_most: 400")
    customers, orders, items, products = loaded(text).policy.tables.values()
    assert [t.rows_at_most for t in (customers, orders, items, products)] == [1, 400, None, None]


LONG = """  lines:
    unit: { via: order_items.product_id }
    bounds: { rows: 7 }
    columns: { product_id: key }
"""


def test_paths_go_from_table_to_table() -> None:
    found = loaded(GOOD.replace("  products:\n", LONG + "  products:\n")).policy.tables[table("lines")]
    steps = (Step("product_id", table("order_items"), "product_id"), Step("order_id", table("orders"), "order_id"))
    assert found.unit == UnitPath("customer_id", steps)
    assert found.bounds == Bounds(7, None, whole=True)


def test_a_key_that_is_the_units_own_needs_no_step() -> None:
    """A foreign key that refers to the unit column holds the unit's id."""
    text = GOOD.replace("    unit: customer_id\n    bounds", "    unit: { via: customers.customer_id }\n    bounds")
    assert loaded(text).policy.tables[table("orders")].unit == UnitPath("customer_id", ())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "via: orders.order_id",
            "via: order_items.order_id",
            "the path of `order_items` runs in a circle: order_items -> order_items",
        ),
        ("via: orders.order_id", "via: nowhere.order_id", "the path order_items -> nowhere ends at a table that is not listed"),
        (
            "via: orders.order_id",
            "via: products.order_id",
            "the path order_items -> products ends at a public table, not at a unit",
        ),
        (
            "    bounds: { rows_per_group: 10, groups: 5 }\n",
            "",
            "table `orders` can have many rows of one unit and has no `bounds`",
        ),
        (
            "    unit: customer_id\n    columns",
            "    unit: customer_id\n    bounds: { rows: 3 }\n    columns",
            "table `customers` has the privacy unit's own key, thus one row per unit, and has `bounds`",
        ),
        ("customer_id: unit", "customer_id: {}", "column `customer_id` names the unit and cannot be shown"),
        ("order_id: key\n", "order_id: unit\n", "column `order_id` is not the unit column of `orders`"),
        (
            "product_id: key",
            "product_id: { references: products.product_id }",
            "column `product_id` refers to `products.product_id`, which is not a key of a private table",
        ),
    ],
)
def test_what_is_no_way_to_a_unit(old: str, new: str, says: str) -> None:
    assert GOOD.count(old) == 1
    assert says in [p.what for p in problems(GOOD.replace(old, new))]


def test_names_of_tables() -> None:
    assert table("orders") == TableName("public", "orders")
    assert [str(TableName(schema, "x")) for schema in ("public", "cd")] == ["x", "cd.x"]
