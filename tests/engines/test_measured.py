"""The tree of a query as SQL: each kind of node run on a few rows, and counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from small_expressions import column, ref

from dpproxy.engines import engine
from dpproxy.engines.measured import Source
from dpproxy.tree.expr import Call, Lit, SeriesDomain, ValuesDomain
from dpproxy.tree.measured import (
    Added,
    Beyond,
    Buckets,
    Calendar,
    Contributions,
    CountCut,
    Counted,
    Declared,
    DeclaredPart,
    DistinctCount,
    DistinctSum,
    Filled,
    Fresh,
    Held,
    MeasuredRows,
    Numbered,
    One,
    Order,
    PartSum,
    Picked,
    Present,
    RowBucket,
    RowCount,
    RowValue,
    Scaled,
    ShareCut,
    Statement,
    Sums,
    TotalCut,
    UnitGroups,
    ValueCount,
    ValueSum,
)
from dpproxy.tree.relation import Scan

UNIT, GROUP, AMOUNT = column(0, nullable=False), column(1), column(2)
SCAN = Scan((UNIT, GROUP, AMOUNT), 0, ("main", "t"), ("u", "g", "a"))
ROWS = [(1, 7, 5), (1, 7, 90), (1, 7, None), (1, 8, 1), (2, 7, 3), (2, 9, 3)]
HELD = RowValue(ref(AMOUNT), None, Held(0, 10, Fraction(1)))
KEYED = MeasuredRows(SCAN, UNIT, (ref(GROUP),), (HELD,))
WHOLE = replace(KEYED, keys=())
FIRST = Order(3, (0,))
GROUPS = UnitGroups(KEYED, (Counted(0), Added(0, 0, 10, 0)))
DOMAIN = Declared((DeclaredPart(((0, ref(GROUP)),), ((GROUP, ValuesDomain(("7", "11"))),), (), ()),), 1)


def run(tree: Statement) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t(u INT, g INT, a INT)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
    text = Source.of(SCAN, engine("duckdb")).query(tree).text
    return connection.execute(text.replace("\x00found\x00", "")).fetchall()


def sums(child: Any, *totals: Any, least: int = 1) -> Sums:
    return Sums(child, totals, least)


CASES: dict[str, tuple[Statement, list[tuple[Any, ...]]]] = {
    "rows alone": (sums(WHOLE, RowCount(), ValueCount(0), ValueCount(0, True), ValueSum(0, 1)), [(6, 5, 4, 22 - 5)]),
    "rows alone, each value once": (sums(WHOLE, ValueSum(0, 0, distinct=True)), [(19,)]),
    "a unit is there": (sums(Contributions(GROUPS, (One(),)), PartSum(0), RowCount()), [(7, 2, 2), (8, 1, 1), (9, 1, 1)]),
    "few units": (sums(Contributions(GROUPS, (One(),)), PartSum(0), least=2), [(7, 2)]),
    "counts cut": (sums(Contributions(GROUPS, (CountCut(0, 1),)), PartSum(0)), [(7, 2), (8, 1), (9, 1)]),
    "present": (sums(Contributions(GROUPS, (Present(0),)), PartSum(0)), [(7, 2), (8, 1), (9, 1)]),
    "totals cut": (sums(Contributions(GROUPS, (TotalCut(0, 0, 12),)), PartSum(0)), [(7, 15), (8, 1), (9, 3)]),
    "shares cut": (sums(Contributions(GROUPS, (ShareCut(0, 0, 1, 0, 10, 0),)), PartSum(0)), [(7, 7 + 3), (8, 1), (9, 3)]),
    "scaled": (
        sums(Contributions(GROUPS, (Scaled(0, "count", 1, 3, 1, 1000, 0),)), PartSum(0)),
        [(7, 2000 + 1000), (8, 1000), (9, 1000)],
    ),
    "distinct": (sums(Contributions(GROUPS, (None,)), DistinctCount(0, 5, Order(3))), [(7, 3), (8, 1), (9, 1)]),
    "distinct sums": (sums(Contributions(GROUPS, (None,)), DistinctSum(0, 5, Order(3))), [(7, 5 + 10 + 3), (8, 1), (9, 3)]),
    "distinct sums of few": (sums(Contributions(GROUPS, (None,)), DistinctSum(0, 0, Order(3))), [(7, 0), (8, 0), (9, 0)]),
    "filled": (Filled(sums(Contributions(GROUPS, (One(),)), PartSum(0)), DOMAIN), [(7, 2), (11, 0)]),
    "beyond": (Beyond(KEYED, 1, (("most", 2), ("groups", 5))), [(2, 1)]),
    "buckets": (
        Buckets(replace(KEYED, values=(RowBucket(ref(AMOUNT), None, 0, 10, Fraction(1)),)), None, None, Order(3)),
        [(7, 3, 1), (7, 5, 1), (7, 10, 1), (8, 1, 1), (9, 3, 1)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_nodes_are_what_they_say(name: str) -> None:
    tree, expected = CASES[name]
    assert sorted(run(tree)) == expected


WORD = column(3, "text")
WORDS = Scan((UNIT, WORD), 0, ("main", "w"), ("u", "g"))
LISTED = Declared((DeclaredPart(((0, ref(WORD)),), ((WORD, ValuesDomain(("b", "a'a", "none"))),), (), ()),), 1)


def test_undeclared_texts_are_in_no_group_and_weigh_nothing() -> None:
    """A unit's norm is that of its declared groups: nothing else of it is released."""
    rows = MeasuredRows(WORDS, UNIT, (ref(WORD),), (RowValue(None, None),))
    scaled = Contributions(UnitGroups(rows, (Counted(0),)), (Scaled(0, "count", 1, 2, 1, 100, 0),))
    text = Source.of(WORDS, engine("duckdb")).query(Filled(sums(scaled, PartSum(0), RowCount()), LISTED)).text
    connection = duckdb.connect()
    connection.execute("CREATE TABLE w(u INT, g VARCHAR)")
    stray = [(1, None), (1, "B"), (1, "stray"), (2, "stray"), (3, "")]
    connection.executemany("INSERT INTO w VALUES (?, ?)", [(1, "b"), (1, "a'a"), (2, "b"), *stray])
    assert connection.execute(text).fetchall() == [("a'a", 100, 1), ("b", 200, 2), ("none", 0, 0)]


