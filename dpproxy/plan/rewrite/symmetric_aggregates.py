"""A rule: sums that count each key once, as Looker and Malloy write them, as sums over the first row of each key.

Knows: sqlglot's trees, before they are analysed, which columns the policy and the catalog say are keys. Must not know: engines,
noise. A join repeats the rows of its one side. `sum(DISTINCT x + h(key)) - sum(DISTINCT h(key))`, where h is a large hash, adds
up each row's x once. Nothing of the hash is needed to say that: the rows of each key and group are numbered, and x is added up
where the number is 1. x is a column of the key's own table, so that all rows of a key have the same x; without a key there is no
row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.dialect import FaithfulPostgres, copied, ident, to_sql
from dpproxy.sql.group_keys import group_keys, regrouped
from dpproxy.sql.nodes import every
from dpproxy.sql.trees import aggregate_calls, function_name, sources_of, table_alias

_ROWS = "dpproxy_once"
_SECOND = "CAST((CAST(a AS JSON) ->> 'f2') AS DOUBLE PRECISION)"
_MOVED = ("from_", "joins", "where")


@dataclass(frozen=True)
class _Symmetric:
    """The difference, the value that is added up, and the key that it is added up once of; or another aggregate of such
    values."""

    node: exp.Expr
    value: exp.Expr
    key: exp.Column
    aggregate: str = "sum"


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such sums over numbered rows; whether there were any.

    Before: `SELECT sum(DISTINCT floor(o.x) + ('x' || md5(o.id::text))::bit(64)::bigint) - sum(DISTINCT ('x' ||
    md5(o.id::text))::bit(64)::bigint) FROM o LEFT JOIN i ON i.id = o.id`
    After: `SELECT sum(s.v0) FILTER (WHERE s.n0 = 1) FROM (SELECT floor(o.x) AS v0, CASE WHEN NOT o.id IS NULL THEN row_number()
    OVER (PARTITION BY o.id ORDER BY floor(o.x)) END AS n0 FROM o LEFT JOIN i ON i.id = o.id) s`
    """
    found = [_rewritten(select, tables) for select in every(tree, exp.Select)]
    return any(found)


def _rewritten(select: exp.Select, tables: KnownTables) -> bool:
    found = [s for s in (*_symmetric(select), *_unnested(select)) if _is_key(s, select, tables)]
    keys = group_keys(select)
    if not found or keys is None or any(e.is_star for e in select.expressions):
        return False
    inner = exp.Select(expressions=[exp.alias_(copied(key), f"k{i}") for i, key in enumerate(keys)])
    for i, one in enumerate(found):
        number = _numbered(one, [*keys, *_unit(one, select, tables)])
        inner.append("expressions", exp.alias_(copied(one.value), f"v{i}"))
        inner.append("expressions", exp.alias_(number, f"n{i}"))
        first = exp.Where(this=exp.EQ(this=_of(f"n{i}"), expression=exp.Literal.number(1)))
        one.node.replace(exp.Filter(this=exp.Anonymous(this=one.aggregate, expressions=[_of(f"v{i}")]), expression=first))
    _arguments_moved(select, inner)
    for part in _MOVED:
        inner.set(part, select.args.get(part))
        select.set(part, None)
    regrouped(select, keys, inner, _ROWS)
    return True


def _of(column: str) -> exp.Column:
    return exp.column(column, table=_ROWS)


def _unit(one: _Symmetric, select: exp.Select, tables: KnownTables) -> list[exp.Expr]:
    """The unit of the first table, where the key may be NULL in rows of many units: each key is one unit's anyway."""
    first = select.args["from_"].this
    if not isinstance(first, exp.Table) or table_alias(first) == ident(one.key.args.get("table")):
        return []
    column = tables.unit_column(first)
    return [exp.column(column, table=table_alias(first), quoted=True)] if column is not None else []


def _numbered(one: _Symmetric, keys: list[exp.Expr]) -> exp.Expr:
    """The number of a row among those of its key and group; NULL without a key."""
    order = exp.Order(expressions=[exp.Ordered(this=copied(one.value))])
    partition = [*(copied(k) for k in keys), copied(one.key)]
    number = exp.Window(this=exp.Anonymous(this="row_number", expressions=[]), partition_by=partition, order=order, over="OVER")
    known = exp.Is(this=copied(one.key), expression=exp.Null(), negate=True)
    return exp.Case(ifs=[exp.If(this=known, true=number)])


def _symmetric(select: exp.Select) -> Iterator[_Symmetric]:
    for node in [n for n in select.find_all(exp.Sub) if n.find_ancestor(exp.Select) is select]:
        whole, hashed = _summed(node.this), _summed(node.expression)
        if whole is None or hashed is None:
            continue
        rest = _terms(whole)
        marks = _terms(hashed)
        for mark in marks:
            if mark not in rest:
                break
            rest.remove(mark)
        else:
            key = _hashed_key(marks)
            if len(rest) == 1 and key is not None:
                yield _Symmetric(node, _plain(rest[0]), key)


