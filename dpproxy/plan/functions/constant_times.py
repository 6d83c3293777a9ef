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
from decimal import Decimal, InvalidOperation, localcontext

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.constants import literal, stamp_of
from dpproxy.plan.operations.operation import Test
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TEXTS, TIMES, arithmetic
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit, rebuilt

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


# Arithmetic and plain functions of constants, done while planning as PostgreSQL does it: exactly.
#
# Knows: literals of numbers. Must not know: engines. An engine that computes NUMERIC as doubles would make 0.06 + 0.01 less
# than 0.07, and `x <= 0.06 + 0.01` would lose the rows at 0.07. What PostgreSQL would raise for (overflow) is left to the
# engine's total spelling; divisions are left too, since their digits are a matter of type. Tools write a constant argument as
# an expression (`substr(x, 1, CAST(floor(2) AS integer))`, `left(x, length(CAST('no' AS text)))`), and a function whose
# argument must be a constant has to see the number.


MAX_DIGITS = 100  # of both constants together
_BELOW = {"int2": Decimal(2**15), "int4": Decimal(2**31), "int8": Decimal(2**63)}
_LARGEST = Decimal("1e30")  # what the widest exact type of every engine holds, with room for digits after the point


def folded_constants(op: str, a: Expr, b: Expr) -> Lit | None:
    """Return the value of an operator over two exact constants; None for others, and where it does not fit their type."""
    exact = operation(op).exact
    if exact is None or not isinstance(a, Lit) or not isinstance(b, Lit) or not a.text or not b.text:
        return None
    type_ = arithmetic(a.type, b.type)
    if type_ not in (*INTEGERS, "numeric") or len(a.text) + len(b.text) > MAX_DIGITS:
        return None
    with localcontext(prec=2 * MAX_DIGITS):
        try:
            value = Decimal(exact(Decimal(a.text), Decimal(b.text)))
        except InvalidOperation:
            return None
    if not value.is_finite() or abs(value) >= _BELOW.get(type_, _LARGEST):
        return None
    return Lit(type_, format(value, "f"))


_DIGITS = 15  # of a number that every engine holds exactly, whatever its type


def folded_value(expr: Expr) -> Expr:
    """Return the constant that a function, cast or choice of constants is; anything else as it is."""
    match expr:
        case Call(op="length", args=(Lit(text=str(text)) as value,)) if value.type in TEXTS:
            return Lit(expr.type, str(len(text)))
        case Call(op="reverse", args=(Lit(type="text", text=str(text)),)):
            return Lit("text", text[::-1])
        case Call(op=op, args=args) if (exact := operation(op).exact) is not None and (len(args) == 1 or operation(op).chooses):
            numbers = [number for a in args if (number := _exact(a)) is not None]
            return _number(expr, Decimal(exact(*numbers))) if len(numbers) == len(args) else expr
        case Cast(type=type_, arg=value, length=()) if type_ in NUMBERS and (number := _exact(value)) is not None:
            rounded = type_ in INTEGERS and number != number.to_integral_value()
            return expr if rounded else _number(expr, number)
        case Cast(type="text", arg=Lit(type="text") as value, length=()):
            return value
        case Case(whens=((test, _), *_)) if (known := _known_test(test)) is not None:
            return _without_first(expr, known)
    return expr


def _without_first(expr: Case, known: bool) -> Expr:
    """A CASE whose first test is known: its value, or what follows it."""
    (_, value), *rest = expr.whens
    if known:
        return value if value.type == expr.type else expr
    if rest:
        return folded_value(Case(expr.type, tuple(rest), expr.default))
    return expr if expr.default is None or expr.default.type != expr.type else expr.default


def _known_test(test: Expr) -> bool | None:
    """Whether a condition of constants is true; None where that is not known here."""
    match test:
        case Call(op="is_null", args=(Lit(text=str()),)):
            return False
        case Call(op="and", args=args):
            found = [_known_test(a) for a in args]
            return None if None in found else all(found)
        case Call(op=op, args=(a, b)) if (exact := operation(op).exact) is not None:
            left, right = _exact(a), _exact(b)
            return None if left is None or right is None else bool(exact(left, right))
    return None


def _exact(value: Expr) -> Decimal | None:
    """A constant number that engines hold as it is written."""
    if not isinstance(value, Lit) or value.type not in NUMBERS or not value.text or len(value.text) > _DIGITS:
        return None
    try:
        number = Decimal(value.text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < _LARGEST else None


def _number(expr: Expr, value: Decimal) -> Expr:
    fits = abs(value) < _BELOW.get(expr.type, _LARGEST)
    exact = expr.type in (*INTEGERS, "numeric") or (expr.type in FLOATS and value == value.to_integral_value())
    text = str(int(value)) if expr.type in INTEGERS else format(value, "f")
    return Lit(expr.type, text) if fits and exact else expr
