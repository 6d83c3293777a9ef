"""Columns of a policy: what may be declared of one, and the range that follows from declared values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from dpproxy.policy.model import ColumnPolicy, ColumnRole

from .good import GOOD, loaded, problems, table


def test_columns() -> None:
    tables = loaded().policy.tables
    customers, orders = tables[table("customers")].columns, tables[table("orders")].columns
    assert customers["region"].values == ("north", "south", "no")  # YAML 1.1 would read `no` as false
    assert customers["birth_year"].range == (Decimal(1920), Decimal(2010))
    assert customers["signup"].range == (dt.datetime(2020, 1, 1), dt.datetime(2026, 12, 31, 23, 59, 59, 999999))
    assert customers["email"].role is ColumnRole.HIDDEN
    assert customers["customer_id"].role is ColumnRole.UNIT
    assert orders["ts"].range == (dt.datetime(2024, 1, 1, 6, 30), dt.datetime(2026, 12, 31, 12))
    assert orders["amount"].resolution == Decimal("0.01")
    assert (orders["category"].values, orders["category"].range) == (None, None)
    quantity = tables[table("order_items")].columns["quantity"]
    assert (quantity.values, quantity.nulls, quantity.range) == ((1, 2, 5), True, (Decimal(1), Decimal(5)))


def column(text: str) -> ColumnPolicy:
    return loaded(GOOD.replace("category: {}", f"category: {text}")).policy.tables[table("orders")].columns["category"]


@pytest.mark.parametrize(
    ("values", "hull"),
    [
        ("[3, 1, 2]", (Decimal(1), Decimal(3))),
        ("[0.5, -2]", (Decimal(-2), Decimal("0.5"))),
        ("[2024-03-01, 2024-01-31]", (dt.datetime(2024, 1, 31), dt.datetime(2024, 3, 1, 23, 59, 59, 999999))),
        ("[2024-03-01]", (dt.datetime(2024, 3, 1), dt.datetime(2024, 3, 1, 23, 59, 59, 999999))),
        ("[a, b]", None),
        ("[true, false]", None),
        ("[7]", None),
    ],
)
def test_declared_values_are_their_range(values: str, hull: object) -> None:
    assert column(f"{{ values: {values} }}").range == hull


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{ values: [1, 2], range: [2, 3] }", "`1` in `values` is outside `range`"),
        ("{ values: [1, a] }", "`values` are of different types"),
        ("{ values: [] }", "`values` is empty"),
        ("{ values: [1, null] }", "NULL cannot be listed in `values`"),
        ("{ values: [1, 1] }", "the value `1` is given twice"),
        ("{ range: [2, 2] }", "`range` from 2 to 2 is empty"),
        ("{ range: [1, 2024-01-01] }", "`range` cannot go from `1` to `2024-01-01`"),
        ("{ range: [1] }", "`range` must have two ends"),
        ("{ range: [1, 2], resolution: 0 }", "`resolution` must be above 0"),
        ("{ range: [2024-01-01, 2024-01-02], resolution: 1 }", "dates have no `resolution`"),
        ("{ length: 0 }", "`length` is out of range: 0"),
        ("keys", "column `category` cannot be `keys`"),
        ("{ references: orders.order_id, nulls: true }", "column `category` refers to a key, and can be nothing else"),
    ],
)
def test_what_cannot_be_declared(text: str, says: str) -> None:
    assert [p.what for p in problems(GOOD.replace("category: {}", f"category: {text}"))] == [says]


def test_public_tables_have_no_units() -> None:
    text = GOOD.replace("    public: true\n", "    public: true\n    columns: { product_id: key, name: hidden }\n")
    assert [p.what for p in problems(text)] == ["column `product_id` of a public table cannot be `key`"]


def test_a_reference_is_a_key() -> None:
    found = column("{ references: order_items.order_id }")
    assert (found.role, found.references) == (ColumnRole.KEY, (table("order_items"), "order_id"))
