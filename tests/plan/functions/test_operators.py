"""Operators have PostgreSQL's types, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpproxy.errors import DATATYPE_MISMATCH, FEATURE_NOT_SUPPORTED, UNDEFINED_FUNCTION, Refusal
from dpproxy.plan.functions.operators import common_type, compare, concatenation, minus, multiply, negate, plus
from dpproxy.plan.logical.expr import Call, Cast, Expr, Hole, Lit

INT, NUMERIC, FLOAT, DATE, STAMP, INSTANT, TEXT = (
    Hole(type_, i) for i, type_ in enumerate(("int4", "numeric", "float8", "date", "timestamp", "timestamptz", "text"))
)
MONTH, DAY = Lit("interval", "1 0 0"), Lit("interval", "0 1 0")
WORD = Lit("unknown", "2024-01-31")


@pytest.mark.parametrize(
    ("made", "type_", "op"),
    [
        (plus(INT, NUMERIC), "numeric", "+"),
        (plus(DATE, INT), "date", "date_add"),
        (plus(INT, DATE), "date", "date_add"),
        (plus(DATE, DAY), "timestamp", "ts_add"),
        (plus(INSTANT, DAY), "timestamptz", "ts_add"),
        (minus(DATE, DATE), "int4", "date_diff"),
        (minus(STAMP, DATE), "interval", "ts_diff"),
        (minus(STAMP, MONTH), "timestamp", "ts_sub"),
        (multiply("/", INT, INT), "int4", "int/"),
        (multiply("/", INT, NUMERIC), "numeric", "/"),
        (multiply("*", INT, DAY), "interval", "interval_times"),
        (negate(FLOAT), "float8", "neg"),
        (compare("<", DATE, WORD), "bool", "<"),
        (concatenation(TEXT, Lit("unknown", "!")), "text", "concat"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_types_and_operations(made: Expr, type_: str, op: str) -> None:
    assert isinstance(made, Call)
    assert (made.type, made.op) == (type_, op)


def test_constants_are_computed_at_once() -> None:
    assert plus(Lit("int4", "2"), Lit("int4", "3")) == Lit("int4", "5")
    assert plus(DAY, MONTH) == Lit("interval", "1 1 0")
    assert minus(DAY, MONTH) == Lit("interval", "-1 1 0")
    assert multiply("*", Lit("int4", "3"), MONTH) == Lit("interval", "3 0 0")
    assert negate(MONTH) == Lit("interval", "-1 0 0")
    assert negate(Lit("int4", "-7")) == Lit("int4", "7")


def test_a_date_becomes_its_midnight_among_timestamps() -> None:
    made = minus(STAMP, DATE)
    assert isinstance(made, Call)
    assert made.args == (STAMP, Cast("timestamp", DATE))


@pytest.mark.parametrize(
    ("work", "state"),
    [
        (lambda: compare("=", INT, TEXT), FEATURE_NOT_SUPPORTED),
        (lambda: plus(DATE, Lit("date", "2024-01-31")), FEATURE_NOT_SUPPORTED),
        (lambda: plus(TEXT, INT), FEATURE_NOT_SUPPORTED),
        (lambda: multiply("*", FLOAT, DAY), FEATURE_NOT_SUPPORTED),
        (lambda: multiply("/", DAY, INT), FEATURE_NOT_SUPPORTED),
        (lambda: multiply("%", FLOAT, INT), UNDEFINED_FUNCTION),
        (lambda: negate(DATE), FEATURE_NOT_SUPPORTED),
        (lambda: common_type("CASE", ["int4", "text"]), DATATYPE_MISMATCH),
    ],
)
def test_what_postgresql_or_an_engine_has_not(work: Callable[[], object], state: str) -> None:
    with pytest.raises(Refusal) as refused:
        work()
    assert refused.value.sqlstate == state
