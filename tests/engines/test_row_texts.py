"""What is read of each row: run on a few rows, and compared with what was computed by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import duckdb
from small_expressions import call, column, lit, ref

from dpproxy.engines import engine
from dpproxy.engines.relations import Renderer
from dpproxy.engines.row_texts import RowTexts
from dpproxy.tree.measured import Held, Listed, MeasuredRows, RowBucket, RowValue
from dpproxy.tree.relation import Scan

UNIT, WORD, AMOUNT = column(0, nullable=False), column(1, "text"), column(2)
SCAN = Scan((UNIT, WORD, AMOUNT), 0, ("main", "t"), ("u", "w", "a"))
ROWS = [(1, "a", 5), (1, "b", 90), (2, "stray", None)]


def texts(*values: RowValue | RowBucket | None) -> RowTexts:
    renderer = Renderer(engine("duckdb"))
    return RowTexts(renderer, renderer.block(SCAN), MeasuredRows(SCAN, UNIT, (ref(WORD),), values))


def run(text: str) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t(u INT, w VARCHAR, a INT)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
    return sorted(connection.execute(f"SELECT * FROM ({text}) ORDER BY ALL").fetchall(), key=repr)


def test_rows_have_unit_keys_and_values_in_this_order() -> None:
    held = RowValue(ref(AMOUNT), call(">", ref(AMOUNT), lit("5")), Held(0, 10, Fraction(1)))
    rows = texts(RowValue(None, None), held)
    assert run(rows.with_units()) == [(1, "a", 1, None), (1, "b", 1, 10), (2, "stray", 1, None)]
    assert run(rows.keyed()) == [("a", 1, None), ("b", 1, 10), ("stray", 1, None)]
    assert rows.values == {0: "x0", 1: "x1"}


def test_nothing_is_read_of_a_value_that_is_not_asked_for() -> None:
    assert run(texts(None).keyed()) == [("a",), ("b",), ("stray",)]


def test_equal_values_share_a_column() -> None:
    rows = texts(RowValue(ref(AMOUNT), None), RowValue(ref(AMOUNT), None))
    assert run(rows.keyed()) == [("a", 5), ("b", 90), ("stray", None)]
    assert rows.values == {0: "x0", 1: "x0"}


def test_factors_are_grid_units_in_one_of_the_engines_own_type() -> None:
    rows = texts(RowValue(ref(AMOUNT), None, Held(0, 40, Fraction(1, 4), native=True)))
    read = [row[1] for row in run(rows.keyed())]
    assert [None if x is None else x * rows.factors[0] for x in read] == [5 * 4, 10 * 4, None]


def test_points_of_a_grid_and_declared_values_are_numbered_from_zero() -> None:
    assert run(texts(RowBucket(ref(AMOUNT), None, 3, 10, Fraction(1))).keyed()) == [("a", 2), ("b", 7), ("stray", None)]
    declared = RowBucket(ref(WORD), None, 0, 0, Fraction(1), ("b", "a"))
    assert run(texts(declared).keyed()) == [("a", 1), ("b", 0), ("stray", None)]


def test_values_that_are_not_listed_have_no_number() -> None:
    rows = texts()
    rows.codes[0] = engine("duckdb").coded(rows.key(0), Listed(("a", "b"))) or ""
    assert run(f"SELECT CAST(k0 AS VARCHAR) FROM ({rows.keyed()})") == [("a",), ("b",), (None,)]
