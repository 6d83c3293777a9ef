"""A rule: percentiles written with row numbers, as percentiles.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines. The number of a row among all people's rows is
nobody's own and cannot be had below a measurement; but where it is only asked which value stands at a share of all rows,

    SELECT min(CASE WHEN n < 0.25 * size THEN 9999 ELSE x END)
    FROM (SELECT x, row_number() OVER (PARTITION BY g ORDER BY x NULLS FIRST) AS n, (SELECT count(*) FROM t) AS size FROM t) s

is a percentile, and is measured as one. `size` must be, by its very text, the number of the rows that are numbered; else the
rows meant are not known, and the query stays as it is. A join of sizes by `g = g` leaves out the rows whose `g` is NULL: where
the join goes, `g IS NOT NULL` stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.functions.numbers import FIRST
from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.dialect import copied, ident, to_sql
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import counts_rows, function_name, sources_of

Lookup = Callable[[exp.Column], tuple[exp.Select, exp.Expr] | None]
"""The subquery a column comes from, and its projection there."""


@dataclass(frozen=True)
class _Numbered:
    """Rows with their number: the query that numbers them, by which partition and value."""

    query: exp.Select
    projection: exp.Expr
    partition: frozenset[str]
    value: str
    counted: bool  # the value is a COUNT, never NULL


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such percentiles with `percentile_disc`; whether there were any.

    Before: `SELECT min(CASE WHEN n < 0.25 * size THEN 9999 ELSE x END) FROM (SELECT x, row_number() OVER (ORDER BY x NULLS FIRST)
    AS n, (SELECT count(*) FROM t) AS size FROM t) s`
    After: `SELECT least(9999, greatest(min(x), percentile_disc(0.25) WITHIN GROUP (ORDER BY dpproxy_first(x)))) FROM (SELECT x
    FROM t) s`
    """
    found = [_rewritten(tree, select) for select in every(tree, exp.Select)]
    return any(found)


def _rewritten(tree: exp.Expr, select: exp.Select) -> bool:
    if select.args.get("where") is not None or len(select.args.get("joins") or ()) > 1:
        return False  # the rows would be others than those that were numbered
    sources = {alias: query for alias, query in (_source(tree, s) for s in sources_of(select)) if query is not None}

    def lookup(column: exp.Column) -> tuple[exp.Select, exp.Expr] | None:
        table, name = ident(column.args.get("table")), ident(column.this)
        found = [(q, e) for a, q in sources.items() if table in ("", a) for e in q.expressions if output_name(e) == name]
        return found[0] if len(found) == 1 else None

    done: list[tuple[_Numbered, exp.Column, exp.Column]] = []
    named = [e if isinstance(e, exp.Alias | exp.Star) else exp.alias_(e, output_name(e), quoted=True) for e in select.expressions]
    for call in [n for e in named for n in e.find_all(exp.Anonymous) if function_name(n) == "min"]:
        found = _percentile(call, lookup, select)
        if found is not None:
            value, rows = found
            call.replace(value)
            done.append(rows)
    if not done:
        return False
    select.set("expressions", named)
    _dropped(select, sources, done)
    return True


def _source(tree: exp.Expr, node: exp.Expr) -> tuple[str, exp.Select | None]:
    """The alias of a source and its query: a derived table, or a CTE that nothing else reads."""
    alias = ident(node.args["alias"].this) if node.args.get("alias") is not None else ""
    if isinstance(node, exp.Subquery):
        return alias, node.this if isinstance(node.this, exp.Select) else None
    if not isinstance(node, exp.Table) or node.args.get("db"):
        return alias, None
    name = ident(node.this)
    bodies = [c.this for c in tree.find_all(exp.CTE) if ident(c.args["alias"].this) == name]
    readers = [t for t in tree.find_all(exp.Table) if ident(t.this) == name and not t.args.get("db")]
    plain = len(bodies) == len(readers) == 1 and isinstance(bodies[0], exp.Select)
    return alias or name, bodies[0] if plain else None


def _percentile(
    call: exp.Anonymous, lookup: Lookup, select: exp.Select
) -> tuple[exp.Expr, tuple[_Numbered, exp.Column, exp.Column]] | None:
    """`min(CASE WHEN n < share * size THEN big ELSE x END)` as a percentile, and its columns n and size."""
    case = call.expressions[0] if len(call.expressions) == 1 else None
    if not isinstance(case, exp.Case) or case.this is not None or len(case.args["ifs"]) != 1:
        return None
    test, value = case.args["ifs"][0].this, case.args.get("default")
    big = case.args["ifs"][0].args["true"]
    if not isinstance(test, exp.LT) or not isinstance(test.this, exp.Column) or not isinstance(value, exp.Column):
        return None
    shared = _share(test.expression)
    numbered = _numbered(lookup(test.this))
    if shared is None or numbered is None or not isinstance(big, exp.Literal):
        return None
    share, size = shared
    given = lookup(value)
    if given is None or given[0] is not numbered.query or _text(given[1].unalias()) != numbered.value:
        return None
    if select.args.get("joins") and lookup(size) is not None and lookup(size)[0] is numbered.query:  # type: ignore[index]
        return None
    if not _counts_rows(lookup(size), numbered, select, lookup) or _group(select, lookup, numbered) != numbered.partition:
        return None
    return _formula(share, value, big, numbered.counted), (numbered, test.this, size)


