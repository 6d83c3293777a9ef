"""Distinct values: each counts once for all units together, and no unit brings more of them than its bound."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from small_expressions import column, ref

from dpproxy.engines import engine
from dpproxy.engines.key_stages import sum_of_each, with_distinct
from dpproxy.engines.unit_stages import GroupNames
from dpproxy.tree.measured import (
    Contributions,
    DistinctCount,
    DistinctSum,
    MeasuredRows,
    Order,
    PartSum,
    Picked,
    Sums,
    UnitGroups,
)
from dpproxy.tree.relation import Scan

UNIT, KEY = column(0, nullable=False), column(1)
SCAN = Scan((UNIT, KEY), 0, ("main", "t"), ("u", "k"))
NAMES = GroupNames.of(engine("duckdb"), [ref(KEY)])
ROWS = "(VALUES (1, 7, 5), (1, 7, 6), (1, 7, NULL), (1, 8, 5), (2, 7, 5), (2, 7, 9))"
CONTRIBUTIONS = Contributions(UnitGroups(MeasuredRows(SCAN, UNIT, (ref(KEY),))), (None,))


def groups(node: Sums) -> list[tuple[Any, ...]]:
    """Each group and its number, which all its units' rows have."""
    stages, read = with_distinct("p", node, NAMES, {0: "x0"})
    common = [f"r AS (SELECT * FROM {ROWS} AS r(u, k0, x0))", "p AS (SELECT DISTINCT u, k0 FROM r)", *stages]
    return duckdb.connect().execute(f"WITH {', '.join(common)} SELECT DISTINCT k0, n0 FROM {read} ORDER BY ALL").fetchall()


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (DistinctCount(0, 9, Order(3)), [(7, 3), (8, 1)]),
        (DistinctSum(0, 9, Order(3)), [(7, 5 + 6 + 9), (8, 5)]),
    ],
)
def test_each_value_once(total: DistinctCount | DistinctSum, expected: list[tuple[int, int]]) -> None:
    assert groups(Sums(CONTRIBUTIONS, (total,))) == expected
    assert groups(Sums(Picked(CONTRIBUTIONS, 2, Order(3, (0,))), (total,))) == expected


@pytest.mark.parametrize("key", range(8))
def test_no_unit_brings_more_than_its_bound(key: int) -> None:
    (seven, count), _ = groups(Sums(CONTRIBUTIONS, (DistinctCount(0, 1, Order(key)),)))
    assert (seven, count <= 2) == (7, True), "two units, a value each"


def test_what_has_no_distinct_values_is_read_as_it_is() -> None:
    assert with_distinct("p", Sums(CONTRIBUTIONS, (PartSum(0),)), NAMES, {}) == ([], "p")


def test_a_sum_of_each_value() -> None:
    text = sum_of_each("x", engine("duckdb"))
    assert duckdb.connect().execute(f"SELECT {text} FROM (VALUES (3), (3), (4), (NULL)) AS v(x)").fetchall() == [(7,)]
