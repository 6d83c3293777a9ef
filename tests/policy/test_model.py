"""Policies are frozen values that show no secret."""

from __future__ import annotations

import datetime as dt
from dataclasses import FrozenInstanceError
from decimal import Decimal

import pytest

from dpproxy.policy.model import ColumnRole, DuckDBBackend, PostgresBackend, User, Value, constant_text

from .good import GOOD, loaded, table


def test_a_policy_cannot_be_changed() -> None:
    policy = loaded().policy
    for value, name in ((policy, "mechanism"), (policy.budget, "epsilon"), (policy.tables[table("orders")].bounds, "rows")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, None)


def test_secrets_are_not_printed() -> None:
    backend = PostgresBackend("postgresql://ada:hunter2@host/db", "hunter2")
    assert "hunter2" not in repr(backend) + repr(User("ada", "analyst", "hunter2"))
    assert "SCRAM" in GOOD
    assert "SCRAM" not in repr(loaded().policy)


def test_a_table_without_a_unit_is_public() -> None:
    assert {str(name): t.kind.shown for name, t in loaded().policy.tables.items()} == {
        "customers": False,
        "orders": False,
        "order_items": False,
        "products": True,
    }


def test_equal_texts_are_equal_policies() -> None:
    assert loaded().policy == loaded().policy
    assert loaded().policy != loaded(GOOD.replace("rows_per_group: 10", "rows_per_group: 11")).policy
    assert DuckDBBackend("/a") != DuckDBBackend("/b")
    assert [role.value for role in ColumnRole] == ["plain", "unit", "key", "hidden"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (7, "7"),
        ("x", "x"),
        (Decimal("1E+2"), "100"),
        (Decimal("0.50"), "0.50"),
        (dt.date(2024, 2, 29), "2024-02-29"),
        (dt.datetime(2024, 2, 29, 1, 2, 3), "2024-02-29 01:02:03"),
    ],
)
def test_declared_values_are_written_as_postgresql_writes_them(value: Value, text: str) -> None:
    assert constant_text(value) == text
