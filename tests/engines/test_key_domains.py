"""Declared groups enumerated: an engine makes exactly the values that the domains of keys hold, each once."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import duckdb
import pytest
from small_expressions import call, column, lit, ref

from dpproxy.engines import engine
from dpproxy.engines.key_stages import declared_text, part_text
from dpproxy.engines.relations import Renderer
from dpproxy.plan.properties.key_codings import MAX_CODES, coding
from dpproxy.plan.properties.key_domains import Dense, dense_domain
from dpproxy.tree.expr import Cast, Column, Expr, Lit, SeriesDomain, ValuesDomain
from dpproxy.tree.measured import Calendar, Listed
from dpproxy.tree.relation import Contribution, Rows, Scan

UNIT = column(1, nullable=False)
WORD = Column(2, "word", "text", domain=ValuesDomain(("a", "b", None)))
SIZE = Column(
    3,
    "size",
    "int4",
    bound=column(0, "int4", 0, 9).bound,
    grid=Fraction(1),
    domain=SeriesDomain(0, 9, "int", nulls=False),
    nulls=False,
)
DAY = Column(4, "day", "date", domain=SeriesDomain(0, 2, "day", nulls=True))
SCAN = Scan((UNIT, WORD, SIZE, DAY), 0, ("main", "t"), ("u", "w", "s", "d"))
ROWS = Rows(node=SCAN, unit=UNIT, contribution=Contribution())


def dense(*keys: Expr, conditions: tuple[Expr, ...] = ()) -> Dense:
    found = dense_domain(list(keys), Rows(node=SCAN, unit=UNIT, conditions=conditions))
    assert found is not None
    return found


def groups(found: Dense) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = (
        duckdb.connect().execute(declared_text(found.declared, Renderer(engine("duckdb")))).fetchall()
    )
    return rows


def texts(rows: list[tuple[object, ...]]) -> set[tuple[str, ...]]:
    return {tuple(map(str, row)) for row in rows}


THIRD = call("int/", ref(SIZE), lit("3"), type_="int4")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ((ref(WORD),), {("a",), ("b",), ("None",)}),
        ((ref(SIZE),), {(str(i),) for i in range(10)}),
        ((THIRD,), {(str(i),) for i in range(4)}),
        ((ref(DAY),), {("1970-01-01",), ("1970-01-02",), ("1970-01-03",), ("None",)}),
        ((ref(WORD), THIRD), {(w, str(i)) for w in ("a", "b", "None") for i in range(4)}),
        ((THIRD, ref(WORD)), {(str(i), w) for w in ("a", "b", "None") for i in range(4)}),
        ((ref(SIZE), THIRD), {(str(i), str(i // 3)) for i in range(10)}),
    ],
)
def test_groups_are_the_values_of_the_keys(keys: tuple[Expr, ...], expected: set[tuple[str, ...]]) -> None:
    found = dense(*keys)
    rows = groups(found)
    assert texts(rows) == expected
    assert len(rows) == len(expected), "each once"
    assert found.size is None or found.size >= len(rows)


def test_conditions_leave_fewer() -> None:
    found = dense(ref(SIZE), conditions=(call("<", ref(SIZE), lit("3")),))
    assert texts(groups(found)) == {("0",), ("1",), ("2",)}


def test_parts_are_by_themselves() -> None:
    found = dense(ref(WORD), THIRD)
    sizes = sorted(
        len(duckdb.connect().execute(part_text(part.declared, Renderer(engine("duckdb")))).fetchall()) for part in found.parts
    )
    assert sizes == [3, 4]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_only_constants_are_read(dialect: object) -> None:
    text = declared_text(dense(ref(WORD), THIRD).declared, Renderer(engine(dialect)))  # type: ignore[arg-type]
    assert '"t"' not in text


LISTED = Column(5, "listed", "text", domain=ValuesDomain(("b", "a", "b")))
LONG = Column(6, "long", "text", domain=ValuesDomain(tuple(map(str, range(MAX_CODES + 1)))))
PADDED = Column(7, "padded", "bpchar", domain=ValuesDomain(("a", "b")))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (ref(LISTED), Listed(("b", "a"))),
        (ref(WORD), None),  # NULL is one of them
        (ref(SIZE), None),
        (ref(LONG), None),
        (ref(PADDED), None),  # texts that are equal and yet not the same
        (call("upper", ref(LISTED), type_="text"), None),  # the values of a column, not of the key
    ],
)
def test_texts_that_are_listed_have_numbers(key: Expr, expected: Listed | None) -> None:
    scan = Scan((UNIT, WORD, SIZE, LISTED, LONG, PADDED), 0, ("main", "t"), ("u", "w", "s", "l", "o", "p"))
    found = dense_domain([ref(SIZE), key], Rows(node=scan, unit=UNIT))
    assert found is not None
    assert coding(found.declared, 1) == expected
    assert coding(found.declared, 0) is None


FROM, TO = ((date(*day) - date(1970, 1, 1)).days for day in ((1999, 11, 15), (2000, 2, 3)))
WHEN = Column(8, "when", "timestamp", domain=SeriesDomain(FROM, TO, "day"))
DATE = Column(9, "date", "date", domain=SeriesDomain(FROM, TO, "day"))
MAYBE = Column(10, "maybe", "timestamp", domain=SeriesDomain(FROM, TO, "day", nulls=True))
ZONED = Column(11, "zoned", "timestamptz", domain=SeriesDomain(FROM, TO, "day"))
AGES = Column(12, "ages", "date", domain=SeriesDomain(-719_200, -719_100, "day"))
TIMES = Scan((UNIT, SIZE, WHEN, DATE, MAYBE, ZONED, AGES), 0, ("main", "t"), ("u", "s", "a", "b", "c", "d", "e"))


def beginning(unit: str, column: Column) -> Expr:
    inner = Cast("timestamp", ref(column)) if column.type == "date" else ref(column)
    return call("trunc_time", Lit("text", unit), inner, type_="timestamp")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (beginning("month", WHEN), Calendar("month", date(1999, 11, 1), 4)),
        (beginning("quarter", WHEN), Calendar("quarter", date(1999, 10, 1), 2)),
        (beginning("year", DATE), Calendar("year", date(1999, 1, 1), 2)),
        (beginning("month", DATE), Calendar("month", date(1999, 11, 1), 4)),
        (beginning("week", WHEN), None),
        (beginning("month", MAYBE), None),  # NULL is one of them
        (beginning("month", AGES), None),  # before the year 1
        (beginning("month", ZONED), None),
        (call("month", ref(DATE), type_="int4"), None),
    ],
)
def test_beginnings_of_months_have_numbers(key: Expr, expected: Calendar | None) -> None:
    found = dense_domain([ref(SIZE), key], Rows(node=TIMES, unit=UNIT))
    assert found is not None
    assert coding(found.declared, 1) == expected


def test_two_keys_of_one_column_have_numbers_each() -> None:
    found = dense_domain([beginning("year", WHEN), beginning("month", WHEN)], Rows(node=TIMES, unit=UNIT))
    assert found is not None
    assert [coding(found.declared, key) for key in (0, 1)] == [
        Calendar("year", date(1999, 1, 1), 2),
        Calendar("month", date(1999, 11, 1), 4),
    ]
