"""A rule: LATERAL items that look at one row beside them, written without LATERAL.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines. `LATERAL (SELECT o.a * 2 AS x) l` names an
expression: it is put where its name stands. `LATERAL (VALUES ('a', o.a), ('b', o.b)) v(k, x)` and `unnest(ARRAY[o.a, o.b])`
repeat a row a fixed number of times: they are a list of numbers joined with each row, and a CASE of the number for each column.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite.from_items import Meanings, meets_each_row, put_columns
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.nodes import every, nodes
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import contains_aggregate

NUMBER = "dpproxy_n"
MAX_NODES = 5_000  # of a query that still grows: an item that names another twice, and so on, doubles it each time


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Put such items where their names stand; whether there were any.

    Before: `SELECT sum(l.x) FROM orders o CROSS JOIN LATERAL (SELECT o.qty * 2 AS x) l`
    After: `SELECT sum((o.qty * 2)) FROM orders o`
    """
    found = [_rewritten(select, join, tables) for select in every(tree, exp.Select) for join in select.args.get("joins") or ()]
    return any(found)


def _rewritten(select: exp.Select, join: exp.Join, tables: KnownTables) -> bool:
    alias = join.this.args.get("alias")
    if alias is None or alias.this is None or not meets_each_row(join) or len(nodes(select)) > MAX_NODES:
        return False
    name, names = ident(alias.this), [ident(c) for c in alias.args.get("columns") or ()]
    one = _one_row(join.this)
    if one is not None:
        meanings = dict(zip([*names, *(output_name(e) for e in one[len(names) :])], (e.unalias() for e in one), strict=False))
        if not put_columns(select, join, name, meanings, tables):
            return False
        select.set("joins", [j for j in select.args["joins"] if j is not join] or None)
        return True
    rows = _list(join.this)
    if rows is None or not any(cell.find(exp.Column) for row in rows for cell in row):
        return False
    names += [f"column{i + 1}" for i in range(len(names), len(rows[0]))] if len(rows[0]) > 1 or not _unnests(join.this) else []
    names = names or [name]
    numbers, meanings = _numbered(name, names, rows)
    if not put_columns(select, join, name, meanings, tables):
        return False
    join.set("this", numbers)
    for key in ("side", "on", "method"):
        join.set(key, None)
    join.set("kind", "CROSS")
    return True


def _one_row(item: exp.Expr) -> list[exp.Expr] | None:
    """The expressions of LATERAL (SELECT expressions)."""
    inner = item.this.this if isinstance(item, exp.Lateral) and isinstance(item.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or any(v for k, v in inner.args.items() if k not in ("expressions", "kind", "hint")):
        return None
    plain = all(not e.is_star and not contains_aggregate(e) and not e.find(exp.Window, exp.Query) for e in inner.expressions)
    calls = [c for e in inner.expressions for c in e.find_all(exp.Anonymous) if c.name.lower() in ("unnest", "generate_series")]
    return list(inner.expressions) if plain and not calls else None


def _unnests(item: exp.Expr) -> bool:
    return isinstance(item, exp.Unnest) or (isinstance(item, exp.Lateral) and not isinstance(item.this, exp.Subquery))


def _list(item: exp.Expr) -> list[list[exp.Expr]] | None:
    """The rows of LATERAL (VALUES ...) and of unnest(ARRAY[...])."""
    if isinstance(item, exp.Unnest):
        array = item.expressions[0] if len(item.expressions) == 1 and not item.args.get("offset") else None
    elif isinstance(item, exp.Lateral):
        inner = item.this.this if isinstance(item.this, exp.Subquery) else item.this
        if isinstance(inner, exp.Values):
            rows = [list(r.expressions) for r in inner.expressions]
            return rows if rows and len({len(r) for r in rows}) == 1 else None
        call = isinstance(inner, exp.Unnest) or (isinstance(inner, exp.Anonymous) and inner.name.lower() == "unnest")
        array = inner.expressions[0] if call and len(inner.expressions) == 1 else None
    else:
        return None
    return [[e] for e in array.expressions] if isinstance(array, exp.Array) and array.expressions else None


def _numbered(alias: str, names: Sequence[str], rows: Sequence[Sequence[exp.Expr]]) -> tuple[exp.Expr, Meanings]:
    """A list of numbers, with the columns of constants, and what the other columns are."""
    constant = [i for i in range(len(names)) if all(isinstance(row[i], exp.Literal) for row in rows)]
    number = exp.column(exp.to_identifier(NUMBER), table=exp.to_identifier(alias, quoted=True))
    cells = [
        exp.Tuple(expressions=[exp.Literal.number(n), *(copied(row[i]) for i in constant)]) for n, row in enumerate(rows, start=1)
    ]
    columns = [exp.to_identifier(NUMBER), *(exp.to_identifier(names[i], quoted=True) for i in constant)]
    given = exp.Values(expressions=cells, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=columns))
    meanings: Meanings = {}
    for i, name in enumerate(names):
        if i not in constant:
            whens = [
                exp.If(this=exp.EQ(this=copied(number), expression=exp.Literal.number(n)), true=copied(row[i]))
                for n, row in enumerate(rows, start=1)
            ]
            meanings[name] = exp.Case(ifs=whens)
    return given, meanings
