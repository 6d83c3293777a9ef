"""Arithmetic and plain functions of constants, done while planning as PostgreSQL does it: exactly.

Knows: literals of numbers. Must not know: engines. An engine that computes NUMERIC as doubles would make 0.06 + 0.01 less than
0.07, and `x <= 0.06 + 0.01` would lose the rows at 0.07. What PostgreSQL would raise for (overflow) is left to the engine's total
spelling; divisions are left too, since their digits are a matter of type. Tools write a constant argument as an expression
(`substr(x, 1, CAST(floor(2) AS integer))`, `left(x, length(CAST('no' AS text)))`), and a function whose argument must be a
constant has to see the number.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation, localcontext

from dpproxy.plan.operations.catalogue import operation
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TEXTS, arithmetic
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit

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
