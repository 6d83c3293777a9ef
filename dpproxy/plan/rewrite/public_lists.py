"""A rule: lists in a public table's column, taken apart beside its row.

Knows: sqlglot's trees, before they are analysed. Must not know: engines, noise. `FROM ratings r JOIN movies m ON ... CROSS JOIN
LATERAL unnest(string_to_array(m.genres, '|')) AS g(genre)` makes rows of a public row alone: they are made before anything
private is joined, by `(SELECT m.*, unnest(...) AS genre FROM movies m) m`, which the facade can compute.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite.from_items import put_columns
from dpproxy.sql.capture import hides, queries_between
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.row_makers import ROW_MAKERS
from dpproxy.sql.trees import joins_before, table_alias

NAME = "dpproxy_part"


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Take the lists apart in a subquery of their table; whether there were any.

    Before: `SELECT k.word, count(*) FROM order_items i JOIN products p ON p.product_id = i.product_id CROSS JOIN LATERAL
    unnest(string_to_array(p.title, ' ')) AS k(word) GROUP BY 1`
    After: `SELECT (p.dpproxy_part) AS word, count(*) FROM order_items i JOIN (SELECT p.product_id,
    unnest(string_to_array(p.title, ' ')) AS dpproxy_part FROM products p) p ON p.product_id = i.product_id GROUP BY 1`
    """
    found = [_rewritten(select, join, tables) for select in every(tree, exp.Select) for join in select.args.get("joins") or ()]
    return any(found)


def _rewritten(select: exp.Select, join: exp.Join, tables: KnownTables) -> bool:
    alias, made = join.this.args.get("alias"), _maker(join.this)
    if alias is None or alias.this is None or made is None or join.side or join.args.get("on") is not None:
        return False
    call, name = made
    names = [ident(c) for c in alias.args.get("columns") or ()] or [name or ident(alias.this)]
    sources = {ident(c.args.get("table")) for c in call.find_all(exp.Column)}
    if len(names) != 1 or len(sources) != 1 or any(e.is_star for e in select.expressions):
        return False
    table = _table(select, join, sources.pop())
    if table is None or tables.reads_private(table):
        return False
    of = table_alias(table)
    part = exp.column(exp.to_identifier(NAME), table=exp.to_identifier(of, quoted=True))
    if not put_columns(select, join, ident(alias.this), {names[0]: part}, tables):
        return False
    select.set("joins", [j for j in select.args["joins"] if j is not join] or None)
    items = [*_used(select, of), exp.alias_(copied(call), NAME)]
    rows = exp.Select(expressions=items, from_=exp.From(this=copied(table)))
    table.replace(exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier(of, quoted=True))))
    return True


def _maker(item: exp.Expr) -> tuple[exp.Expr, str] | None:
    """The function call that makes rows of one column, and the name it gives the column, if it does."""
    call = item.this if isinstance(item, exp.Lateral | exp.Table) else item
    name = ""
    if isinstance(call, exp.Subquery) and isinstance(call.this, exp.Select) and len(call.this.expressions) == 1:
        if any(v for k, v in call.this.args.items() if k not in ("expressions", "kind", "hint")):
            return None
        name = output_name(call.this.expressions[0])
        call = call.this.expressions[0].unalias()
    if isinstance(call, exp.Unnest) and len(call.expressions) == 1 and not call.args.get("offset"):
        return exp.Anonymous(this="unnest", expressions=[copied(call.expressions[0])]), name
    return (call, name) if isinstance(call, exp.Anonymous) and call.name.lower() in ROW_MAKERS else None


def _table(select: exp.Select, before: exp.Join, alias: str) -> exp.Table | None:
    """The table of that name, joined inwardly before the item."""
    joins = select.args["joins"]
    if not alias or any((j.side or "").upper() in ("RIGHT", "FULL") or j.method for j in joins):
        return None
    items = [select.args["from_"].this, *(j.this for j in joins_before(select, before) if not j.side)]
    found = [i for i in items if isinstance(i, exp.Table) and isinstance(i.this, exp.Identifier) and table_alias(i) == alias]
    return found[0] if len(found) == 1 and not found[0].args.get("joins") and not found[0].args.get("sample") else None


def _used(select: exp.Select, alias: str) -> list[exp.Expr]:
    """The columns of the table that the SELECT names; all, where names stand without a table."""
    columns = [c for c in select.find_all(exp.Column) if ident(c.this) != NAME]
    table = exp.to_identifier(alias, quoted=True)
    if any(not c.args.get("table") for c in columns) or any(j.args.get("using") for j in select.args.get("joins") or ()):
        return [exp.column(exp.Star(), table=table)]
    names = dict.fromkeys(ident(c.this) for c in columns if _of(c, select, alias))
    return [exp.column(exp.to_identifier(n, quoted=True), table=copied(table)) for n in names]


def _of(column: exp.Column, select: exp.Select, alias: str) -> bool:
    """Whether a column is called by the table's name, which no query in between gives to another."""
    named = ident(column.args.get("table")) == alias
    return named and not any(hides(query, alias) for query in queries_between(column, select))
