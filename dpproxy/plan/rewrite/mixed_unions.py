"""A rule: aggregates over private and public rows together, as one over each and the two put together.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines, noise. `SELECT k, count(*) FROM (private
UNION ALL public) u GROUP BY k` reads rows of which some belong to nobody. Counts, sums, least and greatest values, and means of a
union are made of those of its parts: the private part is measured, the public one is counted as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import aggregate_calls, contains_aggregate, function_name, mentions

_ACROSS = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
_CLAUSES = ("having", "order")


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such aggregates as those of both parts; whether there were any. What has another form stays as it is.

    Before: `SELECT count(*) FROM (SELECT region FROM customers UNION ALL SELECT region FROM regions) u`
    After: `SELECT sum(dpproxy_p0) AS count FROM (SELECT count(*) AS dpproxy_p0 FROM (SELECT region FROM customers) u(region)
    UNION ALL SELECT count(*) AS dpproxy_p0 FROM (SELECT region FROM regions) u(region)) dpproxy_parts`
    """
    found = [_parted(tree, select, tables) for select in every(tree, exp.Select)]
    if any(found):
        _unread(tree)
    return any(found)


def _unread(tree: exp.Expr) -> None:
    """CTEs that nothing reads any more leave the query."""
    for clause in every(tree, exp.With):
        kept = [c for c in clause.expressions if any(mentions(t, ident(c.args["alias"].this)) for t in _outside(tree, c))]
        if kept:
            clause.set("expressions", kept)
        elif clause.parent is not None:
            clause.parent.set("with_", None)


def _outside(tree: exp.Expr, cte: exp.Expr) -> list[exp.Table]:
    return [t for t in tree.find_all(exp.Table) if t.find_ancestor(exp.CTE) is not cte]


def _parted(tree: exp.Expr, select: exp.Select, tables: KnownTables) -> bool:
    clause = select.args.get("from_")
    if clause is None or any(select.args.get(k) for k in ("joins", "distinct", "windows", "laterals")):
        return False
    union = _union(tree, clause.this)
    branches = _branches(union) if union is not None else []
    sides = [[b for b in branches if tables.reads_private(b)], [b for b in branches if not tables.reads_private(b)]]
    names = [output_name(e) for e in branches[0].expressions] if branches else []
    if not all(sides) or len(set(names)) < len(names) or "?column?" in names or any(e.is_star for e in branches[0].expressions):
        return False
    calls = list({c: None for part in _places(select) for c in aggregate_calls(part)})
    keys = _keys(select, names)
    if not calls or keys is None or not all(map(_simple, calls)):
        return False
    _put_together(select, sides, names, keys, calls)
    return True


def _union(tree: exp.Expr, source: exp.Expr) -> exp.Expr | None:
    """The set operation behind a derived table, or a CTE."""
    if isinstance(source, exp.Subquery):
        alias = source.args.get("alias")
        return source.this if alias is None or not alias.args.get("columns") else None
    if isinstance(source, exp.Table) and not source.args.get("db"):
        ctes = [c for c in tree.find_all(exp.CTE) if ident(c.args["alias"].this) == ident(source.this)]
        if len(ctes) == 1 and not ctes[0].args["alias"].args.get("columns"):
            body: exp.Expr = ctes[0].this
            return body
    return None


def _branches(union: exp.Expr) -> list[exp.Select]:
    """The SELECTs of a chain of UNION ALL; none for anything else."""
    if isinstance(union, exp.Subquery) and not any(union.args.get(k) for k in ("limit", "offset", "order")):
        return _branches(union.this)
    if isinstance(union, exp.Select):
        return [union] if not any(union.args.get(k) for k in ("limit", "offset", "with_")) else []
    plain = isinstance(union, exp.Union) and not union.args.get("distinct")
    if not plain or any(union.args.get(k) for k in ("limit", "offset", "order", "with_")):
        return []
    left, right = _branches(union.this), _branches(union.expression)
    return [*left, *right] if left and right else []


def _places(select: exp.Select) -> list[exp.Expr]:
    return [*select.expressions, *(select.args[k] for k in _CLAUSES if select.args.get(k) is not None)]


