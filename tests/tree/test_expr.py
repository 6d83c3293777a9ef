"""Expressions: walked, rebuilt and taken apart; every class has a place in both `children` and `rebuilt`."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.tree.expr import (
    FALSE,
    TRUE,
    Agg,
    Call,
    Case,
    Cast,
    Exists,
    Expr,
    Hole,
    InList,
    InQuery,
    Lit,
    Ref,
    Relation,
    Scalar,
    SeriesDomain,
    Win,
    children,
    conjunction,
    conjuncts,
    has_subquery,
    rebuilt,
    references,
    walk,
)

A, B, C, D = (ref(column(i)) for i in range(1, 5))
HIDDEN = ref(column(9))
INNER = Relation((HIDDEN.column,))
EVERY: list[tuple[Expr, list[Expr]]] = [
    (A, []),
    (lit("1"), []),
    (Hole("int4", 0), []),
    (call("+", A, B), [A, B]),
    (Case("int4", ((A, B), (C, D)), None), [A, B, C, D]),
    (Case("int4", ((A, B),), C), [A, B, C]),
    (Cast("text", A, (3,)), [A]),
    (InList("bool", A, (B, C), True), [A, B, C]),
    (InQuery("bool", (A, B), INNER, (HIDDEN,)), [A, B]),
    (Exists("bool", INNER), []),
    (Scalar("int4", INNER, HIDDEN), []),
    (Agg("int8", "sum", (A,), False, B, ((C, True, False),), (Fraction(1, 2),)), [A, B, C]),
    (Win("int8", "lag", (A,), (B,), ((C, False, True),), "rows", 7), [A, B, C]),
]


def test_every_class_of_expressions_is_tried() -> None:
    assert {type(e) for e, _ in EVERY} == set(Expr.__subclasses__())


@pytest.mark.parametrize(("expr", "parts"), EVERY, ids=lambda x: type(x).__name__)
def test_what_is_below_and_what_replaces_it(expr: Expr, parts: list[Expr]) -> None:
    assert list(children(expr)) == parts
    assert rebuilt(expr, lambda e: e) == expr
    other = rebuilt(expr, lambda e: lit("9") if e in parts else e)
    assert list(children(other)) == [lit("9")] * len(parts)
    kept = [f.name for f in fields(expr) if not isinstance(getattr(expr, f.name), Expr | tuple)]
    assert [getattr(other, name) for name in kept] == [getattr(expr, name) for name in kept]
    assert list(walk(expr)) == [expr, *parts]


def test_columns_are_named_once_and_not_those_of_subqueries() -> None:
    expr = call("and", call("=", A, B), InQuery("bool", (call("+", B, A),), INNER, (HIDDEN,)), Exists("bool", INNER))
    assert references(expr) == (A.column, B.column)
    assert has_subquery(expr)
    assert not has_subquery(call("=", A, B))


def test_conjunctions_are_taken_apart_and_put_together() -> None:
    p, q, r = (call("=", x, lit("1")) for x in (A, B, C))
    nested = call("and", call("and", p, TRUE), call("and", q, r))
    assert conjuncts(nested) == (p, q, r)
    assert conjuncts(None) == conjuncts(TRUE) == ()
    assert conjuncts(FALSE) == (FALSE,)
    assert conjuncts(call("or", p, q)) == (call("or", p, q),)
    assert conjunction(()) is None
    assert conjunction((p,)) == p
    whole = conjunction((p, q, r))
    assert isinstance(whole, Call)
    assert conjuncts(whole) == (p, q, r)


def test_a_series_has_as_many_values_as_it_counts() -> None:
    assert SeriesDomain(3, 7, "int").size == len(range(3, 8))
    assert SeriesDomain(3, 7, "day", nulls=True).size == 6


def test_equal_expressions_are_one() -> None:
    made = [Ref("int4", column(1)), Ref("int4", column(1)), Lit("int4", "1"), Lit("int8", "1")]
    assert len(set(made)) == 3
    assert hash(column(5)) == hash(column(5, "text"))
