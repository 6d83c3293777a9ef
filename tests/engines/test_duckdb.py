"""Values on their grid: whatever a column holds, what a row adds is within the bounds and is the nearest grid point.

The proof of `fixed` is about doubles beside the bounds; so are the values here: neighbours of both ends, the half steps
between grid points, infinities, NaN, and what the widest types can hold.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.engines.base import Engine
from dpproxy.engines.duckdb import DuckDB
from dpproxy.tree.expr import Case, Column, InList, Lit, Ref

GRIDS = [Fraction(1), Fraction(1, 100), Fraction(1, 10**9), Fraction(1000), Fraction(1, 3), Fraction(7, 10)]
KINDS = {"int4": "INTEGER", "int8": "BIGINT"}


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def ref(type_: str) -> tuple[Ref, dict[int, str]]:
    return Ref(type_, Column(0, "x", type_)), {0: "x"}


def clamped(database: duckdb.DuckDBPyConnection, text: str, values: list[str]) -> list[object]:
    rows = ", ".join(f"({v})" for v in values)
    return [row[0] for row in database.execute(f"SELECT {text} FROM (VALUES {rows}) AS t(x)").fetchall()]


def near(value: float) -> list[float]:
    return [value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf)]


@given(st.integers(-(2**32), 2**32), st.integers(0, 2**32), st.sampled_from(GRIDS), st.lists(st.floats(), max_size=20))
@settings(max_examples=60, deadline=None, database=None)
def test_doubles(database: duckdb.DuckDBPyConnection, lo: int, width: int, grid: Fraction, others: list[float]) -> None:
    hi = min(lo + width, 2**32)
    ends = [float((end + half) * grid) for end in (lo, hi) for half in (Fraction(0), Fraction(1, 2), Fraction(-1, 2))]
    values = [*(v for e in ends for v in near(e)), *others, math.inf, -math.inf, math.nan]
    expr, names = ref("float8")
    found = clamped(database, DuckDB().fixed(expr, lo, hi, grid, Fraction(0), names), [f"'{v!r}'::DOUBLE" for v in values])
    for value, point in zip(values, found, strict=True):
        if math.isnan(value):
            assert point is None
            continue
        assert isinstance(point, int)
        assert lo <= point <= hi
        exact = lo if value == -math.inf else hi if value == math.inf else min(max(Fraction(value) / grid, lo), hi)
        assert abs(point - exact) <= Fraction(1, 2) + Fraction(1, 2**16)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9))
@settings(max_examples=40, deadline=None, database=None)
def test_integers_and_their_centre(database: duckdb.DuckDBPyConnection, lo: int, width: int, others: list[int]) -> None:
    hi = min(lo + width, 2**32)
    center = (lo + hi) // 2
    values = [lo, min(hi, 2**31 - 1), -(2**31), 2**31 - 1, *others]
    for type_ in ("int4", "int8"):
        expr, names = ref(type_)
        texts = [f"CAST({v} AS {KINDS[type_]})" for v in values]
        text = DuckDB().fixed(expr, lo - center, hi - center, Fraction(1), Fraction(center), names)
        assert clamped(database, text, texts) == [min(max(v, lo), hi) - center for v in values]


WIDE = ["1e31", "-1e31", "0.005", "-0.005", "12.344999", "12.345", "99.995", "100.000001", "-0.000001", "0", "NULL"]


@pytest.mark.parametrize("type_", ["DECIMAL(38, 6)", "DOUBLE", "UBIGINT", "HUGEINT", "DECIMAL(4, 1)"])
def test_decimals_are_summed_as_they_are(database: duckdb.DuckDBPyConnection, type_: str) -> None:
    values = [
        v
        for v in WIDE
        if duckdb.connect().execute(f"SELECT TRY_CAST({v} AS {type_}) IS NOT NULL OR {v} IS NULL").fetchall()[0][0]
    ]
    values = [*values, "'NaN'", "'inf'", "'-inf'"] if type_ == "DOUBLE" else values
    expr, names = ref("numeric")
    text, factor = DuckDB().addend(expr, 0, 10000, Fraction(1, 100), names)
    total = DuckDB().total("a", 5000, factor)
    for value in values:
        rows = f"SELECT {text} AS a FROM (SELECT CAST({value} AS {type_}) AS x)"
        (found,) = database.execute(f"SELECT {total} FROM ({rows})").fetchall()[0]
        number = database.execute(f"SELECT CAST({value} AS {type_})").fetchall()[0][0]
        if number is None or number != number:
            assert found is None
        else:
            inside = min(max(Fraction(number) if abs(number) < math.inf else (10**9 if number > 0 else -1), 0), 100)
            assert abs(found + 5000 - inside * 100) <= Fraction(1, 2) + Fraction(1, 2**16)


def test_sums_of_clamped_decimals_are_exact(database: duckdb.DuckDBPyConnection) -> None:
    """0.1 + 0.2 is 0.3, a million times over, in any order."""
    expr, names = ref("numeric")
    text, factor = DuckDB().addend(expr, -(2**32), 2**32, Fraction(1, 10**9), names)
    rows = f"SELECT {text} AS a FROM (SELECT CAST(0.1 AS DECIMAL(12, 1)) AS x FROM range(1000000))"
    assert database.execute(f"SELECT {DuckDB().total('a', 0, factor)} FROM ({rows})").fetchall() == [(10**14,)]


WIDEST = 2**32 - 1


@pytest.mark.parametrize("value", ["INTEGER", "BIGINT", "HUGEINT", "UBIGINT"])
def test_a_unit_total_is_exact_whatever_the_type(database: duckdb.DuckDBPyConnection, value: str) -> None:
    """Wide bounds are added up in 128 bits: the largest values of 64 bits pass these. Of no value there is no total."""
    largest = {"INTEGER": 2**31 - 1}.get(value, WIDEST)
    bounds = ((0, -largest, largest), (7, -7, largest - 7))
    for (shift, lo, hi), shared in product(bounds, (False, True)):
        text = DuckDB().unit_total("x", lo, hi, shift, shared=shared)
        assert "sum_no_overflow" in text
        rows = f"(VALUES (CAST({largest} AS {value})), (CAST({largest} AS {value})), (NULL)) AS t(x)"
        assert database.execute(f"SELECT {text} FROM {rows}").fetchall() == [(2 * (largest - shift),)]
        assert database.execute(f"SELECT {text} FROM {rows} WHERE x IS NULL").fetchall() == [(None,)]
    wide = DuckDB().unit_total("x", -(2**62), 2**62, 0)
    assert database.execute(f"SELECT {wide} FROM (VALUES (CAST({2**62} AS BIGINT)), ({2**62})) AS t(x)").fetchall() == [(2**63,)]


def test_a_share_of_the_largest_total_does_not_overflow(database: duckdb.DuckDBPyConnection) -> None:
    text = DuckDB().share("x", 2**20, "n", -WIDEST, WIDEST, 0)
    rows = f"(VALUES (CAST({2**63 - 1} AS BIGINT), CAST({2**31} AS BIGINT))) AS t(x, n)"
    assert database.execute(f"SELECT {text} FROM {rows}").fetchall() == [((2**63 - 1) * 2**20 // 2**31,)]


@pytest.mark.parametrize("listed", [["b", "a"], ["a", "a", "it's"], ["", "A ", "a"], [f"v{i}" for i in range(1_001)]])
def test_a_text_of_a_list_is_looked_up_as_it_would_be_compared(database: duckdb.DuckDBPyConnection, listed: list[str]) -> None:
    text, names = ref("text")
    expr = Case("text", ((InList("bool", text, tuple(Lit("text", v) for v in listed), negated=False), text),), None)
    values = ["'a'", "'A'", "'A '", "'a '", "''", "'it''s'", "'v7'", "'b'", "NULL", "'a\u0301'", "'other'"]
    spelled = DuckDB().case(expr, names)
    assert clamped(database, spelled, values) == clamped(database, Engine.case(DuckDB(), expr, names), values)
    assert ("ENUM" in spelled) is (len(listed) <= 1_000)


def test_other_choices_are_spelled_as_they_are() -> None:
    text, names = ref("text")
    listed = InList("bool", text, (Lit("text", "a"),), negated=False)
    others = [
        Case("text", ((replace(listed, negated=True), text),), None),
        Case("text", ((listed, text),), Lit("text", "z")),
        Case("text", ((listed, Lit("text", "b")),), None),
        Case("text", ((replace(listed, items=(Lit("text", None),)), text),), None),
        Case("bpchar", ((replace(listed, arg=ref("bpchar")[0]), ref("bpchar")[0]),), None),
    ]
    assert not any("ENUM" in DuckDB().case(expr, names) for expr in others)


@pytest.mark.parametrize("ends", [(2**63 - 1, 2**63 - 1), (2**63 - 3, 2**63 - 1), (-(2**63), 2 - 2**63), (-1, 1)])
def test_series_reach_the_ends_of_whole_numbers(database: duckdb.DuckDBPyConnection, ends: tuple[int, int]) -> None:
    """A list that ended with the last BIGINT was no query: it failed after its charge, whatever the data were."""
    low, high = ends
    rows = database.execute(f"SELECT v FROM {DuckDB().series(low, high, 'int')} AS s ORDER BY v").fetchall()
    assert [row[0] for row in rows] == list(range(low, high + 1))
