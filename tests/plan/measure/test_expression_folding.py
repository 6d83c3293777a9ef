"""Exchanges in single expressions: each keeps the value on every database."""

from __future__ import annotations

import itertools

import pytest
from small_expressions import call, column, lit, ref, same

from dpproxy.plan.measure.normal_form import INT32, compared, flat, folded
from dpproxy.tree.expr import FALSE, TRUE, Lit

COLUMNS = [column(i) for i in range(1, 7)]
CONDITIONS = [same(COLUMNS[0], COLUMNS[2]), same(COLUMNS[3], COLUMNS[4]), call("<", ref(COLUMNS[1]), ref(COLUMNS[5]))]


def test_nested_operators_are_one_list() -> None:
    p, q, r = CONDITIONS
    assert flat(call("and", p, call("and", q, call("or", p, r))), "and") == (p, q, call("or", p, r))
    assert flat(p, "and") == (p,)


@pytest.mark.parametrize(
    ("a", "b", "type_", "equal"),
    [("1", "1", "int4", True), ("1", "01", "int4", True), ("1", "2", "int4", False), ("a", "a", "text", True), ("a", "b", "text", False),
     ("1.0", "1.00", "numeric", None), ("1.5", "1.5", "numeric", True), ("a", "a ", "bpchar", None), (None, "1", "int4", None), (None, None, "int4", None)],
)  # fmt: skip
def test_constants_are_compared_where_texts_say_it(a: str | None, b: str | None, type_: str, equal: bool | None) -> None:
    left, right = Lit(type_, a), Lit(type_, b)
    for op in ("=", "<>"):
        expr = call(op, left, right)
        assert compared(expr, left, right) == (expr if equal is None else TRUE if equal == (op == "=") else FALSE)
    other = call("<", left, right)
    assert compared(other, left, right) == other


@pytest.mark.parametrize("op", ["+", "-", "*"])
@pytest.mark.parametrize(("a", "b"), list(itertools.product((-INT32, -7, 0, 3, INT32), repeat=2)))
def test_arithmetic_is_folded_within_32_bits(op: str, a: int, b: int) -> None:
    expr = call(op, lit(str(a)), lit(str(b)), type_="int4")
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    assert folded(expr, lit(str(a)), lit(str(b))) == (Lit("int4", str(value)) if abs(value) <= INT32 else expr)
    small = call(op, lit(str(a)), lit(str(b)), type_="int2")
    assert folded(small, lit(str(a)), lit(str(b))) == small
    assert folded(expr, lit(None), lit(str(b))) == expr
