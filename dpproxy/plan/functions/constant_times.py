"""Times made of constants, computed while planning as PostgreSQL does it: `now() - interval '13 months'`, `current_date - 90`.

Knows: literals of dates, timestamps and intervals, time zones. Must not know: clocks, engines, columns. A comparison with a
constant narrows the declared days of a column and names what is measured, so an expression of constants has to become one.
What is not computed here (years outside 1 to 9999, forms without a rule, NULL) stays an expression, and the engine computes it.

A literal is `moving` when its value changes within the day (`Lit.moving`): a measurement that it is part of is another one each
time. What is cut to whole days, or to hours or minutes because the analyst says so, moves no more.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.constants import literal, stamp_of
from dpproxy.plan.operations.operation import Test
from dpproxy.sql.types import INTEGERS, TIMES
from dpproxy.tree.expr import Call, Cast, Expr, Lit, rebuilt

_STAMPS = ("timestamp", "timestamptz")


def folded(expr: Expr) -> Expr:
    """Return the constant that an expression of constant times comes to; the expression itself where none is known."""
    if not isinstance(expr, Call | Cast) or not _of_literals(expr):
        return expr
    inner = rebuilt(expr, folded)
    found = _of_call(inner) if isinstance(inner, Call) else _of_cast(inner) if isinstance(inner, Cast) else None
    return inner if found is None else found


def _of_literals(expr: Expr) -> bool:
    if isinstance(expr, Lit):
        return expr.text is not None
    parts = expr.args if isinstance(expr, Call) else (expr.arg,) if isinstance(expr, Cast) else ()
    return bool(parts) and all(map(_of_literals, parts))


_SMALL = {"int2": 2**15, "int4": 2**31, "int8": 2**31, "numeric": 2**31, "float8": 2**31}
"""Below these a whole number is of the type, as it is."""


def _of_cast(expr: Cast) -> Expr | None:
    arg = expr.arg
    if isinstance(arg, Lit) and arg.type in INTEGERS and expr.type in _SMALL and not expr.length:  # a field that EXTRACT gave
        return Lit(expr.type, arg.text) if abs(int(arg.text or 0)) < _SMALL[expr.type] else None
    if isinstance(arg, Lit) and arg.type == "numeric" and expr.type in INTEGERS and (arg.text or "").isdigit():
        return Lit(expr.type, arg.text) if int(arg.text or 0) < _SMALL[expr.type] else None
    stamp = stamp_of(arg)
    if stamp is None or expr.type not in TIMES or expr.length or not isinstance(arg, Lit):
        return None
    return literal(expr.type, stamp, moving=arg.moving and expr.type != "date")


def _of_call(expr: Call) -> Expr | None:
    literals = [a for a in expr.args if isinstance(a, Lit)]
    row = operation(expr.op)
    if row.fold is None or len(literals) < len(expr.args):
        return None
    try:
        found = row.fold(expr.type, literals)
    except (ValueError, OverflowError):
        return None
    moving = any(a.moving for a in literals) and not row.steady
    return found if found is None or found.moving == moving else replace(found, moving=moving)


# --- texts read by a format

_CODES = {"YYYY": (r"\d{4}", "%Y"), "MM": (r"\d\d", "%m"), "DD": (r"\d\d", "%d"), "HH24": (r"\d\d", "%H"),
          "MI": (r"\d\d", "%M"), "SS": (r"\d\d", "%S"), "US": (r"\d{6}", "%f"), "MS": (r"\d{3}", "%f")}  # fmt: skip
_FORMAT = re.compile(r"YYYY|HH24|MM|DD|MI|SS|US|MS|([-/:. ])", re.IGNORECASE)


def read_time(type_: str, text: str, form: str) -> Lit | None:
    """Return what to_date() or to_timestamp() make of a text that has every digit its format asks for; None for other texts,
    which PostgreSQL reads, or refuses, in ways of its own."""
    tokens = [m.group().upper() for m in _FORMAT.finditer(form)]
    known = [_CODES.get(token, (re.escape(token), token)) for token in tokens]
    digits = [token for token in tokens if token in _CODES]
    if "".join(tokens) != form.upper() or "YYYY" not in tokens or len(set(digits)) < len(digits):
        return None
    if re.fullmatch("".join(pattern for pattern, _ in known), text, re.ASCII) is None:
        return None
    try:
        stamp = dt.datetime.strptime(text, "".join(code for _, code in known))
    except ValueError:
        return None
    return literal(type_, stamp)


# --- a column beside a constant of another type of time

_DAY = dt.timedelta(days=1)


def beside_column(op: str, a: Expr, b: Expr) -> tuple[str, Expr, Expr]:
    """Return a comparison whose constant has the type of what it is compared with, where that is the same for every value.

    A date is after a moment when it is after the moment's day, so the moment becomes a day, and moves no more.
    """
    if isinstance(a, Lit) and not isinstance(b, Lit) and _orders(op):
        mirrored, other, constant = beside_column(operation(op).mirrored, b, a)
        return operation(mirrored).mirrored, constant, other
    stamp = stamp_of(b)
    if stamp is None or not isinstance(b, Lit) or isinstance(a, Lit):
        return op, a, b
    if a.type in _STAMPS:
        return op, a, literal(a.type, stamp, moving=b.moving) if b.type != a.type else b
    if a.type != "date" or b.type not in _STAMPS or not _orders(op):
        return op, a, b
    day = stamp.replace(hour=0, minute=0, second=0, microsecond=0)
    if day == stamp:
        return op, a, literal("date", day)
    return {">=": ">", ">": ">", "<": "<=", "<=": "<="}[op], a, literal("date", day)


def _orders(op: str) -> bool:
    return operation(op).test is Test.ORDER
