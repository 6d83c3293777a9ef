"""One form for rows that are written in different ways, so that equal measurements have equal text (answer reuse).

Knows: relations, expressions, what SQL lets one exchange without changing a row. Must not know: engines, clients, stored
answers. Each step keeps the meaning on every database: operands of AND, OR, IN, = are sets; an inner join is a set of
sources under a set of conditions, wherever these were written. What is compiled, and run, is this form: a step that changed a
meaning would change answers, not only the names of stored ones. Two texts that mean the same and still differ here
cost an analyst budget, never privacy.

Columns are named after their tables while sorting, never after their numbers, which follow the client's spelling.

The names of a measurement's parts (`names`) are what each part would compile to if it stood alone: whatever makes a
difference to the engine makes one to the name, also what is added to the compiler later.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace

from dpproxy.plan.engines.base import Engine, parts
from dpproxy.plan.expr import (
    FALSE,
    TRUE,
    Agg,
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Expr,
    Hole,
    InList,
    InQuery,
    Lit,
    Ref,
    Scalar,
    Win,
    conjunction,
    conjuncts,
    has_subquery,
    references,
)
from dpproxy.plan.fanout import contribution
from dpproxy.plan.measure import BasisSpec, Compiled, SelectionSpec, compile_measurement
from dpproxy.plan.model import Accept, Names, Param
from dpproxy.plan.relation import Aggregate, Distinct, Filter, Join, Project, Relation, Rows, Scan, Union
from dpproxy.plan.scope import Context
from dpproxy.sql.types import INTEGERS

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_SYMMETRIC = frozenset({"=", "<>", "is_distinct", "is_not_distinct"})
_FOLDED: Mapping[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_INT32 = 2**31 - 1  # beyond, PostgreSQL may refuse what folding would allow

_COUNT = BasisSpec("count", None, None, "")

_ACCEPTED = (*INTEGERS, "text", "varchar", "date")  # types whose values have one text each

Measured = tuple[Rows, list[tuple[str, Expr]], list[BasisSpec], list[SelectionSpec]]


def normal(
    rows: Rows, keys: Sequence[tuple[str, Expr]], specs: Sequence[BasisSpec], selections: Sequence[SelectionSpec]
) -> Measured:
    """The same measurement in its normal form: keys, specs and selections in the order given."""
    form = _Form()
    node = form.relation(rows.node)
    conditions = form.sorted(rows.conditions)
    unit = form.unit(rows, conditions)
    values = [replace(s, value=_counted(s.kind, form.optional(s.value)), where=form.optional(s.where)) for s in specs]
    chosen = [replace(s, value=form.expr(s.value), where=form.optional(s.where)) for s in selections]
    named = [(label, form.expr(key)) for label, key in keys]
    return replace(rows, node=node, conditions=conditions, unit=unit), named, values, chosen


Keys = Sequence[tuple[str, Expr]]


def names(rows: Rows, keys: Keys, compiled: Compiled, context: Context, engine: Engine) -> Names:
    """The names of a compiled measurement's rows, keys and columns; `rows` are in normal form."""

    def alone(of: Rows, keys: Keys, specs: Sequence[BasisSpec] = (), *selections: SelectionSpec) -> Compiled:
        return compile_measurement(of, keys, specs, context, engine, selections)

    wider, accepted = _without_accepts(rows)

    def key_name(key: tuple[str, Expr]) -> str:
        # counted, since a declared domain alone does not tell of what
        return alone(wider, [key], [_COUNT]).sql

    texts = [key_name(key) for key in keys]
    order = sorted(range(len(keys)), key=texts.__getitem__)
    by_name = [keys[i] for i in order]
    columns = [f"{spec.kind}: {alone(rows, by_name, [spec]).sql}" for spec in compiled.specs]
    totals = [_total(spec, alone(wider, (), [spec]).sql) for spec in compiled.specs]
    additive = [s.kind in ("count", "sum") or (s.kind == "units" and compiled.shape.l0 == 1) for s in compiled.specs]
    for chosen in compiled.selections:
        side = alone(rows, by_name, (), chosen).side[0]
        which = [str(fraction) for fraction in chosen.fractions] or ["mode"]
        columns += [f"{fraction} of {chosen.size}: {side}" for fraction in which]
        totals += [None] * len(which)
        additive += [False] * len(which)
    return Names(
        parts(f"{alone(rows, by_name).sql} -- {replace(compiled.shape, dense=None)!r} {compiled.min_units}"),
        tuple(map(parts, texts)),
        tuple(map(parts, columns)),
        parts(f"{alone(wider, ()).sql} -- {contribution(wider, ())!r}"),
        tuple(None if total is None else parts(total) for total in totals),
        tuple(Accept(parts(key_name(("", ref))), ref.type, tuple(map(_value, values))) for ref, values in accepted),
        not keys or (compiled.shape.dense is not None and not compiled.shape.pick),
        tuple(additive),
    )


