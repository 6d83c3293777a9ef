"""What is computed of a row: total operations alone, subqueries and windows that look at no other unit's rows.

Knows: expressions, what operations take (`kinds`). Must not know: how engines spell them, the planner's facts. `check` says
whether an expression has one value in all rows of a unit: it has where all it reads has, and it looks at nothing but its own row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dpproxy.kernel import kinds
from dpproxy.kernel.allowed import BY_PLACE, FRAME
from dpproxy.kernel.classes import NONE, Ids
from dpproxy.kernel.columns import Columns
from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.owned import Owned
from dpproxy.table_terms import same_kind
from dpproxy.tree.expr import (
    Agg,
    Call,
    Case,
    Cast,
    Exists,
    Expr,
    Hole,
    InList,
    InQuery,
    Lit,
    Ref,
    Relation,
    Scalar,
    Win,
)
from dpproxy.tree.relation import Aggregate


class Relations(Protocol):
    """Whose the rows of a relation are."""

    def of(self, node: Relation, outer: Ids = NONE) -> Owned: ...


class Expressions:
    """Checks expressions over rows. `outer`: columns of rows around these that hold the unit of theirs."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations
        self.columns = Columns()

    def check(self, expr: Expr, rows: Owned, outer: Ids = NONE, windows: Relation | None = None) -> bool:
        """Return whether the value is one in all rows of a unit. Raises Unproven. `windows`: the relation that windows of the
        expression look at; None where there is to be none."""
        match expr:
            case Ref(type=type_, column=column):
                self.columns.read((column,))
                if type_ != column.type:
                    raise Unproven("a column is read as of another kind")
                return column.id in rows.constant or column.id in rows.owner
            case Lit():
                kinds.check_literal(expr)
                return True
            case Hole():
                return True
            case Call(args=args):
                kinds.check_call(expr)
                return self._all(args, rows, outer, windows)
            case Cast(arg=arg):
                kinds.check_cast(expr)
                return self.check(arg, rows, outer, windows)
            case Case(whens=whens, default=default):
                kinds.check_case(expr)
                parts = [e for when in whens for e in when] + ([default] if default is not None else [])
                return self._all(parts, rows, outer, windows)
            case InList(arg=arg, items=items):
                self._yields(expr, "bool")
                for item in items:
                    kinds.check_pair(arg, item)
                return self._all((arg, *items), rows, outer, windows)
            case InQuery():
                self._yields(expr, "bool")
                self._member(expr, rows, outer)
            case Exists(relation=relation):
                self._yields(expr, "bool")
                self._own(self._relations.of(relation, rows.owner | outer))
            case Scalar(relation=relation, value=value):
                self._yields(expr, value.type)
                self._scalar(relation, value, rows.owner | outer)
            case Win():
                self._window(expr, rows, outer, windows)
            case _:
                raise Unproven(f"no rule for {type(expr).__name__} here")
        return False

    def condition(self, expr: Expr, rows: Owned, outer: Ids = NONE) -> None:
        """Check what rows are kept by."""
        self._yields(expr, "bool")
        self.check(expr, rows, outer)

    @staticmethod
    def _yields(expr: Expr, type_: str) -> None:
        if expr.type != type_:
            raise Unproven(f"an expression of type {type_} is called {expr.type}")

    def _all(self, parts: Iterable[Expr], rows: Owned, outer: Ids, windows: Relation | None) -> bool:
        found = [self.check(part, rows, outer, windows) for part in parts]  # every one is checked
        return all(found)

    # --- subqueries: whatever they say of a row follows from public rows and those of the row's own unit

    @staticmethod
    def _own(found: Owned) -> None:
        if found.private and not found.fixed:
            raise Unproven("a subquery reads rows of other units than the row it is evaluated for")

    def _scalar(self, relation: Relation, value: Expr, around: Ids) -> None:
        """One row, whatever the data: an engine raises for two."""
        if not isinstance(relation, Aggregate) or relation.keys:
            raise Unproven("a scalar subquery that may have several rows")
        found = self._relations.of(relation, around)
        self._own(found)
        self.check(value, found, around)

    def _member(self, expr: InQuery, rows: Owned, outer: Ids) -> None:
        """`(x, u) IN (SELECT y, v ...)`: of rows of another unit v = u is false, whatever y is, so that none of them decides -
        but one whose v is NULL would."""
        for arg in expr.args:
            self.check(arg, rows, outer)
        around = rows.owner | outer
        found = self._relations.of(expr.relation, around)
        for arg, column in zip(expr.args, expr.columns, strict=True):
            kinds.check_pair(arg, column)
            self.check(column, found, around)
        if not found.private or found.fixed:
            return
        if not any(_same_unit(a, b, around, found.owner) for a, b in zip(expr.args, expr.columns, strict=True)):
            raise Unproven("IN compares with rows of other units")
        if not found.owner & found.present:
            raise Unproven("IN compares with rows of nobody: a NULL among them decides for all")

    # --- of one unit's rows

    def aggregate(self, agg: Expr, rows: Owned, outer: Ids) -> None:
        """Check an aggregate of rows that are grouped."""
        if not isinstance(agg, Agg):
            raise Unproven("this is no aggregate of one unit's rows")
        kinds.check_aggregate(agg)
        if agg.where is not None:
            self.condition(agg.where, rows, outer)
        self._all((*agg.args, *(e for e, _, _ in agg.order)), rows, outer, None)

    def _window(self, win: Win, rows: Owned, outer: Ids, over: Relation | None) -> None:
        """A partition holds rows of one unit, and no two orders of them give different results (`Columns`): then what is made of
        a unit's rows follows from these."""
        if over is None or not FRAME.fullmatch(win.frame):
            raise Unproven(f"window function {win.name} here")
        kinds.check_window(win)
        self._all((*win.args, *win.partition, *(e for e, _, _ in win.order)), rows, outer, None)
        by_unit = any(isinstance(p, Ref) and p.column.id in rows.owner for p in win.partition)
        if rows.private and not rows.fixed and not by_unit:
            raise Unproven("a window over rows of several units")
        sliding = win.frame.startswith("ROWS") and "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" not in win.frame
        if rows.private and (win.name in BY_PLACE or sliding):
            self.columns.check_order(over, (e for e, _, _ in win.order))


def _same_unit(a: Expr, b: Expr, outer: Ids, inner: Ids) -> bool:
    if not isinstance(a, Ref) or not isinstance(b, Ref):
        return False
    return a.column.id in outer and b.column.id in inner and same_kind(a.column, b.column)
