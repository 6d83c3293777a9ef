"""What nodes above a relation say of themselves: sizes that bounds and queries are made of."""

from __future__ import annotations

from fractions import Fraction

from small_expressions import column, ref

from dpproxy.plan.logical.measured import Contributions, CountCut, MeasuredRows, RowBucket, Scaled, UnitGroups
from dpproxy.plan.logical.relation import Scan


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
