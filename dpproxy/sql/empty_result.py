"""Queries that return no row whatever the data: BI tools send them to learn column types.

Knows: sqlglot trees. Must not know: policies. `plan.pipeline` asks before it binds: such a query goes to the facade as it is, at
no charge, since the empty tables there give the same (empty) answer as the data would. Only what is certain from the text
counts; a doubt means no.
"""

from __future__ import annotations

from sqlglot import exp


def returns_nothing(tree: exp.Expr) -> bool:
    """Return whether no row can come back: LIMIT 0, or a WHERE that is constantly false (an aggregate of no rows says
    nothing)."""
    if isinstance(tree, exp.Subquery):
        return _limit_zero(tree) or returns_nothing(tree.this)
    if _limit_zero(tree):
        return True
    if isinstance(tree, exp.Union):
        return returns_nothing(tree.this) and returns_nothing(tree.expression)
    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    if where is None or not _false(where.this):
        return False
    # an aggregate without GROUP BY still returns a row: its other columns must not come from subqueries
    return not any(node.find(exp.Select) for node in tree.expressions)


def _limit_zero(tree: exp.Expr) -> bool:
    limit = tree.args.get("limit")
    value = limit.args.get("expression") if isinstance(limit, exp.Limit) else None
    return isinstance(value, exp.Literal) and not value.is_string and value.this == "0"


def _false(condition: exp.Expr) -> bool:
    """FALSE, 1 = 0 and the like, or an AND with one of them."""
    if isinstance(condition, exp.Paren):
        return _false(condition.this)
    if isinstance(condition, exp.Boolean):
        return not condition.this
    if isinstance(condition, exp.And):
        return any(_false(part) for part in condition.flatten())
    if isinstance(condition, exp.EQ):
        a, b = condition.this, condition.expression
        numbers = all(isinstance(x, exp.Literal) and not x.is_string and x.this.isdigit() for x in (a, b))
        return numbers and int(a.this) != int(b.this)
    return False
