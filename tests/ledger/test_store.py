"""Both kinds of store offer what a journal needs, and a fault of theirs is a fault of the ledger."""

from __future__ import annotations

import inspect

import pytest

from dpproxy.ledger.ledger import LedgerError
from dpproxy.ledger.transaction import KnownCharge, Store, StoreError
from dpproxy.records.postgres import PostgresStore
from dpproxy.records.sqlite import SqliteStore


def offered(store: type) -> dict[str, list[str]]:
    methods = inspect.getmembers(store, inspect.isfunction)
    return {name: list(inspect.signature(method).parameters) for name, method in methods if not name.startswith("_")}


@pytest.mark.parametrize("store", [SqliteStore, PostgresStore])
def test_a_store_has_every_method_with_its_parameters(store: type) -> None:
    wanted, found = offered(Store), offered(store)
    assert len(wanted) >= 10
    assert {name: found.get(name) for name in wanted} == wanted


def test_a_known_charge_is_told_from_a_fault() -> None:
    assert issubclass(KnownCharge, StoreError)
    assert issubclass(StoreError, LedgerError)
