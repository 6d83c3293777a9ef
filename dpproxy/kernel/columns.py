"""Of what kind each column is, and which may be read: what a `Column` says of itself is the planner's word, and is held against
what it holds.

Knows: columns by number, expressions, what the catalog says. Must not know: whose rows columns are of. A kind is a type and, of
numbers, what they are compared as: where two columns are found equal, it decides whether their values are
(`table_terms.same_kind`).

Lemma. A number names one column in all of a query's rows. A column of a table has the kind that the catalog says, one that holds
an expression the expression's, and an expression reads a column as of its own kind alone: by induction that is its values' kind.
Columns of types that nothing can be made of (`policy.catalog.CatalogColumn.bounded`) are read by no expression: rows that they
alone tell apart are alike in all that is made of them, whichever of these rows is first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpproxy.kernel.classes import Ids, ids
from dpproxy.kernel.kinds import becomes
from dpproxy.kernel.leaves import Kind, Leaf, Unproven
from dpproxy.tree.expr import Agg, Call, Column, Expr, Ref, Relation
from dpproxy.tree.relation import Filter, Join, Project, Public, Scan

_WHOLE = ("year", "month", "day")
"""What tells equal intervals apart: 30 days equal a month."""


class Columns:
    """What is known of columns by their numbers: kinds (None: nothing may read it), and what they hold."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Kind | None, object]] = {}

    def scanned(self, scan: Scan, leaf: Leaf) -> None:
        """Take down a table's columns. Moments that name units, or rows of theirs, are read as they are: by the clocks of a zone
        two of them could be one, of an hour that comes twice."""
        naming = {leaf.unit, *leaf.reached, *([leaf.way.column] if leaf.way is not None else [])}
        for column, name in zip(scan.columns, scan.names, strict=True):
            if column.zone and name in naming:
                raise Unproven("a column that names units is read by a zone's clocks")
            if column.type == "interval" and name in naming:
                raise Unproven("a column that names units is of intervals: of equal ones some are a month, some 30 days")
            self._take(column, leaf.kinds.get(name), (scan.source, name))

    def made(self, columns: Sequence[Column], exprs: Iterable[Expr]) -> None:
        """Take down columns that hold expressions, one each; further columns are those of the rows below."""
        for column, expr in zip(columns, exprs, strict=False):
            if not isinstance(expr, Ref) or expr.column.id != column.id:
                exact = _exact(expr) if column.exact or isinstance(expr, Ref) else ""
                self._take(column, (expr.type, exact), expr)

    def put_together(self, columns: Sequence[Column], sides: Sequence[Sequence[Column]]) -> None:
        """Take down columns of a set operation: of numbers that are of one kind on all sides it is that kind."""
        for column, below in zip(columns, zip(*sides, strict=True), strict=True):
            self.read(below)
            if not all(becomes(c.type, column.type) for c in below):
                raise Unproven("a set operation of columns of other kinds")
            exact = column.exact if {c.exact for c in below} == {column.exact} else ""
            self._take(column, (column.type, exact), tuple(c.id for c in below))

    def given(self, columns: Sequence[Column], rows: object) -> None:
        """Take down columns of constants, or of rows that the facade hands over: they are cast to their types."""
        for column in columns:
            self._take(column, (column.type, ""), rows)

    def declared(self, column: Column, domain: object) -> None:
        """Take down a column of declared values: constants of the column's own type, which nothing takes for units. They are
        compared as that column is, whatever that is."""
        self._take(column, (column.type, column.exact), domain)

    def _take(self, column: Column, kind: Kind | None, held: object) -> None:
        if kind is not None and (column.type, column.exact) != kind:
            raise Unproven("a column of another kind than what it holds")
        if self._known.setdefault(column.id, (kind, held)) != (kind, held):
            raise Unproven("two columns of one number")

    def read(self, columns: Iterable[Column]) -> None:
        """Raise Unproven for a column that nothing may read, or that is read as of another kind."""
        for column in columns:
            if column.id not in self._known:
                raise Unproven("a column of no relation is read")
            if self._known[column.id][0] != (column.type, column.exact):
                raise Unproven("a column is read that nothing can be made of, or as of another kind")

    def check_order(self, rows: Relation, order: Iterable[Expr]) -> None:
        """Raise Unproven for an order that leaves ties among rows that differ in what may be read of them."""
        ordered = {(None, e.column.id) if isinstance(e, Ref) else _field(e) for e in order}
        for i in named(rows):
            kind = self._known[i][0]
            fields = _WHOLE if kind is not None and kind[0] == "interval" else ()
            if kind is not None and not {(None, i), *((field, i) for field in fields)} <= ordered:
                raise Unproven("a window whose order leaves ties")


def _exact(expr: Expr) -> str:
    """What numbers of an expression are compared as: one of a column's values is as that column's."""
    match expr:
        case Ref(column=column):
            return column.exact
        case Agg(name="min" | "max", args=(Ref(column=column),)):
            return column.exact
        case Call(op="coalesce", args=(Ref(column=a), Ref(column=b))) if a.exact == b.exact:
            return a.exact
        case _:
            return ""


def _field(expr: Expr) -> tuple[str | None, int] | None:
    match expr:
        case Call(op=op, args=(Ref(column=column),)):
            return op, column.id
        case _:
            return None


def named(rows: Relation) -> Ids:
    """Return the columns that an expression over these rows can name, whether or not they are listed."""
    match rows:
        case Filter(child=child) | Public(child=child):
            return named(child)
        case Join(left=left, right=right):
            return named(left) | named(right)
        case Project(columns=columns, items=items, child=child):
            return named(child) | ids(columns[: len(items)])
        case _:
            return ids(rows.columns)
