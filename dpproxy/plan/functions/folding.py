"""Arithmetic of constants, done while planning as PostgreSQL does it: exactly.

Knows: literals of numbers. Must not know: engines. An engine that computes NUMERIC as doubles would make 0.06 + 0.01 less than
0.07, and `x <= 0.06 + 0.01` would lose the rows at 0.07. What PostgreSQL would raise for (overflow) is left to the engine's total
spelling; divisions are left too, since their digits are a matter of type.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation, localcontext

from dpproxy.plan.logical.expr import Expr, Lit
from dpproxy.sql.types import INTEGERS, arithmetic

MAX_DIGITS = 100  # of both constants together
_EXACT: dict[str, Callable[[Decimal, Decimal], Decimal]] = {"+": Decimal.__add__, "-": Decimal.__sub__, "*": Decimal.__mul__}
_BELOW = {"int2": Decimal(2**15), "int4": Decimal(2**31), "int8": Decimal(2**63)}
_LARGEST = Decimal("1e30")  # what the widest exact type of every engine holds, with room for digits after the point


def folded_constants(op: str, a: Expr, b: Expr) -> Lit | None:
    """Return the value of an operator over two exact constants; None for others, and where it does not fit their type."""
    if op not in _EXACT or not isinstance(a, Lit) or not isinstance(b, Lit) or not a.text or not b.text:
        return None
    type_ = arithmetic(a.type, b.type)
    if type_ not in (*INTEGERS, "numeric") or len(a.text) + len(b.text) > MAX_DIGITS:
        return None
    with localcontext(prec=2 * MAX_DIGITS):
        try:
            value = _EXACT[op](Decimal(a.text), Decimal(b.text))
        except InvalidOperation:
            return None
    if not value.is_finite() or abs(value) >= _BELOW.get(type_, _LARGEST):
        return None
    return Lit(type_, format(value, "f"))
