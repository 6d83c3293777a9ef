"""PostgreSQL's operators that may run below a measurement: comparisons, arithmetic, of times and intervals too, and `||`.

Knows: the types that each operator takes and returns. Must not know: engines (they spell the operations), syntax trees, policies.
Operands are bound expressions; a Refusal is raised for types that PostgreSQL has no such operator for, and for arithmetic that
engines cannot be made total in.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpproxy.errors import AMBIGUOUS_FUNCTION, DATATYPE_MISMATCH, UNDEFINED_FUNCTION, Refusal
from dpproxy.plan.functions import enumerations
from dpproxy.plan.functions.constant_times import beside_column, folded, folded_constants
from dpproxy.plan.operations.interval_texts import MAX_INTERVAL_MONTHS, interval_text
from dpproxy.plan.refusals import CONSTANT, OTHER_ARGUMENTS, OTHER_TYPE, unsupported
from dpproxy.sql.settings import boolean
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TEXTS, TIMES, arithmetic, common
from dpproxy.table_terms import Enumeration
from dpproxy.tree.expr import Call, Cast, Expr, Hole, Lit

# Constants whose type the text of a statement leaves open, and constants that must be known before it runs.
#
# Knows: PostgreSQL's input syntax as far as it is plain (ISO times, digits, the words for true and false). Must not know:
# functions, engines, the facade. A string constant has no type of its own in PostgreSQL: it takes the type that its neighbour
# asks for. What is spelled otherwise than plainly is not guessed at here (`NotPlain`): the binder has the facade evaluate it.


def literal_text(expr: Expr, what: str) -> str:
    """Return the text of a constant argument that must be known before the statement runs."""
    if isinstance(expr, Lit) and expr.text is not None:
        return expr.text
    raise unsupported(f"{what} that is not a constant", CONSTANT)


def coerce(expr: Expr, type_: str) -> Expr:
    """Give a constant of unknown type the type its neighbour asks for."""
    if isinstance(expr, Lit) and expr.type == "unknown":
        return typed_literal(type_, expr.text)
    if isinstance(expr, Hole) and expr.type == "unknown":
        return Hole(type_, expr.index)
    return expr


def typed_literal(type_: str, text: str | None) -> Expr:
    """Return a string constant as a value of a type. Raises Refusal when it is not plain ISO (the binder then asks the
    facade)."""
    if text is None or type_ in TEXTS or type_ in ("unknown", "uuid"):
        return Lit(type_, text)
    value = text.strip()
    try:
        if type_ in INTEGERS:
            return Lit(type_, str(int(value)))
        if type_ in ("numeric", *FLOATS):
            if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", value):
                raise ValueError(value)
            return Lit(type_, value)
        if type_ == "bool":
            said = boolean(value)
            if said is None:
                raise ValueError(value)
            return Lit(type_, "true" if said else "false")
        if type_ == "date":
            return Lit(type_, dt.date.fromisoformat(value[:10] if _midnight(value) else value).isoformat())
        if type_ in ("timestamp", "timestamptz"):
            stamp = dt.datetime.fromisoformat(value)
            if stamp.tzinfo is not None and type_ == "timestamptz":
                raise ValueError(value)
            return Lit(type_, stamp.replace(tzinfo=None).isoformat(sep=" "))
        if type_ == "interval":
            return Lit(type_, interval_text(value))
        if type_ == "time" and re.fullmatch(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", value):
            return Lit(type_, dt.time.fromisoformat(value).isoformat())
    except (ValueError, KeyError):
        pass
    raise NotPlain(type_, text)


class NotPlain(Exception):
    """Only PostgreSQL can read the spelling of a constant ('Jan 5, 2024', 'yesterday'): the facade is asked."""

    def __init__(self, type_: str, text: str) -> None:
        super().__init__(type_)
        self.type, self.text = type_, text


def _midnight(value: str) -> bool:
    return bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}[ T]00:00(:00(\.0+)?)?", value))


def as_text(value: Expr, what: str) -> Expr:
    value = coerce(value, "text")
    if value.type not in TEXTS:
        raise unsupported(f"{what} of {value.type}", OTHER_TYPE)
    return value


def check_count(name: str, args: Sequence[Expr], *counts: int) -> None:
    """Raise Refusal unless the function has one of these numbers of arguments."""
    if len(args) not in counts:
        raise unsupported(f"`{name}` with {len(args)} arguments", OTHER_ARGUMENTS)


_DIGITS = 1000
"""Python makes no whole number of more than 4,300 digits; longer ones are `numeric` in any case, as texts of numbers are."""


def number_literal(text: str) -> Expr:
    """Bind an unsigned number of SQL text: int4, int8 or numeric, as PostgreSQL types it."""
    if text.isdigit() and len(text) <= _DIGITS:
        value = int(text)
        return Lit("int4" if value < 2**31 else "int8" if value < 2**63 else "numeric", str(value))
    return typed_literal("numeric", text)


ORDERED = ("<", "<=", ">", ">=")


def compare(op: str, a: Expr, b: Expr) -> Expr:
    a, b = coerce(a, b.type), coerce(b, a.type)
    if a.type == "unknown":
        a, b = coerce(a, "text"), coerce(b, "text")
    if _kind(a.type) != _kind(b.type):
        raise unsupported(f"comparing {a.type} with {b.type}", "Cast one of them.")
    if op in ORDERED and (isinstance(a.type, Enumeration) or isinstance(b.type, Enumeration)):
        return enumerations.compared(op, a, b)
    op, a, b = beside_column(op, folded(a), folded(b))
    return Call("bool", op, (a, b))


def _kind(type_: str) -> str:
    if type_ in NUMBERS:
        return "number"
    if type_ in (*TEXTS, "unknown"):
        return "text"
    return "instant" if type_ in TIMES else type_


def same_kind(a: str, b: str) -> bool:
    """Tell whether values of two types can stand in one column."""
    return _kind(a) == _kind(b)


def common_type(what: str, types: list[str]) -> str:
    """Return the common type of the branches of CASE, the arguments of coalesce() and the like. Raises Refusal 42804."""
    type_ = common(types)
    for other in types:
        if other != "unknown" and not same_kind(type_, other):
            raise Refusal(DATATYPE_MISMATCH, f"{what} types {type_} and {other} cannot be matched")
    return type_


def plus(a: Expr, b: Expr) -> Expr:
    a, b = added(a, b)
    if a.type in NUMBERS and b.type in NUMBERS:
        return folded_constants("+", a, b) or Call(arithmetic(a.type, b.type), "+", (a, b))
    if b.type in TIMES and a.type not in TIMES:
        a, b = b, a
    return _shift("add", a, b)


def minus(a: Expr, b: Expr) -> Expr:
    a, b = alike(a, b)
    if a.type in NUMBERS and b.type in NUMBERS:
        return folded_constants("-", a, b) or Call(arithmetic(a.type, b.type), "-", (a, b))
    if a.type == "date" and b.type == "date":
        return Call("int4", "date_diff", (a, b))
    if a.type in TIMES and b.type in TIMES:
        return Call("interval", "ts_diff", (as_timestamp(a), as_timestamp(b)))
    return _shift("sub", a, b)


def added(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Give a constant of unknown type the type PostgreSQL takes it for in `a + b`: added to a timestamp it is an interval. Raises
    Refusal 42725 beside a date, where it may be a number of days, a time of day or an interval."""
    for known, other in ((a, b), (b, a)):
        if other.type == "unknown" and known.type == "date":
            raise Refusal(
                AMBIGUOUS_FUNCTION,
                f"operator is not unique: {a.type} + {b.type}",
                hint="Give the constant a type: date + 7, or date + interval '1 week'.",
            )
        if other.type == "unknown" and known.type in TIMES:
            return (coerce(a, "interval"), b) if other is a else (a, coerce(b, "interval"))
    return alike(a, b)