def _total(spec: BasisSpec, text: str) -> str | None:
    return f"{spec.kind}: {text}" if spec.kind != "distinct" else None


def _value(constant: Expr) -> str | Param:
    if isinstance(constant, Hole):
        return Param(constant.index, constant.type)
    assert isinstance(constant, Lit)
    assert constant.text is not None
    return constant.text


def _without_accepts(rows: Rows) -> tuple[Rows, list[tuple[Ref, tuple[Expr, ...]]]]:
    """The rows without conditions that a column is one of some constants; these conditions."""
    if not isinstance(rows.node, Filter):
        return rows, []
    found = {c: accepted for c in conjuncts(rows.node.condition) if (accepted := _accepted(c)) is not None}
    rest = conjunction(tuple(c for c in conjuncts(rows.node.condition) if c not in found))
    node = rows.node.child if rest is None else replace(rows.node, condition=rest)
    conditions = tuple(c for c in rows.conditions if c not in found)
    return replace(rows, node=node, conditions=conditions), list(found.values())


def _accepted(condition: Expr) -> tuple[Ref, tuple[Expr, ...]] | None:
    match condition:
        case Call(op="=", args=(Ref() as ref, constant)):
            values: tuple[Expr, ...] = (constant,)
        case InList(arg=Ref() as ref, items=items, negated=False):
            values = items
        case _:
            return None
    if ref.type not in _ACCEPTED or ref.column.taint or any(v.type != ref.type for v in values):
        return None
    if not all(isinstance(v, Hole) or (isinstance(v, Lit) and v.text is not None) for v in values):
        return None
    return ref, values


def _counted(kind: str, value: Expr | None) -> Expr | None:
    """count(1) is count(*)."""
    return None if kind == "count" and isinstance(value, Lit) and value.text is not None else value