def _share(node: exp.Expr) -> tuple[exp.Literal, exp.Column] | None:
    """`0.25 * size`"""
    if not isinstance(node, exp.Mul):
        return None
    for share, size in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(share, exp.Literal) and isinstance(size, exp.Column) and 0 < float(share.this) < 1:
            return share, size
    return None


def _numbered(found: tuple[exp.Select, exp.Expr] | None) -> _Numbered | None:
    """row_number() OVER ([PARTITION BY g] ORDER BY [g,] x)"""
    if found is None:
        return None
    query, projection = found
    window = projection.unalias()
    if not isinstance(window, exp.Window) or not isinstance(window.this, exp.Expr) or function_name(window.this) != "row_number":
        return None
    partition = frozenset(_text(p) for p in window.args.get("partition_by") or ())
    order = window.args.get("order")
    if any(query.args.get(k) for k in ("distinct", "limit", "offset")) or order is None or not order.expressions:
        return None
    *first, last = order.expressions
    if any(_text(o.this) not in partition for o in first) or last.args.get("desc"):
        return None
    counted = function_name(last.this) == "count"
    if not counted and not last.args.get("nulls_first"):
        return None
    return _Numbered(query, projection, partition, _text(last.this), counted)


def _counts_rows(found: tuple[exp.Select, exp.Expr] | None, numbered: _Numbered, select: exp.Select, lookup: Lookup) -> bool:
    """Whether a column is the number of the rows that are numbered: in the partition, or in all where there is none."""
    if found is None:
        return False
    query, size = found[0], found[1].unalias()
    if query is numbered.query:
        if isinstance(size, exp.Window):
            window = frozenset(_text(p) for p in size.args.get("partition_by") or ())
            return _counting(size.this) == "*" and window == numbered.partition and size.args.get("order") is None
        inner = size.this if isinstance(size, exp.Subquery) else None
        return isinstance(inner, exp.Select) and not numbered.partition and _same_rows(inner, inner.expressions, numbered)
    group = query.args.get("group")
    keys = frozenset(_text(e) for e in group.expressions) if group is not None else frozenset()
    counted = keys == numbered.partition and _same_rows(query, [size], numbered)
    return counted and _joined_on(_size_join(select, query), lookup, keys)


def _same_rows(query: exp.Select, size: list[exp.Expr], numbered: _Numbered) -> bool:
    """Whether `query` counts all rows of the query that numbers, or its groups by their only key."""
    if len(size) != 1 or any(query.args.get(k) for k in ("having", "distinct", "limit", "offset", "with_")):
        return False
    group = numbered.query.args.get("group")
    if numbered.query.args.get("having") is not None or _rows(query) != _rows(numbered.query):
        return False
    counting = _counting(size[0].unalias())
    if group is None:
        return counting == "*"
    return len(group.expressions) == 1 and counting == f"distinct {_text(group.expressions[0])}" and not query.args.get("group")


def _counting(call: exp.Expr) -> str:
    """What COUNT counts: `*`, `distinct x`, or nothing known."""
    if counts_rows(call):
        return "*"
    of = call.expressions[0] if function_name(call) == "count" and len(call.expressions) == 1 else None
    return f"distinct {_text(of.expressions[0])}" if isinstance(of, exp.Distinct) and len(of.expressions) == 1 else ""


def _size_join(select: exp.Select, query: exp.Select) -> exp.Join | None:
    return next((j for j in select.args.get("joins") or () if isinstance(j.this, exp.Subquery) and j.this.this is query), None)


def _joined_on(join: exp.Join | None, lookup: Lookup, keys: frozenset[str]) -> bool:
    """Whether the sizes are joined on all their keys and nothing else (without any, to every row)."""
    if join is None or join.side or join.args.get("using"):
        return False
    tests = _tests(join)
    found = [_joined_key(t, lookup) for t in tests]
    return len(tests) == len(keys) and frozenset(found) == keys


def _tests(join: exp.Join) -> list[exp.Expr]:
    on = join.args.get("on")
    return [] if on is None else list(on.flatten()) if isinstance(on, exp.And) else [on]


