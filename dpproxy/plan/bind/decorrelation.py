"""Correlated subqueries over private rows, as one grouped query that is measured for all values of the outer columns at once.

Knows: sqlglot trees, marks of outer columns (`sql.capture`). Must not know: privacy types, engines. A reference to a released
query around a subquery over public or released rows is the facade's business: it only has to survive the rewriting of both. A
subquery over private rows with `inner = outer` conditions is measured once for all values of `inner`, and the outer query looks
up its value: `(SELECT count(*) FROM orders o WHERE o.region = r.region)` becomes a measurement by `o.region`. It is no rule of
`rewrite`: `queries` and `subqueries` call it while they bind, since only binding knows what the query around reads.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.sql.capture import refers, sides
from dpproxy.sql.dialect import copied
from dpproxy.sql.trees import contains_aggregate, sources_of

Pairs = list[tuple[exp.Expr, exp.Expr]]
"""(inner side, outer side) of equalities."""


def decorrelated(query: exp.Expr) -> exp.Expr | None:
    """Write `SELECT agg FROM ... WHERE inner = outer AND rest` as `SELECT agg FROM ... WHERE rest GROUP BY inner HAVING inner =
    outer`.

    None when it has another form. A group that is not there would be no row, and NULL: a count of nothing is 0.
    """
    parts = _parted(query)
    if parts is None:
        return None
    made, pairs = _grouped(*parts), parts[1]
    tests = [exp.EQ(this=copied(own), expression=copied(other)) for own, other in pairs]
    made.set("having", exp.Having(this=exp.and_(*tests, copy=False)))
    return made


def lookup(query: exp.Expr) -> tuple[exp.Select, Pairs] | None:
    """Write `SELECT agg FROM ... WHERE inner = outer AND rest` as `SELECT agg, inner FROM ... WHERE rest GROUP BY inner`.

    With it the pairs; None when it has another form, or no pair.
    """
    parts = _parted(query)
    if parts is None or not parts[1]:
        return None
    made = _grouped(*parts)
    keys = [exp.alias_(copied(own), f"dpproxy_k{i}", quoted=True) for i, (own, _) in enumerate(parts[1])]
    value = exp.alias_(made.expressions[0].unalias(), "dpproxy_value", quoted=True)
    made.set("expressions", [value, *keys])
    return made, parts[1]


def _parted(query: exp.Expr) -> tuple[exp.Select, Pairs, list[exp.Expr]] | None:
    """The aggregate query, its `inner = outer` conditions, and the others, which refer to nothing around it."""
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1 or inner.args.get("where") is None:
        return None
    if any(inner.args.get(k) for k in ("group", "having", "distinct", "limit", "offset", "with_", "windows")):
        return None
    projection = inner.expressions[0].unalias()
    if not contains_aggregate(projection) or refers(projection) or any(map(refers, sources_of(inner))):
        return None
    if any(join.args.get("on") is not None and refers(join.args["on"]) for join in inner.args.get("joins") or ()):
        return None
    where = inner.args["where"].this
    parts = [p.unnest() for p in (where.flatten() if isinstance(where, exp.And) else [where])]
    pairs, rest = [], []
    for part in parts:
        if not refers(part):
            rest.append(part)
        elif (pair := sides(part)) is not None:
            pairs.append(pair)
        else:
            return None
    return inner, pairs, rest


def _grouped(inner: exp.Select, pairs: Pairs, rest: list[exp.Expr]) -> exp.Select:
    made = copied(inner)
    made.set("where", exp.Where(this=exp.and_(*map(copied, rest), copy=False)) if rest else None)
    made.set("group", exp.Group(expressions=[copied(own) for own, _ in pairs]))
    made.set("order", None)
    return made
