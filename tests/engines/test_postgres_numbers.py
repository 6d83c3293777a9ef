"""Arithmetic in PostgreSQL: random expressions over the ends of every type raise nothing, and are exact where numbers are usual."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.engines import engine
from dpproxy.engines.postgres_numbers import converted_number, number_kind, number_literal
from dpproxy.tree.expr import Call, Column, Expr

Ask = Callable[[str], Any]
COLUMNS = {
    "int4": column(1, "int4", -(2**31), 2**31 - 1),
    "int8": column(2, "int8"),
    "numeric": column(3, "numeric"),
    "float8": column(4, "float8"),
}
ENDS = {
    "int4": ["0", "-1", "2147483647", "-2147483648"],
    "int8": ["0", "1", "9223372036854775807", "-9223372036854775808"],
    "numeric": ["0", "-0.000001", "NaN", "Infinity", "1e1000", "-1e130000"],
    "float8": ["0", "1e-307", "-1.7e308", "NaN", "-Infinity"],
}
KINDS = {"int4": "bigint", "int8": "bigint", "numeric": "numeric", "float8": "float8"}


def random_tree(rng: random.Random, type_: str, depth: int) -> Expr:
    if depth == 0:
        return ref(COLUMNS[type_]) if rng.random() < 0.7 else lit(str(rng.randint(-3, 9)), type_)
    op = rng.choice(["+", "-", "*", "/" if type_ in ("numeric", "float8") else "int/", "%" if type_ != "float8" else "*"])
    return call(op, random_tree(rng, type_, depth - 1), random_tree(rng, type_, depth - 1), type_=type_)


def spelled(expr: Expr, values: dict[str, str]) -> str:
    names = {c.id: f"(SELECT '{values[t]}'::{KINDS[t]})" for t, c in COLUMNS.items()}
    return engine("postgres").expr(expr, names)


@pytest.mark.parametrize("type_", ENDS)
def test_the_ends_of_types_raise_nothing(type_: str, ask_postgres: Ask) -> None:
    rng = random.Random(type_)
    for _ in range(60):
        expr = random_tree(rng, type_, rng.choice([1, 2]))
        ask_postgres(f"({spelled(expr, {t: rng.choice(ENDS[t]) for t in ENDS})})::text")


def exact(expr: Expr, value: Fraction) -> Fraction | None:
    """None where a divisor is 0."""
    if not isinstance(expr, Call):
        return value if not hasattr(expr, "text") else Fraction(expr.text)
    parts = [exact(a, value) for a in expr.args]
    if parts[0] is None or parts[1] is None:
        return None
    a, b = parts
    if expr.op in ("+", "-", "*"):
        return {"+": a + b, "-": a - b, "*": a * b}[expr.op]
    if b == 0:
        return None
    if expr.op == "/":
        return a / b
    whole = Fraction(int(a / b))  # towards zero
    return whole if expr.op == "int/" else a - b * whole


@pytest.mark.parametrize("type_", ["int4", "int8"])
def test_whole_numbers_are_exact(type_: str, ask_postgres: Ask) -> None:
    """Those that leave 64 bits on the way too."""
    rng = random.Random(type_)
    for _ in range(60):
        expr, value = random_tree(rng, type_, 2), rng.choice([0, 1, -7, 2**31 - 1])
        found = ask_postgres(f"({spelled(expr, dict.fromkeys(ENDS, str(value)))})::text")
        expected = exact(expr, Fraction(value))
        assert found == (None if expected is None else str(expected)), expr


def test_kinds_of_numbers() -> None:
    narrow, wide = ref(column(1, "int4", 0, 9)), ref(COLUMNS["int8"])
    assert number_kind(narrow) == "bigint"
    assert number_kind(call("*", wide, wide, type_="int8")) == "numeric", "it may leave 64 bits"
    assert number_kind(call("coalesce", narrow, call("*", wide, wide, type_="int8"), type_="int8")) == "numeric"
    assert (number_kind(ref(COLUMNS["numeric"])), number_kind(ref(COLUMNS["float8"]))) == ("numeric", "float8")


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("bigint", "5", "'5'::bigint"),
        ("bigint", str(2**63), f"'{2**63}'::numeric"),
        ("float8", "1e400", "'Infinity'::float8"),
        ("float8", "-1e400", "'-Infinity'::float8"),
        ("numeric", "0.10", "'0.10'::numeric"),
    ],
)
def test_constants(kind: Any, text: str, found: str) -> None:
    assert number_literal(kind, text) == found


def test_conversions() -> None:
    assert converted_number("x", "bigint", "bigint") == "x"
    assert converted_number("x", "bigint", "float8") == "x::float8"
    assert "CASE" in converted_number("x", "numeric", "float8"), "the cast raises beyond a double's limits"


def test_columns_are_known(ask_postgres: Ask) -> None:
    assert isinstance(COLUMNS["int4"], Column)
    with pytest.raises(Exception, match="out of range"):
        ask_postgres("'9223372036854775807'::bigint * 2")


@pytest.mark.parametrize(("lo", "hi", "center"), [(-300, 1000, 0), (-300, 1000, 350), (7, 7, 7), (-(2**40), 2**40, 0)])
@pytest.mark.parametrize("grid", [Fraction(1), Fraction(1, 100), Fraction(3, 4), Fraction(25)])
@pytest.mark.parametrize("type_", ENDS)
def test_values_are_held_within_their_bounds_on_the_grid(
    type_: str, grid: Fraction, lo: int, hi: int, center: int, ask_postgres: Ask
) -> None:
    ends = [float(end * grid + off) for end in (lo, hi) for off in (-2, Fraction(-1, 128), 0, Fraction(1, 128), 2)]
    inside = [float((lo + (hi - lo) * i // 7) * grid) for i in range(8)]
    whole = KINDS[type_] == "bigint"
    usual = [str(round(v)) for v in (*ends, *inside) if abs(v) < 2**31] if whole else [repr(v) for v in (*ends, *inside)]
    values = [*usual, *ENDS[type_]]
    text = engine("postgres").fixed(ref(COLUMNS[type_]), lo - center, hi - center, grid, center * grid, {COLUMNS[type_].id: "x"})
    rows = ", ".join(f"({i}, '{v}'::{KINDS[type_]})" for i, v in enumerate(values))
    found = ask_postgres(f"(SELECT array_agg({text} ORDER BY i) FROM (VALUES {rows}, ({len(values)}, NULL)) AS t(i, x))")
    assert found.pop() is None
    for value, point in zip(values, found, strict=True):
        if value == "NaN":
            assert point is None
            continue
        exact_point = Fraction(value) / grid if "Inf" not in value else (lo if value[0] == "-" else hi)
        assert lo <= point + center <= hi
        assert abs(point + center - min(max(exact_point, lo), hi)) <= Fraction(1, 2) + Fraction(1, 2**16)
