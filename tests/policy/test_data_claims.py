"""What a policy claims of rows: each claim is listed, what a key keeps is not asked for, and what breaks one is counted."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.data_claims import ClaimKind, broken_claim, claim_query, claims, found_by, remedy, unkept
from dpproxy.table_terms import TableName

from .good import GOOD, catalog, loaded

ONE_ITEM = GOOD.replace("    bounds: { rows_per_group: 20, groups: all }\n", "    unique: true\n")
"""An order has one item, and a customer one order with items."""
LISTED = GOOD.replace(
    "    unit: { via: orders.order_id }\n", "    unit: { via: orders.order_id }\n    keys: [[order_id, product_id]]\n"
)
CUSTOMERS, ORDERS, ITEMS = (TableName("public", name) for name in ("customers", "orders", "order_items"))


def keyed(**keys: object) -> Catalog:
    data = catalog()
    return Catalog({**data.tables, ORDERS: replace(data.tables[ORDERS], **keys)})  # type: ignore[arg-type]


def world() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE customers AS FROM (VALUES (1), (2), (2), (3), (3), (3), (NULL), (NULL)) t(CUSTOMER_ID)")
    connection.execute(
        "CREATE TABLE orders AS FROM (VALUES (10, 1), (11, 1), (12, 2), (13, NULL), (13, 3)) t(ORDER_ID, CUSTOMER_ID)"
    )
    connection.execute("CREATE TABLE order_items AS FROM (VALUES (10), (11), (12), (NULL), (NULL)) t(ORDER_ID)")
    return connection


def test_every_claim_is_listed() -> None:
    assert [(c.kind, c.key, str(c.user)) for c in claims(loaded(ONE_ITEM).policy)] == [
        (ClaimKind.ONE_ROW, "customers.customer_id", "customers"),
        (ClaimKind.ONE_ROW, "order_items.customer_id", "order_items"),
        (ClaimKind.PATH_KEY, "orders.order_id", "order_items"),
    ]


def test_what_is_referred_to_may_be_in_several_rows() -> None:
    """A returned item refers to the number of its order, and orders may have a row for each item."""
    referred = loaded(
        GOOD.replace("product_id: key", "product_id: { references: orders.number }").replace(
            "order_id: key\n      ts", "order_id: key\n      number: key\n      ts"
        )
    )
    assert claims(referred.policy) == claims(loaded().policy)
    assert [found_by(referred.policy, name) for name in (CUSTOMERS, ORDERS, ITEMS)] == [
        {("customer_id",)},
        {("order_id",)},
        set(),
    ]


def test_what_a_key_keeps_is_not_asked_for() -> None:
    policy = loaded(ONE_ITEM).policy
    for data in (keyed(primary_key=("order_id",)), keyed(unique=(("order_id",),))):
        assert [c.kind for c in unkept(policy, data)] == [ClaimKind.ONE_ROW, ClaimKind.ONE_ROW]
    for data in (catalog(), keyed(primary_key=("order_id", "customer_id"))):
        assert [c.kind for c in unkept(policy, data)] == [ClaimKind.ONE_ROW, ClaimKind.ONE_ROW, ClaimKind.PATH_KEY]


def test_a_key_of_the_table_itself_does_not_say_that_a_path_ends_at_one_row() -> None:
    """An item with a key of the unit's name is not an item of one unit."""
    policy, data = loaded(ONE_ITEM).policy, catalog()
    items = replace(data.tables[ITEMS], unique=(("customer_id",),))
    assert [str(c.table) for c in unkept(policy, Catalog({**data.tables, ITEMS: items}))] == [
        "customers",
        "order_items",
        "orders",
    ]


def test_what_breaks_a_claim_is_counted() -> None:
    policy, data, connection = loaded(ONE_ITEM).policy, catalog(), world()
    told = {c: connection.execute(claim_query(c, policy, data, "duckdb")).fetchall() for c in claims(policy)}
    assert list(told.values()) == [[(3,)], [(2,)], [(2,)]]
    connection.execute("DELETE FROM orders WHERE CUSTOMER_ID IS NULL")
    assert connection.execute(claim_query(claims(policy)[2], policy, data, "duckdb")).fetchall() == [(0,)]


