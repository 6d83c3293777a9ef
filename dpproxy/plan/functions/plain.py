"""Functions that are an operation of the catalogue and nothing more: their arguments are checked and typed as its row says.

Knows: rows of the catalogue, constants whose type the statement leaves open. Must not know: which operations there are, engines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from dpproxy.plan.functions.operators import check_count, coerce
from dpproxy.plan.operations.operation import Like, Operation
from dpproxy.plan.refusals import OTHER_TYPE, unsupported
from dpproxy.sql.types import INTEGERS, NUMBERS, TEXTS, TIMES
from dpproxy.tree.expr import Call, Cast, Expr

Builder = Callable[[Sequence[Expr]], Expr]
"""Takes bound arguments and returns an expression; raises Refusal for arguments that it cannot make total."""


def plain(name: str, row: Operation) -> Builder:
    """Return the builder of a function of this name."""

    def build(args: Sequence[Expr]) -> Expr:
        check_count(name, args, len(row.operands))
        operands = tuple(_OPERANDS[letter](arg, f"`{name}`") for letter, arg in zip(row.operands, args, strict=True))
        return Call(_result(row, operands), row.name, operands)

    return build


def _result(row: Operation, operands: Sequence[Expr]) -> str:
    if not isinstance(row.result, Like):
        return row.result
    type_ = operands[0].type
    if row.result is Like.REAL:
        return "numeric" if type_ == "numeric" else "float8"
    return "float8" if row.result is Like.FRACTION and type_ in INTEGERS else type_


def _of(value: Expr, what: str, unknown: str, types: Collection[str]) -> Expr:
    """An operand of one of these types; a constant of unknown type is taken to be of type `unknown`."""
    value = coerce(value, unknown)
    if value.type not in types:
        raise unsupported(f"{what} of {value.type}", OTHER_TYPE)
    return value


def text(value: Expr, what: str) -> Expr:
    return _of(value, what, "text", (*TEXTS, "unknown"))


def number(value: Expr, what: str) -> Expr:
    return _of(value, what, "float8", NUMBERS)


def float_number(value: Expr, what: str) -> Expr:
    value = number(value, what)
    return value if value.type == "float8" else Cast("float8", value)


def whole_number(value: Expr, what: str) -> Expr:
    return _of(value, what, "int4", INTEGERS)


def whole(value: Expr, what: str) -> Expr:
    """Return a number as a whole one."""
    value = number(coerce(value, "int4"), what)
    return value if value.type in INTEGERS else Cast("int4", value)


def moment(value: Expr, what: str) -> Expr:
    """Return a date or timestamp as it is."""
    return _of(value, what, "timestamp", TIMES)


def timestamp(value: Expr, what: str) -> Expr:
    """Return a date or timestamp as a timestamp."""
    value = moment(value, what)
    return value if value.type != "date" else Cast("timestamp", value)


_OPERANDS: Mapping[str, Callable[[Expr, str], Expr]] = {
    "t": text, "r": number, "f": float_number, "i": whole_number, "w": whole, "m": moment, "p": timestamp,
}  # fmt: skip
"""By the letters of `Operation.operands`."""
