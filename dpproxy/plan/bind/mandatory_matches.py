"""Left joins that find a row for every row: along a foreign key that the database enforces, from columns that are never NULL.

Knows: the catalog's constraints, relations. Must not know: SQL text, data. Such a join is an inner one, so that it adds no group
of NULLs, and a public table's values stay declared groups. Nothing of privacy rests on it: the generated SQL has the inner join,
and is bounded as that. A constraint that the database has not checked (NOT VALID), or that only the policy knows, says nothing
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpproxy.plan.context import Context
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.tree.expr import Call, Column, Expr, Ref, Relation
from dpproxy.tree.relation import Filter, Join, Project, Public, Rows, Scan


def always_matched(left: Rows, right: Rows, on: Sequence[Expr], context: Context) -> bool:
    """Tell whether each row of `left` has a row of `right` under these conditions."""
    node = right.node.child if isinstance(right.node, Public) else right.node
    if not isinstance(node, Scan) or right.conditions or not on:
        return False
    pairs = [_pair(condition, node) for condition in on]
    sources = {scan.number: scan for pair in pairs if pair for scan in _scans_of(left.node, pair[0])}
    if None in pairs or len(sources) != 1:
        return False
    (source,) = sources.values()
    found = [(_declared(source, p[0], context.catalog), _declared(node, p[1], context.catalog)) for p in pairs if p]
    table, target = _table(source, context.catalog), _table(node, context.catalog)
    if table is None or target is None or any(a is None or a.nullable or b is None for a, b in found):
        return False
    names = {(a.name, b.name) for a, b in found if a and b}
    return any(
        key.enforced and key.target == target.name and set(zip(key.columns, key.target_columns, strict=True)) == names
        for key in table.foreign_keys
    )


def _pair(condition: Expr, right: Scan) -> tuple[Column, Column] | None:
    """The columns of `left = right`, in this order; None for another condition."""
    match condition:
        case Call(op="=", args=(Ref(column=a), Ref(column=b))):
            mine = {c.id for c in right.columns}
            pair = (b, a) if a.id in mine else (a, b)
            return pair if pair[1].id in mine and pair[0].id not in mine and not pair[0].optional else None
        case _:
            return None


def _scans_of(node: Relation, column: Column) -> Iterator[Scan]:
    """The scan that a column of some rows is of, where each of these rows has one of its rows."""
    match node:
        case Scan() if any(c.id == column.id for c in node.columns):
            yield node
        case Filter(child=child) | Project(child=child) | Public(child=child):
            yield from _scans_of(child, column)
        case Join(kind=kind, left=left, right=right):
            yield from _scans_of(left, column)
            if kind in ("inner", "cross"):
                yield from _scans_of(right, column)


def _table(scan: Scan, catalog: Catalog) -> CatalogTable | None:
    return next((t for t in catalog.tables.values() if t.source == scan.source), None)


def _declared(scan: Scan, column: Column, catalog: Catalog) -> CatalogColumn | None:
    """What the catalog says of a scan's column."""
    table = _table(scan, catalog)
    names = [name for c, name in zip(scan.columns, scan.names, strict=True) if c.id == column.id]
    return next((c for c in table.columns if [c.source] == names), None) if table is not None else None