def test_each_is_said_with_its_remedy() -> None:
    policy = loaded(ONE_ITEM).policy
    said = [f"{broken_claim(c, 500, 'customer')}; {remedy(c, policy)}" for c in claims(policy)]
    assert "`customers`: a customer has more than one row here, up to 500; write `unique: false` and" in said[0]
    assert said[0].endswith("name in `privacy_unit` the key of a table with one row per customer")
    assert not said[1].endswith("customer")
    assert said[2:] == [
        "`orders.order_id`, on the path from `order_items` to its customer, is not unique: up to 500 rows of `orders` share one value;"
        " lead the path of `order_items` over a unique key of `orders`, or make `order_id` unique",
    ]


def test_names_are_quoted() -> None:
    data, policy = catalog(), loaded().policy
    odd = CatalogTable(CUSTOMERS, ('my "schema"', "Customers; DROP"), (CatalogColumn("customer_id", 'Cust "id"', "int8"),))
    first = claims(policy)[0]
    sql = claim_query(first, policy, Catalog({**data.tables, CUSTOMERS: odd}), "postgres")
    assert 'FROM "my ""schema"""."Customers; DROP" AS t0' in sql
    assert 't0."Cust ""id"""' in sql
    assert "`main`.`customers`" in claim_query(first, policy, data, "spark")


def test_a_policy_has_to_fit() -> None:
    first = claims(loaded().policy)[0]
    with pytest.raises(ValueError, match="no table customers"):
        claim_query(first, loaded().policy, Catalog({}), "duckdb")
    with pytest.raises(ValueError, match="dialect"):
        claim_query(first, loaded().policy, catalog(), "oracle")


def test_listed_keys_are_claims() -> None:
    policy = loaded(LISTED).policy
    assert found_by(policy, ITEMS) == {("order_id", "product_id")}
    (key,) = (c for c in claims(policy) if c.kind is ClaimKind.LISTED_KEY)
    assert (key.key, key.user) == ("order_items (order_id, product_id)", ITEMS)
    said = f"{broken_claim(key, 500, 'customer')}; {remedy(key, policy)}"
    assert said == (
        "`order_items (order_id, product_id)` is listed in `keys`, and up to 500 rows share its values; remove it from `keys`, or "
        "add the columns that tell these rows apart"
    )


@pytest.mark.parametrize(
    ("rows", "most"),
    [
        ("(1, 1), (1, 2), (2, 1)", 0),
        ("(1, 1), (1, 2), (1, 2), (1, 2), (2, 2)", 3),
        ("(1, NULL), (1, NULL), (NULL, NULL), (NULL, NULL), (NULL, 1), (NULL, 1)", 0),
    ],
)
def test_rows_share_a_key_where_all_its_columns_are_equal(rows: str, most: int) -> None:
    policy, connection = loaded(LISTED).policy, duckdb.connect()
    connection.execute("CREATE TABLE order_items (ORDER_ID int, PRODUCT_ID int)")
    connection.execute(f"INSERT INTO order_items VALUES {rows}")
    (key,) = (c for c in claims(policy) if c.kind is ClaimKind.LISTED_KEY)
    assert connection.execute(claim_query(key, policy, catalog(), "duckdb")).fetchall() == [(most,)]


@pytest.mark.parametrize(
    ("key", "kept"),
    [(("order_id", "product_id"), True), (("product_id",), True), (("product_id", "quantity"), False), ((), False)],
)
def test_a_key_of_the_database_keeps_those_that_have_its_columns(key: tuple[str, ...], kept: bool) -> None:
    data = catalog()
    items = replace(data.tables[ITEMS], unique=(key,))
    left = unkept(loaded(LISTED).policy, Catalog({**data.tables, ITEMS: items}))
    assert (ClaimKind.LISTED_KEY not in {c.kind for c in left}) is kept
