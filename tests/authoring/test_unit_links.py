"""Ways to the unit: by keys where a schema has them, by names where it has none."""

from __future__ import annotations

from dpproxy.authoring.unit_links import Link, bare, called_like, links, own_key
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.names import singular
from dpproxy.table_terms import TableName


def name(text: str) -> TableName:
    return TableName("public", text)


def table(text: str, columns: str, primary: str = "", keys: tuple[ForeignKey, ...] = ()) -> CatalogTable:
    made = tuple(CatalogColumn(c, c, "text" if c.endswith("name") else "int4") for c in columns.split())
    return CatalogTable(name(text), ("main", text), made, (primary,) if primary else (), foreign_keys=keys)


def catalog(*tables: CatalogTable) -> Catalog:
    return Catalog({t.name: t for t in tables})


def test_by_keys() -> None:
    """The path goes by what the schema says, also where a column is called otherwise."""
    shop = catalog(
        table("clients", "nr label", "nr"),
        table("orders", "id buyer", "id", (ForeignKey(("buyer",), name("clients"), ("nr",)),)),
        table("items", "id order_ref nr", "id", (ForeignKey(("order_ref",), name("orders"), ("id",)),)),
        table("products", "id title", "id"),
    )
    assert links(shop, (name("clients"), "nr")) == {
        name("clients"): Link("nr", sure=True),
        name("orders"): Link("buyer", sure=True),
        name("items"): Link("order_ref", name("orders"), "id", True),
    }


def test_by_names() -> None:
    shop = catalog(
        table("customers", "customer_id full_name"),
        table("orders", "order_id customer_id"),
        table("order_items", "order_id product_id"),
        table("products", "product_id name"),
    )
    found = links(shop, (name("customers"), "customer_id"))
    assert found[name("orders")] == Link("customer_id")
    assert found[name("order_items")] == Link("order_id", name("orders"), "order_id")
    assert name("products") not in found


def test_names_with_the_prefixes_of_their_tables() -> None:
    shop = catalog(
        table("customer", "c_custkey c_name"), table("orders", "o_orderkey o_custkey"), table("lineitem", "l_orderkey l_tax")
    )
    found = links(shop, (name("customer"), "c_custkey"))
    assert found[name("orders")] == Link("o_custkey")
    assert found[name("lineitem")] == Link("l_orderkey", name("orders"), "o_orderkey")


def test_a_column_called_id_leads_nowhere() -> None:
    """Every table has one: equal names say nothing there."""
    two = catalog(table("people", "id age"), table("products", "id price"))
    assert set(links(two, (name("people"), "id"))) == {name("people")}
    three = catalog(table("people", "id age"), table("visits", "id person_id people_id"))
    assert name("visits") in links(three, (name("people"), "id"))


def test_types_must_fit() -> None:
    two = catalog(
        table("customers", "customer_id x"), CatalogTable(name("b"), ("main", "b"), (CatalogColumn("customer_id", "c", "text"),))
    )
    assert name("b") not in links(two, (name("customers"), "customer_id"))


def test_parts() -> None:
    assert bare(table("t", "a_x a_y")) == {"a_x": "x", "a_y": "y"}
    assert bare(table("t", "a_x b_y")) == {"a_x": "a_x", "b_y": "b_y"}
    assert own_key(table("t", "label n")) is None
    assert own_key(table("people", "age id")) == "id"
    assert [singular(w) for w in ("cities", "orders", "address")] == ["city", "order", "address"]


def test_names_cut_short() -> None:
    same = [("customer_id", "customer_id"), ("bill_customer_id", "customer_id"), ("bill_addr_sk", "address_sk")]
    other = [
        ("id", "id"),
        ("bill_id", "id"),
        ("cust_id", "costumer_id"),
        ("add_sk", "address_sk"),
        ("sk", "address_sk"),
        ("customer", "customer_id"),
    ]
    assert all(called_like(*pair) for pair in same)
    assert not any(called_like(*pair) for pair in other)
