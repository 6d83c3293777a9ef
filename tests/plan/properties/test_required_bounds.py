"""Arguments that are added up have closed bounds, or a refusal names the column and says how to clamp it."""

from __future__ import annotations

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.errors import Refusal
from dpproxy.plan.properties.required_bounds import LARGEST, bounded_argument
from dpproxy.tree.expr import Agg, Expr, Taint

CLOSED, HALF, OPEN = column(1, "float8", 0, 10), column(2, "float8", 0, None), column(3, "float8")
NAME = column(4, "text")


def total(value: Expr) -> Agg:
    return Agg("float8", "sum", (value,))


@pytest.mark.parametrize(
    "value",
    [
        ref(CLOSED),
        call("+", ref(CLOSED), ref(CLOSED), type_="float8"),
        call("least", call("greatest", ref(OPEN), lit("0", "float8"), type_="float8"), lit("9", "float8"), type_="float8"),
    ],
)
def test_bounded_ones_are_the_argument(value: Expr) -> None:
    assert bounded_argument(total(value)) is value


@pytest.mark.parametrize(
    ("value", "says", "hint"),
    [
        (ref(OPEN), 'column "c3" has none', "a `range` of the column"),
        (ref(HALF), 'column "c2" has none', "LEAST(GREATEST(x, 0), 100)"),
        (
            call("+", ref(OPEN), call("*", ref(CLOSED), ref(HALF), type_="float8"), type_="float8"),
            'column "c3", "c2" has none',
            "a `range`",
        ),
        (call("length", ref(NAME), type_="int4"), 'column "c4" has none', "a `length` of the column"),
        (ref(column(5, "int8", 0, 10, taint=Taint.UNIT)), "sum() of an identifier", "count(DISTINCT"),
        (ref(column(6, "int8", 0, 10, taint=Taint.KEY)), "sum() of an identifier", "count(DISTINCT"),
        (ref(NAME), "sum() of text", ""),
        (ref(column(7, "float8", 0, LARGEST + 1)), "sum() of values beyond 1e60", ""),
    ],
)
def test_others_are_refused(value: Expr, says: str, hint: str) -> None:
    with pytest.raises(Refusal) as caught:
        bounded_argument(total(value))
    assert caught.value.sqlstate == "0A000"
    assert says in caught.value.message
    assert hint in (caught.value.hint or "")


def test_the_largest_is_allowed() -> None:
    assert bounded_argument(total(ref(column(8, "float8", -LARGEST, LARGEST))))
