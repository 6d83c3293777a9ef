"""Kinds of columns: those of what they hold; which may be read, and which an order must name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.kernel.columns import Columns, named
from dpproxy.kernel.leaves import Leaf, Unproven
from dpproxy.tree.expr import Agg, Expr
from dpproxy.tree.relation import Aggregate, Filter, Project, Scan

UNIT, WHOLE, AGE, LIST, WHEN, SPAN = (
    column(1, "timestamptz"), column(2, "numeric", exact="UBIGINT"), column(3), column(4, "text"), column(5, "timestamptz"),
    column(6, "interval"),
)  # fmt: skip
SCAN = Scan((UNIT, WHOLE, AGE, LIST, WHEN, SPAN), 0, ("main", "t"), ("unit", "whole", "age", "list", "when", "span"))
KINDS = {n: (c.type, c.exact) for n, c in zip(SCAN.names, SCAN.columns, strict=True) if c is not LIST}
LEAF = Leaf("unit", kinds=KINDS)


@pytest.fixture
def columns() -> Columns:
    found = Columns()
    found.scanned(SCAN, LEAF)
    return found


def lying(**said: str) -> Callable[[Columns], None]:
    """A table of which a column says something else."""
    return lambda c: Columns().scanned(replace(SCAN, columns=(UNIT, replace(WHOLE, **said), *SCAN.columns[2:])), LEAF)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (lying(type="float8"), "another kind"),
        (lying(exact="HUGEINT"), "another kind"),
        (lambda _: Columns().scanned(replace(SCAN, columns=(replace(UNIT, zone="Europe/Paris"), *SCAN.columns[1:])), LEAF), "clocks"),
        (lambda _: Columns().scanned(replace(SCAN, columns=(replace(UNIT, type="interval"), *SCAN.columns[1:])), LEAF), "a month"),
        (lambda c: c.read((column(99),)), "of no relation"),
        (lambda c: c.put_together((column(9, "int2"),), ((AGE,), (AGE,))), "other kinds"),
        (lambda c: c.read((LIST,)), "nothing can be made of"),
        (lambda c: c.read((replace(AGE, type="int8"),)), "another kind"),
        (lambda c: c.made((column(9, "int8"),), (ref(AGE),)), "another kind"),
        (lambda c: c.made((column(9, "numeric"),), (ref(WHOLE),)), "another kind"),
        (lambda c: c.made((column(9, "int8", exact="UBIGINT"),), (call("+", ref(AGE), lit("1"), type_="int8"),)), "another kind"),
        (lambda c: c.made((AGE,), (lit("1"),)), "one number"),
        (lambda c: c.made((AGE,), (call("-", ref(AGE), type_="int4"),)), "one number"),
        (lambda c: c.put_together((column(9, "text"),), ((LIST,), (LIST,))), "nothing can be made of"),
        (lambda c: c.put_together((column(9, "numeric", exact="UBIGINT"),), ((WHOLE,), (AGE,))), "another kind"),
        (lambda c: c.given((replace(AGE, exact="x"),), ()), "another kind"),
    ],
)  # fmt: skip
def test_what_a_column_says_of_itself_is_checked(lie: Callable[[Columns], None], said: str, columns: Columns) -> None:
    with pytest.raises(Unproven, match=said):
        lie(columns)


def test_what_columns_may_say(columns: Columns) -> None:
    made = column(9, "numeric", exact="UBIGINT")
    for expr in (ref(WHOLE), Agg("numeric", "max", (ref(WHOLE),)), call("coalesce", ref(WHOLE), ref(WHOLE), type_="numeric")):
        Columns().made((made,), (expr,))
    columns.made((column(10), AGE), (call("+", ref(AGE), lit("1"), type_="int4"),))
    columns.made((AGE,), (ref(AGE),))
    columns.put_together((column(11, "numeric", exact="UBIGINT"), column(12, "numeric")), ((WHOLE, WHOLE), (WHOLE, AGE)))
    columns.scanned(replace(SCAN, columns=(*SCAN.columns[:4], replace(WHEN, zone="Europe/Paris"), SPAN)), LEAF)
    columns.read(c for c in SCAN.columns if c is not LIST)


WHOLLY: tuple[Expr, ...] = (
    *(ref(c) for c in SCAN.columns if c is not LIST),
    *(call(field, ref(SPAN), type_="int8") for field in ("year", "month", "day")),
)


def test_an_order_names_all_that_may_be_read(columns: Columns) -> None:
    """And of intervals what tells equal ones apart; not what nothing can be made of."""
    columns.check_order(SCAN, WHOLLY)
    for left_out in WHOLLY:
        with pytest.raises(Unproven, match="leaves ties"):
            columns.check_order(SCAN, [term for term in WHOLLY if term is not left_out])


def test_columns_that_are_not_listed_can_be_named() -> None:
    some = Filter((UNIT,), SCAN, call("=", ref(AGE), lit("1")))
    assert named(some) == {1, 2, 3, 4, 5, 6}
    assert named(Project((column(9), AGE), some, (lit("1"),))) == {1, 2, 3, 4, 5, 6, 9}
    assert named(Aggregate((column(9),), some, (), (Agg("int4", "count", ()),))) == {9}
