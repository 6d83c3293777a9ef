"""GROUP BY with ROLLUP, CUBE and GROUPING SETS as the list of sets PostgreSQL expands it to.

Knows: sqlglot's grouping nodes. Must not know: measurements. The elements of GROUP BY multiply: `a, ROLLUP (b, c)` is
(a, b, c), (a, b), (a).
"""

from __future__ import annotations

import math
from itertools import combinations, product

from sqlglot import exp

from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.sql.dialect import position

MAX_SETS = 64  # each may be a measurement of its own; CUBE of 6 keys
GroupingSet = tuple[exp.Expr, ...]


def grouping_sets(select: exp.Select) -> list[GroupingSet]:
    """Return the sets of key expressions, in PostgreSQL's order. Without GROUP BY: one empty set."""
    group = select.args.get("group")
    if group is None:
        return [()]
    items = _items(group)
    if math.prod(map(_number, items)) > MAX_SETS:  # counted first: CUBE of 24 keys has 16 million sets
        raise Refusal(
            STATEMENT_TOO_COMPLEX,
            f"GROUP BY has more than {MAX_SETS} grouping sets",
            position(group),
            hint="Ask for some of them in a statement of their own.",
        )
    elements = [_element(item) for item in items]
    return [tuple(key for part in parts for key in part) for parts in product(*elements)]


def _items(group: exp.Expr) -> list[exp.Expr]:
    items = list(group.expressions)
    for key in ("rollup", "cube", "grouping_sets"):
        value = group.args.get(key)
        items += value if isinstance(value, list) else []
    return items


def _number(item: exp.Expr) -> int:
    """How many sets `_element` will return."""
    if isinstance(item, exp.Rollup):
        return len(item.expressions) + 1
    if isinstance(item, exp.Cube):
        return 1 << len(item.expressions)
    return sum(map(_number, item.expressions)) if isinstance(item, exp.GroupingSets) else 1


def _element(item: exp.Expr) -> list[GroupingSet]:
    if isinstance(item, exp.Rollup):
        parts = [_composite(e) for e in item.expressions]
        return [tuple(k for part in parts[:n] for k in part) for n in range(len(parts), -1, -1)]
    if isinstance(item, exp.Cube):
        parts = [_composite(e) for e in item.expressions]
        return [tuple(k for part in chosen for k in part) for n in range(len(parts), -1, -1) for chosen in combinations(parts, n)]
    if isinstance(item, exp.GroupingSets):
        return [found for e in item.expressions for found in _element(e)]
    return [_composite(item)]


def _composite(item: exp.Expr) -> GroupingSet:
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    if isinstance(item, exp.Paren):
        return _composite(item.this)
    return (item,)


# Queries that return no row whatever the data: BI tools send them to learn column types.
#
# Knows: sqlglot trees. Must not know: policies. `plan.pipeline` asks before it binds: such a query goes to the facade as it is,
# at no charge, since the empty tables there give the same (empty) answer as the data would. Only what is certain from the text
# counts; a doubt means no.


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
