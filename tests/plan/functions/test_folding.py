"""Constants are computed as PostgreSQL computes them, or left alone."""

from __future__ import annotations

import pytest

from dpproxy.plan.functions.constant_times import folded_constants, folded_value
from dpproxy.tree.expr import NULL, Call, Case, Cast, Expr, Lit


@pytest.mark.parametrize(
    ("op", "a", "b", "found"),
    [
        ("+", Lit("numeric", "0.06"), Lit("numeric", "0.01"), Lit("numeric", "0.07")),
        ("-", Lit("numeric", "0.06"), Lit("numeric", "0.01"), Lit("numeric", "0.05")),
        ("*", Lit("int4", "3"), Lit("numeric", "1.10"), Lit("numeric", "3.30")),
        ("+", Lit("int4", "1200"), Lit("int4", "11"), Lit("int4", "1211")),
        ("+", Lit("int4", "2147483647"), Lit("int4", "1"), None),
        ("+", Lit("float8", "0.06"), Lit("float8", "0.01"), None),
        ("/", Lit("numeric", "1"), Lit("numeric", "3"), None),
        ("+", Lit("numeric", None), Lit("numeric", "1"), None),
        ("*", Lit("numeric", "NaN"), Lit("numeric", "1"), None),
        ("*", Lit("numeric", "9" * 60), Lit("numeric", "9" * 60), None),
    ],
)
def test_folded(op: str, a: Lit, b: Lit, found: Lit | None) -> None:
    assert folded_constants(op, a, b) == found


TWO, HALF = Lit("int4", "2"), Lit("numeric", "2.5")
ANY = Call("text", "lower", (Lit("text", "A"),))


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        (Call("float8", "floor", (TWO,)), Lit("float8", "2")),
        (Call("numeric", "floor", (Lit("numeric", "-2.5"),)), Lit("numeric", "-3")),
        (Call("numeric", "ceil", (HALF,)), Lit("numeric", "3")),
        (Cast("int4", Lit("float8", "2")), TWO),
        (Cast("int4", Lit("numeric", "2.0")), TWO),
        (Cast("int4", HALF), None),  # rounding is a matter of type
        (Cast("int4", Lit("int8", "3000000000")), None),
        (Cast("numeric", HALF, (5, 0)), None),
        (Call("int4", "greatest", (Lit("int4", "1"), TWO)), TWO),
        (Call("int4", "greatest", (Lit("int4", None), TWO)), None),
        (Call("int4", "length", (Lit("text", "n\u00e9"),)), TWO),
        (Call("int4", "length", (Lit("text", None),)), None),
        (Call("text", "reverse", (Lit("text", "ab"),)), Lit("text", "ba")),
        (Call("float8", "abs", (Lit("float8", "-0.1"),)), None),
        (Case("text", ((Call("bool", ">=", (TWO, Lit("int4", "0"))), ANY),), None), ANY),
        (Case("text", ((Call("bool", "is_null", (TWO,)), Lit("text", None)),), ANY), ANY),
        (Case("text", ((Call("bool", "is_null", (TWO,)), NULL),), None), None),
        (Case("text", ((Call("bool", "=", (Lit("int4", None), TWO)), ANY),), None), None),
    ],
)
def test_functions_of_constants(expr: Expr, found: Expr | None) -> None:
    assert folded_value(expr) == (expr if found is None else found)
