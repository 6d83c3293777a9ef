"""Plans corrupted as a bug of the planner could: a filter dropped, a clamp widened, a side swapped, a NULL forgotten, an operand cast,
a constant that rows decide, rows joined with themselves, less claimed.

Knows: the types of the tree, claims. Must not know: what the kernel makes of them. An operator takes a node and yields others to
stand in its place, each under the operator's name; `mutants` tries every operator at every place of a tree, subqueries included;
`everywhere` changes what a whole tree says of a column, or of a stored table; `lesser` changes each part of a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from dpproxy.kernel.allowed import CONSTANT, OPERATIONS
from dpproxy.privacy.measurement import Measurement
from dpproxy.tree.expr import (
    TRUE,
    Agg,
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Expr,
    InQuery,
    Lit,
    Ref,
    Relation,
    Win,
    conjunction,
    conjuncts,
)
from dpproxy.tree.measured import (
    Added,
    Buckets,
    Contributions,
    CountCut,
    Declared,
    DistinctCount,
    DistinctSum,
    Filled,
    Fresh,
    FreshSums,
    MeasuredRows,
    Node,
    One,
    Part,
    Picked,
    RowCount,
    RowValue,
    Scaled,
    ShareCut,
    StoredBuckets,
    StoredGroups,
    StoredSums,
    Sums,
    TotalCut,
    UnitGroups,
    ValueSum,
    contributions_of,
    rows_of,
)
from dpproxy.tree.relation import Aggregate, Distinct, Filter, Join, Project, Union, Values

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
    return type(value).__module__.startswith("dpproxy.tree.") and type(value).__name__ not in ("ValuesDomain", "Interval")


def operators(node: Any) -> Changed:
    for kind, operator in OPERATORS:
        if isinstance(node, kind):
            yield from operator(node)


# --- a whole tree


def everywhere(tree: Any, tables: Iterable[str] = ()) -> Changed:
    """Yield (operator, tree) for columns that a tree takes, wherever they stand, for what they are not, and for stored tables that
    it takes for others."""
    columns = {c.id: c for c in _parts(tree, Column)}
    for column in columns.values():
        other = "float8" if column.type != "float8" else "text"
        yield "a column of another type", _replaced(tree, Column, {column: replace(column, type=other)})
        if column.exact or column.type == "numeric":
            yield "a number of another kind", _replaced(tree, Column, {column: replace(column, exact="")})
        for same in [c for c in columns.values() if c.id != column.id and c.type == column.type][:3]:
            yield "two columns of one number", _replaced(tree, Column, {column: replace(column, id=same.id)})
    read = {node.table for node in _parts(tree, StoredGroups | StoredSums | FreshSums | StoredBuckets)}
    for name, other in ((name, other) for name in read for other in tables if other != name):
        yield "another stored table", _replaced(tree, str, {name: other})


def _parts(value: Any, kind: Any) -> Iterator[Any]:
    if isinstance(value, kind):
        yield value
    if isinstance(value, tuple):
        for part in value:
            yield from _parts(part, kind)
    elif is_dataclass(value) and not isinstance(value, Column):
        for field in fields(value):
            yield from _parts(getattr(value, field.name), kind)


def _replaced(value: Any, kind: type, others: Mapping[Any, Any]) -> Any:
    """The tree with columns replaced by their numbers, and other parts by what they equal."""
    if isinstance(value, kind):
        found = {(c.id if isinstance(c, Column) else c): other for c, other in others.items()}
        other = found.get(value.id if isinstance(value, Column) else value)
        return other if other is not None else value
    if isinstance(value, tuple):
        return tuple(_replaced(part, kind, others) for part in value)
    if is_dataclass(value) and not isinstance(value, Column | type):
        return replace(value, **{f.name: _replaced(getattr(value, f.name), kind, others) for f in fields(value)})
    return value


# --- bounding


def _picked(node: Picked) -> Changed:
    yield "groups unpicked", node.child
    yield "more groups picked", replace(node, most=node.most * 2 + 1)
    yield "groups picked with ties", replace(node, order=replace(node.order, keys=node.order.keys[1:]))


def _cut(node: CountCut | ShareCut) -> Changed:
    yield "rows uncut", replace(node, rows=node.rows * 3)
    yield "rows cut to less than none", replace(node, rows=-node.rows)
    if isinstance(node, ShareCut):
        yield "a mean cut by another count", replace(node, counter=node.counter + 1 if node.counter == node.index else node.index)
        yield "a mean cut by other bounds", replace(node, lo=node.lo // 2, hi=node.hi // 2)


def _total_cut(node: TotalCut) -> Changed:
    yield "totals uncut", replace(node, lo=node.lo * 3, hi=node.hi * 3)


def _scaled(node: Scaled) -> Changed:
    yield "vectors unscaled", CountCut(node.index, 10**6) if node.kind == "count" else One()
    yield "vectors scaled to more", replace(node, rows=node.rows * 3)
    yield "vectors scaled to another norm", replace(node, norm=3 - node.norm)
    yield "vectors scaled to less than nothing", replace(node, row=-node.row)
    yield "finer parts", replace(node, fine=node.fine * 2)
    yield "other steps", replace(node, steps=node.steps + 1)
    if node.mean:
        yield "a mean scaled by half its rows", replace(node, row=node.row // 2)


def _distinct_total(node: DistinctCount | DistinctSum) -> Changed:
    yield "more distinct values", replace(node, most=node.most * 3)
    if node.norm:
        yield "distinct values of each group", replace(node, norm=0)
        yield "more distinct values in all", replace(node, rows=node.rows * 3)


FAR = 2**62
"""Two of such numbers do not fit 64 bits."""


def _added(node: Added) -> Changed:
    yield "totals about another centre", replace(node, shift=node.shift + 7)
    for far in (FAR, -FAR):  # bounds that fit
        yield "totals about a far centre", replace(node, lo=node.lo - far, hi=node.hi - far, shift=node.shift + far)
    yield "totals of narrower bounds", replace(node, lo=node.lo // 2, hi=node.hi // 2)


def _value_sum(node: ValueSum) -> Changed:
    for far in (FAR, -FAR):
        yield "sums about a far centre", replace(node, shift=node.shift + far)


def _row_value(node: RowValue) -> Changed:
    if node.held is not None:
        yield "values unheld", replace(node, held=None)
        yield "values held within more", replace(node, held=replace(node.held, lo=node.held.lo * 3 - 1, hi=node.held.hi * 3 + 1))
    if node.where is not None:
        yield "values of all rows", replace(node, where=None)


def _sums(node: Sums) -> Changed:
    yield "another least number", replace(node, least=1 if node.least > 1 else 3)
    if not isinstance(node.child, MeasuredRows):
        rows = replace(rows_of(node), values=())
        yield "no per-unit step", replace(node, child=rows, totals=tuple(RowCount() for _ in node.totals))


def _rows(node: MeasuredRows) -> Changed:
    for column in node.child.columns:
        if column.id != node.unit.id and column.type == node.unit.type:
            yield "another unit", replace(node, unit=column)
    for i, key in enumerate(node.keys):
        for column in [c for c in node.child.columns if c.type == key.type][:3]:
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


# --- stored tables


def _stored(node: StoredGroups | StoredSums) -> Changed:
    """Keys of the definition, and values or sums, by number."""
    made = rows_of(node.definition)
    for i, key in enumerate(node.keys):
        yield "a stored key left out", replace(node, keys=(*node.keys[:i], *node.keys[i + 1 :]))
        yield "another stored key", replace(node, keys=(*node.keys[:i], (key + 1) % len(made.keys), *node.keys[i + 1 :]))
        yield "a stored key twice", replace(node, keys=(*node.keys, key))


def _stored_groups(node: StoredGroups) -> Changed:
    yield "stored groups not added up" if node.summed else "stored groups added up", replace(node, summed=not node.summed)
    for i, value in enumerate(node.values):
        other = (value + 1) % len(node.definition.rows.values)
        yield "another stored value", replace(node, values=(*node.values[:i], other, *node.values[i + 1 :]))
    yield "stored totals of less", replace(node, definition=_halved(node.definition))


def _halved(groups: UnitGroups) -> UnitGroups:
    totals = (replace(t, lo=t.lo // 2, hi=t.hi // 2) if isinstance(t, Added) else t for t in groups.totals)
    return replace(groups, totals=tuple(totals))


def _stored_sums(node: StoredSums) -> Changed:
    made = node.made
    for i, column in enumerate(node.columns):
        if column is not None:
            other = (column + 1) % len(made.totals)
            yield "another stored sum", replace(node, columns=(*node.columns[:i], other, *node.columns[i + 1 :]))
    yield "stored groups of more units", replace(node, least=node.least + 1)
    child = made.child
    if isinstance(child, Picked):
        yield "stored picks taken for all", _with_sums(node, replace(made, child=child.child))
        yield "stored picks taken for fewer", _with_sums(node, replace(made, child=replace(child, most=1)))
    parts = contributions_of(made).parts
    cut = (replace(p, rows=1) if isinstance(p, CountCut | ShareCut | Scaled) else p for p in parts)
    yield "stored sums taken for less", _with_sums(node, _with_parts(made, tuple(cut)))


def _with_sums(node: StoredSums, sums: Any) -> StoredSums:
    return replace(node, definition=replace(node.definition, child=sums))


def _with_parts(sums: Sums, parts: tuple[Part | None, ...]) -> Sums:
    child = sums.child
    if isinstance(child, Picked) and isinstance(child.child, Contributions):
        return replace(sums, child=replace(child, child=replace(child.child, parts=parts)))
    return replace(sums, child=replace(child, parts=parts)) if isinstance(child, Contributions) else sums


def _fresh_sums(node: FreshSums) -> Changed:
    weight = node.weight
    yield "a weight of more", replace(node, weight=replace(weight, kind="units"))
    yield "a weight of what was found", replace(node, weight=replace(weight, fresh=False))
    yield "a weight in finer parts", replace(node, weight=replace(weight, fine=weight.fine * 2))
    yield "weights in an order with ties", replace(node, order=replace(node.order, keys=node.order.keys[1:]))
    yield "a weight over other groups", replace(node, table=node.child.table, definition=node.child.definition)
    for i, column in enumerate(node.child.columns):
        if column is not None:
            yield "a weight for a sum", replace(node, weight=replace(weight, index=i, counter=i))


def _stored_buckets(node: StoredBuckets) -> Changed:
    made = node.definition.child
    assert isinstance(made, Buckets)
    yield "stored buckets taken for fewer values", replace(node, definition=replace(node.definition, child=replace(made, most=1)))


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
    for kind in ("inner", "left", "full", "cross"):
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


def _same_arity(node: Call) -> Changed:
    """Another operation, or a result of another type."""
    known = sorted(OPERATIONS)
    at = known.index(node.op) if node.op in known else 0
    for step in (1, 17, 41):
        yield "another operation", replace(node, op=known[(at + step * len(node.args)) % len(known)])
    for op in _CONFUSED.get(node.op, ()):
        yield "an operation that an engine casts for", replace(node, op=op)
    yield "a result of another type", replace(node, type=_OTHER_TYPE.get(node.type, "int4"))


_CONFUSED = {
    "%": ("concat", "repeat", "bitand"), "+": ("concat", "bitor"), "-": ("date_sub", "%"), "*": ("repeat", "power"),
    "=": ("nullif", "like", "is_distinct"), "<": ("starts_with", "+"), ">": ("strpos", "-"), ">=": ("coalesce", "least"),
    "and": ("concat", "coalesce"), "or": ("greatest",), "concat": ("+", "replace"), "length": ("abs", "year"),
}  # fmt: skip
_OTHER_TYPE = {
    "bool": "text",
    "text": "int4",
    "int4": "int2",
    "int8": "int4",
    "numeric": "int4",
    "float8": "numeric",
    "date": "timestamp",
}


def _casts(node: Call | Agg | Win) -> Changed:
    """An operand cast to another type, by a cast that is written or by what stands there instead."""
    for i, arg in enumerate(node.args):
        for type_ in ("text", "int4", "float8", "date", "bool", "interval"):
            if type_ != arg.type:
                yield "an operand cast", replace(node, args=(*node.args[:i], Cast(type_, arg), *node.args[i + 1 :]))
                break
        yield "an operand of another type", replace(node, args=(*node.args[:i], Cast("text", arg), *node.args[i + 1 :]))


def _cast(node: Cast) -> Changed:
    yield "a cast left out", node.arg
    for type_ in ("int2", "date", "time", "uuid", "interval"):
        yield "a cast to another type", replace(node, type=type_)
    yield "a cast of a cast", replace(node, arg=Cast("text", node.arg))


def _case(node: Case) -> Changed:
    for i, (test, value) in enumerate(node.whens):
        whens = (*node.whens[:i], (value, test), *node.whens[i + 1 :])
        yield "a test and its value swapped", replace(node, whens=whens)
        whens = (*node.whens[:i], (test, Cast("text", value)), *node.whens[i + 1 :])
        yield "a value of another type", replace(node, whens=whens)
    yield "a choice of another type", replace(node, type=_OTHER_TYPE.get(node.type, "int4"))


def _literal(node: Lit) -> Changed:
    yield "a constant of another type", replace(node, type=_OTHER_TYPE.get(node.type, "int4"))
    if node.text is not None:
        yield "another constant", replace(node, text={"text": "(", "interval": "1 0 0"}.get(node.type, "-100"))


def _constants(node: Call) -> Changed:
    """A pattern, or a zone, that rows decide."""
    for i in CONSTANT.get(node.op, ()):
        for j in (j for j in range(len(node.args)) if i < len(node.args) and not isinstance(node.args[j], Lit)):
            yield "a constant that rows decide", replace(node, args=(*node.args[:i], node.args[j], *node.args[i + 1 :]))


def _window(node: Win) -> Changed:
    for i in range(len(node.partition)):
        yield "partition widened", replace(node, partition=(*node.partition[:i], *node.partition[i + 1 :]) or (Lit("int4", "1"),))
    yield "order with ties", replace(node, order=node.order[:1])
    for i in range(len(node.order)):  # as for a column that is called unusable
        yield "order without a column", replace(node, order=(*node.order[:i], *node.order[i + 1 :]))
    yield "an unknown frame", replace(node, frame="GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW")


def _window_values(node: Win) -> Changed:
    if node.name in ("lag", "lead"):
        yield "a default of another type", replace(node, args=(node.args[0], Lit("int4", "1"), Lit("text", "abc")))
        yield "a wider default", replace(node, args=(node.args[0], Lit("int4", "1"), Cast("int8", node.args[0])))


def _growing(node: Filter | Join) -> Changed:
    """What takes more work for each row, and holds the same: rows joined with themselves, or looked for among themselves."""
    inner = node.child if isinstance(node, Filter) else node.left
    again = _renumbered(inner)
    for column, other in list(zip(inner.columns, again.columns, strict=False))[:4]:
        alike = Call("bool", "=", (Ref(column.type, column), Ref(other.type, other)))
        twice = Join((*inner.columns, *again.columns), "inner", inner, again, alike)
        among = Filter(inner.columns, inner, Exists("bool", Filter(again.columns, again, alike)))
        for name, changed in (("rows joined with themselves", twice), ("rows looked for among themselves", among)):
            yield name, replace(node, child=changed) if isinstance(node, Filter) else replace(node, left=changed)


_AGAIN = 10**5


def _renumbered(tree: Relation) -> Relation:
    """The same rows under other numbers of columns."""
    columns = {c.id: replace(c, id=c.id + _AGAIN) for c in _parts(tree, Column)}
    return _replaced(tree, Column, {replace(c, id=i): c for i, c in columns.items()})  # type: ignore[no-any-return]


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
    (ValueSum, _value_sum),
    (RowValue, _row_value),
    (Sums, _sums),
    (MeasuredRows, _rows),
    (Contributions, _contributions),
    (Filled, _filled),
    (Fresh, _fresh),
    (StoredGroups | StoredSums, _stored),
    (StoredGroups, _stored_groups),
    (StoredSums, _stored_sums),
    (FreshSums, _fresh_sums),
    (StoredBuckets, _stored_buckets),
    (Buckets, _buckets),
    (Filter, _filter),
    (Join, _join),
    (Aggregate, _aggregate),
    (Distinct, _distinct),
    (Union, _union),
    (Call, _call),
    (Call, _constants),
    (Call, _same_arity),
    (Call | Agg | Win, _casts),
    (Cast, _cast),
    (Case, _case),
    (Lit, _literal),
    (Win, _window_values),
    (Filter | Join, _growing),
    (Win, _window),
    (InQuery, _member),
)


OF_KINDS = frozenset((
    "another operation", "an operation that an engine casts for", "a result of another type", "an operand cast",
    "an operand of another type", "a cast left out", "a cast to another type", "a cast of a cast", "a test and its value swapped",
    "a value of another type", "a choice of another type", "a constant of another type", "another constant",
    "a constant that rows decide", "a default of another type", "a wider default",
))  # fmt: skip
"""Operators that give an operation what it does not take."""


# --- claims


def lesser(m: Measurement) -> Iterator[tuple[str, Measurement]]:
    """The measurement with one claim made smaller, or one that is not so."""

    def basis(i: int, **changes: Any) -> Measurement:
        return replace(m, bases=(*m.bases[:i], replace(m.bases[i], **changes), *m.bases[i + 1 :]))

    for i, b in enumerate(m.bases):
        yield f"linf of {b.label}", basis(i, linf=b.linf - 1)
        yield f"half of {b.label}", basis(i, linf=b.linf // 2)
        yield f"steps of {b.label}", basis(i, steps=b.steps + 1)
        if (run := b.running) is not None:
            yield f"what of sums of {b.label}", basis(i, running=replace(run, within=run.within - 1))
            yield f"run of {b.label}", basis(i, running=replace(run, length=run.length + 50, width=run.width + 50))
            yield f"order of {b.label}", basis(i, running=replace(run, key=len(m.keys)))
        if b.signed:
            yield f"sign of {b.label}", basis(i, signed=False)
        if not b.norm and m.l0 > 1:
            yield f"norm of {b.label}", basis(i, norm=1)
            yield f"l2 norm of {b.label}", basis(i, norm=2)
        if m.threshold is not None and m.threshold.basis == i:
            yield "what a unit weighs", basis(i, fine=b.fine // 2)
    if m.bases:
        yield "a column more", replace(m, bases=(*m.bases, *m.bases[:1]))
    if m.keys:
        yield "a key more", replace(m, keys=(*m.keys, *m.keys[:1]))
    yield "declared or not", replace(m, dense=not m.dense)
    if m.threshold is not None:
        yield "no threshold", replace(m, threshold=None)
        yield "least units", replace(m, threshold=replace(m.threshold, min_units=m.threshold.min_units + 1))
        if m.threshold.first is not None:
            yield "no first round", replace(m, threshold=replace(m.threshold, first=None))
    if m.top is not None:
        yield "no choice", replace(m, top=None)
        yield "nothing absent", replace(m, top=replace(m.top, absent=None))
        yield "least units", replace(m, top=replace(m.top, min_units=m.top.min_units + 1))
    for i, s in enumerate(m.selections):
        yield "a selection", replace(m, selections=(*m.selections[:i], replace(s, sensitivity=s.sensitivity - 1)))
        yield "its size", replace(m, selections=(*m.selections[:i], replace(s, size=s.size + 1)))
        yield "its query", replace(m, selections=(*m.selections[:i], replace(s, query=s.query + 1)))
