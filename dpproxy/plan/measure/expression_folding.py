"""What SQL lets one exchange in a single expression: nested operands, constants that are compared or computed here.

Knows: expressions. Must not know: names of columns, relations, engines. Each exchange keeps the value on every database, NULLs
included; `normal_form` decides where to make it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from dpproxy.sql.types import INTEGERS
from dpproxy.tree.expr import FALSE, TRUE, Call, Expr, Lit

FOLDED: Mapping[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
INT32 = 2**31 - 1  # beyond, PostgreSQL may refuse what folding would allow


def flat(expr: Expr, op: str) -> tuple[Expr, ...]:
    if isinstance(expr, Call) and expr.op == op:
        return tuple(e for arg in expr.args for e in flat(arg, op))
    return (expr,)


def compared(expr: Call, a: Lit, b: Lit) -> Expr:
    """Fold a comparison of two constants, such as `1 = 1`. Different texts are different values of whole numbers and texts
    alone."""
    if a.text is None or b.text is None or a.type != b.type or expr.op not in ("=", "<>"):
        return expr
    same = int(a.text) == int(b.text) if a.type in INTEGERS else a.text == b.text
    if not same and a.type not in (*INTEGERS, "text", "varchar"):
        return expr
    return TRUE if same == (expr.op == "=") else FALSE


def folded(expr: Call, a: Lit, b: Lit) -> Expr:
    if a.text is None or b.text is None or a.type not in INTEGERS or b.type not in INTEGERS:
        return expr
    value = FOLDED[expr.op](int(a.text), int(b.text))
    return Lit(expr.type, str(value)) if abs(value) <= INT32 and expr.type != "int2" else expr
