"""A rule: how many public rows have private ones, or none: all of them, less those that have.

Knows: sqlglot's trees, before they are analysed. Must not know: engines, noise. Which public rows nobody's rows refer to is told
by the absence of rows, and cannot be returned; their number can. `count(DISTINCT p.k)` of `public p LEFT JOIN private r ON
r.k = p.k WHERE r.k IS NULL`, of `public p WHERE NOT EXISTS (...)` and of `p.k NOT IN (...)` is that of the public rows, minus
that of the rows an inner join finds, which is a measurement. A private NULL would make NOT IN true of no row, whoever's it
is: it is left out. A public row whose key is NULL matches nothing: `count(*)` has it among the rows without a match, except
with NOT IN, which is unknown of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.capture import mark_outer
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.nodes import every
from dpproxy.sql.trees import aggregate_calls, contains_aggregate, function_name, outermost_queries, table_alias

_ONLY = {"expressions", "from_", "joins", "where", "kind", "hint", "operation_modifiers"}
_SOME, _KEY = "dpproxy_some", "dpproxy_key"


@dataclass(frozen=True)
class _Found:
    """`call`: the count. `key`: of the public table. `join`: the rows that match it. `there`: those are counted, not the others.
    `rest`: what else is asked of public rows. `null`: a public row whose key is NULL is one without a match. `empty`: a column of
    `join` whose NULL counts as no match."""

    key: exp.Column
    join: exp.Join
    there: bool
    rest: list[exp.Expr]
    null: bool
    empty: exp.Column | None = None


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such counts as differences; whether there were any.

    Before: `SELECT count(*) FROM products p WHERE p.product_id NOT IN (SELECT product_id FROM order_items)`
    After: `SELECT greatest((SELECT count(DISTINCT p.product_id) FROM products p) - (SELECT count(DISTINCT p.product_id) FROM
    products p JOIN (SELECT product_id AS dpproxy_key FROM order_items) dpproxy_some ON p.product_id = dpproxy_some.dpproxy_key),
    0) AS count`
    """
    found = [_rewritten(select, tables) for select in every(tree, exp.Select)]
    return any(found)


def _rewritten(select: exp.Select, tables: KnownTables) -> bool:
    clause, where = select.args.get("from_"), select.args.get("where")
    table = clause.this if clause is not None else None
    if any(v for k, v in select.args.items() if k not in _ONLY) or where is None or len(select.expressions) != 1:
        return False
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or tables.reads_private(table):
        return False
    call = _only_count(select.expressions[0])
    if call is None:
        return False
    found = _outer_join(select, tables) or _subquery(select, tables)
    if found is None:
        return False
    alias, name, of = table_alias(table), ident(found.key.this), call.expressions[0]
    if isinstance(of, exp.Distinct):
        if len(of.expressions) != 1 or not _names(of.expressions[0], alias, name):
            return False
    elif not (isinstance(of, exp.Star | exp.Literal) or _names(of, alias, name)) or not tables.unique(table, name):
        return False
    _subtracted(select, call, table, found)
    return True


def _only_count(item: exp.Expr) -> exp.Expr | None:
    """The one aggregate of an output that names nothing else of the rows."""
    calls = list(aggregate_calls(item))
    if len(calls) != 1 or function_name(calls[0]) != "count" or len(calls[0].expressions) != 1:
        return None
    inside = {id(c) for part in (calls[0], *outermost_queries(item)) for c in part.find_all(exp.Column)}
    return calls[0] if all(id(c) in inside for c in item.find_all(exp.Column)) else None


def _names(node: exp.Expr, alias: str, name: str) -> bool:
    return isinstance(node, exp.Column) and ident(node.args.get("table")) in ("", alias) and ident(node.this) == name


def _parts(condition: exp.Expr) -> list[exp.Expr]:
    condition = condition.unnest() if isinstance(condition, exp.Paren) else condition
    if isinstance(condition, exp.And):
        return [*_parts(condition.this), *_parts(condition.expression)]
    return [condition]


def _outer_join(select: exp.Select, tables: KnownTables) -> _Found | None:
    """public LEFT JOIN private ON equality WHERE private.column IS NULL: the public key, and the join as an inner one."""
    joins, parts = select.args.get("joins") or [], _parts(select.args["where"].this)
    if len(joins) != 1 or (joins[0].side or "").upper() != "LEFT" or not isinstance(joins[0].this, exp.Table):
        return None
    join, other = joins[0], table_alias(joins[0].this)
    mine = [p for p in parts if any(ident(c.args.get("table")) in ("", other) for c in p.find_all(exp.Column))]
    if not tables.reads_private(join.this) or len(mine) != 1 or any(p.find(exp.Query) for p in parts):
        return None
    test = mine[0]
    if not isinstance(test, exp.Is) or not isinstance(test.expression, exp.Null) or test.args.get("negate"):
        return None
    key = _key(join.args.get("on"), table_alias(select.args["from_"].this), other)
    absent = test.this
    if key is None or not isinstance(absent, exp.Column) or ident(absent.args.get("table")) != other:
        return None
    own = key[1]
    inner = copied(join)
    inner.set("side", None)
    certain = ident(absent.this) == ident(own.this) or tables.filled(join.this, ident(absent.this))
    return _Found(key[0], inner, False, [p for p in parts if p is not test], True, None if certain else absent)


