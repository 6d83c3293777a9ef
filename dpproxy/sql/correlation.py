"""Columns of a subquery that belong to a query around it, marked on the tree.

Knows: names of sources and of their columns. Must not know: policies, privacy types. A column belongs to the innermost query that
has a source of its table, or a source that may have a column of its name; where no query inside has one, it is an outer column.
The marks survive copies of the tree, so that what is measured apart still tells which of its columns are the outer query's.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpproxy.sql.dialect import ident
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import sources_of

OUTER = "dpproxy_outer"
"""Marks a column of a subquery that belongs to a query around it."""

Columns = Callable[[exp.Table], frozenset[str] | None]
"""The column names of a table or CTE; None when they are not known."""


def mark_outer(query: exp.Expr, columns: Columns) -> bool:
    """Mark the columns that no source inside `query` can have; whether there are any."""
    found = False
    for column in query.find_all(exp.Column):
        if not isinstance(column.this, exp.Star) and not _inside(column, query, columns):
            column.meta[OUTER] = found = True
    return found


def outer(node: exp.Expr) -> bool:
    return bool(node.meta.get(OUTER))


def _inside(column: exp.Column, root: exp.Expr, columns: Columns) -> bool:
    """Whether a SELECT between the column and the root has a source it may belong to, or an output of that name."""
    table, name = ident(column.args.get("table")), ident(column.this)
    node: exp.Expr | None = column
    while node is not None:
        node = node.parent
        if isinstance(node, exp.Select):
            if any(_has(source, table, name, columns) for source in sources_of(node)):
                return True
            if not table and any(output_name(e) == name for e in node.expressions if isinstance(e, exp.Alias)):
                return True
        if node is root:
            return False
    return False


def _has(source: exp.Expr, table: str, name: str, columns: Columns) -> bool:
    alias = source.args.get("alias")
    own = ident(alias.this) if alias is not None and alias.this is not None else ""
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
        own = own or ident(source.this)
    if table:
        return table == own
    named = frozenset(ident(c) for c in alias.args.get("columns") or ()) if alias is not None else frozenset()
    if named:
        return name in named
    known = columns(source) if isinstance(source, exp.Table) else _outputs(source)
    return known is None or name in known or name == own


def _outputs(source: exp.Expr) -> frozenset[str] | None:
    inner = source.unnest() if isinstance(source, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or any(e.find(exp.Star) for e in inner.expressions if not isinstance(e, exp.Alias)):
        return None
    return frozenset(output_name(e) for e in inner.expressions)
