"""Divisors made NULL where they are 0: a noisy count may be 0 where the exact one never is.

Knows: sqlglot's trees, what divides in PostgreSQL. Must not know: what is released. An error would come after the charge, and
come again, since what was released is kept. Divisions stand in divisors, too: a divisor is moved into its guard, never copied,
so that no division is guarded in a tree that nobody runs.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.sql.nodes import every

_DIVIDING_OPERATORS, _DIVIDING_FUNCTIONS = ("/", "%"), ("mod", "div")


def with_safe_division(tree: exp.Expr) -> exp.Expr:
    """Guard every divisor of a tree that may be 0: `a / (b / c)` becomes `a / NULLIF((b / NULLIF(c, 0)), 0)`.

    The tree is changed.
    """
    for node in every(tree, exp.Div, exp.Mod, exp.Operator, exp.Anonymous):
        divisor = divisor_of(node)
        if divisor is not None and not never_zero(divisor):
            _guard(node, divisor)
    return tree


def divisor_of(node: exp.Expr) -> exp.Expr | None:
    """Return what a node divides by; None for what divides nothing."""
    divides = isinstance(node, exp.Div | exp.Mod)
    if isinstance(node, exp.Operator):
        divides = str(node.args["operator"]).rpartition(".")[2].strip() in _DIVIDING_OPERATORS  # OPERATOR(pg_catalog./)
    if divides:
        found = node.expression
        return found if isinstance(found, exp.Expr) else None
    is_call = isinstance(node, exp.Anonymous) and node.name.lower() in _DIVIDING_FUNCTIONS
    return node.expressions[1] if is_call and len(node.expressions) == 2 else None


def _guard(node: exp.Expr, divisor: exp.Expr) -> None:
    guarded = exp.Anonymous(this="NULLIF", expressions=[divisor, exp.Literal.number(0)])
    if isinstance(node, exp.Anonymous):
        node.set("expressions", [node.expressions[0], guarded])
    else:
        node.set("expression", guarded)


def never_zero(divisor: exp.Expr) -> bool:
    """Whether a divisor is a number other than 0, NULLIF(x, 0), or GREATEST with a number above 0."""
    plain = divisor.unnest() if isinstance(divisor, exp.Paren) else divisor
    if isinstance(plain, exp.Anonymous) and plain.name.lower() == "nullif" and plain.expressions:
        return _number(plain.expressions[-1]) == 0
    if isinstance(plain, exp.Anonymous) and plain.name.lower() == "greatest":
        return any((_number(e) or 0) > 0 for e in plain.expressions)
    return bool(_number(plain))


def _number(node: exp.Expr) -> float | None:
    return float(node.this) if isinstance(node, exp.Literal) and not node.is_string else None
