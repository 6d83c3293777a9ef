"""A SELECT with GROUP BY over a subquery that its FROM, WHERE and keys have moved into.

Knows: trees. Must not know: why they are moved. Aggregates of rows that are prepared first, one of each person and group or once
of each key, need the preparation in a subquery; what the SELECT returns, and under which names, stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpproxy.sql.dialect import copied, ident, to_sql
from dpproxy.sql.output_names import output_name


def group_keys(select: exp.Select) -> list[exp.Expr] | None:
    """Return what GROUP BY groups by, written out; None for grouping sets."""
    group = select.args.get("group")
    if group is None:
        return []
    sets = any(isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple) for key in group.expressions)
    if sets or any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets", "all", "totals")):
        return None
    outputs = {ident(e.args["alias"]): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    found = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and key.name.isdigit() and 1 <= int(key.name) <= len(select.expressions):
            key = select.expressions[int(key.name) - 1].unalias()
        elif isinstance(key, exp.Column) and not key.args.get("table"):
            key = outputs.get(ident(key.this), key)
        found.append(copied(key))
    return found


def regrouped(select: exp.Select, keys: Sequence[exp.Expr], inner: exp.Select, alias: str) -> None:
    """Put a SELECT over `inner`, whose outputs `k0`, `k1` ... are its keys; its aggregates are over `inner` already."""
    outputs = frozenset(e.alias for e in select.expressions if e.alias)
    items = [(e.alias or output_name(e), _outside(e.unalias(), keys, alias)) for e in select.expressions]
    select.set("expressions", [exp.alias_(item, name, quoted=True) for name, item in items])
    having, order = select.args.get("having"), select.args.get("order")
    terms = [o.this if isinstance(o, exp.Ordered) else o for o in order.expressions] if order is not None else []
    for node in [*([having.this] if having is not None else []), *terms]:
        if not (isinstance(node, exp.Column) and not node.args.get("table") and ident(node.this) in outputs):
            changed = _outside(node, keys, alias)
            if changed is not node:
                node.replace(changed)
    names = [exp.column(f"k{i}", table=alias) for i in range(len(keys))]
    select.set("group", exp.Group(expressions=names) if names else None)
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(alias)))))


def _outside(node: exp.Expr, keys: Sequence[exp.Expr], alias: str) -> exp.Expr:
    for i, key in enumerate(keys):
        if _same(node, key, alias):
            return exp.column(f"k{i}", table=alias)
    for child in list(node.iter_expressions()):
        changed = _outside(child, keys, alias)
        if changed is not child:
            child.replace(changed)
    return node


def _same(node: exp.Expr, key: exp.Expr, alias: str) -> bool:
    if isinstance(node, exp.Column) and isinstance(key, exp.Column) and ident(node.args.get("table")) != alias:
        tables = {ident(node.args.get("table")), ident(key.args.get("table"))} - {""}
        return ident(node.this) == ident(key.this) and len(tables) <= 1
    return to_sql(node) == to_sql(key)
