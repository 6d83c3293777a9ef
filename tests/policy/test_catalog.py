"""Columns that are compared: whether what is found equal is the same value, tried on doubles."""

from __future__ import annotations

import itertools

import pytest

from dpproxy.policy.catalog import CatalogColumn, CatalogTable, TableName, same_kind


def column(type_: str, exact: str = "") -> CatalogColumn:
    return CatalogColumn("x", "X", type_, exact=exact)


INTEGERS, OTHERS = ("int2", "int4", "int8"), ("numeric", "float4", "float8")


@pytest.mark.parametrize(("a", "b"), list(itertools.product((*INTEGERS, *OTHERS, "text", "uuid"), repeat=2)))
def test_numbers_of_two_kinds_are_compared_as_doubles(a: str, b: str) -> None:
    numbers = a not in ("text", "uuid") and b not in ("text", "uuid")
    as_doubles = numbers and a != b and not (a in INTEGERS and b in INTEGERS)
    assert same_kind(column(a), column(b)) == (not as_doubles)


def test_numbers_of_an_engines_own_kind() -> None:
    assert same_kind(column("numeric", "hugeint"), column("numeric", "hugeint"))
    assert not same_kind(column("numeric", "hugeint"), column("numeric", "ubigint"))
    assert not same_kind(column("numeric", "hugeint"), column("numeric"))
    assert same_kind(column("numeric"), column("numeric"))


def test_why_it_matters() -> None:
    assert float(2**53) == float(2**53 + 1), "two persons, one double"


def test_tables_and_their_columns() -> None:
    name = TableName("public", "t")
    table = CatalogTable(name, ("main", "t"), (column("int4"),))
    assert table.column("x") == column("int4")
    assert table.column("X") is None
    assert sorted([TableName("b", "a"), TableName("a", "z"), TableName("a", "b")])[0] == TableName("a", "b")
