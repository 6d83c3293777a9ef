"""The catalogue of operations: one row each, of which every room reads what it needs to know.

Knows: the rows, by subject in the files beside this one. Must not know: who reads them. The kernel does not: it has a list of its
own, written by hand (`kernel.allowed`), and refuses what is not on it, so that a row that is wrong here is met by another
opinion. Rows are looked up when they are needed and never copied into tables of other rooms.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpproxy.plan.operations.logic import LOGIC
from dpproxy.plan.operations.numbers import NUMBERS
from dpproxy.plan.operations.operation import Nulls, Operation, Refused, constant
from dpproxy.plan.operations.texts import TEXTS
from dpproxy.plan.operations.times import CUT_TO, TIMES
from dpproxy.tree.expr import Call, Expr, Lit

CATALOGUE: dict[str, Operation] = {row.name: row for row in (*LOGIC, *NUMBERS, *TEXTS, *TIMES)}

_UNKNOWN = Operation(
    name="", takes="(?!)", nulls=Nulls.OTHERS, duckdb=Refused(), postgres=Refused(), spark=Refused()
)  # fmt: skip


def operation(name: str) -> Operation:
    """Return the row of an operation; of a name that is none, a row of which nothing is known and that no engine spells."""
    return CATALOGUE.get(name, _UNKNOWN)


def cut_to(type_: str, unit: Expr, moment: Expr) -> Call:
    """Return a moment cut to a unit, a constant."""
    return Call(type_, CUT_TO, (unit, moment))


def later(moment: Expr, span: str) -> Call:
    """Return a moment and an interval, of so many months, days and microseconds, after it."""
    return Call(moment.type, "ts_add", (moment, Lit("interval", span)))


def unit_cut_to(expr: Expr) -> str | None:
    """Return the unit that a moment is cut to; None for other expressions."""
    return constant(expr.args[0]) if isinstance(expr, Call) and operation(expr.op).cuts else None


def function(name: str) -> Operation | None:
    """Return the row of the operation that a function of PostgreSQL is; None for other functions."""
    return next((row for known, row in functions() if known == name), None)


def functions() -> Iterator[tuple[str, Operation]]:
    """Yield PostgreSQL's names of functions that are an operation and nothing more, with their rows."""
    for row in CATALOGUE.values():
        for name in row.functions:
            yield name, row