class _Form:
    """Names of the columns seen so far, by their id."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    # --- texts to sort by

    def text(self, value: object, exact: bool = False) -> str:
        """Equal for equal meanings, whatever the numbers of columns and scans. `exact`: and only for these; two scans
        of one table have one name, so what shall be dropped as a repetition is compared exactly."""
        if isinstance(value, Column):
            return f"#{value.id}" if exact else self._names.get(value.id, value.name)
        if isinstance(value, Scan):
            return f"#{value.number}" if exact else ".".join(value.source)
        if isinstance(value, Expr | Relation) and is_dataclass(value):
            # the columns of a relation are named by what it is made of
            kept = (f.name for f in fields(value) if not (isinstance(value, Relation) and f.name == "columns"))
            return f"{type(value).__name__}({', '.join(self.text(getattr(value, name), exact) for name in kept)})"
        if isinstance(value, tuple):
            return f"({', '.join(self.text(v, exact) for v in value)})"
        return repr(value)

    def once(self, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        """Each of several once, in the order of their texts."""
        found = {self.text(e, exact=True): e for e in exprs}
        return tuple(sorted(found.values(), key=self.text))

    def _name(self, relation: Relation, prefix: str) -> None:
        for i, column in enumerate(relation.columns):
            self._names.setdefault(column.id, f"{prefix}.{column.name if isinstance(relation, Scan) else i}")

    # --- relations

    def relation(self, node: Relation) -> Relation:
        """The normal form; its columns are those of `node`, in the same order."""
        match node:
            case Join(kind="left" | "full", left=left, right=right, on=on):
                left, right = self.relation(left), self.relation(right)
                on = conjunction(self.sorted(conjuncts(on)))
                found: Relation = replace(node, left=left, right=right, on=on)
            case Join() | Filter():
                return self._block(node)
            case Project(child=child, items=items):
                child = self.relation(child)
                found = replace(node, child=child, items=tuple(map(self.expr, items)))
                self._name(found, self.text(tuple(found.items)))
                return found
            case Aggregate(child=child):
                child = self.relation(child)
                found = replace(node, child=child, keys=tuple(map(self.expr, node.keys)), aggs=tuple(map(self.expr, node.aggs)))
            case Distinct(child=child):
                found = replace(node, child=self.relation(child))
            case Union(children=children):
                found = replace(node, children=tuple(map(self.relation, children)))
            case _:
                found = node
        self._name(found, self.text(found))
        return found

    def _block(self, node: Relation) -> Relation:
        """Inner joins and filters: sources in an order of their own, conditions where all their columns are known."""
        leaves: list[Relation] = []
        found: list[Expr] = []
        _gather(node, leaves, found)
        leaves = [self.relation(leaf) for leaf in leaves]
        conditions = self.sorted(found)
        ordered = self._ordered(leaves, conditions)
        made, rest = _chain(ordered, conditions)
        condition = conjunction(rest)
        if condition is not None:
            return Filter(node.columns, made, condition)
        return replace(made, columns=node.columns) if isinstance(made, Join) else made

    def _ordered(self, leaves: list[Relation], conditions: Sequence[Expr]) -> list[Relation]:
        """By name, each next to one it is joined with if there is any. Sources of one name keep the order they came in."""
        rest = sorted(leaves, key=lambda leaf: (self.text(leaf), self._role(leaf, conditions)))
        ordered = rest[:1]
        rest = rest[1:]
        while rest:
            known = {c.id for leaf in ordered for c in leaf.columns}
            following = next((leaf for leaf in rest if _linked(leaf, known, conditions)), rest[0])
            rest = [leaf for leaf in rest if leaf is not following]
            ordered.append(following)
        return ordered

    def _role(self, leaf: Relation, conditions: Sequence[Expr]) -> str:
        """What is asked of one of several sources of the same table."""
        mine = {c.id for c in leaf.columns}
        return ", ".join(sorted(self.text(c) for c in conditions if {r.id for r in references(c)} <= mine))

    def unit(self, rows: Rows, conditions: Sequence[Expr]) -> Column | None:
        """Of the columns that are equal to the unit's in every row, the first by name."""
        unit = rows.unit
        if unit is None or unit.optional:
            return unit
        equal, before = {unit.id}, 0
        while len(equal) > before:
            before = len(equal)
            for a, b in _equal_columns(conditions):
                equal |= {a.id, b.id} if equal & {a.id, b.id} else set()
        fitting = [c for c in rows.node.columns if c.id in equal and not c.optional]
        fitting = [c for c in fitting if (c.type, c.taint) == (unit.type, unit.taint)]
        return min(fitting, key=self.text, default=unit)

    # --- expressions

    def optional(self, expr: Expr | None) -> Expr | None:
        return self.expr(expr) if expr is not None else None

    def expr(self, expr: Expr) -> Expr:
        expr = self._children(expr)
        match expr:
            case Call(op="and" | "or"):
                return self._logical(expr)
            case Call(op=op, args=(a, b)) if op in _MIRRORED or op in _SYMMETRIC:
                return self._compared(expr, a, b)
            case Call(op=op, args=(Lit() as a, Lit() as b)) if op in _FOLDED and expr.type in INTEGERS:
                return _folded(expr, a, b)
            case Call(op="+" | "*", args=(a, b)) if a.type == b.type and a.type in INTEGERS:
                return replace(expr, args=tuple(sorted((a, b), key=self.text)))
            case InList(items=items) if len({i.type for i in items}) == 1 and not any(map(has_subquery, items)):
                return replace(expr, items=self.once(items))
        return expr

    def _children(self, expr: Expr) -> Expr:
        """The expression with the normal forms of its parts."""
        match expr:
            case Call(args=args):
                return replace(expr, args=tuple(map(self.expr, args)))
            case Case(whens=whens, default=default):
                pairs = tuple((self.expr(test), self.expr(result)) for test, result in whens)
                return replace(expr, whens=pairs, default=self.optional(default))
            case Cast(arg=arg):
                return replace(expr, arg=self.expr(arg))
            case InList(arg=arg, items=items):
                return replace(expr, arg=self.expr(arg), items=tuple(map(self.expr, items)))
            case InQuery(args=args, relation=relation, columns=columns):
                inner = self.relation(relation)
                return replace(expr, args=tuple(map(self.expr, args)), relation=inner, columns=tuple(map(self.expr, columns)))
            case Exists(relation=relation):
                return replace(expr, relation=self.relation(relation))
            case Scalar(relation=relation, value=value):
                return replace(expr, relation=self.relation(relation), value=self.expr(value))
            case Agg(args=args, where=where, order=order):
                terms = tuple((self.expr(e), d, n) for e, d, n in order)
                return replace(expr, args=tuple(map(self.expr, args)), where=self.optional(where), order=terms)
            case Win(args=args, partition=partition, order=order):
                terms = tuple((self.expr(e), d, n) for e, d, n in order)
                by = tuple(sorted(map(self.expr, partition), key=self.text))
                return replace(expr, args=tuple(map(self.expr, args)), partition=by, order=terms)
        return expr

    def _logical(self, expr: Call) -> Expr:
        """Operands flat, once, sorted, without those that decide nothing (three-valued logic keeps all of this)."""
        neutral, absorbing = (TRUE, FALSE) if expr.op == "and" else (FALSE, TRUE)
        operands = self.sorted(_flat(expr, expr.op), drop=neutral)
        if absorbing in operands:
            return absorbing
        if not operands:
            return neutral
        return operands[0] if len(operands) == 1 else replace(expr, args=operands)

    def sorted(self, conditions: Iterable[Expr], drop: Expr = TRUE) -> tuple[Expr, ...]:
        """Normal forms of conditions that hold together, each once, in order."""
        return self.once(c for c in map(self.expr, conditions) if c != drop)

    def _compared(self, expr: Call, a: Expr, b: Expr) -> Expr:
        """A constant stands on the right; the sides of = have no order; constants are compared here."""
        if isinstance(a, Lit) and isinstance(b, Lit):
            return _constant(expr, a, b)
        mirrored = expr.op if expr.op in _SYMMETRIC else _MIRRORED[expr.op]
        constants = isinstance(a, Lit | Hole), isinstance(b, Lit | Hole)
        swap = constants[0] if any(constants) else expr.op in _SYMMETRIC and self.text(b) < self.text(a)
        return replace(expr, op=mirrored, args=(b, a)) if swap else expr


