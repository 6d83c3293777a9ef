"""What a unit can change of a column, node by node; and what no node bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest
from small_expressions import call, lit, ref

from dpproxy.kernel.contributions import Deriving, Found, Reach
from dpproxy.kernel.leaves import Unproven
from dpproxy.tree.expr import Lit
from dpproxy.tree.measured import (
    Added,
    Beyond,
    Buckets,
    Contributions,
    CountCut,
    Counted,
    Declared,
    DeclaredPart,
    DistinctCount,
    DistinctSum,
    Filled,
    Fresh,
    FreshSums,
    Held,
    MeasuredRows,
    Node,
    One,
    Order,
    Part,
    PartSum,
    Picked,
    Present,
    RowBucket,
    RowCount,
    RowValue,
    Scaled,
    ShareCut,
    Statement,
    StoredBuckets,
    StoredGroups,
    StoredSums,
    Sums,
    Total,
    TotalCut,
    UnitGroups,
    ValueCount,
    ValueSum,
    Written,
)
from tests.kernel.small_tables import BUYER, HOME, LEAVES, ORDERS, PEOPLE, PERSON, SIZE, there, where

HELD = RowValue(ref(SIZE), None, Held(-10, 20, Fraction(1)))
ROWS = MeasuredRows(where(ORDERS, there(BUYER)), BUYER, (ref(SIZE),), (RowValue(ref(SIZE), None), HELD))
GROUPS = UnitGroups(ROWS, (Counted(0), Counted(1), Added(1, -15, 15, 5)))
BELOW = replace(GROUPS, rows=replace(ROWS, values=(*ROWS.values, replace(HELD, held=Held(-20, 10, Fraction(1))))))
ALONE = MeasuredRows(PEOPLE, PERSON, (ref(HOME),), (replace(HELD, value=ref(HOME)),))
FIRST = Order(7, (0,))
COUNTS = Scaled(0, "count", 1, 4, 1, 8, 0)
MEAN = Scaled(1, "sum", 1, 4, 15, 2, 0, mean=True)
TWO_KEYS = replace(GROUPS, rows=replace(ROWS, keys=(ref(BUYER), ref(SIZE))))
READ = StoredGroups("s", TWO_KEYS, (1,), (1, 0), False)
ADDED = replace(READ, keys=(), summed=True)
ADDS = Sums(Contributions(TWO_KEYS, (COUNTS, MEAN)), (RowCount(), PartSum(0), PartSum(1)))
SUMS = StoredSums("s", Written(ADDS), (1, 0), (2, None, 1))
WEIGHT = Scaled(1, "weight", 2, 4, 1, 8, 1, fresh=True)
WEIGHED = FreshSums(SUMS, "t", Written(TWO_KEYS), (1, 0), Order(7, (0, 1)), WEIGHT)
PICKED = Picked(TWO_KEYS, 4, Order(7, (0, 1)))


def of(tree: Statement) -> Found:
    """Where stored tables hold what the tree says."""
    return Deriving(LEAVES, said(tree)).of(tree)


def said(node: object) -> dict[str, Written]:
    match node:
        case StoredGroups(table=table, definition=definition):
            return {table: Written(definition)}
        case StoredSums(table=table, definition=definition) | StoredBuckets(table=table, definition=definition):
            return {table: definition}
        case FreshSums(child=child, table=table, definition=definition):
            return {table: definition, **said(child)}
        case _:
            child = getattr(node, "child", None)
            return said(child) if child is not None else {}


def sums(*parts: Part | None, total: Total | None = None, groups: UnitGroups | Picked | Fresh | StoredGroups = GROUPS) -> Sums:
    return Sums(Contributions(groups, parts), (total or PartSum(len(parts) - 1, getattr(parts[-1], "steps", 1)),))


REACH: Mapping[str, tuple[Statement, Reach]] = {
    "a row": (Sums(ALONE, (RowCount(),)), Reach(0, 1)),
    "a value": (Sums(ALONE, (ValueCount(0, True),)), Reach(0, 1)),
    "a number": (Sums(ALONE, (ValueSum(0, 5),)), Reach(-15, 15)),
    "a number of one sign": (Sums(ALONE, (ValueSum(0, -10),)), Reach(0, 30)),
    "a unit": (sums(One()), Reach(0, 1)),
    "a unit that has one": (sums(Present(0)), Reach(0, 1)),
    "rows": (sums(CountCut(0, 6)), Reach(0, 6)),
    "a sum": (sums(None, TotalCut(1, -30, 60)), Reach(-30, 60)),
    "a mean's sum": (sums(None, ShareCut(1, 1, 3, -15, 15, 5)), Reach(-45, 45)),
    "distinct values": (sums(None, total=DistinctCount(0, 3, Order(7))), Reach(0, 3)),
    "distinct values in all": (sums(None, total=DistinctCount(0, 3, FIRST, 2, 4)), Reach(0, 3, 2, 16)),
    "the sum of distinct values": (sums(None, total=DistinctSum(1, 3, Order(7))), Reach(-30, 60)),
    "their sum in all": (sums(None, total=DistinctSum(1, 3, FIRST, 2, 4)), Reach(-30, 60, 2, 80**2)),
    "the sum of distinct values below 0": (
        sums(None, total=DistinctSum(2, 3, FIRST, 2, 4), groups=BELOW),
        Reach(-60, 30, 2, 80**2),
    ),
    "a distinct number": (Sums(ALONE, (ValueSum(0, 0, distinct=True),)), Reach(-10, 20)),
    "a weight": (sums(Scaled(0, "weight", 2, 4, 1, 8, 0)), Reach(0, 8, 2, 64)),
    "units in all": (sums(Scaled(0, "units", 1, 4, 1, 8, 0)), Reach(0, 8, 1, 32)),
    "rows in all": (sums(replace(COUNTS, steps=12)), Reach(0, 32, 1, 32, 12)),
    "a sum in all": (sums(None, Scaled(1, "sum", 2, 4, 15, 2, 1, steps=12)), Reach(-120, 120, 2, 14400, 12)),
    "a mean's in all": (sums(COUNTS, MEAN), Reach(-120, 120, 1, 120)),
    "stored groups": (sums(TotalCut(0, -30, 60), groups=READ), Reach(-30, 60)),
    "stored groups, added up": (sums(None, CountCut(1, 6), groups=ADDED), Reach(0, 6)),
    "stored groups, one key twice": (sums(TotalCut(0, -30, 60), groups=replace(READ, keys=(1, 1))), Reach(-30, 60)),
    "stored sums": (SUMS, Reach(0, 32, 1, 32)),
    "stored sums, of no column": (replace(SUMS, columns=(2, None)), Reach(0, 0)),
    "stored sums of a mean": (replace(SUMS, columns=(1, 2)), Reach(-120, 120, 1, 120)),
    "stored numbers of units": (replace(SUMS, columns=(0,), least=3), Reach(0, 1)),
    "a weight beside stored sums": (replace(WEIGHED, child=replace(SUMS, columns=(2, None))), Reach(0, 8, 2, 64)),
    "stored sums beside a weight": (WEIGHED, Reach(0, 32, 1, 32)),
    "how much is cut": (Beyond(ROWS, 1, (("most", 3),)), Reach(0, 1)),
    "stored buckets": (
        StoredBuckets(
            "s", Written(Buckets(replace(ROWS, values=(RowBucket(ref(SIZE), None, 0, 9, Fraction(1)),)), 5, None, FIRST))
        ),
        Reach(0, 5),
    ),
    "buckets": (Buckets(replace(ROWS, values=(RowBucket(ref(SIZE), None, 0, 9, Fraction(1)),)), 5, None, FIRST), Reach(0, 5)),
}


@pytest.mark.parametrize("name", REACH)
def test_what_a_unit_can_change(name: str) -> None:
    tree, reach = REACH[name]
    assert of(tree).columns[-1] == reach


def test_how_many_groups() -> None:
    picked = Sums(Picked(Contributions(GROUPS, (One(),)), 4, FIRST), (PartSum(0),))
    assert of(picked).groups == 4
    assert of(sums(COUNTS, groups=Picked(GROUPS, 6, FIRST))).groups == 6
    assert of(sums(One())).groups is None
    assert (of(sums(One(), groups=READ)).groups, of(sums(One(), groups=ADDED)).groups) == (None, 1)
    few = Written(replace(ADDS, child=Contributions(PICKED, (COUNTS, MEAN))))
    assert (of(replace(SUMS, definition=few)).groups, of(SUMS).groups) == (4, None)
    assert (of(SUMS).varying, of(SUMS).keys, of(replace(SUMS, least=3)).least) == (frozenset((0,)), 2, 3)
    assert of(Sums(ALONE, (RowCount(),))).groups == 1
    assert of(sums(One(), groups=replace(GROUPS, rows=replace(ROWS, keys=(ref(BUYER),))))).groups == 1
    assert of(sums(One(), groups=replace(GROUPS, rows=replace(ROWS, keys=())))).groups == 1


UNBOUNDED: Mapping[str, Statement] = {
    "as if there were one row": Sums(ROWS, (RowCount(),)),
    "rows of nobody": sums(One(), groups=replace(GROUPS, rows=replace(ROWS, child=ORDERS))),
    "another column for the unit": sums(One(), groups=replace(GROUPS, rows=replace(ROWS, unit=SIZE))),
    "an unknown function as a key": sums(One(), groups=replace(GROUPS, rows=replace(ROWS, keys=(call("random"),)))),
    "a number that nothing holds": Sums(replace(ALONE, values=(RowValue(ref(HOME), None),)), (ValueSum(0, 0),)),
    "a total that nothing holds": sums(None, Scaled(1, "sum", 1, 4, 15, 2, 1), groups=replace(
        GROUPS, rows=replace(ROWS, values=(HELD, RowValue(ref(SIZE), None))))),
    "a cut around another number": sums(None, TotalCut(1, 5, 60)),
    "a cut of no total": sums(TotalCut(0, -30, 60)),
    "rows cut to less than none": sums(CountCut(0, -4)),
    "a share of less than none": sums(None, ShareCut(1, 1, -3, -15, 15, 5)),
    "a vector of less than nothing": sums(None, Scaled(1, "sum", 2, 4, -15, 2, 1)),
    "a part that is not there": sums(One(), total=PartSum(3)),
    "steps that are not there": sums(COUNTS, total=PartSum(0, 12)),
    "a share by narrower bounds": sums(None, ShareCut(1, 1, 3, -5, 5, 5)),
    "a total of wider values": sums(None, ShareCut(1, 1, 3, -5, 5, 5), groups=replace(
        GROUPS, totals=(Counted(1), Added(1, -5, 5, 5)))),
    "a mean by other rows": sums(None, ShareCut(1, 0, 3, -15, 15, 5), groups=replace(
        GROUPS, rows=replace(ROWS, values=(RowValue(ref(SIZE), call("=", ref(SIZE), lit("1"))), HELD)))),
    "a mean by other values": sums(None, ShareCut(1, 0, 3, -15, 15, 5), groups=replace(
        GROUPS, rows=replace(ROWS, values=(RowValue(ref(BUYER), None), HELD)))),
    "a mean by what is no count": sums(CountCut(0, 4), MEAN),
    "a mean by a count of another size": sums(replace(COUNTS, rows=9), MEAN),
    "a mean's row of another size": sums(COUNTS, replace(MEAN, row=14)),
    "a count by more than its rows": sums(replace(COUNTS, row=2)),
    "a norm that is none": sums(replace(COUNTS, norm=3)),
    "an earlier round that was not": sums(Scaled(0, "weight", 2, 4, 1, 8, 0, fresh=True)),
    "groups in an order with ties": Sums(Picked(Contributions(GROUPS, (One(),)), 4, Order(7)), (PartSum(0),)),
    "values in an order with ties": sums(None, total=DistinctCount(0, 3, Order(7), 2, 4)),
    "distinct values that nothing holds": sums(None, total=DistinctSum(0, 3, Order(7))),
    "a number about a centre beyond its bounds": Sums(ALONE, (ValueSum(0, 21),)),
    "a number about a centre before its bounds": Sums(ALONE, (ValueSum(0, -11),)),
    "a total about a centre that no value has": sums(None, TotalCut(1, -30, 60), groups=replace(
        GROUPS, totals=(Counted(1), Added(1, -(2**62) - 15, 15 - 2**62, 2**62)))),
    "distinct values about a centre": Sums(ALONE, (ValueSum(0, 5, distinct=True),)),
    "an answer of what is stored": Written(GROUPS),
    "stored groups that are several of a unit": sums(One(), groups=replace(READ, keys=(0,))),
    "stored buckets of what are none": StoredBuckets("s", Written(TWO_KEYS)),
    "stored sums of several groups": replace(SUMS, keys=(0,)),
    "stored sums that are not there": replace(SUMS, columns=(3,)),
    "stored sums of what is no sum": replace(SUMS, definition=Written(TWO_KEYS)),
    "stored sums of groups that some are in": replace(SUMS, definition=Written(replace(ADDS, least=2))),
    "stored sums without numbers of units": replace(SUMS, definition=Written(replace(
        ADDS, totals=(PartSum(0), RowCount(), PartSum(1)))), least=2),
    "a weight in the place of a stored sum": replace(WEIGHED, weight=replace(WEIGHT, index=2, counter=2)),
    "a weight in no place": replace(WEIGHED, weight=replace(WEIGHT, index=3, counter=3)),
    "a weight of what was found as well": replace(WEIGHED, weight=replace(WEIGHT, fresh=False)),
    "a weight that is scaled by another column": replace(WEIGHED, weight=replace(WEIGHT, counter=0)),
    "a weight of more": replace(WEIGHED, weight=replace(WEIGHT, kind="units")),
    "a weight over groups that are not picked": replace(WEIGHED, definition=Written(PICKED)),
    "a weight over groups by other keys": replace(WEIGHED, keys=(0, 1)),
    "a weight over sums of others": replace(WEIGHED, definition=Written(GROUPS)),
    "found groups in an order with ties": replace(WEIGHED, order=Order(7)),
    "stored keys that are not there": sums(One(), groups=replace(READ, keys=(2,))),
    "stored keys from behind": replace(SUMS, keys=(-1, 0)),
    "stored sums of one key twice": replace(SUMS, keys=(1, 1)),
    "stored values from behind": sums(One(), groups=replace(READ, values=(-1,))),
    "a stored count that was not taken": sums(CountCut(1, 6), groups=replace(
        READ, definition=replace(TWO_KEYS, totals=(Counted(1),)))),
    "stored sums of what nothing holds": replace(SUMS, definition=Written(replace(ADDS, child=Contributions(
        TWO_KEYS, (COUNTS, replace(MEAN, row=14)))))),
    "distinct values of what is stored": sums(None, total=DistinctCount(0, 3, Order(7)), groups=READ),
    "stored rows of nobody": sums(One(), groups=replace(READ, definition=replace(
        TWO_KEYS, rows=replace(TWO_KEYS.rows, child=ORDERS)))),
    "buckets of all rows": Buckets(replace(ROWS, values=(RowBucket(ref(SIZE), None, 0, 9, Fraction(1)),)), None, None, FIRST),
    "a text within bounds": Sums(replace(ALONE, values=(replace(HELD, value=lit("x", "text")),)), (ValueSum(0, 0),)),
    "buckets of texts": Buckets(replace(ROWS, values=(RowBucket(lit("x", "text"), None, 0, 9, Fraction(1)),)), 5, None, FIRST),
    "rows where a number is": Sums(replace(ALONE, values=(replace(HELD, where=ref(HOME)),)), (ValueSum(0, 0),)),
    "buckets of other groups": Buckets(replace(ROWS, values=(RowBucket(ref(SIZE), None, 0, 9, Fraction(1)),)), 5,
                                        Picked(GROUPS, 2, FIRST), FIRST),
}  # fmt: skip


@pytest.mark.parametrize("name", UNBOUNDED)
def test_what_no_node_bounds(name: str) -> None:
    with pytest.raises(Unproven):
        of(UNBOUNDED[name])


def test_declared_groups_are_of_the_kinds_of_keys() -> None:
    """They are joined by them, and an engine would cast."""

    def filled(key: Lit) -> Filled:
        return Filled(Sums(ALONE, (RowCount(),)), Declared((DeclaredPart(((0, key),), (), (), ()),), 1))

    assert of(filled(lit("1"))).declared
    for wrong in (lit("a", "text"), lit("2000-01-01", "date")):
        with pytest.raises(Unproven, match="is compared with"):
            of(filled(wrong))
    day, moment = lit("2000-01-01", "date"), lit("2000-01-01 00:00:00", "timestamp")
    for key, other in ((day, moment), (moment, day)):
        rows = replace(ALONE, keys=(key,))
        tree = Filled(Sums(rows, (RowCount(),)), Declared((DeclaredPart(((0, other),), (), (), ()),), 1))
        with pytest.raises(Unproven, match="days beside moments"):
            of(tree)


@pytest.mark.parametrize("tree", [sums(One(), groups=READ), SUMS, replace(WEIGHED, table="s", definition=SUMS.definition)])
def test_a_stored_table_holds_what_it_was_made_to_hold(tree: Sums) -> None:
    held = said(tree)
    for other in ({}, {"t": held["s"]}, {"s": replace(held["s"], coded=((0, ("x",)),))}):
        with pytest.raises(Unproven, match="a stored table that holds something else"):
            Deriving(LEAVES, other).of(tree)


def test_rows_of_two_queries_may_have_columns_of_one_number() -> None:
    """What was stored was planned by itself, with numbers of its own."""
    deriving = Deriving(LEAVES, said(sums(One(), groups=READ)))
    deriving.of(sums(One(), groups=READ))
    size, buyer = replace(SIZE, id=BUYER.id), replace(BUYER, id=SIZE.id)
    other = replace(ORDERS, columns=(ORDERS.columns[0], buyer, size))
    assert deriving.of(sums(One(), groups=UnitGroups(MeasuredRows(where(other, there(buyer)), buyer, ())))).groups == 1


def test_nodes_that_nobody_knows() -> None:
    with pytest.raises(Unproven, match="no rule for Node"):
        of(Node())  # type: ignore[arg-type]
    with pytest.raises(Unproven, match="no rule for Node"):
        of(Sums(Contributions(GROUPS, (Node(),)), (PartSum(0),)))  # type: ignore[arg-type]
    with pytest.raises(Unproven, match="no rule for Node"):
        of(Sums(Contributions(GROUPS, (One(),)), (Node(),)))  # type: ignore[arg-type]