WHEN = column(4, "timestamp")
DAYS = Scan((UNIT, WHEN), 0, ("main", "d"), ("u", "t"))
MONTH = Call("timestamp", "trunc_time", (Lit("text", "month"), ref(WHEN)))
YEAR = Call("timestamp", "trunc_time", (Lit("text", "year"), ref(WHEN)))
DAY_SERIES = SeriesDomain(30, 89, "day")  # 31 January to 31 March of 1970


def test_undeclared_months_are_in_no_group_and_weigh_nothing() -> None:
    rows = MeasuredRows(DAYS, UNIT, (MONTH, YEAR), (RowValue(None, None),))
    domain = Declared((DeclaredPart(((0, MONTH), (1, YEAR)), ((WHEN, DAY_SERIES),), (), ()),), 2)
    scaled = Contributions(UnitGroups(rows, (Counted(0),)), (Scaled(0, "count", 1, 2, 1, 100, 0),))
    text = Source.of(DAYS, engine("duckdb")).query(Filled(sums(scaled, PartSum(0), RowCount()), domain)).text
    assert "date_trunc" not in text.partition(" d AS ")[0], "months are counted by number"
    times = [
        "1970-01-01 00:00:00",
        "1970-02-28 23:59:59.999999",
        "1970-02-01",
        "1969-12-31 23:59:59",
        "1970-04-01",
        "0044-03-15 (BC)",
    ]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE d(u INT, t TIMESTAMP)")
        connection.executemany(
            "INSERT INTO d VALUES (?, ?)", [(1, t) for t in [*times, "infinity", "-infinity", "294246-01-01", None]]
        )
        connection.execute("INSERT INTO d VALUES (2, '1970-02-14')")
        read = connection.execute(text).fetchall()
    assert [(str(month), str(year), *rest) for month, year, *rest in read] == [
        ("1970-01-01 00:00:00", "1970-01-01 00:00:00", 66, 1),
        ("1970-02-01 00:00:00", "1970-01-01 00:00:00", 233, 2),
        ("1970-03-01 00:00:00", "1970-01-01 00:00:00", 0, 0),
    ]