def alike(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Give a constant of unknown type the type of the other operand, as PostgreSQL does in `a - b`."""
    return coerce(a, b.type), coerce(b, a.type)


def _shift(direction: str, a: Expr, b: Expr) -> Expr:
    if a.type == "date" and b.type in INTEGERS:
        return Call("date", f"date_{direction}", (a, b))
    if a.type in TIMES and b.type == "interval":
        return Call("timestamptz" if a.type == "timestamptz" else "timestamp", f"ts_{direction}", (as_timestamp(a), b))
    if a.type == "interval" and b.type == "interval" and isinstance(a, Lit) and isinstance(b, Lit):
        sign = 1 if direction == "add" else -1
        left, right = ([int(x) for x in (e.text or "0 0 0").split()] for e in (a, b))
        return Lit("interval", " ".join(str(x + sign * y) for x, y in zip(left, right, strict=True)))
    raise unsupported(f"arithmetic of {a.type} and {b.type}", OTHER_TYPE)


def as_timestamp(expr: Expr) -> Expr:
    return expr if expr.type in ("timestamp", "timestamptz") else Cast("timestamp", expr)


def multiply(op: str, a: Expr, b: Expr) -> Expr:
    a, b = _factors(a, b)
    if a.type == "interval" or b.type == "interval":
        return _scale_interval(op, a, b)
    if a.type not in NUMBERS or b.type not in NUMBERS:
        raise unsupported(f"`{op}` of {a.type} and {b.type}", OTHER_TYPE)
    type_ = arithmetic(a.type, b.type)
    if op == "%" and type_ in FLOATS:
        raise Refusal(
            UNDEFINED_FUNCTION, f"operator does not exist: {a.type} % {b.type}", hint="Cast the operands: x::numeric % y."
        )
    if op == "/" and type_ in INTEGERS:
        return Call(type_, "int/", (a, b))
    return folded_constants(op, a, b) or Call(type_, op, (a, b))


def _factors(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Give a constant of unknown type the type of the other operand, if that is a number."""
    return (coerce(a, b.type) if b.type in NUMBERS else a), (coerce(b, a.type) if a.type in NUMBERS else b)


def _scale_interval(op: str, a: Expr, b: Expr) -> Expr:
    if b.type == "interval" and op == "*":
        a, b = b, a
    b = whole(coerce(b, "int4"))
    if op == "*" and isinstance(a, Lit) and isinstance(b, Lit) and b.type in INTEGERS and a.text and b.text:
        text = " ".join(str(int(x) * int(b.text)) for x in a.text.split())
        months, days, _ = (int(x) for x in text.split())
        if abs(months) <= MAX_INTERVAL_MONTHS and abs(days) <= 4_000_000:
            return Lit("interval", text)
    if op == "*" and isinstance(a, Lit) and a.text and b.type in INTEGERS:
        return _times_interval(b, a.text)
    if op == "*" and isinstance(a, Lit) and a.text and b.type in NUMBERS:
        return _part_of_interval(b, a.text)
    raise unsupported("arithmetic with an interval that is not a constant", "Use n * interval '1 day'.")


_WHOLE = {"+": plus, "-": minus}


def whole(number: Expr) -> Expr:
    """Return a number that is whole by its form, as a whole number: `-EXTRACT(DOW FROM ts)` is numeric, and has no fraction."""
    match number:
        case Cast(type="numeric" | "float8", arg=arg, length=()) if arg.type in INTEGERS:
            return arg
        case Call(op="neg", args=(arg,)) if (inner := whole(arg)).type in INTEGERS:
            return negate(inner)
        case Call(op="+" | "-" as op, args=(a, b)):
            left, right = whole(a), whole(b)
            return _WHOLE[op](left, right) if left.type in INTEGERS and right.type in INTEGERS else number
    return number


SPAN_YEARS = 4000  # an interval beyond it is added to nothing: engines' own guard


def _times_interval(number: Expr, unit: str) -> Expr:
    """So many intervals; NULL beyond what is ever added to a timestamp."""
    months, days, micros = (abs(int(x)) for x in unit.split())
    size = Fraction(months, 12) + Fraction(days, 365) + Fraction(micros, 365 * 86400 * 10**6)
    most = min(int(SPAN_YEARS / size), 2**31 - 1) if size else 1
    return Call("interval", "interval_times", (number, Lit("interval", unit), Lit("int8", str(most))))


def _part_of_interval(number: Expr, unit: str) -> Expr:
    """So many intervals of days and hours, and parts of one, whose days and seconds PostgreSQL keeps apart."""
    if unit.split()[0] != "0":
        raise unsupported("a part of a month", "Multiply months by a whole number: round(x)::int * interval '1 month'.")
    times = _times_interval(number, unit)
    assert isinstance(times, Call)
    return replace(times, op="interval_parts", args=(number, *(Lit("int8", n) for n in unit.split()[1:]), times.args[2]))


def negate(a: Expr) -> Expr:
    a = coerce(a, "float8")
    if isinstance(a, Lit) and a.type in NUMBERS and a.text is not None:
        return Lit(a.type, a.text[1:] if a.text.startswith("-") else f"-{a.text}")
    if isinstance(a, Lit) and a.type == "interval" and a.text is not None:
        return Lit("interval", " ".join(str(-int(x)) for x in a.text.split()))
    if a.type not in NUMBERS:
        raise unsupported(f"`-` of {a.type}", OTHER_TYPE)
    return Call(a.type, "neg", (a,))


def concatenation(a: Expr, b: Expr) -> Expr:
    return Call("text", "concat", (coerce(a, "text"), coerce(b, "text")))
