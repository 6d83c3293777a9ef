"""Doubts that need several roles or windows; most are cases of broken.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.load import read_text
from dpproxy.review.doubts import doubts
from dpproxy.table_terms import TableName
from tests.authoring.worlds import BASE, VERIFIER


def codes(text: str) -> list[tuple[str, int]]:
    loaded = read_text(text.replace("VERIFIER", VERIFIER), "p.yaml", Path("/data"), {})
    return [(p.code, p.line) for p in doubts(loaded, None)]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ("epsilon: 20, delta: 1e-7, every: month", []),
        ("epsilon: 20.1, delta: 1e-7, every: month", [("greedy-role", 37)]),
        ("epsilon: 4, delta: 1e-7, every: week", []),
        ("epsilon: 4.1, delta: 1e-7, every: week", [("greedy-role", 37)]),
        ("epsilon: 0.6, delta: 1e-7, every: day", []),
        ("epsilon: 0.7, delta: 1e-7, every: day", [("greedy-role", 37)]),
        ("epsilon: 21, delta: 1e-7, every: year", [("greedy-role", 37)]),
    ],
)
def test_what_may_be_spent_in_a_month(budget: str, expected: list[tuple[str, int]]) -> None:
    text = BASE.replace("epsilon: 10, delta: 1e-7, every: month", budget).replace("max_epsilon: 1 }", "max_epsilon: 0.5 }")
    assert codes(text) == expected


def test_a_good_policy_has_none_with_or_without_shapes() -> None:
    assert codes(BASE) == []


def test_no_shape_no_word_of_types() -> None:
    """Whether a column is a number is not known from the file."""
    assert codes(BASE.replace("born: { range: [1920, 2010] }", "born: {}")) == []


@pytest.mark.parametrize(
    ("key", "unique", "unit", "expected"),
    [
        (("tenant", "user_no"), (), "user_no", 1),
        (("user_no", "company_id"), (), "user_no", 1),
        (("tenant", "user_no"), (("user_no",),), "user_no", 0),  # the number is one person's in all of them
        (("tenant", "user_no"), (), "tenant", 0),  # all people of a tenant together are meant
        (("user_no", "course"), (), "user_no", 0),  # rows of one person each
        (("user_no",), (), "user_no", 0),
    ],
)
def test_half_a_key(key: tuple[str, ...], unique: tuple[tuple[str, ...], ...], unit: str, expected: int) -> None:
    text = f"""
version: 1
dataset: saas
backend: {{ duckdb: d.duckdb }}
privacy_unit: {{ name: user, key: members.{unit} }}
budget: {{ epsilon: 1, delta: 0, every: never }}
tables: {{ members: {{ unit: {unit}, unique: false, bounds: {{ rows: 3 }}, columns: {{ {unit}: unit }} }} }}
roles: {{ analyst: {{ budget: {{ epsilon: 1, delta: 0, every: never }}, query: {{ epsilon: 0.1, max_epsilon: 1 }} }} }}
users: {{ ada: {{ role: analyst, password: "{VERIFIER}" }} }}
"""
    name = TableName("public", "members")
    columns = tuple(CatalogColumn(c, c, "int4", nullable=False) for c in dict.fromkeys((*key, unit)))
    catalog = Catalog({name: CatalogTable(name, ("main", "members"), columns, key, unique)})
    found = [p for p in doubts(read_text(text, "p.yaml", Path("/data"), {}), catalog) if p.code == "half-key"]
    assert len(found) == expected
    assert all(f"write `key: [members.{key[0]}, members.{key[1]}]`" in p.fix for p in found)


@pytest.mark.parametrize(
    ("table", "key", "columns", "expected"),
    [
        ("orders", "order_id", ("customer_id", "amount"), ["orders.customer_id"]),
        ("visits", "visit", ("day", "patient_nr"), ["visits.patient_nr"]),
        ("orders", "order_id", ("amount",), []),  # nobody is named
        ("customers", "id", ("account_id",), []),  # a table of people
        ("links", "member_id", ("account_id",), []),  # a key of people
    ],
)
def test_a_row_as_the_unit(table: str, key: str, columns: tuple[str, ...], expected: list[str]) -> None:
    text = f"""
version: 1
dataset: shop
backend: {{ duckdb: d.duckdb }}
privacy_unit: {{ name: order, key: {table}.{key} }}
budget: {{ epsilon: 1, delta: 0, every: never }}
tables: {{ {table}: {{ unit: {key}, columns: {{ {key}: unit }} }} }}
roles: {{ analyst: {{ budget: {{ epsilon: 1, delta: 0, every: never }}, query: {{ epsilon: 0.1, max_epsilon: 1 }} }} }}
users: {{ ada: {{ role: analyst, password: "{VERIFIER}" }} }}
"""
    name = TableName("public", table)
    shape = CatalogTable(name, ("main", table), tuple(CatalogColumn(c, c, "int4") for c in (key, *columns)), (key,))
    found = [p for p in doubts(read_text(text, "p.yaml", Path("/data"), {}), Catalog({name: shape})) if p.code == "row-unit"]
    assert [p.fix for p in found] == [f"write `key: {each}`, if that is who is to be protected" for each in expected]