def _joined_key(test: exp.Expr, lookup: Lookup) -> str | None:
    """What an equality makes equal, where that is the same of the rows and of the sizes."""
    sides = [test.this, test.expression] if isinstance(test, exp.EQ) else []
    found = [lookup(s) if isinstance(s, exp.Column) else None for s in sides]
    if len(found) != 2 or found[0] is None or found[1] is None or found[0][0] is found[1][0]:
        return None
    one, two = (_text(f[1].unalias()) for f in found if f is not None)
    return one if one == two else None


def _group(select: exp.Select, lookup: Lookup, numbered: _Numbered) -> frozenset[str] | None:
    """What the query around groups by, in the words of the one that numbers."""
    group = select.args.get("group")
    found = [lookup(e) if isinstance(e, exp.Column) else None for e in (group.expressions if group is not None else ())]
    if any(f is None or f[0] is not numbered.query for f in found):
        return None
    return frozenset(_text(f[1].unalias()) for f in found if f is not None)


def _formula(share: exp.Literal, value: exp.Column, big: exp.Literal, counted: bool) -> exp.Expr:
    """Rows without a value come first: where they reach the share, it is the least value."""
    of = copied(value) if counted else exp.Anonymous(this=FIRST, expressions=[copied(value)])
    percentile = exp.WithinGroup(
        this=exp.Anonymous(this="percentile_disc", expressions=[copied(share)]),
        expression=exp.Order(expressions=[exp.Ordered(this=of)]),
    )
    known: exp.Expr = percentile
    if not counted:
        least = exp.Anonymous(this="min", expressions=[copied(value)])
        known = exp.Anonymous(this="greatest", expressions=[least, percentile])
    return exp.Anonymous(this="least", expressions=[copied(big), known])


def _dropped(select: exp.Select, sources: dict[str, exp.Select], done: list[tuple[_Numbered, exp.Column, exp.Column]]) -> None:
    """The numbers and sizes leave the query where nothing else reads them."""
    read = {(ident(c.args.get("table")), ident(c.this)) for c in _own_columns(select)}
    names = {name for _, name in read}
    for numbered, number, size in done:
        for column in (number, size):
            if ident(column.this) not in names:
                kept = [e for e in numbered.query.expressions if output_name(e) != ident(column.this)]
                numbered.query.set("expressions", kept)
    for alias, query in sources.items():
        joins = select.args.get("joins") or []
        join = _size_join(select, query)
        sizes = {ident(size.this) for _, _, size in done}
        if join is None or not sizes & {output_name(e) for e in query.expressions}:
            continue
        outside = {table for table, _ in _pairs(select, but=join)}
        if alias not in outside and not sizes & names:
            select.set("joins", [j for j in joins if j is not join] or None)
            filled = [_filled(t, alias) for t in _tests(join)]
            select.set("where", exp.Where(this=exp.and_(*filled, copy=False)) if filled else None)


def _filled(test: exp.Expr, sizes: str) -> exp.Expr:
    """What an equality with a column of `sizes` asks of the other side: that it is not NULL."""
    theirs = isinstance(test.this, exp.Column) and ident(test.this.args.get("table")) == sizes
    key = test.expression if theirs else test.this
    return exp.Is(this=copied(key), expression=exp.Null(), negate=True)


def _own_columns(select: exp.Select) -> list[exp.Column]:
    found: list[exp.Column] = []
    for key, value in select.args.items():
        if key in ("from_", "with_", "joins"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr):
                found += part.find_all(exp.Column)
    return found


def _pairs(select: exp.Select, but: exp.Join) -> set[tuple[str, str]]:
    """Tables and names that a SELECT reads, one of its joins left out."""
    columns = _own_columns(select)
    for join in select.args.get("joins") or ():
        if join is not but and join.args.get("on") is not None:
            columns += join.args["on"].find_all(exp.Column)
    return {(ident(c.args.get("table")), ident(c.this)) for c in columns}


def _rows(select: exp.Select) -> str:
    """FROM and WHERE of a query as text; of one table without the table's alias."""
    clause, where = select.args.get("from_"), select.args.get("where")
    parts = [copied(p) for p in (clause, *(select.args.get("joins") or ()), where) if p is not None]
    if not select.args.get("joins") and clause is not None and isinstance(clause.this, exp.Table):
        parts[0].this.set("alias", None)
        return " ".join(map(_text, parts))
    return " ".join(map(to_sql, parts))


def _text(node: exp.Expr) -> str:
    """An expression over one source as text: names without their table."""
    plain = copied(node)
    for column in [plain] if isinstance(plain, exp.Column) else list(plain.find_all(exp.Column)):
        column.set("table", None)
    return to_sql(plain).lower()
