"""How many public rows have no private ones: all of them, less those that have.

Knows: sqlglot's trees, before they are analysed. Must not know: engines, noise. Which public rows nobody's rows refer to is told
by the absence of rows, and cannot be returned; their number can: `count(DISTINCT p.k)` of `public p LEFT JOIN private r ON
r.k = p.k WHERE r.k IS NULL` is that of the public rows, minus that of the rows an inner join finds, which is a measurement.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpproxy.plan.trees import function_name
from dpproxy.sql.dialect import copied, ident

Reads = Callable[[exp.Expr], bool]
"""Whether a query or table has private rows."""
Unique = Callable[[exp.Table, str], bool]
"""Whether a column of a public table has each value once."""
_ONLY = {"expressions", "from_", "joins", "where", "kind", "hint", "operation_modifiers"}


def counted(tree: exp.Expr, private: Reads, unique: Unique) -> bool:
    """Rewrite such counts in place; whether there were any."""
    found = [_rewritten(select, private, unique) for select in list(tree.find_all(exp.Select))]
    return any(found)


def _rewritten(select: exp.Select, private: Reads, unique: Unique) -> bool:
    clause, where = select.args.get("from_"), select.args.get("where")
    table = clause.this if clause is not None else None
    if any(v for k, v in select.args.items() if k not in _ONLY) or where is None or len(select.expressions) != 1:
        return False
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or private(table):
        return False
    found = _outer_join(select, private) or _subquery(select, private)
    call = select.expressions[0].unalias()
    if found is None or function_name(call) != "count" or len(call.expressions) != 1:
        return False
    key, joined = found
    alias = _alias(table)
    of = call.expressions[0]
    if isinstance(of, exp.Distinct):
        if len(of.expressions) != 1 or not _names(of.expressions[0], alias, ident(key.this)):
            return False
    elif not (isinstance(of, exp.Star | exp.Literal) or _names(of, alias, ident(key.this))) or not unique(table, ident(key.this)):
        return False
    _subtracted(select, table, key, joined)
    return True


def _alias(table: exp.Expr) -> str:
    alias = table.args.get("alias")
    return ident(alias.this) if alias is not None else ident(table.this)


def _names(node: exp.Expr, alias: str, name: str) -> bool:
    return isinstance(node, exp.Column) and ident(node.args.get("table")) in ("", alias) and ident(node.this) == name


def _outer_join(select: exp.Select, private: Reads) -> tuple[exp.Column, exp.Expr] | None:
    """public LEFT JOIN private ON equality WHERE private.column IS NULL: the public key, and the join as an inner one."""
    joins = select.args.get("joins") or []
    test = select.args["where"].this
    if len(joins) != 1 or (joins[0].side or "").upper() != "LEFT" or not isinstance(joins[0].this, exp.Table):
        return None
    join, other = joins[0], _alias(joins[0].this)
    if (
        not private(join.this)
        or not isinstance(test, exp.Is)
        or not isinstance(test.expression, exp.Null)
        or test.args.get("negate")
    ):
        return None
    key = _key(join.args.get("on"), _alias(select.args["from_"].this), other)
    absent = test.this
    if key is None or not isinstance(absent, exp.Column) or ident(absent.args.get("table")) != other:
        return None
    own = key[1]
    if ident(absent.this) != ident(own.this):
        return None  # another column may be NULL in rows that are there
    inner = copied(join)
    inner.set("side", None)
    return key[0], inner


def _subquery(select: exp.Select, private: Reads) -> tuple[exp.Column, exp.Expr] | None:
    """public WHERE NOT EXISTS (SELECT FROM private WHERE equality)."""
    test = select.args["where"].this
    exists = test.this if isinstance(test, exp.Not) else None
    inner = exists.this if isinstance(exists, exp.Exists) else None
    inner = inner.this if isinstance(inner, exp.Subquery) else inner
    if (
        select.args.get("joins")
        or not isinstance(inner, exp.Select)
        or inner.args.get("joins")
        or inner.args.get("where") is None
    ):
        return None
    table = inner.args["from_"].this if inner.args.get("from_") is not None else None
    if any(v for k, v in inner.args.items() if k not in _ONLY) or not isinstance(table, exp.Table) or not private(table):
        return None
    on = inner.args["where"].this
    key = _key(on, _alias(select.args["from_"].this), _alias(table))
    return (key[0], exp.Join(this=copied(table), on=copied(on))) if key is not None else None


def _key(on: exp.Expr | None, public: str, private: str) -> tuple[exp.Column, exp.Column] | None:
    """The public and the private side of one equality of columns."""
    on = on.unnest() if isinstance(on, exp.Paren) else on
    if not isinstance(on, exp.EQ) or not isinstance(on.this, exp.Column) or not isinstance(on.expression, exp.Column):
        return None
    for a, b in ((on.this, on.expression), (on.expression, on.this)):
        if (ident(a.args.get("table")), ident(b.args.get("table"))) == (public, private):
            return a, b
    return None


def _subtracted(select: exp.Select, table: exp.Table, key: exp.Column, join: exp.Expr) -> None:
    everything = exp.Select(expressions=[_distinct(key)], from_=exp.From(this=copied(table)))
    some = exp.Select(expressions=[_distinct(key)], from_=exp.From(this=copied(table)), joins=[join])
    difference = exp.Sub(this=exp.Subquery(this=everything), expression=exp.Subquery(this=some))
    output = select.expressions[0]
    name = output.args["alias"] if isinstance(output, exp.Alias) else exp.to_identifier("count")
    value = exp.Anonymous(this="greatest", expressions=[difference, exp.Literal.number(0)])
    select.set("expressions", [exp.Alias(this=value, alias=name)])
    for clause in ("from_", "joins", "where"):
        select.set(clause, None)


def _distinct(key: exp.Column) -> exp.Expr:
    return exp.Anonymous(this="count", expressions=[exp.Distinct(expressions=[copied(key)])])
