"""What is read from stored tables: the same as made of rows, for each kind of node, on a few rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from small_expressions import column, ref

from dpproxy.engines import engine
from dpproxy.engines.measured import Source
from dpproxy.engines.stored_stages import DATABASE, columns, table
from dpproxy.sql.template import FOUND
from dpproxy.tree.expr import Call, Lit, SeriesDomain, ValuesDomain
from dpproxy.tree.measured import (
    Added,
    Buckets,
    Calendar,
    Contributions,
    CountCut,
    Counted,
    Declared,
    DeclaredPart,
    Filled,
    Fresh,
    FreshSums,
    Held,
    Listed,
    MeasuredRows,
    NoTotal,
    One,
    Order,
    PartSum,
    Picked,
    RowBucket,
    RowCount,
    RowValue,
    Scaled,
    Statement,
    StoredBuckets,
    StoredGroups,
    StoredSums,
    Sums,
    TotalCut,
    UnitGroups,
    Written,
)
from dpproxy.tree.relation import Scan

UNIT, NAME, SIZE, HOME = column(0, nullable=False), column(1, "text"), column(2), replace(column(3, "text"), constant=True)
WHEN = column(4, "timestamp")
SCAN = Scan((UNIT, NAME, SIZE, HOME, WHEN), 0, ("main", "t"), ("u", "name", "size", "home", "moment"))
MONTH = Call("timestamp", "trunc_time", (Lit("text", "month"), ref(WHEN)))
TIMES = ["2024-01-31 23:59:59", "2024-03-01", "2023-12-31", None, "2024-03-31", "2024-01-01"]
ROWS = [(1, "a", 5, "x"), (1, "a", 90, "x"), (1, None, None, "x"), (1, "b", 1, "x"), (2, "a", 3, None), (2, "odd", 3, None)]
ANY, HELD = RowValue(None, None), RowValue(ref(SIZE), None, Held(0, 10, Fraction(1)))
TOTALS = (Counted(0), Counted(1), Added(1, 0, 10, 0))
BY_BOTH = UnitGroups(MeasuredRows(SCAN, UNIT, (ref(HOME), ref(NAME)), (ANY, HELD)), TOTALS)
BY_NAME = UnitGroups(MeasuredRows(SCAN, UNIT, (ref(NAME),), (HELD, ANY)), (Counted(0), Added(0, 0, 10, 0), Counted(1)))
ALONE = UnitGroups(MeasuredRows(SCAN, UNIT, (), (HELD,)), (Added(0, 0, 10, 0),))
NAMES = ("a", "b", "c")
DECLARED = Declared((DeclaredPart(((0, ref(NAME)),), ((NAME, ValuesDomain(NAMES)),), (), ()),), 1)
MONTHS = Declared((DeclaredPart(((0, MONTH),), ((WHEN, SeriesDomain(19723, 19813, "day")),), (), ()),), 1)
SCALED = (One(), Scaled(1, "count", 2, 2, 1, 1024, 1, 3), Scaled(2, "sum", 2, 2, 10, 64, 2, 3))


def scaled(groups: Any, *numbers: int) -> Contributions:
    parts = (SCALED[n] if n == 0 else replace(SCALED[n], index=i, counter=i) for i, n in enumerate(numbers))
    return Contributions(groups, tuple(parts))


WIDE = UnitGroups(replace(BY_NAME.rows, values=(ANY, ANY, HELD, ANY)), (Counted(1), Counted(2), Added(2, 0, 10, 0), Counted(3)))
NARROW = UnitGroups(replace(BY_NAME.rows, values=(HELD, ANY)), (Added(0, 0, 10, 0), Counted(1)))
BY_MONTH = UnitGroups(replace(BY_NAME.rows, keys=(MONTH,), values=(HELD, ANY)), (Added(0, 0, 10, 0), Counted(1)))
CUT = Contributions(BY_NAME, (TotalCut(0, 0, 9), CountCut(1, 1)))
SUMMED = (PartSum(0), PartSum(1), RowCount())
STEPS = (PartSum(0, 3), PartSum(1, 3))
ORDER = Order(5, (0,))
WEIGHT = Scaled(0, "weight", 2, 2, 1, 1024, 0, fresh=True)
COUNT = Scaled(1, "count", 2, 2, 1, 1024, 1, 3)
COUNTED = UnitGroups(replace(BY_NAME.rows, values=(ANY, ANY)), (Counted(1),))

IN_BUCKETS = Buckets(replace(BY_NAME.rows, values=(RowBucket(ref(SIZE), None, 0, 9, Fraction(1)),)), 1, None, ORDER)
TWO_PICKS = Picked(COUNTED, 2, ORDER)

MADE: Mapping[str, Written] = {
    "groups": Written(BY_BOTH),
    "sums": Written(
        Sums(scaled(WIDE, 0, 1, 2, 1), (RowCount(), PartSum(0), PartSum(1, 3), PartSum(2, 3), PartSum(3, 3))),
        ((0, Listed(NAMES)),),
    ),
    "months": Written(BY_MONTH),
    "sums of months": Written(Sums(scaled(BY_MONTH, 2, 1), (RowCount(), *STEPS)), ((0, Calendar("month", date(2024, 1, 1), 3)),)),
    "picks": Written(Sums(Picked(CUT, 1, ORDER), (RowCount(), PartSum(0), PartSum(1)))),
    "two picks": Written(Sums(Contributions(TWO_PICKS, (None, COUNT, CountCut(1, 1))), (RowCount(), PartSum(1, 3), PartSum(2)))),
    "buckets": Written(IN_BUCKETS),
    "members": Written(Picked(UnitGroups(replace(COUNTED.rows, values=())), 2, ORDER)),
}
FINER = StoredGroups("groups", BY_BOTH, (1,), (1, 0), False)
READ: Mapping[str, tuple[Statement, Statement]] = {
    "groups, one key constant per unit": (Sums(replace(CUT, child=FINER), SUMMED), Sums(CUT, SUMMED)),
    "groups, added up": (
        Sums(Contributions(StoredGroups("groups", BY_BOTH, (), (1,), True), (TotalCut(0, 0, 99),)), (PartSum(0),)),
        Sums(Contributions(ALONE, (TotalCut(0, 0, 99),)), (PartSum(0),)),
    ),
    "groups picked, then cut": (
        Sums(replace(CUT, child=Picked(FINER, 1, ORDER)), SUMMED),
        Sums(replace(CUT, child=Picked(BY_NAME, 1, ORDER)), SUMMED),
    ),
    "groups of declared values": (
        Filled(Sums(scaled(FINER, 2, 1), STEPS), DECLARED),
        Filled(Sums(scaled(NARROW, 2, 1), STEPS), DECLARED),
    ),
    "sums of declared values": (
        Filled(StoredSums("sums", MADE["sums"], (0,), (3, 4)), DECLARED),
        Filled(Sums(scaled(NARROW, 2, 1), STEPS), DECLARED),
    ),
    "groups of declared months": (
        Filled(Sums(scaled(StoredGroups("months", BY_MONTH, (0,), (0, 1), False), 2, 1), STEPS), MONTHS),
        Filled(Sums(scaled(BY_MONTH, 2, 1), STEPS), MONTHS),
    ),
    "sums of declared months": (
        Filled(StoredSums("sums of months", MADE["sums of months"], (0,), (1, 2)), MONTHS),
        Filled(Sums(scaled(BY_MONTH, 2, 1), STEPS), MONTHS),
    ),
    "sums of groups that several are in": (
        StoredSums("two picks", MADE["two picks"], (0,), (2, None, 0), 2),
        Sums(Contributions(TWO_PICKS, (None, COUNT, CountCut(1, 1))), (PartSum(2), NoTotal(), RowCount()), 2),
    ),
    "buckets": (StoredBuckets("buckets", Written(IN_BUCKETS)), IN_BUCKETS),
    "picks": (StoredSums("picks", MADE["picks"], (0,), (1, 2, 0)), Sums(Picked(CUT, 1, ORDER), SUMMED)),
}


WEIGHED: Mapping[str, tuple[Any, int, PartSum]] = {
    "in steps": (COUNT, 1, PartSum(1, 3)),
    "as it is": (CountCut(1, 1), 2, PartSum(1)),
}
"""A part beside a weight, the stored column that its sum is in, and how it is added up."""


def text(tree: Statement) -> str:
    return Source.of(SCAN, engine("duckdb")).query(tree).text


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute(f"ATTACH ':memory:' AS {DATABASE}; CREATE TABLE t(u INT, name TEXT, size INT, home TEXT, moment TIMESTAMP)")
    made.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [(*row, at) for row, at in zip(ROWS, TIMES, strict=True)])
    for name, written in MADE.items():
        made.execute(f"CREATE TABLE {table(name)} AS {text(written)}")
    return made


@pytest.mark.parametrize("case", READ)
def test_what_is_read_is_what_is_made_of_rows(case: str, connection: duckdb.DuckDBPyConnection) -> None:
    stored, plain = READ[case]
    assert [DATABASE in text(tree) for tree in (stored, plain)] == [True, False]
    found, rows = (connection.execute(text(tree)).fetchall() for tree in (stored, plain))
    ordered = not isinstance(plain, Buckets)
    assert found == rows if ordered else sorted(found, key=repr) == sorted(rows, key=repr)
    assert any(map(any, found))


@pytest.mark.parametrize("found", [(), ("a",), ("odd", "nobody"), ("a", "odd")])
@pytest.mark.parametrize("case", WEIGHED)
def test_groups_that_were_found_weigh_nothing(case: str, found: tuple[str, ...], connection: duckdb.DuckDBPyConnection) -> None:
    """And all else of them is what it was."""
    part, column, total = WEIGHED[case]
    plain = Sums(Contributions(Fresh(TWO_PICKS, ORDER), (WEIGHT, part)), (PartSum(0), total, RowCount()))
    known = StoredSums("two picks", MADE["two picks"], (0,), (None, column, 0))
    stored = FreshSums(known, "members", MADE["members"], (0,), ORDER, WEIGHT)
    numbers = connection.execute("SELECT CAST(hash(5, name) >> 1 AS BIGINT) FROM unnest(?) AS t(name)", [list(found)]).fetchall()
    rows, read = (
        connection.execute(text(tree).replace(FOUND, "".join(f", {number}" for (number,) in numbers))).fetchall()
        for tree in (plain, stored)
    )
    assert read == rows
    assert {row[0]: row[1] > 0 for row in rows} == {k: k is None or k not in found for k, *_ in rows}
    assert len(rows) == 3


def test_groups_of_few_units_weigh_as_others(connection: duckdb.DuckDBPyConnection) -> None:
    """A unit's weight is spread over all its groups, whichever of them are shown."""
    totals = (PartSum(0), RowCount())
    plain = Sums(Contributions(Fresh(TWO_PICKS, ORDER), (WEIGHT,)), totals, 2)
    known = StoredSums("two picks", MADE["two picks"], (0,), (None, 0), 2)
    stored = FreshSums(known, "members", MADE["members"], (0,), ORDER, WEIGHT)
    rows, read = (connection.execute(text(tree).replace(FOUND, "")).fetchall() for tree in (plain, stored))
    assert read == rows
    assert [row[0] for row in rows] == ["a"]
    assert 0 < rows[0][1] < 2 * WEIGHT.fine


@pytest.mark.parametrize("name", MADE)
def test_a_table_has_the_columns_that_are_read(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    known = [row[0] for row in connection.execute(f"DESCRIBE {table(name)}").fetchall()]
    keys = [f"k{i}" for i in range(2 if name == "groups" else 1)]
    assert known == [*(["u"] if name in ("groups", "months", "members") else []), *keys, *columns(MADE[name])]
