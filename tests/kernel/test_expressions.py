"""Which expressions have one value in all rows of a unit, and which are refused wherever they stand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.owned import Owned
from dpproxy.kernel.owners import Owners
from dpproxy.tree.expr import Agg, Case, Cast, Expr, Hole, InList, Win
from tests.kernel.small_tables import LEAVES

UNIT, SAME, OTHER = column(1), column(2), column(3)
ROWS = Owned(True, frozenset((UNIT.id,)), constant=frozenset((SAME.id,)))
EXPRESSIONS = Owners(LEAVES).expressions
SHUT, NAME = column(4), column(5, "text")
EXPRESSIONS.columns.given((UNIT, SAME, OTHER, SHUT, NAME), 0)


@pytest.mark.parametrize(
    ("expr", "one"),
    [
        (ref(UNIT), True),
        (ref(SAME), True),
        (ref(OTHER), False),
        (lit("1"), True),
        (Hole("int4", 0), True),
        (call("+", ref(SAME), lit("1"), type_="int4"), True),
        (call("+", ref(SAME), ref(OTHER), type_="int4"), False),
        (Cast("text", ref(SAME)), True),
        (Cast("text", ref(OTHER)), False),
        (Case("int4", ((call("=", ref(SAME), lit("1")), lit("2")),), None), True),
        (Case("int4", ((call("=", ref(OTHER), lit("1")), lit("2")),), None), False),
        (Case("int4", ((call("is_null", ref(SAME)), lit("2")),), ref(OTHER)), False),
        (InList("bool", ref(SAME), (lit("1"),)), True),
        (InList("bool", ref(SAME), (ref(OTHER),)), False),
    ],
)
def test_one_value_in_all_rows_of_a_unit(expr: Expr, one: bool) -> None:
    assert EXPRESSIONS.check(expr, ROWS) is one


@pytest.mark.parametrize(
    "expr",
    [
        call("random"),
        ref(column(99)),
        replace(ref(SAME), type="int8"),
        ref(replace(SHUT, type="text")),
        call("+", ref(SAME), call("nextval", lit("1"))),
        Case("int4", ((call("pg_sleep", lit("9")), lit("2")),), None),
        InList("bool", lit("1"), (call("now"),)),
        Agg("int8", "count", ()),
        Win("int8", "row_number", (), (ref(UNIT),), ()),
        Expr("int4"),
    ],
)
def test_what_is_refused(expr: Expr) -> None:
    with pytest.raises(Unproven):
        EXPRESSIONS.check(expr, ROWS)


def test_aggregates_are_checked_in_all_their_parts() -> None:
    bad = call("random")
    for agg in (
        Agg("int8", "count", (bad,)),
        Agg("int8", "count", (), where=bad),
        Agg("int4", "min", (ref(SAME),), order=((bad, False, False),)),
    ):
        with pytest.raises(Unproven, match="random"):
            EXPRESSIONS.aggregate(agg, ROWS, frozenset())
