"""What is known of tables before any rule: their unit, or the way to it, by the backend's own names."""

from __future__ import annotations

from dataclasses import replace

import plan_harness

from dpproxy.kernel.leaves import Leaf, Way, leaves
from dpproxy.policy.catalog import Catalog
from dpproxy.table_terms import TableName


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


def changed(catalog: Catalog, table: str, **columns: dict[str, object]) -> Catalog:
    """The catalog, which says something else of columns of a table."""
    name = TableName("public", table)
    known = catalog.tables[name]
    made = tuple(replace(c, **columns.get(c.name, {})) for c in known.columns)  # type: ignore[arg-type]
    return Catalog({**catalog.tables, name: replace(known, columns=made)})


def test_what_a_leaf_says_of_columns_is_the_catalogs(shop_catalog: Catalog) -> None:
    """By the engine's names: which are never NULL, of what kind they are, which may be read, and how many share a value."""
    given = changed(
        shop_catalog,
        "regions",
        region={"nullable": False, "source": "Region"},
        country={"bounded": False},
        lat={"most": 7, "exact": "HUGEINT"},
    )
    leaf = leaves(plan_harness.policy(), given)["main", "regions"]
    assert leaf.present == {"Region"}
    assert leaf.kinds == {"Region": ("text", ""), "lat": ("float8", "HUGEINT")}
    assert (leaf.most["lat"], leaf.most.get("country")) == (
        7,
        shop_catalog.tables[TableName("public", "regions")].column("country").most,
    )  # type: ignore[union-attr]
    assert not leaf.reached


def test_units_and_ways_are_the_engines_names(shop_catalog: Catalog) -> None:
    given = changed(shop_catalog, "orders", customer_id={"source": "Buyer"}, order_id={"source": "Number"})
    found = leaves(plan_harness.policy(), changed(given, "order_items", order_id={"source": "Of"}))
    assert (found["main", "orders"].unit, found["main", "orders"].reached) == ("Buyer", {"Number"})
    assert found["main", "order_items"].way == Way("Of", ("main", "orders"), "Number")
    assert not found["main", "orders"].one
    assert not found["main", "orders"].present


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
