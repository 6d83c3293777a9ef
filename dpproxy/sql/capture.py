"""An expression put into another scope: its names must mean there what they meant at home.

Knows: names of sources and of their columns. Must not know: policies, engines, which rule asks. A rule that puts what a column
means where the column stood may put it below a nested query, whose own items hide names: `product_id + 1` of a table `orders` is
another thing in `(SELECT 1 FROM products p WHERE p.product_id = x.s)`. Whoever puts an expression elsewhere asks `at_spot`: it
names the source of each column, and returns None where a query in between hides one. A rule then leaves the tree alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from dpproxy.sql.correlation import Columns, may_have, names_of
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.trees import sources_of

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
