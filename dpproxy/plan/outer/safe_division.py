"""Divisors made NULL where they are 0: a noisy count may be 0 where the exact one never is.

Knows: sqlglot's trees. Must not know: what is released.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.sql.dialect import copied


def with_safe_division(tree: exp.Expr) -> exp.Expr:
    """Divisors made NULL where they are 0: a noisy count may be 0 where the exact one never is."""
    for node in list(tree.find_all(exp.Div, exp.Mod)):
        divisor = node.expression
        if not _never_zero(divisor):
            divisor.replace(_or_null(divisor))
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.lower() in ("mod", "div") and len(call.expressions) == 2 and not _never_zero(call.expressions[1]):
            call.set("expressions", [call.expressions[0], _or_null(call.expressions[1])])
    return tree


def _or_null(divisor: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="NULLIF", expressions=[copied(divisor), exp.Literal.number(0)])


def _never_zero(divisor: exp.Expr) -> bool:
    """A number, NULLIF(x, 0), or GREATEST with a number above 0."""
    plain = divisor.unnest() if isinstance(divisor, exp.Paren) else divisor
    if isinstance(plain, exp.Anonymous) and plain.name.lower() == "nullif":
        return _number(plain.expressions[-1]) == 0
    if isinstance(plain, exp.Anonymous) and plain.name.lower() == "greatest":
        return any((_number(e) or 0) > 0 for e in plain.expressions)
    return bool(_number(plain))


def _number(node: exp.Expr) -> float | None:
    return float(node.this) if isinstance(node, exp.Literal) and not node.is_string else None
