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
    found = outer_columns(query, columns)
    for column in found:
        column.meta[OUTER] = True
    return bool(found)


def outer_columns(query: exp.Expr, columns: Columns) -> list[exp.Column]:
    """Return the columns that no source inside `query` can have."""
    named = [c for c in query.find_all(exp.Column) if not isinstance(c.this, exp.Star)]
    return [c for c in named if not _inside(c, query, columns)]


def outer(node: exp.Expr) -> bool:
    return bool(node.meta.get(OUTER))


def refers(node: exp.Expr) -> bool:
    """Return whether a marked column is in it."""
    return any(map(outer, node.find_all(exp.Column)))


def sides(test: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Return (inner side, outer side) of an equality between what is inside and what is around; None for anything else."""
    for own, other in ((test.this, test.expression), (test.expression, test.this)) if isinstance(test, exp.EQ) else ():
        columns = list(other.find_all(exp.Column))
        if not refers(own) and own.find(exp.Column) is not None and columns and all(map(outer, columns)):
            return own, other
    return None


def _inside(column: exp.Column, root: exp.Expr, columns: Columns) -> bool:
    """Whether a SELECT between the column and the root has a source it may belong to, or an output of that name."""
    table, name = ident(column.args.get("table")), ident(column.this)
    below: exp.Expr = column
    while (node := below.parent) is not None:
        if isinstance(node, exp.Select):
            if any(may_have(source, table, name, columns) for source in sources_of(node)):
                return True
            named = not table and below.arg_key in _OF_OUTPUTS
            if named and any(output_name(e) == name for e in node.expressions if isinstance(e, exp.Alias)):
                return True
        if node is root:
            return False
        below = node
    return False


_OF_OUTPUTS = ("group", "having", "order", "distinct")
"""Clauses where a name may be that of an output."""


def may_have(source: exp.Expr, table: str, name: str, columns: Columns) -> bool:
    """Return whether a column may be of an item of FROM: by the item's name, and without one by what columns it has."""
    if table:
        return table in names_of(source)
    alias = source.args.get("alias")
    named = frozenset(ident(c) for c in alias.args.get("columns") or ()) if alias is not None else frozenset()
    known = columns(source) if isinstance(source, exp.Table) and not source.args.get("joins") else _outputs(source)
    if named and (known is None or len(named) >= len(known)):
        return name in named or (isinstance(source, exp.Table) and known is None)
    return known is None or name in known or name in named or name in names_of(source)


def has(source: exp.Expr, name: str, columns: Columns) -> bool:
    """Return whether an item of FROM is known to have a column of that name."""
    return may_have(source, "", name, columns) and not may_have(source, "", f"{name} ", columns)


def names_of(source: exp.Expr) -> tuple[str, ...]:
    """Return the names by which columns of an item of FROM are called: more than one of joins in parentheses."""
    alias = source.args.get("alias")
    if alias is not None and alias.this is not None:
        return (ident(alias.this),)
    joined = [name for join in source.args.get("joins") or () for name in names_of(join.this)]
    if isinstance(source, exp.Table):
        call = source.this.name.lower() if isinstance(source.this, exp.Anonymous) else ident(source.this)
        return (call, *joined)
    inside = source.this if isinstance(source, exp.Subquery) else None
    return (*(names_of(inside) if isinstance(inside, exp.Table | exp.Subquery) else ()), *joined)


def _outputs(source: exp.Expr) -> frozenset[str] | None:
    inner = source.this if isinstance(source, exp.Lateral) else source
    inner = inner.unnest() if isinstance(inner, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or any(e.find(exp.Star) for e in inner.expressions if not isinstance(e, exp.Alias)):
        return None
    return frozenset(output_name(e) for e in inner.expressions)