def _keys(select: exp.Select, names: Sequence[str]) -> list[exp.Expr] | None:
    """What it groups by; None where that has another form."""
    group = select.args.get("group")
    if group is None:
        return []
    if any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets", "all", "totals")):
        return None
    outputs = {output_name(e): e.unalias() for e in select.expressions if isinstance(e, exp.Alias)}
    found: list[exp.Expr] = []
    for item in group.expressions:
        if isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            return None
        if isinstance(item, exp.Literal):
            item = select.expressions[int(item.this) - 1].unalias() if item.this.isdigit() else item
        elif isinstance(item, exp.Column) and not item.args.get("table") and ident(item.this) not in names:
            item = outputs.get(ident(item.this), item)
        found.append(item)
    return None if any(map(contains_aggregate, found)) else found


def _simple(call: exp.Expr) -> bool:
    inner = call.this if isinstance(call, exp.Filter) else call
    if function_name(inner) not in (*_ACROSS, "avg") or len(inner.expressions) != 1:
        return False
    return not isinstance(inner.expressions[0], exp.Distinct)


def _put_together(
    select: exp.Select, sides: list[list[exp.Select]], names: list[str], keys: list[exp.Expr], calls: list[exp.Expr]
) -> None:
    """The two sides aggregated apart, and the aggregates of both as aggregates of these."""
    columns = {key: exp.column(exp.to_identifier(f"dpproxy_k{i}", quoted=True)) for i, key in enumerate(keys)}
    parts: list[exp.Expr] = []
    across = {call: _across(call, parts) for call in calls}
    named = [exp.alias_(copied(key), f"dpproxy_k{i}", quoted=True) for i, key in enumerate(keys)]
    named += [exp.alias_(copied(part), f"dpproxy_p{i}", quoted=True) for i, part in enumerate(parts)]
    alias = select.args["from_"].this.args.get("alias")
    source = ident(alias.this) if alias is not None else ident(select.args["from_"].this.this)
    halves = [_half(side, names, source, select.args.get("where"), named, keys) for side in sides]
    union = exp.Union(this=halves[0], expression=halves[1], distinct=False)
    outputs = [e if isinstance(e, exp.Alias) else exp.alias_(e, output_name(e), quoted=True) for e in select.expressions]
    select.set("expressions", outputs)
    for place in _places(select):
        _exchanged(place, {**across, **columns})
    select.set("from_", exp.From(this=exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier("dpproxy_parts")))))
    select.set("where", None)
    select.set("group", exp.Group(expressions=[copied(c) for c in columns.values()]) if columns else None)


def _half(
    side: list[exp.Select], names: list[str], source: str, where: exp.Expr | None, named: list[exp.Expr], keys: list[exp.Expr]
) -> exp.Select:
    rows: exp.Expr = copied(side[0])
    for branch in side[1:]:
        rows = exp.Union(this=rows, expression=copied(branch), distinct=False)
    columns = [exp.to_identifier(n, quoted=True) for n in names]
    alias = exp.TableAlias(this=exp.to_identifier(source or "dpproxy_rows", quoted=True), columns=columns)
    half = exp.Select(expressions=[copied(e) for e in named])
    half.set("from_", exp.From(this=exp.Subquery(this=rows, alias=alias)))
    half.set("where", copied(where) if where is not None else None)
    half.set("group", exp.Group(expressions=[copied(k) for k in keys]) if keys else None)
    return half


def _across(call: exp.Expr, parts: list[exp.Expr]) -> exp.Expr:
    """An aggregate of both sides from those of each, which are added to `parts`."""
    inner = call.this if isinstance(call, exp.Filter) else call
    name = function_name(inner)

    def part(function: str) -> exp.Expr:
        made = copied(call)
        (made.this if isinstance(made, exp.Filter) else made).set("this", function)
        if made not in parts:
            parts.append(made)
        column = exp.column(exp.to_identifier(f"dpproxy_p{parts.index(made)}", quoted=True))
        return exp.Anonymous(this=_ACROSS[function], expressions=[column])

    if name != "avg":
        return part(name)
    some = exp.Anonymous(this="nullif", expressions=[part("count"), exp.Literal.number(0)])
    return exp.Paren(this=exp.Div(this=part("sum"), expression=some))


def _exchanged(node: exp.Expr, known: dict[exp.Expr, exp.Expr]) -> None:
    for key, value in list(node.args.items()):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, exp.Expr) or (key == "alias" and isinstance(node, exp.Alias)):
                continue
            if isinstance(child, exp.Select | exp.SetOperation):
                continue  # its names and counts are of other rows
            if child in known:
                child.replace(copied(known[child]))
            else:
                _exchanged(child, known)