@pytest.mark.parametrize(
    ("unit", "first"), [("month", date(1899, 11, 1)), ("quarter", date(1899, 10, 1)), ("year", date(1899, 1, 1))]
)
def test_a_month_is_known_by_its_number(unit: str, first: date) -> None:
    """Of all days of three centuries, within the calendar and beyond."""
    values, spelled = Calendar(unit, first, 600), engine("duckdb")
    code = spelled.coded("t", values)
    assert code is not None
    last = f"TIMESTAMP '{first}' + INTERVAL {600 * values.months} MONTH"
    wrong = f"""
        SELECT count(*) FROM (SELECT t, {code} AS k FROM (SELECT TIMESTAMP '1800-01-01' + to_days(n::INTEGER) AS t FROM range(110000) AS s(n)))
        WHERE CASE WHEN {spelled.declared("k", values)} THEN {spelled.decoded("k", values)} <> date_trunc('{unit}', t)
              ELSE t >= '{first}' AND t < {last} END"""
    with duckdb.connect() as connection:
        assert connection.execute(wrong).fetchall() == [(0,)]


def test_keys_that_are_constant_per_unit_are_grouped_by_as_they_are() -> None:
    fixed = replace(WORD, constant=True)
    rows = MeasuredRows(WORDS, UNIT, (ref(fixed),), (RowValue(None, None),))
    tree = Filled(sums(Contributions(UnitGroups(rows, (Counted(0),)), (CountCut(0, 1),)), PartSum(0)), LISTED)
    assert " AS ENUM(" not in Source.of(WORDS, engine("duckdb")).query(tree).text


def test_equal_values_are_one_column() -> None:
    rows = replace(KEYED, values=(HELD, RowValue(ref(AMOUNT), None), HELD))
    parts = (TotalCut(0, 0, 99), CountCut(1, 9), TotalCut(2, 0, 99))
    groups = UnitGroups(rows, (Added(0, 0, 10, 0), Counted(1), Added(2, 0, 10, 1)))
    tree = sums(Contributions(groups, parts), PartSum(0), PartSum(1), PartSum(2))
    assert sorted(run(tree)) == [(7, 18, 3, 15), (8, 1, 1, 0), (9, 3, 1, 2)]
    assert " AS x2" not in Source.of(SCAN, engine("duckdb")).query(tree).text


PICKED: dict[str, Callable[[int], Statement]] = {
    "before": lambda most: sums(Contributions(Picked(GROUPS, most, FIRST), (Scaled(0, "weight", 2, 1, 1, 1, 0),)), RowCount()),
    "after": lambda most: sums(Picked(Contributions(GROUPS, (One(),)), most, FIRST), PartSum(0)),
    "fresh": lambda most: sums(
        Contributions(Fresh(Picked(GROUPS, most, FIRST), FIRST), (Scaled(0, "weight", 1, 1, 1, 4, 0, fresh=True),)), RowCount()
    ),
    "numbered": lambda most: Numbered(sums(Picked(Contributions(GROUPS, (One(),)), most, FIRST), PartSum(0)), FIRST),
}


@pytest.mark.parametrize("name", PICKED)
def test_no_more_groups_than_are_picked(name: str) -> None:
    units = [sum(row[1] for row in run(PICKED[name](most))) for most in (1, 2)]
    assert units == [2, 4]


def test_the_rows_are_those_of_the_tree() -> None:
    other = replace(KEYED, child=replace(SCAN, number=1))
    with pytest.raises(ValueError, match="another relation"):
        Source.of(SCAN, engine("duckdb")).query(sums(other, RowCount()))
