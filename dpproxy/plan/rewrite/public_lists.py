"""Lists in a public table's column, taken apart beside its row.

Knows: sqlglot's trees, before they are analysed. Must not know: engines, noise. `FROM ratings r JOIN movies m ON ... CROSS JOIN
LATERAL unnest(string_to_array(m.genres, '|')) AS g(genre)` makes rows of a public row alone: they are made before anything
private is joined, by `(SELECT m.*, unnest(...) AS genre FROM movies m) m`, which the facade can compute.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpproxy.plan.rewrite import lateral_expressions
from dpproxy.sql.dialect import copied, ident, to_sql
from dpproxy.sql.output_names import output_name
from dpproxy.sql.skeleton import parse_expression
from dpproxy.sql.trees import joins_before, table_alias

NAME = "dpproxy_part"
_MAKERS = {
    "unnest", "regexp_split_to_table", "string_to_table", "generate_series", "generate_subscripts",
    "json_array_elements_text", "jsonb_array_elements_text",
}  # fmt: skip


def inside(tree: exp.Expr, private: Callable[[exp.Expr], bool]) -> bool:
    """Rewrite such items in place; whether there were any. `private`: whether a table has private rows."""
    found = [
        _rewritten(select, join, private) for select in list(tree.find_all(exp.Select)) for join in select.args.get("joins") or ()
    ]
    return any(found)


def as_rows(query: exp.Expr) -> exp.Expr:
    """`SELECT unnest(list)` of no table as `SELECT * FROM unnest(list)`; any other query as it is."""
    select = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(select, exp.Select) or any(value for key, value in select.args.items() if key != "expressions"):
        return query
    calls = [e.unalias() for e in select.expressions]
    made = len(calls) == 1 and isinstance(calls[0], exp.Anonymous) and calls[0].name.lower() in _MAKERS
    if not made or calls[0].find(exp.Column, exp.Query):
        return query
    return parse_expression(f"SELECT * FROM {to_sql(calls[0])} AS {NAME}({NAME})")


def _rewritten(select: exp.Select, join: exp.Join, private: Callable[[exp.Expr], bool]) -> bool:
    alias, made = join.this.args.get("alias"), _maker(join.this)
    if alias is None or alias.this is None or made is None or join.side or join.args.get("on") is not None:
        return False
    call, name = made
    names = [ident(c) for c in alias.args.get("columns") or ()] or [name or ident(alias.this)]
    tables = {ident(c.args.get("table")) for c in call.find_all(exp.Column)}
    if len(names) != 1 or len(tables) != 1 or any(e.is_star for e in select.expressions):
        return False
    table = _table(select, join, tables.pop())
    if table is None or private(table):
        return False
    of = table_alias(table)
    part = exp.column(exp.to_identifier(NAME), table=exp.to_identifier(of, quoted=True))
    lateral_expressions.put(select, join, ident(alias.this), {names[0]: part})
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
    return (call, name) if isinstance(call, exp.Anonymous) and call.name.lower() in _MAKERS else None


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
    names = dict.fromkeys(ident(c.this) for c in columns if ident(c.args.get("table")) == alias)
    return [exp.column(exp.to_identifier(n, quoted=True), table=copied(table)) for n in names]
