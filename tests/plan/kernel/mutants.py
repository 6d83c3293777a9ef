"""Plans corrupted as a bug of the planner could: a filter dropped, a clamp widened, a side swapped, a NULL forgotten.

Knows: the types of the tree. Must not know: what the kernel makes of them. An operator takes a node and yields others to stand in its
place, each under the operator's name; `mutants` tries every operator at every place of a tree, subqueries included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from dpproxy.plan.logical.expr import TRUE, Call, Column, Expr, InQuery, Lit, Ref, Relation, Win, conjunction, conjuncts
from dpproxy.plan.logical.measured import (
    Added,
    Buckets,
    Contributions,
    CountCut,
    Declared,
    DistinctCount,
    DistinctSum,
    Filled,
    Fresh,
    MeasuredRows,
    Node,
    One,
    Picked,
    RowCount,
    RowValue,
    Scaled,
    ShareCut,
    Sums,
    TotalCut,
    UnitGroups,
)
from dpproxy.plan.logical.relation import Aggregate, Distinct, Filter, Join, Project, Union, Values

Changed = Iterator[tuple[str, Any]]
TREE = (Node, Relation, Expr, Declared, RowValue)


def mutants(tree: Any) -> Changed:
    """Yield (operator, tree) for every operator at every place of the tree."""
    yield from operators(tree)
    yield from _below(tree)


def _below(node: Any) -> Changed:
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "columns" and isinstance(node, Relation):
            continue
        for name, changed in _within(value):
            yield name, replace(node, **{field.name: changed})


def _within(value: Any) -> Changed:
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            for name, changed in _within(part):
                yield name, (*value[:i], changed, *value[i + 1 :])
    elif is_dataclass(value) and not isinstance(value, Column | type) and (isinstance(value, TREE) or _is_node(value)):
        yield from mutants(value)


def _is_node(value: Any) -> bool:
    return type(value).__module__.startswith("dpproxy.plan.logical.") and type(value).__name__ not in ("ValuesDomain", "Interval")


def operators(node: Any) -> Changed:
    for kind, operator in OPERATORS:
        if isinstance(node, kind):
            yield from operator(node)


# --- bounding


def _picked(node: Picked) -> Changed:
    yield "groups unpicked", node.child
    yield "more groups picked", replace(node, most=node.most * 2 + 1)
    yield "groups picked with ties", replace(node, order=replace(node.order, keys=node.order.keys[1:]))


def _cut(node: CountCut | ShareCut) -> Changed:
    yield "rows uncut", replace(node, rows=node.rows * 3)
    if isinstance(node, ShareCut):
        yield "a mean cut by another count", replace(node, counter=node.counter + 1 if node.counter == node.index else node.index)
        yield "a mean cut by other bounds", replace(node, lo=node.lo // 2, hi=node.hi // 2)


def _total_cut(node: TotalCut) -> Changed:
    yield "totals uncut", replace(node, lo=node.lo * 3, hi=node.hi * 3)


def _scaled(node: Scaled) -> Changed:
    yield "vectors unscaled", CountCut(node.index, 10**6) if node.kind == "count" else One()
    yield "vectors scaled to more", replace(node, rows=node.rows * 3)
    yield "vectors scaled to another norm", replace(node, norm=3 - node.norm)
    yield "finer parts", replace(node, fine=node.fine * 2)
    yield "other steps", replace(node, steps=node.steps + 1)
    if node.mean:
        yield "a mean scaled by half its rows", replace(node, row=node.row // 2)


def _distinct_total(node: DistinctCount | DistinctSum) -> Changed:
    yield "more distinct values", replace(node, most=node.most * 3)
    if node.norm:
        yield "distinct values of each group", replace(node, norm=0)
        yield "more distinct values in all", replace(node, rows=node.rows * 3)


def _added(node: Added) -> Changed:
    yield "totals about another centre", replace(node, shift=node.shift + 7)
    yield "totals of narrower bounds", replace(node, lo=node.lo // 2, hi=node.hi // 2)


def _row_value(node: RowValue) -> Changed:
    if node.held is not None:
        yield "values unheld", replace(node, held=None)
        yield "values held within more", replace(node, held=replace(node.held, lo=node.held.lo * 3 - 1, hi=node.held.hi * 3 + 1))
    if node.where is not None:
        yield "values of all rows", replace(node, where=None)


def _sums(node: Sums) -> Changed:
    yield "another least number", replace(node, least=1 if node.least > 1 else 3)
    rows = node.child
    while not isinstance(rows, MeasuredRows):
        rows = rows.rows if isinstance(rows, UnitGroups) else rows.child  # type: ignore[assignment]
    if not isinstance(node.child, MeasuredRows):
        yield "no per-unit step", replace(node, child=replace(rows, values=()), totals=tuple(RowCount() for _ in node.totals))


def _rows(node: MeasuredRows) -> Changed:
    for column in node.child.columns:
        if column.id != node.unit.id and column.type == node.unit.type:
            yield "another unit", replace(node, unit=column)
    for i, key in enumerate(node.keys):
        for column in [c for c in node.child.columns if c.type == key.type and c.usable][:3]:
            changed = Ref(column.type, column)
            yield "another key", replace(node, keys=(*node.keys[:i], changed, *node.keys[i + 1 :]))


def _contributions(node: Contributions) -> Changed:
    for i, part in enumerate(node.parts):
        if isinstance(part, TotalCut | ShareCut):
            wide = TotalCut(part.index, -(10**9), 10**9)
            yield "a part of any size", replace(node, parts=(*node.parts[:i], wide, *node.parts[i + 1 :]))


def _filled(node: Filled) -> Changed:
    yield "declared groups not joined", node.child


def _fresh(node: Fresh) -> Changed:
    yield "groups found before", node.child


def _buckets(node: Buckets) -> Changed:
    yield "all values in buckets", replace(node, most=None)
    if node.most is not None:
        yield "more values in buckets", replace(node, most=node.most * 3)
    if node.picked is not None:
        yield "buckets of all groups", replace(node, picked=None)


# --- relations


def _filter(node: Filter) -> Changed:
    yield "filter dropped", node.child
    parts = conjuncts(node.condition)
    for i in range(len(parts) if len(parts) > 1 else 0):
        rest = conjunction((*parts[:i], *parts[i + 1 :]))
        yield "condition dropped", replace(node, condition=rest)


def _join(node: Join) -> Changed:
    parts = conjuncts(node.on)
    for i in range(len(parts)):
        rest = conjunction((*parts[:i], *parts[i + 1 :]))
        kind = node.kind if rest is not None or node.kind != "inner" else "cross"
        yield "join condition dropped", replace(node, on=rest if kind in ("inner", "cross") else rest or TRUE, kind=kind)
    for kind in ("inner", "left", "full"):
        if node.on is not None and kind != node.kind:
            yield f"{node.kind} join made {kind}", replace(node, kind=kind)
    if node.kind == "left":
        yield "sides swapped", replace(node, left=node.right, right=node.left)
    repeated = Values((Column(10**6, "n", "int4"),), tuple((Lit("int4", str(i)),) for i in range(3)))
    yield "rows repeated", Join((*node.columns, *repeated.columns), "cross", node, repeated, None)


def _aggregate(node: Aggregate) -> Changed:
    for i, key in enumerate(node.keys):
        keys = (*node.keys[:i], Lit(key.type, None), *node.keys[i + 1 :])
        yield "a key of groups made constant", replace(node, keys=keys)
    if not node.keys:
        yield "no aggregate", node.child


def _distinct(node: Distinct) -> Changed:
    yield "DISTINCT dropped", node.child


def _union(node: Union) -> Changed:
    if node.op != "union all":
        yield "sides put together", replace(node, op="union all")
    for i, child in enumerate(node.children):
        if isinstance(child, Project):
            for j in range(len(child.items) - 1):
                items = list(child.items)
                items[j], items[-1] = items[-1], items[j]
                changed = replace(child, items=tuple(items))
                yield "columns of a side swapped", replace(node, children=(*node.children[:i], changed, *node.children[i + 1 :]))


# --- expressions


def _call(node: Call) -> Changed:
    yield "an unknown function", replace(node, op="unheard_of")
    if node.op == "=":
        yield "equality weakened", replace(node, op="<=")
        yield "equality with NULL", replace(node, op="is_not_distinct")
        if any(isinstance(a, Lit) and a.text == "1" for a in node.args):
            yield "not only the first", replace(node, op="<=", args=(node.args[0], Lit("int4", "2")))
    if node.op == "is_not_null":
        yield "NULL forgotten", TRUE
    if node.op == "coalesce":
        yield "one side alone", node.args[0]
        yield "the other side alone", node.args[-1]


def _window(node: Win) -> Changed:
    for i in range(len(node.partition)):
        yield "partition widened", replace(node, partition=(*node.partition[:i], *node.partition[i + 1 :]) or (Lit("int4", "1"),))
    yield "order with ties", replace(node, order=node.order[:1])


def _member(node: InQuery) -> Changed:
    for i in range(len(node.args) if len(node.args) > 1 else 0):
        args, columns = (*node.args[:i], *node.args[i + 1 :]), (*node.columns[:i], *node.columns[i + 1 :])
        yield "a pair not compared", replace(node, args=args, columns=columns)


OPERATORS: tuple[tuple[Any, Callable[[Any], Changed]], ...] = (
    (Picked, _picked),
    (CountCut | ShareCut, _cut),
    (TotalCut, _total_cut),
    (Scaled, _scaled),
    (DistinctCount | DistinctSum, _distinct_total),
    (Added, _added),
    (RowValue, _row_value),
    (Sums, _sums),
    (MeasuredRows, _rows),
    (Contributions, _contributions),
    (Filled, _filled),
    (Fresh, _fresh),
    (Buckets, _buckets),
    (Filter, _filter),
    (Join, _join),
    (Aggregate, _aggregate),
    (Distinct, _distinct),
    (Union, _union),
    (Call, _call),
    (Win, _window),
    (InQuery, _member),
)