def _gather(node: Relation, leaves: list[Relation], conditions: list[Expr]) -> None:
    match node:
        case Filter(child=child, condition=condition):
            _gather(child, leaves, conditions)
            conditions += conjuncts(condition)
        case Join(kind="inner" | "cross", left=left, right=right, on=on):
            _gather(left, leaves, conditions)
            _gather(right, leaves, conditions)
            conditions += conjuncts(on)
        case _:
            leaves.append(node)


def _chain(leaves: Sequence[Relation], conditions: Sequence[Expr]) -> tuple[Relation, tuple[Expr, ...]]:
    """A left-deep chain, equalities of columns where both are known, and the conditions that are left."""
    made, rest = leaves[0], list(conditions)
    for leaf in leaves[1:]:
        columns = (*made.columns, *leaf.columns)
        known = {c.id for c in columns}
        mine = [c for c in rest if _equal_columns([c]) and all(r.id in known for r in references(c))]
        rest = [c for c in rest if c not in mine]
        made = Join(columns, "inner" if mine else "cross", made, leaf, conjunction(tuple(mine)))
    return made, tuple(rest)


def _linked(leaf: Relation, known: set[int], conditions: Sequence[Expr]) -> bool:
    mine = {c.id for c in leaf.columns}
    return any((a.id in mine and b.id in known) or (b.id in mine and a.id in known) for a, b in _equal_columns(conditions))


def _equal_columns(conditions: Iterable[Expr]) -> list[tuple[Column, Column]]:
    return [
        (c.args[0].column, c.args[1].column)
        for c in conditions
        if isinstance(c, Call) and c.op == "=" and isinstance(c.args[0], Ref) and isinstance(c.args[1], Ref)
    ]


def _flat(expr: Expr, op: str) -> tuple[Expr, ...]:
    if isinstance(expr, Call) and expr.op == op:
        return tuple(e for arg in expr.args for e in _flat(arg, op))
    return (expr,)


def _constant(expr: Call, a: Lit, b: Lit) -> Expr:
    """`1 = 1`. Different texts are different values of whole numbers and texts alone."""
    if a.text is None or b.text is None or a.type != b.type or expr.op not in ("=", "<>"):
        return expr
    same = int(a.text) == int(b.text) if a.type in INTEGERS else a.text == b.text
    if not same and a.type not in (*INTEGERS, "text", "varchar"):
        return expr
    return TRUE if same == (expr.op == "=") else FALSE


def _folded(expr: Call, a: Lit, b: Lit) -> Expr:
    if a.text is None or b.text is None or a.type not in INTEGERS or b.type not in INTEGERS:
        return expr
    value = _FOLDED[expr.op](int(a.text), int(b.text))
    return Lit(expr.type, str(value)) if abs(value) <= _INT32 and expr.type != "int2" else expr
