"""Types of DuckDB in which numbers are computed: at the ends of each, and of columns that keep their own."""

from __future__ import annotations

import pytest
from small_expressions import between, call, column, lit, ref

from dpproxy.engines.duckdb_operations import INT64, INT128, narrowest, one_kind, representation


@pytest.mark.parametrize(
    ("low", "high", "type_"),
    [
        (-INT64, INT64, "BIGINT"),
        (-INT64 - 1, 0, "HUGEINT"),
        (0, INT64 + 1, "HUGEINT"),
        (-INT128, INT128, "HUGEINT"),
        (0, INT128 + 1, "DOUBLE"),
        (None, 0, "DOUBLE"),
    ],
)
def test_whole_numbers_have_room(low: int | None, high: int | None, type_: str) -> None:
    assert narrowest(between(low, high)) == type_


def test_what_expressions_are_computed_in() -> None:
    product = call("*", ref(column(1, "int8", 0, INT64)), lit("2", "int8"), type_="int8")
    assert representation(product) == "HUGEINT"
    assert [representation(lit(None, t)) for t in ("int4", "numeric", "text", "timestamptz")] == [
        "BIGINT",
        "DOUBLE",
        "VARCHAR",
        "TIMESTAMP",
    ]


def test_columns_of_one_kind() -> None:
    two, other = (ref(column(i, "numeric", exact="DECIMAL(9,2)")) for i in (1, 2)), ref(column(3, "numeric", exact="DOUBLE"))
    both = tuple(two)
    assert one_kind(both)
    assert not one_kind((*both, other))
    assert not one_kind((*both, lit("1", "numeric")))
