"""Columns that are compared: whether what is found equal is the same value, tried on doubles."""

from __future__ import annotations

import itertools

import pytest

from dpproxy.policy.catalog import CatalogColumn
from dpproxy.table_terms import TableName, same_kind


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


def test_names_as_analysts_write_them() -> None:
    assert [str(TableName("public", "t")), str(TableName("cd", "t"))] == ["t", "cd.t"]
