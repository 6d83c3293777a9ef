"""Groups of units that are made of a part of the rows: before a join with what a unit has once, and of each branch of a union.

Knows: relations, an engine's spelling. Must not know: bounds, what groups add. Both ways make the groups that all rows would
make, whatever the data: rows of the other side of a join are counted, and what a unit has is taken as often. So nothing rests
on a unit's having one row there; it is only what makes it pay, since a join of every row costs about what grouping it does.

    orders JOIN users USING (user_id), by region and month    ->    orders by user and month, JOIN users by user and region
    orders 'a' UNION ALL visits 'b', by letter                ->    orders by user, 'a' UNION ALL visits by user, 'b'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dpproxy.engines.base import Engine
from dpproxy.engines.relations import Block, Renderer
from dpproxy.engines.row_texts import RowTexts
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Call, Column, Expr, Lit, Ref, Relation, has_subquery, references
from dpproxy.tree.measured import Added, Counted, MeasuredRows, RowValue, UnitGroups
from dpproxy.tree.relation import Filter, Join, Project, Scan, Union


def totals(texts: RowTexts, node: UnitGroups, engine: Engine) -> list[str]:
    """Write what a unit has in a group, as n0, t0, ..., of rows that `texts` selects."""
    columns = [texts.values[total.index] for total in node.totals]
    return [_total(t, column, columns.count(column) > 1, engine) for t, column in zip(node.totals, columns, strict=True)]


def _total(total: Counted | Added, column: str, shared: bool, engine: Engine) -> str:
    if isinstance(total, Counted):
        return f"count({column}) AS {_name(total)}"
    return f"{engine.unit_total(column, total.lo, total.hi, total.shift, shared=shared)} AS {_name(total)}"


def _name(total: Counted | Added) -> str:
    return f"n{total.index}" if isinstance(total, Counted) else f"t{total.index}"


def stages(node: UnitGroups, renderer: Renderer) -> list[str] | None:
    """Write `g`, the groups of units, and what it is made of; None where it is to be made of all rows at once."""
    conditions, child = _filtered(node.rows.child)
    values = node.rows.values
    if not node.totals or not all(value is None or isinstance(value, RowValue) for value in values):
        return None
    if any(map(has_subquery, [*conditions, *node.rows.keys, *_read(node.rows)])):
        return None
    match child:
        case Join(kind="inner", on=Call(op="=", args=(Ref(column=a), Ref(column=b)))) if a.type == b.type:
            sides = ((child.left, child.right), (child.right, child.left))
            found = (_sides(node.rows, conditions, own, other, (a, b)) for own, other in sides)
            split = next((split for split in found if split is not None), None)
            return _before_join(node, child, split, renderer) if split is not None else None
        case Union(op="union all"):
            return _of_branches(node, conditions, child, renderer)
        case _:
            return None


def _filtered(relation: Relation) -> tuple[list[Expr], Relation]:
    """Return the conditions around a relation, the innermost first, and what is in them."""
    if not isinstance(relation, Filter):
        return [], relation
    conditions, child = _filtered(relation.child)
    return [*conditions, relation.condition], child


def _read(rows: MeasuredRows) -> list[Expr]:
    """Return the columns that are read in addition to unit and keys."""
    values = [value for value in rows.values if isinstance(value, RowValue)]
    return [e for value in values for e in (value.value, value.where) if e is not None]


# --- before a join


@dataclass(frozen=True)
class _Split:
    """The rows to group, with all that is read of them but for the keys of the `other` side, which `is` joined by one column."""

    own: MeasuredRows
    other: MeasuredRows
    keys: tuple[bool, ...]
    """Of each key whether it is of the own side."""


def _sides(
    rows: MeasuredRows, conditions: Sequence[Expr], own: Relation, other: Relation, joined: tuple[Column, Column]
) -> _Split | None:
    """Return how the rows are split, where only keys are read of the other side, and it is likely to have each unit once: that it
    has other rows costs time."""
    mine = {column.id for column in own.columns}
    here, there = joined if joined[0].id in mine else joined[::-1]
    once = isinstance(other, Scan) and there.id not in mine and there.constant
    if not once or here.id not in mine or rows.unit.id not in (here.id, there.id):
        return None
    others = [e for e in conditions if e not in (_filled(here), _filled(there))]  # both are where they are equal
    if not all(_within(mine, e) for e in [*others, *_read(rows)]):
        return None
    theirs = {column.id for column in other.columns}
    if not all(_within(mine, key) or _within(theirs, key) for key in rows.keys):
        return None
    ours = tuple(_within(mine, key) for key in rows.keys)
    for condition in [*others, _filled(here)]:
        own = Filter(own.columns, own, condition)
    first = replace(rows, child=own, unit=here, keys=_where(rows.keys, ours))
    return _Split(first, MeasuredRows(other, there, _where(rows.keys, [not is_ours for is_ours in ours])), ours)


def _filled(column: Column) -> Expr:
    return Call("bool", "is_not_null", (Ref(column.type, column),))


def _within(columns: set[int], expr: Expr) -> bool:
    return all(column.id in columns for column in references(expr))


def _where(keys: Iterable[Expr], chosen: Iterable[bool]) -> tuple[Expr, ...]:
    return tuple(key for key, is_chosen in zip(keys, chosen, strict=True) if is_chosen)


def _before_join(node: UnitGroups, join: Join, split: _Split, renderer: Renderer) -> list[str]:
    engine = renderer.engine
    own = RowTexts(renderer, renderer.block(split.own.child), split.own)
    other = RowTexts(renderer, renderer.block(split.other.child), split.other)
    rows, units = own.with_units(), other.with_units()
    first = ["u", *(f"k{i}" for i in range(len(split.own.keys)))]
    second = ["u", *(f"k{i}" for i in range(len(split.other.keys)))]
    numbers = {True: iter(range(len(first))), False: iter(range(len(second)))}
    keys = [f"{'e' if is_own else 'b'}.k{next(numbers[is_own])} AS k{i}" for i, is_own in enumerate(split.keys)]
    repeated = [f"{engine.repeated(f'e.{_name(t)}', 'b.many', t)} AS {_name(t)}" for t in node.totals]
    assert join.on is not None
    found = f"SELECT {', '.join(second)}, count(*) AS many FROM ({units}) AS v GROUP BY {', '.join(second)}"
    on = renderer.expr(join.on, {split.own.unit.id: "e.u", split.other.unit.id: "b.u"})
    return [
        f"r AS ({rows})",
        f"e AS (SELECT {', '.join([*first, *totals(own, node, engine)])} FROM r GROUP BY {', '.join(first)})",
        f"b AS{engine.words.once} ({found})",
        f"g AS (SELECT {', '.join(['e.u', *keys, *repeated])} FROM e JOIN b ON {on})",
    ]


# --- of branches


def _of_branches(node: UnitGroups, conditions: Sequence[Expr], union: Union, renderer: Renderer) -> list[str] | None:
    """Each branch is grouped by unit, where all its rows have the same keys, and no other branch has these."""
    marks = [tuple(_constant(key, child, union) for key in node.rows.keys) for child in union.children]
    if not node.rows.keys or None in {mark for branch in marks for mark in branch} or len(set(marks)) < len(marks):
        return None
    if not all(_as_it_is(c, o) for child in union.children for c, o in zip(child.columns, union.columns, strict=True)):
        return None
    branches = []
    for child in union.children:
        block = renderer.block(child)
        names = {o.id: block.names[c.id] for c, o in zip(child.columns, union.columns, strict=True)}
        where = (*block.where, *(renderer.expr(condition, names) for condition in conditions))
        branches.append(_branch(node, Block(block.source, names, where, block.joined), renderer))
    return [f"g AS ({' UNION ALL '.join(branches)})"]


def _branch(node: UnitGroups, block: Block, renderer: Renderer) -> str:
    texts = RowTexts(renderer, block, replace(node.rows, keys=()))
    rows = texts.with_units()
    keys = [f"{renderer.key(key, block.names)} AS k{i}" for i, key in enumerate(node.rows.keys)]
    return f"SELECT {', '.join(['u', *keys, *totals(texts, node, renderer.engine)])} FROM ({rows}) AS r GROUP BY u"


def _as_it_is(column: Column, output: Column) -> bool:
    return (column.type, column.exact) == (output.type, output.exact)


def _constant(key: Expr, child: Relation, union: Union) -> str | None:
    """Return the text that a key is in all rows of a branch, without blanks at its end: texts of fixed length that differ by
    these alone are one group. None for another key."""
    places = {column.id: i for i, column in enumerate(union.columns)}
    if not isinstance(key, Ref) or key.type not in TEXTS or key.column.id not in places:
        return None
    expr: Expr = Ref(key.type, child.columns[places[key.column.id]])
    while isinstance(expr, Ref) and isinstance(child, Project):
        made = dict(zip((c.id for c in child.columns), child.items, strict=False))
        expr, child = made.get(expr.column.id, expr), child.child
    return expr.text.rstrip(" ") if isinstance(expr, Lit) and expr.type in TEXTS and expr.text is not None else None
