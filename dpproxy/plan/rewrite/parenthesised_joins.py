"""A rule: joins in parentheses, written from left to right.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines. Tools and old views write
`(a JOIN b ON p) JOIN (c JOIN d ON q) ON r`. The first parentheses say nothing; those on the right of an inner join of inner
joins are `a JOIN b ON p CROSS JOIN c JOIN d ON q AND r`; `a LEFT JOIN (c JOIN d ON q) ON r` is `c JOIN d ON q RIGHT JOIN a ON r`.
What is left in parentheses is refused where private rows are joined: an alias hides the names inside, USING there means
columns that only the tables know.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.dialect import copied
from dpproxy.sql.nodes import every


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such joins without their parentheses; whether there were any.

    Before: `SELECT count(*) FROM a JOIN (c JOIN d ON q) ON r`
    After: `SELECT count(*) FROM a CROSS JOIN c JOIN d ON (q) AND (r)`
    """
    found = False
    for select in every(tree, exp.Select):
        while _first(select) or _right(select) or _optional(select):
            found = True
    return found


def _inside(item: exp.Expr) -> tuple[exp.Expr, list[exp.Join]] | None:
    """What stands in parentheses that are no query and have no name: its first item, and its joins."""
    if isinstance(item, exp.Table | exp.Subquery) and item.args.get("joins"):  # a JOIN b JOIN c ON q ON r: without parentheses
        first = copied(item)
        first.set("joins", None)
        return first, [copied(j) for j in item.args["joins"]]
    if (
        not isinstance(item, exp.Subquery)
        or item.args.get("alias") is not None
        or not isinstance(item.this, exp.Table | exp.Subquery)
    ):
        return None
    first = copied(item.this)
    joins = [copied(j) for j in first.args.get("joins") or ()]
    first.set("joins", None)
    return first, joins


def _first(select: exp.Select) -> bool:
    clause = select.args.get("from_")
    inside = _inside(clause.this) if clause is not None else None
    if clause is None or inside is None:
        return False
    clause.set("this", inside[0])
    select.set("joins", [*inside[1], *(select.args.get("joins") or ())] or None)
    return True


def _right(select: exp.Select) -> bool:
    """The first join whose right side is inner joins in parentheses, flattened."""
    joins = select.args.get("joins") or []
    for at, join in enumerate(joins):
        inside = _inside(join.this)
        if inside is None or not (_inner(join) or not inside[1]):
            continue
        first, more = inside
        if not more:
            join.set("this", first)
            return True
        if join.args.get("using") or join.method or not all(_inner(j) and not j.method for j in more):
            continue
        on, last = join.args.get("on"), more[-1]
        if on is not None and last.args.get("using"):
            continue
        if on is not None:
            mine = last.args.get("on")
            last.set("on", copied(on) if mine is None else exp.and_(exp.paren(mine), exp.paren(copied(on)), copy=False))
            last.set("kind", None)
        select.set("joins", [*joins[:at], exp.Join(this=first, kind="CROSS"), *more, *joins[at + 1 :]])
        return True
    return False


def _optional(select: exp.Select) -> bool:
    """`a LEFT JOIN (...) ON r` as the first join, turned round; not under a star, whose columns would change places."""
    joins = select.args.get("joins") or []
    inside = _inside(joins[0].this) if joins and (joins[0].side or "").upper() == "LEFT" else None
    if inside is None or joins[0].method or any(e.is_star for e in select.expressions):
        return False
    clause = select.args["from_"]
    turned = exp.Join(this=clause.this, side="RIGHT", **{k: joins[0].args.get(k) for k in ("on", "using")})
    clause.set("this", inside[0])
    select.set("joins", [*inside[1], turned, *joins[1:]])
    return True


def _inner(join: exp.Join) -> bool:
    return not join.side and (join.kind or "").upper() in ("", "INNER", "CROSS")
