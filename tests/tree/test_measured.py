"""What nodes above a relation say of themselves: sizes that bounds and queries are made of."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from small_expressions import column, ref

from dpproxy.tree.measured import (
    Added,
    Contributions,
    CountCut,
    Counted,
    Listed,
    MeasuredRows,
    NoTotal,
    Order,
    PartSum,
    Picked,
    RowBucket,
    RowCount,
    RowValue,
    Scaled,
    StoredGroups,
    StoredSums,
    Sums,
    UnitGroups,
    Written,
    contributions_of,
    rows_of,
)
from dpproxy.tree.relation import Scan


def test_buckets_are_points_of_a_grid_or_values() -> None:
    value = ref(column(1))
    assert RowBucket(value, None, -3, 4, Fraction(1)).size == 8
    assert RowBucket(value, None, 0, 0, Fraction(1), ("a", "b", None)).size == 3


def test_what_one_group_has_at_most() -> None:
    assert [Scaled(0, kind, 1, 5, 7, 1, 0).bound for kind in ("weight", "units", "count", "sum")] == [1, 1, 35, 35]


def test_contributions_are_scaled_when_one_is() -> None:
    unit = column(0)
    groups = UnitGroups(MeasuredRows(Scan((unit,), 0, ("main", "t"), ("u",)), unit, ()))
    assert not Contributions(groups, (CountCut(0, 2), None)).scaled
    assert Contributions(groups, (CountCut(0, 2), Scaled(1, "weight", 1, 1, 1, 1, 1))).scaled


UNIT, A, B = column(0), column(1), column(2)
VALUES = (RowValue(None, None), RowValue(ref(A), None))
ROWS = MeasuredRows(Scan((UNIT, A, B), 0, ("main", "t"), ("u", "a", "b")), UNIT, (ref(A), ref(B)), VALUES)
MADE = UnitGroups(ROWS, (Counted(0), Counted(1), Added(1, 0, 9, 0)))


def test_stored_groups_are_groups_by_the_keys_and_values_that_are_read() -> None:
    read = StoredGroups("s", MADE, (1,), (1, 0, 1), True)
    assert read.groups.rows == MeasuredRows(ROWS.child, UNIT, (ref(B),), (VALUES[1], VALUES[0], VALUES[1]))
    assert set(read.groups.totals) == {Counted(0), Added(0, 0, 9, 0), Counted(1), Counted(2), Added(2, 0, 9, 0)}
    assert rows_of(Contributions(read, ())) == read.groups.rows


def test_stored_sums_have_numbers_of_their_own() -> None:
    parts = (CountCut(0, 2), Scaled(1, "sum", 1, 1, 9, 1, 1, 3))
    sums = Sums(Picked(Contributions(MADE, parts), 3, Order(1, (0, 1))), (RowCount(), PartSum(0), PartSum(1, 3)))
    written = Written(sums, ((1, Listed(("x", "y"))),))
    read = StoredSums("s", written, (1, 0), (2, None, 0))
    assert read.totals == (PartSum(1, 3), NoTotal(), RowCount())
    assert (read.rows.keys, read.rows.values, read.coded) == ((ref(B), ref(A)), (), {0: Listed(("x", "y"))})
    assert contributions_of(read.made).parts == parts
    with pytest.raises(TypeError, match="no contributions in UnitGroups"):
        contributions_of(replace(sums, child=MADE))  # type: ignore[arg-type]
