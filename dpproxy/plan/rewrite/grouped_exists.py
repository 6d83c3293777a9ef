"""A rule: whether there are such groups, as whether there are rows of a subquery that groups them.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines. `EXISTS (SELECT ... GROUP BY g HAVING h)` over
a person's own rows asks for a group. A group is there where a row is, and with HAVING it is a row of a subquery, which is grouped
by what the condition makes equal to the query around it as well. Aggregates without GROUP BY are one row, whatever there is:
without HAVING it is always there, and HAVING is a value of it. LIMIT of a row or more leaves one.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.capture import OUTER, mark_outer, refers, sides
from dpproxy.sql.dialect import copied
from dpproxy.sql.group_keys import group_keys
from dpproxy.sql.nodes import every
from dpproxy.sql.trees import contains_aggregate

_GROUPS, _KEY = "dpproxy_groups", "dpproxy_k"
_OTHERS = ("offset", "with_", "distinct", "windows", "laterals", "fetch")


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such conditions over rows; whether there were any.

    Before: `SELECT count(*) FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id
    GROUP BY o.status HAVING count(*) > 2)`
    After: `SELECT count(*) FROM customers c WHERE EXISTS (SELECT 1 FROM (SELECT o.customer_id AS dpproxy_k0 FROM orders o
    GROUP BY o.customer_id, o.status HAVING count(*) > 2) dpproxy_groups WHERE dpproxy_groups.dpproxy_k0 = c.customer_id)`
    """
    found = [_rewritten(node, tables) for node in every(tree, exp.Exists)]
    return any(found)


def _rewritten(node: exp.Exists, tables: KnownTables) -> bool:
    query = node.this.unnest() if isinstance(node.this, exp.Subquery) else node.this
    if not isinstance(query, exp.Select) or any(query.args.get(k) for k in _OTHERS):
        return False
    limited, having = _without_limit(query), query.args.get("having")
    if query.args.get("group") is None:
        if having is None and not any(map(contains_aggregate, query.expressions)):
            return limited
        node.replace(_of_one_row(query))
        return True
    if group_keys(query) is None:
        return limited
    if having is None:
        query.set("group", None)
        query.set("expressions", [exp.Literal.number(1)])
        return True
    made = _over_groups(query, tables)
    if made is None:
        return limited
    node.set("this", made)
    return True


def _without_limit(query: exp.Select) -> bool:
    """Leave out LIMIT of a row or more, which is no matter; whether it was there."""
    limit = query.args.get("limit")
    number = limit.expression if isinstance(limit, exp.Limit) else None
    if not isinstance(number, exp.Literal) or not number.name.isdigit() or int(number.name) < 1:
        return False
    query.set("limit", None)
    return True


def _of_one_row(query: exp.Select) -> exp.Expr:
    """Whether the one row of aggregates is there: HAVING is true of it."""
    having = query.args.get("having")
    if having is None:
        return exp.Boolean(this=True)
    query = copied(query)
    query.set("having", None)
    query.set("order", None)
    query.set("expressions", [exp.alias_(copied(having.this), "having")])
    return exp.Paren(this=exp.Is(this=exp.Subquery(this=query), expression=exp.Boolean(this=True)))


def _over_groups(query: exp.Select, tables: KnownTables) -> exp.Select | None:
    """The groups as rows of a subquery, with the equalities to the query around it outside; None where it refers to that query
    otherwise."""
    inner = copied(query)
    mark_outer(inner, tables.columns_of)
    where = inner.args.get("where")
    parts = [p.unnest() for p in (where.this.flatten() if isinstance(where.this, exp.And) else [where.this])] if where else []
    pairs = [pair for p in parts if refers(p) and (pair := sides(p)) is not None]
    rest = [p for p in parts if sides(p) is None]
    keys = group_keys(inner) or []
    inner.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
    outputs = [exp.alias_(copied(own), f"{_KEY}{i}") for i, (own, _) in enumerate(pairs)]
    inner.set("expressions", outputs or [exp.alias_(exp.Literal.number(1), _KEY)])
    inner.set("group", exp.Group(expressions=[*(copied(own) for own, _ in pairs), *keys]))
    inner.set("order", None)
    if refers(inner):
        return None
    tests = [exp.EQ(this=exp.column(f"{_KEY}{i}", table=_GROUPS), expression=copied(other)) for i, (_, other) in enumerate(pairs)]
    for column in (c for test in tests for c in test.find_all(exp.Column)):
        column.meta.pop(OUTER, None)
    source = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_GROUPS)))
    condition = exp.Where(this=exp.and_(*tests, copy=False)) if tests else None
    return exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=source), where=condition)
