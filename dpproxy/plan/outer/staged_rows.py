"""Rows the facade computes before a measurement runs: how they are asked for, and what is known of them beforehand.

Knows: trees of released and public queries, their types. Must not know: private rows, engines. Such rows reach the engine
as constants, so that anything PostgreSQL can compute of released and public rows may be joined with private ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

from sqlglot import exp

from dpproxy.plan.context import too_many_rows
from dpproxy.plan.intervals.numbers import DEVIATION
from dpproxy.plan.properties.fanout import beside_series
from dpproxy.sql.dialect import copied, ident, to_sql
from dpproxy.sql.skeleton import parse_expression, written
from dpproxy.sql.trees import contains_aggregate
from dpproxy.sql.types import FLOATS, type_name, wire_type
from dpproxy.tree.expr import Column
from dpproxy.tree.interval import OPEN, Interval
from dpproxy.tree.relation import Beside

ONE_ROW, KEY, BOUND = "dpproxy_one_row", "dpproxy_key", "dpproxy_bound"
"""Notes that a measured SELECT carries after it was rewritten: it has one row; which output is its only key; and that the formula
of an aggregate carries: what its value is held within."""


def note_measured(select: exp.Select, keys: int, outputs: Sequence[int | None]) -> None:
    """`outputs[i]` is the key that output i is, None for other expressions."""
    if keys == 0:
        select.meta[ONE_ROW] = True
    elif keys == 1 and 0 in outputs:
        select.meta[KEY] = outputs.index(0)


def note_bound(formula: exp.Expr, bound: Interval) -> None:
    if bound.closed:
        formula.meta[BOUND] = bound


def rows_as_json(query: str, names: Sequence[str], cells: str, most: int) -> str:
    """Write the rows of a query as one value, an array of arrays of `cells`; the text `too_many_rows` when there are more than
    `most`."""
    rows = f"(SELECT * FROM ({query}) AS dpproxy_all LIMIT {most + 1}) AS dpproxy_rows({', '.join(names)})"
    whole = f"coalesce(json_agg(json_build_array({cells})), '[]')"
    return f"(SELECT CASE WHEN count(*) <= {most} THEN {whole} ELSE to_json('{too_many_rows(most)}'::text) END FROM {rows})"


def output_bounds(query: exp.Expr, ctes: Mapping[str, exp.Expr]) -> list[Interval]:
    """Say what the outputs of a released query are held within: means, extremes and percentiles as they are measured."""
    inner = _plain(query, ctes)
    return [_bound(e.unalias()) for e in inner.expressions] if isinstance(inner, exp.Select) else []


def _bound(node: exp.Expr) -> Interval:
    while isinstance(node, exp.Cast) and type_name(node.to) in ("numeric", *FLOATS):
        node = node.this
    return node.meta.get(BOUND, OPEN)  # type: ignore[no-any-return]


def known_sizes(query: exp.Expr, columns: Sequence[Column], ctes: Mapping[str, exp.Expr]) -> Beside:
    """Say how many rows a released query has, and how often a value of a column comes, as far as its form tells."""
    ids = frozenset(c.id for c in columns)
    inner = _plain(query, ctes)
    call = _series(inner)
    if call is not None:
        return beside_series(columns, *call)
    if not isinstance(inner, exp.Select):
        return Beside(ids, None)
    key = inner.meta.get(KEY)
    if key is None and not inner.meta.get(ONE_ROW):
        key = _own_key(inner)
    most = ((columns[key].id, 1),) if key is not None and key < len(columns) else ()
    repeated = _repeated(inner)
    if repeated is not None and len(columns) == 1:
        most = ((columns[0].id, repeated),)
    return Beside(ids, 1 if inner.meta.get(ONE_ROW) or _one_row(inner) else _listed(inner), most, nulls=True)


def _plain(query: exp.Expr, ctes: Mapping[str, exp.Expr]) -> exp.Expr:
    """The query behind parentheses, `SELECT * FROM (query)` and `SELECT * FROM cte`."""
    while True:
        if isinstance(query, exp.Subquery):
            query = query.this
            continue
        bare = isinstance(query, exp.Select) and not any(query.args.get(k) for k in ("joins", "where", "group", "distinct"))
        clause = query.args.get("from_")
        if not bare or clause is None or not (len(query.expressions) == 1 and isinstance(query.expressions[0], exp.Star)):
            return query
        source = clause.this
        if isinstance(source, exp.Subquery):
            query = source
        elif isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier) and ident(source.this) in ctes:
            query = ctes[ident(source.this)]
        else:
            return query


def _series(query: exp.Expr) -> tuple[str, str, str] | None:
    """Start, stop and step of `SELECT * FROM generate_series(...)` or `SELECT generate_series(...)` of constants."""
    if not isinstance(query, exp.Select):
        return None
    clause = query.args.get("from_")
    call = clause.this.this if clause is not None and isinstance(clause.this, exp.Table) else None
    if clause is None and len(query.expressions) == 1:
        call = query.expressions[0].unalias()
        call = call.this if isinstance(call, exp.Cast) else call
    if not isinstance(call, exp.Anonymous) or call.name.lower() != "generate_series":
        return None
    found = [_constant(e) for e in call.expressions]
    if len(found) == 2:
        found.append("1")
    return (found[0], found[1], found[2]) if len(found) == 3 else None


def _listed(query: exp.Select) -> int | None:
    """How many rows `SELECT ... FROM unnest(ARRAY[...], ...)` has at most: as many as the longest list."""
    arrays = _arrays(query)
    return max(len(a.expressions) for a in arrays) if arrays else None


def _repeated(query: exp.Select) -> int | None:
    """How often a value of `SELECT * FROM unnest(ARRAY[...])` comes at most, where it is one list of strings."""
    arrays = _arrays(query)
    if len(arrays) != 1 or len(query.expressions) != 1:
        return None
    items = arrays[0].expressions
    strings = [e.this for e in items if isinstance(e, exp.Literal) and e.is_string]  # numbers may be equal and written otherwise
    return max(Counter(strings).values()) if strings and len(strings) == len(items) else None


def _arrays(query: exp.Select) -> list[exp.Array]:
    """The lists of `SELECT ... FROM unnest(ARRAY[...], ...)`, none for another query."""
    clause = query.args.get("from_")
    source = clause.this if clause is not None and not query.args.get("joins") else None
    arrays = [a.unnest() for a in source.expressions] if isinstance(source, exp.Unnest) else []
    plain = all(isinstance(e.unalias(), exp.Star | exp.Column) for e in query.expressions)  # functions may make rows
    return arrays if plain and all(isinstance(a, exp.Array) for a in arrays) else []


def _constant(node: exp.Expr) -> str:
    """The text of a constant, empty for anything else."""
    while isinstance(node, exp.Cast | exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.this}"
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        return f"{node.this.this} {node.args['unit'].name if node.args.get('unit') is not None else ''}".strip()
    return str(node.this) if isinstance(node, exp.Literal) else ""


def _own_key(select: exp.Select) -> int | None:
    """The output that a public query groups by, or is distinct in, alone."""
    if select.args.get("distinct") is not None and len(select.expressions) == 1:
        return 0
    group = select.args.get("group")
    if group is None or len(group.expressions) != 1 or any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets")):
        return None
    item = group.expressions[0]
    if isinstance(item, exp.Literal) and item.this.isdigit():
        return int(item.this) - 1
    return next((i for i, e in enumerate(select.expressions) if e.unalias() == item or e.alias_or_name == item.name), None)


def _one_row(select: exp.Select) -> bool:
    """An aggregate of everything, no FROM at all, or LIMIT 1."""
    limit = select.args.get("limit")
    value = limit.args.get("expression") if isinstance(limit, exp.Limit) else None
    if isinstance(value, exp.Literal) and value.this == "1":
        return True
    if select.args.get("group") is not None:
        return False
    return any(map(contains_aggregate, select.expressions)) or (
        select.args.get("from_") is None and not any(e.find(exp.Anonymous) for e in select.expressions)
    )


# Released arrays as items of FROM: `unnest($n::t[], ...) AS m(...)`, one for each measurement, or several made one.
#
# Knows: names and types of released columns. Must not know: what they mean.


Branch = tuple[exp.Expr, tuple[int, ...], bool, list[str]]


def sets_source(alias: str, branches: list[Branch], keys: list[str], values: list[str], ctes: str = "") -> exp.Expr:
    """Return the grouping sets as one source: `(SELECT k0, NULL AS k1, b0, 2 AS g FROM <set> UNION ALL ...) AS alias`.

    A branch is (its source, the keys of its set, whether the source is the finest set and must be added up, more items).
    `ctes`: queries of a WITH clause that sources refer to, whose values are whole but not of type int8.
    `g` has bit i set where key i is left out.
    """
    selects: list[exp.Expr] = []
    for source, members, summed, more in branches:
        missing = sum(1 << i for i in range(len(keys)) if i not in members)
        items = [f"k{i}" if i in members else f"CAST(NULL AS {keys[i]}) AS k{i}" for i in range(len(keys))]
        items += [f"CAST({_added(v)} AS int8) AS {v}" if summed else v for v in values]
        if ctes:
            items = [f"CAST({item} AS int8) AS {item}" if item in values else item for item in items]
        text = f"SELECT {', '.join([*items, *more, f'{missing} AS g'])} FROM dpproxy_set"
        if summed and members:
            text += f" GROUP BY {', '.join(f'k{i}' for i in members)}"
        select = parse_expression(text)
        select.args["from_"].this.replace(copied(source))
        selects.append(select)
    whole = reduce(lambda all_, one: exp.Union(this=all_, expression=one, distinct=False), selects)
    if ctes:
        whole.set("with_", exp.With(expressions=[written(ctes, DEVIATION)]))
    return exp.Subquery(this=whole, alias=exp.TableAlias(this=exp.to_identifier(alias)))


def _added(value: str) -> str:
    """A released value of a group of groups: of last steps the greatest; what later ones hold may be without a bound in each."""
    if value[0] == "t":
        return f"COALESCE(MAX({value}), 0)"
    return f"LEAST(COALESCE(SUM({value}), 0), {2**60})" if value[0] == "x" else f"COALESCE(SUM({value}), 0)"


def with_columns(source: exp.Expr, alias: str, more: list[str]) -> exp.Expr:
    """Return a source of that alias with further columns, the same in all rows."""
    return _from_item(f"(SELECT *, {', '.join(more)} FROM {to_sql(source)}) AS {alias}")


def filtered_source(source: exp.Expr, tests: list[str]) -> exp.Expr:
    """Return the rows of a source that pass all tests."""
    return _from_item(f"(SELECT * FROM {to_sql(source)} WHERE {' AND '.join(tests)}) AS f")


def array_source(alias: str, first: int, types: list[tuple[str, str]]) -> exp.Expr:
    """Write `unnest($n::t[], ...) AS alias(names)`; `types` are (column name, element type), parameters from `first` on."""
    arrays = ", ".join(f"${first + i}::{wire_type(t)}[]" for i, (_, t) in enumerate(types))
    names = ", ".join(name for name, _ in types)
    return _from_item(f"unnest({arrays}) AS {alias}({names})")


def _from_item(text: str) -> exp.Expr:
    found = parse_expression(f"SELECT 1 FROM {text}").args["from_"].this
    assert isinstance(found, exp.Expr)
    return found


def session_local(name: str, type_: str) -> str:
    """Return a key as it travels: instants do as the session's local timestamps."""
    return f"({name})::timestamp" if type_ == "timestamptz" else name
