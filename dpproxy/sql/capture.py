"""An expression put into another scope: its names must mean there what they meant at home.

Knows: names of sources and of their columns. Must not know: policies, engines, which rule asks. A rule that puts what a column
means where the column stood may put it below a nested query, whose own items hide names: `product_id + 1` of a table `orders` is
another thing in `(SELECT 1 FROM products p WHERE p.product_id = x.s)`. Whoever puts an expression elsewhere asks `at_spot`: it
names the source of each column, and returns None where a query in between hides one. A rule then leaves the tree alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import sources_of

# Columns of a subquery that belong to a query around it, marked on the tree.
#
# Knows: names of sources and of their columns. Must not know: policies, privacy types. A column belongs to the innermost query
# that has a source of its table, or a source that may have a column of its name; where no query inside has one, it is an outer
# column. The marks survive copies of the tree, so that what is measured apart still tells which of its columns are the outer
# query's.


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


Items = tuple[Sequence[exp.Expr], Sequence[exp.Expr]]
"""Items of FROM: those that an expression sees, and others."""


def at_spot(meaning: exp.Expr, home: exp.Select, items: Items, spot: exp.Expr, columns: Columns) -> exp.Expr | None:
    """Return a copy of `meaning` that means the same in place of `spot`, which stands in `home` or in a query nested there.

    `items`: those of FROM of `home` that `meaning` sees, then the one that it is taken out of, and those behind.
    None where a name would be another's, or nobody knows whose it is.
    """
    if meaning.find(exp.Query) is not None or (_is_term(spot) and isinstance(meaning.unnest(), exp.Literal)):
        return None  # `ORDER BY 1` is no number 1
    between = list(queries_between(spot, home))
    hidden = {name for query in between for source in sources_of(query) for name in names_of(source)}
    visible, later = items
    made = exp.Paren(this=copied(meaning))
    named = list(made.find_all(exp.Column))
    if between and not named:
        return None  # `max(2)` is an aggregate of the query it stands in, `max(x.s)` of that of `x`
    for column in named:
        table, name = ident(column.args.get("table")), ident(column.this)
        if isinstance(column.this, exp.Star) or (not table and any(name in names_of(s) for s in visible)):
            return None  # a whole row
        if not table:
            owners = [s for s in visible if may_have(s, "", name, columns)]
            own = names_of(owners[0]) if len(owners) == 1 else ()
            if len(own) != 1:  # as it stands it means the same where no other item is seen
                if between or isinstance(spot.parent, exp.Ordered) or any(may_have(s, "", name, columns) for s in later):
                    return None
                continue
            (table,) = own
            column.set("table", exp.to_identifier(table, quoted=not _plain(table)))
        elif not any(table in names_of(s) for s in (*visible, later[0])):
            return None  # of a query around `home`: an aggregate of it would be another query's
        if table in hidden or sum(table in names_of(s) for s in (*visible, *later)) > 1:
            return None
    return made


def queries_between(node: exp.Expr, home: exp.Select) -> Iterator[exp.Select]:
    """Yield the SELECTs around a node, innermost first, up to `home`, which is not one of them."""
    parent = node.parent
    while parent is not None and parent is not home:
        if isinstance(parent, exp.Select):
            yield parent
        parent = parent.parent


def hides(query: exp.Select, table: str) -> bool:
    """Return whether an item of a query goes by that name, so that it means no other below."""
    return any(table in names_of(source) for source in sources_of(query))


def _is_term(spot: exp.Expr) -> bool:
    return isinstance(spot.parent, exp.Ordered | exp.Group | exp.Tuple | exp.Distinct)


def _plain(name: str) -> bool:
    return name.isidentifier() and name.isascii() and name == name.lower()
