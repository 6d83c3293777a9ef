"""One form for rows that are written in different ways, so that equal measurements have equal text (answer reuse).

Knows: relations, expressions, what SQL lets one exchange without changing a row. Must not know: engines, clients, stored
answers. Each step keeps the meaning on every database: operands of AND, OR, IN, = are sets; an inner join is a set of
sources under a set of conditions, wherever these were written. What is compiled, and run, is this form: a step that changed a
meaning would change answers, not only the names of stored ones. Two texts that mean the same and still differ here
cost an analyst budget, never privacy.

The steps that a relation goes through are one tuple (`normal_steps.STEPS`); here is what they share: the names to sort by, and
the form of expressions. Columns are named after their tables while sorting, never after their numbers, which follow the client's
spelling.

Within an expression nested operands are flattened, and constants are compared or computed: each such exchange keeps the value on
every database, NULLs included.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from hashlib import blake2b
from typing import Any

from dpproxy.plan.measure.normal_steps import STEPS, check_rows, check_step
from dpproxy.plan.measure.specs import BasisSpec, SelectionSpec
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.properties.equivalence import equalities
from dpproxy.sql.types import INTEGERS
from dpproxy.tree.expr import (
    FALSE,
    TRUE,
    Call,
    Column,
    Exists,
    Expr,
    Hole,
    InList,
    InQuery,
    Lit,
    Relation,
    Scalar,
    Win,
    has_subquery,
    rebuilt,
)
from dpproxy.tree.relation import Filter, Join, Project, Rows, Scan

Measured = tuple[Rows, list[tuple[str, Expr]], list[BasisSpec], list[SelectionSpec]]


def normal(
    rows: Rows, keys: Sequence[tuple[str, Expr]], specs: Sequence[BasisSpec], selections: Sequence[SelectionSpec]
) -> Measured:
    """Return the same measurement in its normal form: keys, specs and selections in the order given."""
    form = _Form()
    node = form.relation(rows.node)
    conditions = form.sorted(rows.conditions)
    unit = form.unit(rows, conditions)
    values = [replace(s, value=_counted(s.kind, form.optional(s.value)), where=form.optional(s.where)) for s in specs]
    chosen = [replace(s, value=form.expr(s.value), where=form.optional(s.where)) for s in selections]
    named = [(label, form.expr(key)) for label, key in keys]
    made = rows.rewritten(node, conditions, unit)
    check_rows(rows, made)
    return made, named, values, chosen


def _counted(kind: str, value: Expr | None) -> Expr | None:
    """count(1) is count(*)."""
    return None if kind == "count" and isinstance(value, Lit) and value.text is not None else value


@cache
def _telling(kind: Any) -> tuple[str, ...]:
    """The fields that make an expression or relation what it is: the columns of a relation are named by the others."""
    return tuple(f.name for f in fields(kind) if not (issubclass(kind, Relation) and f.name in ("columns", "number")))


LONGEST = 200  # characters of a relation's text within the names of its columns


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
        if isinstance(value, Expr | Relation):
            kind: Any = type(value)
            return f"{kind.__name__}({', '.join([self.text(getattr(value, name), exact) for name in _telling(kind)])})"
        if isinstance(value, tuple):
            return f"({', '.join([self.text(v, exact) for v in value])})"
        return repr(value)

    def once(self, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        """Each of several once, in the order of their texts."""
        found = {self.text(e, exact=True): e for e in exprs}
        return tuple(sorted(found.values(), key=self.text))

    def _name(self, relation: Relation, prefix: str) -> None:
        """Columns by the text of their relation, or by its digest: a text of texts would double with every level of nesting."""
        if len(prefix) > LONGEST:
            prefix = blake2b(prefix.encode(), digest_size=16).hexdigest()
        for i, column in enumerate(relation.columns):
            self._names.setdefault(column.id, f"{prefix}.{column.name if isinstance(relation, Scan) else i}")

    # --- relations

    def relation(self, node: Relation) -> Relation:
        """Take a relation through the steps; its columns stay those of `node`, in the same order."""
        for step in STEPS:
            made = step(node, self)
            check_step(step, node, made)
            node = made
        if isinstance(node, Project):
            self._name(node, self.text(node.items))
        elif not isinstance(node, Filter) and not (isinstance(node, Join) and node.kind in ("inner", "cross")):
            self._name(node, self.text(node))
        return node

    def unit(self, rows: Rows, conditions: Sequence[Expr]) -> Column | None:
        """Of the columns that are equal to the unit's in every row, the first by name."""
        unit = rows.unit
        if unit is None or unit.optional:
            return unit
        equal, before = {unit.id}, 0
        while len(equal) > before:
            before = len(equal)
            for a, b in equalities(conditions):
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
            case Call(op=op, args=(a, b)) if operation(op).mirrored:
                return self._compared(expr, a, b)
            case Call(op=op, args=(Lit() as a, Lit() as b)) if op in FOLDED and expr.type in INTEGERS:
                return folded(expr, a, b)
            case Call(op="+" | "*", args=(a, b)) if a.type == b.type and a.type in INTEGERS:
                return replace(expr, args=tuple(sorted((a, b), key=self.text)))
            case InList(items=items) if len({i.type for i in items}) == 1 and not any(map(has_subquery, items)):
                return replace(expr, items=self.once(items))
        return expr

    def _children(self, expr: Expr) -> Expr:
        """The expression with the normal forms of its parts, those of subqueries too."""
        expr = rebuilt(expr, self.expr)
        match expr:
            case InQuery(relation=relation, columns=columns):
                return replace(expr, relation=self.relation(relation), columns=tuple(map(self.expr, columns)))
            case Exists(relation=relation):
                return replace(expr, relation=self.relation(relation))
            case Scalar(relation=relation, value=value):
                return replace(expr, relation=self.relation(relation), value=self.expr(value))
            case Win(partition=partition):
                return replace(expr, partition=tuple(sorted(partition, key=self.text)))
        return expr

    def _logical(self, expr: Call) -> Expr:
        """Operands flat, once, sorted, without those that decide nothing (three-valued logic keeps all of this)."""
        neutral, absorbing = (TRUE, FALSE) if expr.op == "and" else (FALSE, TRUE)
        operands = self.once(c for c in flat(expr, expr.op) if c != neutral)
        if absorbing in operands:
            return absorbing
        if not operands:
            return neutral
        return operands[0] if len(operands) == 1 else replace(expr, args=operands)

    def sorted(self, conditions: Iterable[Expr]) -> tuple[Expr, ...]:
        """Normal forms of conditions that hold together, each once, in order."""
        return self.once(c for c in map(self.expr, conditions) if c != TRUE)

    def _compared(self, expr: Call, a: Expr, b: Expr) -> Expr:
        """A constant stands on the right; the sides of = have no order; constants are compared here."""
        if isinstance(a, Lit) and isinstance(b, Lit):
            return compared(expr, a, b)
        mirrored = operation(expr.op).mirrored
        constants = isinstance(a, Lit | Hole), isinstance(b, Lit | Hole)
        swap = constants[0] if any(constants) else mirrored == expr.op and self.text(b) < self.text(a)
        return replace(expr, op=mirrored, args=(b, a)) if swap else expr


FOLDED: Mapping[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
INT32 = 2**31 - 1  # beyond, PostgreSQL may refuse what folding would allow


def flat(expr: Expr, op: str) -> tuple[Expr, ...]:
    if isinstance(expr, Call) and expr.op == op:
        return tuple(e for arg in expr.args for e in flat(arg, op))
    return (expr,)


def compared(expr: Call, a: Lit, b: Lit) -> Expr:
    """Fold a comparison of two constants, such as `1 = 1`. Different texts are different values of whole numbers and texts
    alone."""
    if a.text is None or b.text is None or a.type != b.type or expr.op not in ("=", "<>"):
        return expr
    same = int(a.text) == int(b.text) if a.type in INTEGERS else a.text == b.text
    if not same and a.type not in (*INTEGERS, "text", "varchar"):
        return expr
    return TRUE if same == (expr.op == "=") else FALSE


def folded(expr: Call, a: Lit, b: Lit) -> Expr:
    if a.text is None or b.text is None or a.type not in INTEGERS or b.type not in INTEGERS:
        return expr
    value = FOLDED[expr.op](int(a.text), int(b.text))
    return Lit(expr.type, str(value)) if abs(value) <= INT32 and expr.type != "int2" else expr
