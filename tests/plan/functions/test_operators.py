"""Operators have PostgreSQL's types, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from constant_calls import ours

from dpproxy.errors import AMBIGUOUS_FUNCTION, DATATYPE_MISMATCH, FEATURE_NOT_SUPPORTED, UNDEFINED_FUNCTION, Refusal
from dpproxy.plan.functions.operators import NotPlain, common_type, compare, concatenation, minus, multiply, negate, plus
from dpproxy.tree.expr import Call, Cast, Expr, Hole, Lit

INT, NUMERIC, FLOAT, DATE, STAMP, INSTANT, TEXT = (
    Hole(type_, i) for i, type_ in enumerate(("int4", "numeric", "float8", "date", "timestamp", "timestamptz", "text"))
)
MONTH, DAY = Lit("interval", "1 0 0"), Lit("interval", "0 1 0")
WORD = Lit("unknown", "2024-01-31")
TYPED = {
    "date": "2024-03-01",
    "timestamp": "2024-03-01 10:00:00",
    "timestamptz": "2024-03-01 10:00:00",
    "interval": "0 2 0",
}
NAMES = {
    "integer": "int4",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
}


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
        (multiply("*", DAY, FLOAT), "interval", "interval_parts"),
        (negate(FLOAT), "float8", "neg"),
        (compare("<", DATE, WORD), "bool", "<"),
        (minus(DATE, WORD), "int4", "date_diff"),
        (minus(WORD, DATE), "int4", "date_diff"),
        (minus(DATE, Hole("unknown", 7)), "int4", "date_diff"),
        (minus(INSTANT, WORD), "interval", "ts_diff"),
        (plus(STAMP, Hole("unknown", 7)), "timestamp", "ts_add"),
        (plus(Lit("unknown", "1 day"), STAMP), "timestamp", "ts_add"),
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
        (lambda: plus(DATE, Hole("date", 7)), FEATURE_NOT_SUPPORTED),
        (lambda: plus(DATE, Hole("unknown", 7)), AMBIGUOUS_FUNCTION),
        (lambda: plus(TEXT, INT), FEATURE_NOT_SUPPORTED),
        (lambda: multiply("*", FLOAT, MONTH), FEATURE_NOT_SUPPORTED),
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


@pytest.mark.parametrize("text", ["2024-01-31", "1 day", "02:00", "2024-01-31 00:00"])
@pytest.mark.parametrize("first", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("op", ["+", "-"])
@pytest.mark.parametrize("type_", TYPED)
def test_a_text_is_taken_for_what_postgresql_takes_it_for(
    type_: str, op: str, first: bool, text: str, postgres: psycopg.Connection[Any]
) -> None:
    """Of its type and its value; a text that is none of that type is left to PostgreSQL to refuse."""
    known = f"'{TYPED[type_] if type_ != 'interval' else '2 days'}'::{type_}"
    sides = [(known, Lit(type_, TYPED[type_])), (f"'{text}'", Lit("unknown", text))]
    (left, a), (right, b) = sides if first else sides[::-1]
    work = plus if op == "+" else minus
    try:
        asked = f"SELECT pg_typeof({left} {op} {right})::text, ({left} {op} {right})::text"
        found = postgres.execute(asked.encode(), prepare=False).fetchone()
    except psycopg.errors.AmbiguousFunction as ambiguous:
        with pytest.raises(Refusal, match=re.escape(str(ambiguous.diag.message_primary))) as refused:
            work(a, b)
        assert refused.value.sqlstate == AMBIGUOUS_FUNCTION
    except psycopg.DataError:
        with pytest.raises(NotPlain):
            work(a, b)
    else:
        assert found is not None
        made = work(a, b)
        assert made.type == NAMES.get(found[0], found[0])
        if made.type != "timestamptz":  # below an aggregate it is what the session's clocks show
            assert _same(ours(made, postgres), found[1], made.type, postgres)


def _same(one: str | None, other: str, type_: str, postgres: psycopg.Connection[Any]) -> bool:
    asked = f"SELECT '{one}'::{type_} = '{other}'::{type_}"
    return postgres.execute(asked.encode(), prepare=False).fetchone() == (True,)