def _unnested(select: exp.Select) -> Iterator[_Symmetric]:
    """`(SELECT f((a::json->>'f2')::double precision) FROM (SELECT unnest(array_agg(DISTINCT row_to_json(row(key, x))::text)) a)
    a)`, as Malloy writes aggregates other than sums: f of each key's x."""
    for node in [n for n in select.find_all(exp.Subquery) if n.find_ancestor(exp.Select) is select]:
        query = node.this
        source = query.args.get("from_") if isinstance(query, exp.Select) and len(query.expressions) == 1 else None
        call = query.expressions[0].unalias() if source is not None else None
        row = _unnested_row(source.this) if source is not None else None
        if row is None or not isinstance(call, exp.Anonymous) or len(call.expressions) != 1 or len(row) != 2:
            continue
        key, value = row
        plain = not any(v for k, v in query.args.items() if k not in ("expressions", "from_"))
        if plain and to_sql(call.expressions[0]) == _SECOND and isinstance(key, exp.Column):
            number = exp.cast(copied(value), "double precision", dialect=FaithfulPostgres)
            yield _Symmetric(node, number, key, function_name(call))


def _unnested_row(source: exp.Expr) -> list[exp.Expr] | None:
    """Key and value of each element of the list."""
    query = source.this if isinstance(source, exp.Subquery) else None
    node = query.expressions[0].unalias() if isinstance(query, exp.Select) and len(query.expressions) == 1 else None
    for name in ("unnest", "array_agg"):
        if node is None or function_name(node) != name or len(node.expressions) != 1:
            return None
        node = node.expressions[0]
    if not isinstance(node, exp.Distinct) or len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Cast):
        return None
    made = node.expressions[0].this
    row = made.expressions[0] if function_name(made) == "row_to_json" and len(made.expressions) == 1 else None
    return list(row.expressions) if row is not None and function_name(row) == "row" else None


def _summed(node: exp.Expr) -> exp.Expr | None:
    """What `sum(DISTINCT x)` adds up."""
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if function_name(node) != "sum" or len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Distinct):
        return None
    parts = node.expressions[0].expressions
    return parts[0] if len(parts) == 1 else None


def _terms(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest() if isinstance(node, exp.Paren) else node
    return [*_terms(node.this), *_terms(node.expression)] if isinstance(node, exp.Add) else [node]


def _hashed_key(terms: list[exp.Expr]) -> exp.Column | None:
    """The one column that all terms are hashes of."""
    keys: list[exp.Expr] = []
    for term in terms:
        hashes = [n for n in term.find_all(exp.Anonymous) if function_name(n) == "md5" and len(n.expressions) == 1]
        if len(hashes) != 1 or len(list(term.find_all(exp.Column))) != 1:
            return None
        key = hashes[0].expressions[0]
        while isinstance(key, exp.Cast | exp.Paren):
            key = key.this
        keys.append(key)
    first = keys[0] if keys else None
    return first if isinstance(first, exp.Column) and all(k == first for k in keys) else None


def _plain(value: exp.Expr) -> exp.Expr:
    """The value without the cast to a type wide enough for hashes, where it is whole anyway."""
    value = value.unnest() if isinstance(value, exp.Paren) else value
    inner = value.this if isinstance(value, exp.Cast) else value
    return inner if function_name(inner) == "floor" else value


def _is_key(one: _Symmetric, select: exp.Select, tables: KnownTables) -> bool:
    """Whether the key is one of a private table, whose columns alone the value is made of."""
    alias, columns = ident(one.key.args.get("table")), list(one.value.find_all(exp.Column))
    if not alias or any(ident(c.args.get("table")) != alias for c in columns) or one.value.find(exp.Query) is not None:
        return False
    named = [s for s in sources_of(select) if isinstance(s, exp.Table) and table_alias(s) == alias]
    return len(named) == 1 and tables.private_key(named[0], ident(one.key.this))


def _arguments_moved(select: exp.Select, inner: exp.Select) -> None:
    """What the other aggregates are over becomes columns of the subquery."""
    known: dict[str, str] = {}

    def moved(node: exp.Expr) -> exp.Expr:
        name = known.setdefault(to_sql(node), f"a{len(known)}")
        if len(known) == int(name[1:]) + 1 and not any(e.alias == name for e in inner.expressions):
            inner.append("expressions", exp.alias_(copied(node), name))
        return _of(name)

    parts = [*select.expressions, *(c for c in (select.args.get("having"), select.args.get("order")) if c is not None)]
    for call in [c for part in parts for c in aggregate_calls(part)]:
        for column in [n for n in call.find_all(exp.Column) if ident(n.args.get("table")) != _ROWS]:
            column.replace(moved(column))
