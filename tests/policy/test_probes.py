"""Probes: a statement a table that reads no row and fails where a column the policy uses is gone."""

from __future__ import annotations

import duckdb
import pytest

from dpproxy.policy.grants import probes

from .good import GOOD, catalog, loaded, table

TABLES = {
    "customers": "CUSTOMER_ID int, REGION text, SEX text, BIRTH_YEAR int, SIGNUP date, EMAIL text",
    "orders": "ORDER_ID int, CUSTOMER_ID int, TS timestamp, AMOUNT int, CATEGORY text",
    "order_items": "ORDER_ID int, PRODUCT_ID int, QUANTITY int",
    "products": "PRODUCT_ID int, NAME text",
}


def outcome(without: str = "", text: str = GOOD) -> dict[str, bool]:
    """Which probes run on an engine that lacks a column."""
    connection, found = duckdb.connect(), {}
    for name, columns in TABLES.items():
        kept = [c for c in columns.split(", ") if f"{name}.{c.split()[0]}".lower() != without]
        connection.execute(f"CREATE TABLE {name} ({', '.join(kept)})")
        connection.execute(f"INSERT INTO {name} DEFAULT VALUES")
    for name, sql in probes(loaded(text).policy, catalog(), "duckdb").items():
        try:
            assert connection.execute(sql).fetchall() == [(0,)], "no row is read"
            found[str(name)] = True
        except duckdb.BinderException:
            found[str(name)] = False
    return found


def test_all_run_where_all_is_there() -> None:
    assert outcome() == dict.fromkeys(TABLES, True)


@pytest.mark.parametrize("column", ["customers.region", "orders.customer_id", "order_items.product_id", "products.name"])
def test_what_is_used_is_missed(column: str) -> None:
    assert [name for name, runs in outcome(column).items() if not runs] == [column.split(".")[0]]


def test_what_is_hidden_is_not() -> None:
    assert all(outcome("customers.email").values())
    hidden = GOOD.replace("    public: true\n", "    public: true\n    columns: { name: hidden }\n")
    assert all(outcome("products.name", hidden).values())


def test_names_are_in_the_engines_quotes() -> None:
    sql = probes(loaded().policy, catalog(), "spark")[table("products")]
    assert sql == "SELECT COUNT(*) AS n FROM (SELECT `NAME`, `PRODUCT_ID` FROM `main`.`products` WHERE false) AS t"