def _subquery(select: exp.Select, tables: KnownTables) -> _Found | None:
    """public WHERE [NOT] EXISTS (SELECT ... FROM private WHERE equality), or WHERE key [NOT] IN (SELECT column FROM private)."""
    parts = _parts(select.args["where"].this)
    asking = [p for p in parts if p.find(exp.Query)]
    if select.args.get("joins") or len(asking) != 1:
        return None
    test = asking[0]
    negated = isinstance(test, exp.Not)
    test = test.this.unnest() if isinstance(test, exp.Not) else test
    public = table_alias(select.args["from_"].this)
    query = test.args.get("query") if isinstance(test, exp.In) else test.this if isinstance(test, exp.Exists) else None
    inner = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(inner, exp.Select) or inner.args.get("from_") is None or not tables.reads_private(inner):
        return None
    if any(v for k, v in inner.args.items() if k not in (*_ONLY, "distinct")) or any(map(contains_aggregate, inner.expressions)):
        return None
    inner = copied(inner)
    if isinstance(test, exp.In):
        key, column = test.this, inner.expressions[0].unalias()
        if not isinstance(key, exp.Column) or len(inner.expressions) != 1 or not _names(key, public, ident(key.this)):
            return None
        pair = (copied(key), column)
    else:
        found = _correlation(inner, public)
        if found is None:
            return None
        pair = found
    inner.set("expressions", [exp.alias_(copied(pair[1]), _KEY)])
    inner.set("distinct", None)
    if mark_outer(inner, tables.columns_of):
        return None
    some = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_SOME)))
    key = exp.column(copied(pair[0].this), table=exp.to_identifier(public, quoted=True))
    matches = exp.EQ(this=copied(key), expression=exp.column(exp.to_identifier(_KEY), table=exp.to_identifier(_SOME)))
    rest = [p for p in parts if p is not asking[0]]
    return _Found(key, exp.Join(this=some, on=matches), not negated, rest, isinstance(test, exp.Exists))


def _correlation(inner: exp.Select, public: str) -> tuple[exp.Column, exp.Column] | None:
    """The public and the private column that WHERE makes equal; what else WHERE says stays there."""
    where = inner.args.get("where")
    parts = _parts(where.this) if where is not None else []
    for part in parts:
        sides = _sides(part)
        found = [(a, b) for a, b in sides if ident(a.args.get("table")) == public and ident(b.args.get("table")) != public]
        if len(found) == 1 and found[0][1].args.get("table"):
            rest = [copied(p) for p in parts if p is not part]
            inner.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
            return found[0]
    return None


def _sides(part: exp.Expr) -> list[tuple[exp.Column, exp.Column]]:
    if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column) or not isinstance(part.expression, exp.Column):
        return []
    return [(part.this, part.expression), (part.expression, part.this)]


def _key(on: exp.Expr | None, public: str, private: str) -> tuple[exp.Column, exp.Column] | None:
    """The public and the private side of one equality of columns."""
    on = on.unnest() if isinstance(on, exp.Paren) else on
    for a, b in _sides(on) if on is not None else []:
        if (ident(a.args.get("table")), ident(b.args.get("table"))) == (public, private):
            return a, b
    return None


def _subtracted(select: exp.Select, call: exp.Expr, table: exp.Table, found: _Found) -> None:
    some = _count(table, found, [found.join], [])
    value: exp.Expr = exp.Subquery(this=some)
    if not found.there:
        rows = found.null and not isinstance(call.expressions[0], exp.Distinct | exp.Column)
        everything = exp.Subquery(this=_count(table, found, [], [], rows))
        value = exp.Anonymous(this="greatest", expressions=[exp.Sub(this=everything, expression=value), exp.Literal.number(0)])
    if found.empty is not None:  # rows that are there, and are as empty as if they were not
        empty = exp.Is(this=copied(found.empty), expression=exp.Null())
        value = exp.Add(
            this=value,
            expression=exp.Subquery(
                this=_count(table, found, [found.join], [empty], not isinstance(call.expressions[0], exp.Distinct))
            ),
        )
    if call is select.expressions[0]:
        select.set("expressions", [exp.alias_(value, "count")])
    else:
        call.replace(exp.Paren(this=value))
    for clause in ("from_", "joins", "where"):
        select.set(clause, None)


def _count(table: exp.Table, found: _Found, joins: list[exp.Join], more: list[exp.Expr], rows: bool = False) -> exp.Select:
    conditions = [copied(c) for c in (*found.rest, *more)]
    of: exp.Expr = exp.Star() if rows else exp.Distinct(expressions=[copied(found.key)])
    return exp.Select(
        expressions=[exp.Anonymous(this="count", expressions=[of])],
        from_=exp.From(this=copied(table)),
        joins=[copied(j) for j in joins] or None,
        where=exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None,
    )
