"""What is stored of measurements' trees: columns put together, each once, and found under their own numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from small_expressions import column, ref

from dpproxy.engines import EngineSpeller
from dpproxy.plan.measure.stored_definitions import (
    Definition,
    definitions,
    groups_of,
    looks_again,
    members,
    numbered,
    stages,
    stored_table,
    sums_of,
)
from dpproxy.tree.expr import SeriesDomain, ValuesDomain
from dpproxy.tree.measured import (
    Added,
    Contributions,
    CountCut,
    Counted,
    Declared,
    DeclaredPart,
    DistinctCount,
    Filled,
    Fresh,
    Held,
    MeasuredRows,
    Node,
    One,
    Order,
    PartSum,
    Picked,
    RowCount,
    RowValue,
    Scaled,
    ShareCut,
    Statement,
    StoredGroups,
    Sums,
    TotalCut,
    UnitGroups,
    Written,
    contributions_of,
)
from dpproxy.tree.relation import Scan

UNIT, KEY, SIZE = column(0, nullable=False), column(1), column(2)
SCAN = Scan((UNIT, KEY, SIZE), 0, ("main", "t"), ("u", "k", "size"))
ANY, SIZES, HELD = RowValue(None, None), RowValue(ref(SIZE), None), RowValue(ref(SIZE), None, Held(0, 10, Fraction(1)))
ROWS = MeasuredRows(SCAN, UNIT, (ref(KEY),), (SIZES, HELD))
MEAN = Contributions(UnitGroups(ROWS, (Counted(0), Added(1, -5, 5, 5))), (CountCut(0, 3), ShareCut(1, 0, 3, -5, 5, 5)))
SUM = Contributions(
    UnitGroups(MeasuredRows(SCAN, UNIT, (ref(KEY),), (ANY, HELD)), (Added(1, 0, 10, 0),)), (One(), TotalCut(1, 0, 30))
)
ORDER = Order(1, (0,))
BY_ALL = (PartSum(0), PartSum(1))


def stored(*trees: Statement) -> list[Written]:
    return [made.written for made in definitions(("a label", tree) for tree in trees)]


def test_columns_of_the_same_groups_are_put_together() -> None:
    groups, sums = stored(Sums(MEAN, BY_ALL), Sums(SUM, BY_ALL), Sums(MEAN, BY_ALL))
    assert isinstance(groups.child, UnitGroups)
    assert groups.child.rows.values == (SIZES, HELD, ANY, HELD)
    assert set(groups.child.totals) == {Counted(0), Added(1, -5, 5, 5), Added(3, 0, 10, 0)}
    assert isinstance(sums.child, Sums)
    assert contributions_of(sums.child).parts == (CountCut(0, 3), ShareCut(1, 0, 3, -5, 5, 5), One(), TotalCut(3, 0, 30))
    assert sums.child.totals == (RowCount(), *map(PartSum, range(4)))
    assert groups_of(sums.child).rows.values == (SIZES, HELD, ANY, HELD)
    assert set(groups_of(sums.child).totals) == {Counted(0), Added(1, -5, 5, 5), Added(3, 0, 10, 0)}


def test_a_part_keeps_its_counter_beside_it() -> None:
    later = Contributions(
        UnitGroups(MeasuredRows(SCAN, UNIT, (ref(KEY),), (ANY, SIZES, HELD)), (Counted(1), Added(2, -5, 5, 5))),
        (One(), CountCut(1, 3), ShareCut(2, 1, 3, -5, 5, 5)),
    )
    both = stored(Sums(SUM, BY_ALL), Sums(later, BY_ALL))[1].child
    assert isinstance(both, Sums)
    assert contributions_of(both).parts[2:] == (CountCut(2, 3), ShareCut(3, 2, 3, -5, 5, 5))


def test_what_is_picked_otherwise_is_another_table() -> None:
    picked = [Picked(MEAN, most, ORDER) for most in (1, 2)]
    found = stored(Sums(MEAN, BY_ALL), *(Sums(stage, BY_ALL) for stage in picked))
    assert [type(written.child) for written in found] == [UnitGroups, Sums, Sums, Sums]
    assert [written.child.child.most for written in found[2:]] == [1, 2]  # type: ignore[union-attr]


def test_what_is_not_stored() -> None:
    distinct = Sums(MEAN, (DistinctCount(0, 1, ORDER),))
    assert (looks_again(distinct), looks_again(Sums(MEAN, BY_ALL))) == (True, False)
    fresh = Contributions(Fresh(MEAN.child, ORDER), (One(),))  # type: ignore[arg-type]  # a first round has no such part
    assert [type(written.child) for written in stored(distinct, Sums(fresh, (PartSum(0),)))] == [UnitGroups]
    assert stored(Sums(ROWS, (RowCount(),))) == []


def test_which_groups_are_picked_is_kept_for_a_second_round() -> None:
    picked = Picked(UnitGroups(MEAN.child.rows, (Counted(0),)), 2, ORDER)  # type: ignore[union-attr]
    weight = Scaled(1, "weight", 2, 4, 1, 8, 1, fresh=True)
    groups, sums, kept = stored(Sums(Contributions(Fresh(picked, ORDER), (CountCut(0, 3), weight)), BY_ALL))
    assert isinstance(sums.child, Sums)
    assert contributions_of(sums.child).parts == (CountCut(0, 3),)
    assert kept.child == Picked(UnitGroups(replace(ROWS, values=())), 2, ORDER) == members(picked)
    assert members(groups.child) == members(picked).child  # type: ignore[arg-type, union-attr]


def test_how_many_groups_are_declared() -> None:
    keys = ((0, ref(KEY)),)
    parts = [DeclaredPart(keys, ((KEY, domain),), (), ()) for domain in (ValuesDomain(("a", "b")), SeriesDomain(1, 5, "int"))]
    sums = Sums(MEAN, BY_ALL)
    sizes = [made.size for made in definitions([("a label", Filled(sums, Declared(tuple(parts), 1)))])]
    assert sizes == [10, 10]
    public = replace(parts[0], scans=(SCAN,))
    assert [made.size for made in definitions([("a label", Filled(sums, Declared((public,), 1)))])] == [None, None]


def test_stages_and_numbers() -> None:
    read = StoredGroups("s", groups_of(MEAN), (0,), (0, 1), False)
    picked = Picked(Contributions(read, ()), 2, ORDER)
    assert list(stages(picked)) == [picked, picked.child, read]
    assert groups_of(picked) == read.groups
    assert sums_of(Sums(MEAN, BY_ALL)) == Sums(MEAN, BY_ALL)
    assert sums_of(Written(MEAN.child)) is None  # type: ignore[arg-type]
    assert numbered(Scaled(1, "count", 1, 2, 1, 8, 1), 4, 5) == Scaled(4, "count", 1, 2, 1, 8, 5)
    assert numbered(TotalCut(1, 0, 3), 4, 5) == TotalCut(4, 0, 3)
    with pytest.raises(AssertionError):
        list(stages(Node()))


def test_a_name_follows_from_the_query() -> None:
    one, other = (
        stored_table(Definition(Written(Sums(stage, BY_ALL)), "a label", 3), EngineSpeller("duckdb")) for stage in (MEAN, SUM)
    )
    assert one.name != other.name
    assert (one.label, one.size) == ("a label", 3)
    assert stored_table(Definition(Written(Sums(MEAN, BY_ALL)), "another label"), EngineSpeller("duckdb")).name == one.name
