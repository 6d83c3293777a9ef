"""The most characters of a text: no value of an engine's is longer."""

from __future__ import annotations

import duckdb
import pytest
from small_expressions import call, column, lit, ref

from dpproxy.plan.properties.text_growth import longest_text
from dpproxy.tree.expr import Case, Cast, Expr

A, B, ANY = ref(column(1, "text", length=5)), ref(column(2, "text", length=3)), ref(column(3, "text"))


def text(op: str, *args: Expr) -> Expr:
    return call(op, *args, type_="text")


def word(value: str) -> Expr:
    return lit(value, "text")


CASES: list[tuple[Expr, int | None, str]] = [
    (A, 5, "a"),
    (word("xyz"), 3, "'xyz'"),
    (text("upper", A), 5, "upper(a)"),
    (text("concat", A, word("--"), B), 10, "concat(a, '--', b)"),
    (text("concat", A, ANY), None, "a"),
    (text("coalesce", B, A), 5, "coalesce(b, a)"),
    (text("greatest", A, word("123456789")), 9, "greatest(a, '123456789')"),
    (text("coalesce", A, ANY), None, "a"),
    (text("left", A, lit("2")), 2, "left(a, 2)"),
    (text("left", A, lit("9")), 5, "left(a, 9)"),
    (text("left", A, lit("-2")), 5, "left(a, -2)"),
    (text("right", ANY, lit("4")), 4, "right(repeat('x', 99), 4)"),
    (text("substring", A, lit("3"), lit("1")), 1, "substring(a, 3, 1)"),
    (text("substring_from", A, lit("2")), 5, "substring(a, 2)"),
    (text("nullif", A, ANY), 5, "nullif(a, 'x')"),
    (text("md5", ANY), 32, "md5(a)"),
    (text("repeat", A, lit("3")), 15, "a"),
    (Case("text", ((lit("true", "bool"), A), (lit("true", "bool"), word("1234567"))), None), 7, "'1234567'"),
    (Case("text", ((lit("true", "bool"), A),), ANY), None, "a"),
    (Cast("varchar", A, (2,)), 2, "a[:2]"),
    (Cast("varchar", ANY, (2,)), 2, "a[:2]"),
    (Cast("text", A), 5, "a"),
    (Cast("text", ref(column(4))), None, "'2147483647'"),
]


@pytest.mark.parametrize(("expr", "longest", "sql"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_no_value_is_longer(expr: Expr, longest: int | None, sql: str) -> None:
    assert longest_text(expr) == longest
    values = "(VALUES ('aaaaa', 'bbb'), ('', ''), ('äöüßé', '日本語'), (' x ', NULL), (NULL, 'b')) AS t(a, b)"
    found = duckdb.connect().execute(f"SELECT max(length({sql})) FROM {values}").fetchone()
    assert found is not None
    assert longest is None or found[0] <= longest
