"""What the rules share that take an item out of FROM, or put another in its place.

Knows: sqlglot's trees. Must not know: policies, engines, which rule asks. This is no rule: `lateral_expressions`,
`lateral_lookups` and `public_lists` call it.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.output_names import output_name

Meanings = dict[str, exp.Expr]
"""What a column of the item is, by its name."""


def meets_each_row(join: exp.Join) -> bool:
    """Whether every row meets all there is beside it: a comma, CROSS JOIN, or JOIN ... ON TRUE."""
    on = join.args.get("on")
    true = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
    return true and not join.args.get("using") and (join.side or "").upper() in ("", "LEFT") and not join.method


def put_columns(select: exp.Select, item: exp.Join, alias: str, meanings: Meanings) -> None:
    """Put what columns of the item are in place of their names."""
    outputs = {output_name(e) for e in select.expressions}
    named = [
        e if isinstance(e, exp.Alias) or not isinstance(e, exp.Column) else exp.alias_(e, output_name(e), quoted=True)
        for e in select.expressions
    ]
    select.set("expressions", named)
    for column in list(select.find_all(exp.Column)):
        table, name = ident(column.args.get("table")), ident(column.this)
        if name not in meanings or table not in ("", alias) or _within(column, item):
            continue
        if not table and (column.find_ancestor(exp.Select) is not select or (_sorts(column) and name in outputs)):
            continue
        column.replace(exp.Paren(this=copied(meanings[name])))


def _within(node: exp.Expr, item: exp.Expr) -> bool:
    parent: exp.Expr | None = node
    while parent is not None and parent is not item:
        parent = parent.parent
    return parent is item


def _sorts(column: exp.Column) -> bool:
    return isinstance(column.parent, exp.Ordered) and column.parent.this is column
