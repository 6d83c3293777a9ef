"""Rows of the catalogue: conditions, comparisons, and choices between values.

Knows: how each engine writes them. Must not know: where they are used.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from dpproxy.plan.operations import bounds, constants
from dpproxy.plan.operations.operation import Nulls, Operation, Spelling, Test, by
from dpproxy.tree import interval as iv

_ALIKE = "(?:[inf]{2}|tt|bb|[dp]{2}|vv|cc|uu)>b"
_CHOSEN = "i+>i|[in]+>n|[inf]+>f|t+>t|b+>b|d+>d|[dp]+>p|v+>v|c+>c|u+>u"


def _test(name: str, form: str, spark: str, takes: str, test: Test) -> Operation:
    """A test of one operand that is never NULL."""
    return Operation(name=name, takes=takes, nulls=Nulls.NEVER, duckdb=form, postgres=form, spark=spark, test=test)


def _comparison(sign: str, mirrored: str, test: Test, of: Callable[[Any, Any], bool]) -> Operation:
    form = f"({{0:c}} {sign} {{1:c}})"
    return Operation(
        name=sign, takes=_ALIKE, nulls=Nulls.OPERAND, duckdb=form, postgres=form, spark=form, test=test, mirrored=mirrored,
        fold=constants.compared(of), steady=True, exact=of,
    )  # fmt: skip


def _distinct(name: str, words: str, postgres: Spelling, spark: str) -> Operation:
    """A comparison for which NULL is a value like others."""
    return Operation(
        name=name, takes=_ALIKE, nulls=Nulls.NEVER, duckdb=f"({{0:c}} {words} {{1:c}})", postgres=postgres, spark=spark,
        test=Test.EQUAL, mirrored=name,
    )  # fmt: skip


def _connective(name: str, word: str) -> Operation:
    form = f"({{all:| {word} }})"
    return Operation(name=name, takes="b+>b", nulls=Nulls.LOGIC, duckdb=form, postgres=form, spark=form, test=Test.LOGIC)


def _pattern(name: str, word: str) -> Operation:
    return Operation(
        name=name, takes="ttt?>b", nulls=Nulls.OTHERS, duckdb=by("like", word), postgres=by("like", word),
        spark=by("like", word),
        matches=True, widens=name == "ilike",
    )  # fmt: skip


LOGIC = (
    _test("is_null", "({0} IS NULL)", "({0} IS NULL)", ".>b", Test.NULL),
    _test("is_not_null", "({0} IS NOT NULL)", "({0} IS NOT NULL)", ".>b", Test.NULL),
    _test("is_true", "({0} IS TRUE)", "coalesce({0}, FALSE)", "b>b", Test.LOGIC),
    _test("is_not_true", "({0} IS NOT TRUE)", "(NOT coalesce({0}, FALSE))", "b>b", Test.LOGIC),
    _test("is_false", "({0} IS FALSE)", "coalesce(NOT {0}, FALSE)", "b>b", Test.LOGIC),
    _test("is_not_false", "({0} IS NOT FALSE)", "coalesce({0}, TRUE)", "b>b", Test.LOGIC),
    _connective("and", "AND"),
    _connective("or", "OR"),
    Operation(
        name="not", takes="b>b", nulls=Nulls.OPERAND, duckdb="(NOT {0})", postgres="(NOT {0})", spark="(NOT {0})",
        test=Test.LOGIC
    ),
    _comparison("=", "=", Test.EQUAL, operator.eq),
    _comparison("<>", "<>", Test.EQUAL, operator.ne),
    _comparison("<", ">", Test.ORDER, operator.lt),
    _comparison("<=", ">=", Test.ORDER, operator.le),
    _comparison(">", "<", Test.ORDER, operator.gt),
    _comparison(">=", "<=", Test.ORDER, operator.ge),
    _distinct("is_distinct", "IS DISTINCT FROM", "({0:c} IS DISTINCT FROM {1:c})", "(NOT ({0:c} <=> {1:c}))"),
    _distinct("is_not_distinct", "IS NOT DISTINCT FROM", by("not_distinct"), "({0:c} <=> {1:c})"),
    _pattern("like", "LIKE"),
    _pattern("ilike", "ILIKE"),
    Operation(
        name="coalesce", takes=_CHOSEN, nulls=Nulls.ALL, bound=iv.hull, grid=bounds.common_grid, length=bounds.largest,
        chooses=True, duckdb="coalesce({all:v|, })", postgres="coalesce({all:w|, })", spark="coalesce({all:w|, })",
    ),
    Operation(
        name="least", takes=_CHOSEN, nulls=Nulls.ALL, bound=iv.least, grid=bounds.common_grid, length=bounds.largest,
        chooses=True, passes_null=True, exact=min, duckdb="least({all:w|, })", postgres="least({all:w|, })",
        spark="least({all:w|, })",
    ),
    Operation(
        name="greatest", takes=_CHOSEN, nulls=Nulls.ALL, bound=iv.greatest, grid=bounds.common_grid, length=bounds.largest,
        chooses=True, passes_null=True, exact=max, duckdb="greatest({all:w|, })", postgres="greatest({all:w|, })",
        spark="greatest({all:w|, })",
    ),
    Operation(
        name="nullif", takes="i[inf]>i|n[inf]>n|f[inf]>f|tt>t|bb>b|d[dp]>d|p[dp]>p|vv>v|cc>c|uu>u",
        nulls=Nulls.FIRST_OR_OTHERS,
        bound=bounds.first, grid=bounds.grid_of_first, length=bounds.first_length, chooses=True,
        duckdb="CASE WHEN {0:c} = {1:c} THEN NULL ELSE {0} END", postgres="(CASE WHEN {0:c} = {1:c} THEN NULL ELSE {0} END)",
        spark="(CASE WHEN {0:c} = {1:c} THEN NULL ELSE {0} END)",
    ),
    Operation(  # several values as one that is never NULL; of PostgreSQL a record's text, since records of records have no hash
        name="row", takes="[inftbdpcvu]+>r", nulls=Nulls.NEVER, duckdb="row({all:o|, })", postgres="(ROW({all:y|, })::text)",
        spark=by("record"),
    ),
)  # fmt: skip
