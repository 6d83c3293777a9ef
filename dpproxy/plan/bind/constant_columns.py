"""Columns of bare constants (`NULL`, `'2024-01-01'`) take the type of the columns a set operation combines them with.

Knows: relations that are projections of constants, alone or in set operations. Must not know: where rows come from. PostgreSQL
resolves a quoted constant or NULL of a UNION's branch by the other branch; on its own it is text, which is what a derived
table makes of it. Here the branch is already bound, so its text constants are read once more, as the other's type.
"""

from __future__ import annotations

from dataclasses import replace

from dpproxy.errors import DATATYPE_MISMATCH, Refusal
from dpproxy.plan.bind.results import RowsResult
from dpproxy.plan.functions.operators import NotPlain, coerce, same_kind
from dpproxy.plan.properties.facts import facts
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import Column, Expr, Lit, Ref, Relation, has_subquery, references
from dpproxy.tree.relation import Distinct, Filter, Project, Union, Values


def with_common_types(left: RowsResult, right: RowsResult, what: str) -> tuple[RowsResult, RowsResult]:
    """Both sides with columns that can be combined pairwise. Raises Refusal 42804 for types that cannot be matched."""
    for i in range(len(left.columns)):
        a, b = left.columns[i], right.columns[i]
        if same_kind(a.type, b.type):
            continue
        left_read, right_read = _read(left, i, b), _read(right, i, a)
        if left_read is None and right_read is None:
            raise Refusal(DATATYPE_MISMATCH, f"{what} types {a.type} and {b.type} cannot be matched")
        left, right = (left_read, right) if left_read is not None else (left, right_read or right)
    return left, right


def _read(result: RowsResult, index: int, like: Column) -> RowsResult | None:
    column = result.columns[index]
    try:
        found = _retyped(result.rows.node, column, like)
    except NotPlain as constant:
        raise Refusal(DATATYPE_MISMATCH, f"write the constant '{constant.text}' with its type: {like.type} '...'") from None
    if found is None:
        return None
    node, made = found
    rows = result.rows.rewritten(node, result.rows.conditions, result.rows.unit)
    return replace(result, rows=rows, columns=tuple(made if c.id == column.id else c for c in result.columns))


def _retyped(node: Relation, column: Column, like: Column) -> tuple[Relation, Column] | None:
    """`node` with the column read as the type of `like`, and that column; None where it is not of bare constants."""
    at = next((i for i, c in enumerate(node.columns) if c.id == column.id), None)
    if at is None:
        return None
    match node:
        case Project(items=items, child=child) if at < len(items):
            item = items[at]
            if isinstance(item, Lit):
                value = _value(item, like)
                made = _column(column, like, [value] if value is not None else [])
                return None if value is None else (_with(node, at, made, items=_put(items, at, value)), made)
            inner = _retyped(child, item.column, like) if isinstance(item, Ref) and _plain(items) else None
            if inner is None:
                return None
            made = replace(inner[1], id=column.id, name=column.name)
            return _with(node, at, made, items=_put(items, at, Ref(made.type, inner[1])), child=inner[0]), made
        case Filter(child=child, condition=condition) if column not in references(condition) and not has_subquery(condition):
            inner = _retyped(child, column, like)
            return None if inner is None else (_with(node, at, inner[1], child=inner[0]), inner[1])
        case Distinct(child=child) if child.columns[at].id == column.id:
            inner = _retyped(child, column, like)
            return None if inner is None else (_with(node, at, inner[1], child=inner[0]), inner[1])
        case Union(children=children):
            parts = [_retyped(child, child.columns[at], like) for child in children]
            known = [p for p in parts if p is not None]
            if len(known) < len(parts):
                return None
            made = replace(
                known[0][1], id=column.id, name=column.name, bound=like.bound, limited=like.limited, grid=None, nullable=True
            )
            return _with(node, at, made, children=tuple(p[0] for p in known)), made
        case Values(rows=rows):
            values = [_value(row[at], like) for row in rows]
            read = [v for v in values if v is not None]
            if len(read) < len(values):
                return None
            made = _column(column, like, read)
            return _with(node, at, made, rows=tuple(_put(r, at, v) for r, v in zip(rows, read, strict=True))), made
    return None


def _value(item: Expr, like: Column) -> Expr | None:
    if not isinstance(item, Lit) or item.type not in ("text", "unknown"):
        return None
    return coerce(Lit("unknown", item.text), like.type)


def _column(column: Column, like: Column, values: list[Expr]) -> Column:
    known = [facts(v) for v in values if not (isinstance(v, Lit) and v.text is None)]
    bound, grid = (iv.hull([f.bound for f in known]), None) if known else (like.bound, like.grid)
    limited = None if known else like.limited
    return replace(column, type=like.type, bound=bound, limited=limited, grid=grid, domain=None, nullable=True, made=None)


def _plain(items: tuple[Expr, ...]) -> bool:
    """Nothing is computed of the columns below."""
    return all(isinstance(item, Ref | Lit) for item in items)


def _put(items: tuple[Expr, ...], at: int, value: Expr) -> tuple[Expr, ...]:
    return (*items[:at], value, *items[at + 1 :])


def _with(node: Relation, at: int, column: Column, **changes: object) -> Relation:
    return replace(node, columns=(*node.columns[:at], column, *node.columns[at + 1 :]), **changes)
