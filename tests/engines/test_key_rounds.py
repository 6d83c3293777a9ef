"""What both rounds of undeclared groups have in common: the first round weighs all groups, the second those not found yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpproxy.engines import key_stages
from dpproxy.tree.measured import (
    Contributions,
    DistinctCount,
    Fresh,
    NoTotal,
    Order,
    PartSum,
    RowCount,
    Scaled,
    StoredGroups,
    Sums,
)

ORDER = Order(7, (0,))
WEIGHT = Scaled(0, "weight", 2, 1, 1, 2**20, 0, fresh=True)
COUNT = Scaled(1, "count", 2, 10, 1, 2**20, 1, steps=12)
MEAN = Scaled(2, "sum", 2, 10, 100, 2**20, 1, steps=12, mean=True)
GROUPS = StoredGroups.__new__(StoredGroups)
SECOND = Sums(Contributions(Fresh(GROUPS, ORDER), (WEIGHT, COUNT)), (PartSum(0), PartSum(1, 12)))
FIRST = Sums(Contributions(GROUPS, (replace(WEIGHT, fresh=False), COUNT)), (PartSum(0), NoTotal()))


def test_both_rounds_begin_with_the_same() -> None:
    """As long as none is found every group is new: the second round's parts are those of the first."""
    assert key_stages.both(SECOND, first=False) == FIRST.child == key_stages.both(FIRST, first=True)


def test_what_is_no_round_has_nothing_in_common() -> None:
    assert key_stages.both(FIRST, first=False) is None
    two = replace(SECOND, child=Contributions(Fresh(GROUPS, ORDER), (WEIGHT, replace(WEIGHT, index=1))))
    assert key_stages.both(two, first=False) is None
    assert key_stages.fresh(two) is None


def test_the_weight_of_new_groups() -> None:
    assert key_stages.fresh(SECOND) == (ORDER, WEIGHT)
    assert key_stages.fresh(FIRST) is None


def test_alone_only_parts_that_are_added_up_are_made() -> None:
    """A sum is scaled by the count that goes with it, which stays though nothing adds it up."""
    child = Contributions(GROUPS, (WEIGHT, COUNT, MEAN))
    assert key_stages.alone(Sums(child, (PartSum(0),))).child == Contributions(GROUPS, (WEIGHT, None, None))
    assert key_stages.alone(Sums(child, (PartSum(2, 12),))).child == Contributions(GROUPS, (None, COUNT, MEAN))


def test_totals_are_read_by_the_numbers_of_their_parts() -> None:
    assert key_stages.column(3, PartSum(1)) == ["s.b1 AS b3"]
    assert key_stages.column(2, RowCount()) == ["s.units AS b2"]
    assert key_stages.column(2, NoTotal()) == ["CAST(0 AS BIGINT) AS b2"]
    with pytest.raises(TypeError):
        key_stages.column(0, DistinctCount(0, 1, ORDER))
