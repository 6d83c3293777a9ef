"""What a SELECT over rows of units becomes: prepared rows of units, or a measurement.

Knows: GROUP BY, DISTINCT and projections over rows. Must not know: engines, noise. The one question decided here: do the keys
fix the unit? If so every group is one unit's own and any deterministic aggregate is allowed (per-unit preparation);
if not, the query is a measurement and `outer` rewrites it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, GROUPING_ERROR, Refusal
from dpproxy.plan.bind import group_counts, joins, reported
from dpproxy.plan.bind.calls import bind_order
from dpproxy.plan.bind.expressions import ExprBinder
from dpproxy.plan.bind.group_facts import column_origins, conditions_on, equal_ids, lift_aggregates, unit_ids
from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.results import Result, RowsResult
from dpproxy.plan.bind.scope import Scope, reading, resolve_group_item, resolve_sort_item, unaliased
from dpproxy.plan.bind.windows import order_free, total_order
from dpproxy.plan.context import Context
from dpproxy.plan.functions.operators import coerce
from dpproxy.plan.known_tables import Env
from dpproxy.plan.properties import rows_per_value
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.fanout import beside_groups, check_repetitions, contribution, overall_limits, with_repetitions
from dpproxy.plan.properties.key_origins import origin
from dpproxy.plan.properties.narrowing import narrowed_column
from dpproxy.plan.properties.null_padding import computed_column
from dpproxy.plan.refusals import FormRefusal, limit_below, rows_of_people, unsupported
from dpproxy.policy.names import plural
from dpproxy.sql import capture
from dpproxy.sql.dialect import ident, position
from dpproxy.sql.output_names import output_name
from dpproxy.sql.placement import check_group_key
from dpproxy.sql.trees import contains_aggregate
from dpproxy.tree.expr import Agg, Call, Case, Column, Expr, Lit, Ref, ValuesDomain, Win, references, walk
from dpproxy.tree.relation import (
    SINGLE,
    Aggregate,
    Contribution,
    ContributionLimits,
    Distinct,
    Identity,
    Padding,
    Project,
    Rows,
    outer_columns,
)

MAX_TILES = 1_000  # declared groups of ntile(n)


def finish_select(queries: Queries, select: exp.Select, rows: Rows, scope: Scope, env: Env) -> Result:
    """Return the result of a SELECT whose FROM and WHERE are bound to `rows`."""
    if any(select.args.get(k) for k in ("laterals", "connect", "match", "pivots", "cluster", "sort", "qualify", "into", "locks")):
        raise unsupported("this clause")
    binder = queries.expressions(env, rows, aggregates=True)
    aggregated = bool(select.args.get("group")) or has_aggregates(select)
    if aggregated:
        keys = _group_keys(select, binder, scope)
        if keys is not None and (not rows.private or _fixes_unit(keys, rows)):
            reported.check_weighed(rows, select)
            return _prepared(queries, select, rows, scope, binder, keys)
        if not rows.private:
            return _prepared(queries, select, rows, scope, binder, keys or [])
        return _measured(queries, select, rows, scope, env)
    reported.check_weighed(rows, select)
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        rows = _first_of_each(queries, select, rows, scope, binder)
        distinct = None
    projections = _projections(select, binder, scope)
    reported.check_plain(rows, [e for _, e in projections if not isinstance(e, Ref)], "rows are not computed from it")
    if distinct is not None and rows.private and not _fixes_unit([e for _, e in projections], rows):
        if any(isinstance(e, Win) for _, p in projections for e in walk(p)):
            raise unsupported("DISTINCT over window functions", "Put DISTINCT around a subquery with the window functions.")
        return _measured(queries, select, rows, scope, env)
    if rows.reports is None or select.parent is not None:  # else its rows are refused, limited or not
        _no_limit(select, queries.context)
    result = _project(queries, rows, projections)
    if distinct is not None:
        result = _distinct(queries, result)
    return result


def _measured(queries: Queries, select: exp.Select, rows: Rows, scope: Scope, env: Env) -> Result:
    """Release a query, which is asked before any row of a query around it is known. Raises Refusal where it refers to one."""
    known = queries.tables.columns_of
    around = scope.outer is not None and capture.outer_columns(select, lambda table: known(table, env))
    if around:
        unit = queries.context.policy.unit_column
        raise FormRefusal(
            FEATURE_NOT_SUPPORTED,
            f"this subquery is of many {plural(queries.context.policy.unit_name)}, and refers to the query around it",
            position(around[0]),
            hint=f"Add {unit} to what it selects and groups by, and compare that around it: WHERE t.{unit} = o.{unit}.",
        )
    return queries.measurer.measure(queries, _counted(select, scope), rows, scope, env)


def _first_of_each(queries: Queries, select: exp.Select, rows: Rows, scope: Scope, binder: ExprBinder) -> Rows:
    """DISTINCT ON (unit, ...): the first row of each, by ORDER BY and then by all columns."""
    given = select.args["distinct"].args["on"]
    items = given.expressions if isinstance(given, exp.Tuple) else [given]
    keys = [binder.bind(resolve_sort_item(i, select, scope), scope) for i in items]
    if rows.unit is None or not _fixes_unit(keys, rows):
        unit = queries.context.policy.unit_column
        raise unsupported(f"DISTINCT ON without `{unit}`", f"Add `{unit}` to it: it then chooses among the rows of one only.")
    order = select.args.get("order")
    terms = [t.copy() for t in order.expressions] if order is not None else []
    for term in terms:
        inner = term.this if isinstance(term, exp.Ordered) else term
        inner.replace(resolve_sort_item(inner, select, scope).copy())
    chosen = total_order(tuple(bind_order(binder, t, scope) for t in terms), rows)
    unit_ref = Ref(rows.unit.type, rows.unit)
    partition = tuple(keys) if unit_ref in keys else (*keys, unit_ref)
    number = Win("int8", "row_number", (), partition, chosen)
    column = computed_column(queries.counter, "row_number", number)
    rows = with_repetitions(rows)
    numbered = rows.wider((column,), (number,))
    one = all(facts(k).constant or _is_unit(k, rows) for k in keys)
    found = joins.filtered(numbered, Call("bool", "=", (Ref("int8", column), Lit("int4", "1"))))
    first = (
        rows_per_value.grouped(rows, [k.column for k in keys if isinstance(k, Ref)])
        if all(isinstance(k, Ref) for k in keys)
        else ()
    )
    limits = SINGLE if one else found.limits
    return Rows(
        node=found.node,
        unit=found.unit,
        one=found.one or one,
        conditions=found.conditions,
        contribution=replace(found.contribution, limits=limits, per_value=(*found.per_value, *first)),
        identity=found.identity,
        padding=found.padding,
    )


def _counted(select: exp.Select, scope: Scope) -> exp.Select:
    if select.args.get("group") is None:
        return group_counts.as_count(select, [unaliased(e) for e in select.expressions])
    return group_counts.as_count(select, [resolve_group_item(i, select, scope) for i in group_expressions(select) or ()])


def has_aggregates(select: exp.Select) -> bool:
    parts = [*select.expressions, select.args.get("having"), select.args.get("order")]
    return any(contains_aggregate(p) for p in parts if p is not None)


def _no_limit(select: exp.Select, context: Context) -> None:
    """A preview of rows, as tools ask for one, gets advice about the rows: the LIMIT is not its problem."""
    if any(select.args.get(k) for k in ("limit", "offset", "fetch")):
        raise rows_of_people(select, context.policy.unit_name) if select.parent is None else limit_below(select)


def _projections(select: exp.Select, binder: ExprBinder, scope: Scope) -> list[tuple[str, Expr]]:
    """The SELECT list, stars expanded to the columns the policy shows."""
    found: list[tuple[str, Expr]] = []
    for node in select.expressions:
        if isinstance(node, exp.Star):
            found += [(c.name, Ref(c.type, c)) for _, c in scope.visible()]
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            found += [(c.name, Ref(c.type, c)) for _, c in scope.visible(ident(node.args.get("table")))]
        else:
            binder.weighs = isinstance(node.unalias(), exp.Column)  # it goes on as it is
            found.append((output_name(node), binder.bind(node.unalias(), scope)))
            binder.weighs = False
    return found


def group_expressions(select: exp.Select) -> list[exp.Expr] | None:
    """Return the plain GROUP BY items; None when there are grouping sets."""
    group = select.args.get("group")
    if group is None:
        return []
    if any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets", "all", "totals")):
        return None
    items = list(group.expressions)
    if any(isinstance(i, exp.Rollup | exp.Cube | exp.GroupingSets) for i in items):
        return None
    return [part for i in items for part in (i.expressions if isinstance(i, exp.Tuple) else [i])]


def _group_keys(select: exp.Select, binder: ExprBinder, scope: Scope) -> list[Expr] | None:
    items = group_expressions(select)
    if items is None:
        return None
    resolved = [resolve_group_item(i, select, scope) for i in items]
    for item in resolved:
        check_group_key(item)
    binder.weighs = True  # refused as a key of a measurement
    keys = [binder.bind(item, scope) for item in resolved]
    binder.weighs = False
    return keys


def _fixes_unit(keys: Sequence[Expr], rows: Rows) -> bool:
    ids = unit_ids(rows)
    return any(isinstance(k, Ref) and k.column.id in ids and not k.column.optional for k in keys)


# --- per-unit preparation


def _prepared(queries: Queries, select: exp.Select, rows: Rows, scope: Scope, binder: ExprBinder, keys: list[Expr]) -> RowsResult:
    """GROUP BY that includes the unit (or over public rows): one relation of groups, then projections over it."""
    items = [(output_name(n), binder.bind(n.unalias(), scope)) for n in select.expressions]
    having = select.args.get("having")
    condition = binder.condition(having.this, scope) if having is not None else None
    _no_limit(select, queries.context)
    unit = rows.unit
    if unit is not None and not any(isinstance(k, Ref) and k.column.id == unit.id for k in keys):
        keys = [*keys, Ref(unit.type, unit)]
    exprs = [e for _, e in items] + ([condition] if condition is not None else [])
    key_columns = [_key_column(queries, k) for k in keys]
    mapping = dict(zip(keys, key_columns, strict=True))
    check_repetitions(rows, keys)
    for column in _dependent(*lift_aggregates(exprs, rows, queries.counter, mapping), key_columns):
        # PostgreSQL has checked that it depends on the keys; what is claimed of the groups does not rest on that
        keys.append(Ref(column.type, column))
        key_columns.append(column)
        mapping[keys[-1]] = column
    one = unit is not None and all(facts(k).constant or _is_unit(k, rows) for k in keys)
    aggs, lifted = lift_aggregates(exprs, rows, queries.counter, mapping, one)
    node = Aggregate((*key_columns, *(c for c, _ in aggs)), rows.node, tuple(keys), tuple(a for _, a in aggs))
    _check_grouped(rows, {c.id for c in node.columns}, lifted, select)
    prepared = _grouped_rows(rows, node, aggs, list(zip(keys, key_columns, strict=True)), one)
    if condition is not None:
        prepared = joins.filtered(prepared, lifted[-1])
        lifted = lifted[:-1]
    names = [n for n, _ in items]
    result = _project(queries, prepared, list(zip(names, lifted, strict=True)))
    return _distinct(queries, result) if select.args.get("distinct") is not None else result


def _grouped_rows(
    rows: Rows, node: Aggregate, aggs: list[tuple[Column, Agg]], keys: Sequence[tuple[Expr, Column]], one: bool
) -> Rows:
    """What is claimed of the groups of `rows` by `keys`; `one`: the keys fix no more than the unit."""
    known, columns = {c.id for c in node.columns}, [column for _, column in keys]
    chosen, unit = _chosen_keys(aggs, rows), rows.unit
    ids = frozenset(i for i in unit_ids(rows) if i in known).union(c.id for c in chosen)
    padded = frozenset(i for i in known if rows.padded and (unit is None or i != unit.id))
    return Rows(
        node=node,
        unit=unit,
        one=one,
        conditions=conditions_on(rows, known),
        contribution=Contribution(
            SINGLE if one else _grouped_limits(rows, [key for key, _ in keys]),
            () if rows.private else (beside_groups(rows, node.columns, columns),),
            rows_per_value.grouped(rows, columns),
            keyed=frozenset(c.id for c in columns) if rows.private else frozenset(),
        ),
        identity=Identity(ids, (), column_origins(rows, known, chosen)),
        padding=Padding(rows.publics if rows.private else (), rows.padded, padded),
    )


def _check_grouped(rows: Rows, known: set[int], lifted: Sequence[Expr], select: exp.Select) -> None:
    """Raise Refusal 42803 where a subquery outside the groups reads a column of their rows that is not one of theirs."""
    loose = {c for c in outer_columns(tuple(lifted)) if c in rows.node.columns and c.id not in known}
    for column in sorted(loose, key=lambda c: c.id):
        raise Refusal(GROUPING_ERROR, f'subquery uses ungrouped column "{column.name}" from outer query', position(select))


def _chosen_keys(aggs: list[tuple[Column, Agg]], rows: Rows) -> dict[Column, Column]:
    """The least or greatest key of a group's rows is a key of theirs: column of the group, column of the rows."""
    found = {c: a.args[0].column for c, a in aggs if a.name in ("min", "max") and isinstance(a.args[0], Ref)}
    return {c: of for c, of in found.items() if of.id in rows.determinants and not of.optional}


def _grouped_limits(rows: Rows, keys: Sequence[Expr]) -> ContributionLimits:
    """Of rows grouped by the unit and more: of relations joined on the unit, only those count that the keys look at."""
    whole, reached = (
        overall_limits(rows),
        contribution(rows, [k for k in keys if not _is_unit(k, rows)] if rows.private else keys).groups,
    )
    groups = reached if whole.groups is None or reached is None else min(whole.groups, reached)
    return replace(whole, groups=groups)


def _is_unit(key: Expr, rows: Rows) -> bool:
    assert rows.unit is not None
    return isinstance(key, Ref) and key.column.id in {rows.unit.id, *equal_ids(rows)}


def _key_column(queries: Queries, key: Expr) -> Column:
    return key.column if isinstance(key, Ref) else replace(computed_column(queries.counter, "key", key), made=origin(key))


def _dependent(aggs: list[tuple[Column, Agg]], exprs: list[Expr], keys: list[Column]) -> list[Column]:
    known = {c.id for c in keys} | {c.id for c, _ in aggs}
    return list(dict.fromkeys(c for e in exprs for c in references(e) if c.id not in known))


# --- projections


def _project(queries: Queries, rows: Rows, projections: list[tuple[str, Expr]]) -> RowsResult:
    columns: list[Column] = []
    items: list[tuple[Column, Expr]] = []
    for name, value in projections:
        expr = order_free(coerce(value, "text"), rows)  # a constant of unknown type becomes text where it becomes a column
        if isinstance(expr, Ref):
            columns.append(narrowed_column(replace(expr.column, name=name), expr, rows.conditions))
            continue
        column = computed_column(queries.counter, name, expr)
        column = narrowed_column(replace(column, domain=_literal_domain(expr), made=origin(expr)), expr, rows.conditions)
        columns.append(column)
        items.append((column, expr))
    if items:
        numbers = tuple(n for c, e in items for n in rows_per_value.numbered(rows, c.id, e))
        known = replace(rows.contribution, numbers=(*rows.contribution.numbers, *numbers))
        rows = rows.wider(tuple(c for c, _ in items), tuple(e for _, e in items)).contributing(known)
    return RowsResult(rows, tuple(columns))


def _literal_domain(expr: Expr) -> ValuesDomain | None:
    """Constants and CASEs of constants are their own declared domain; so are the numbers of ntile."""
    if isinstance(expr, Win) and expr.name == "ntile" and isinstance(expr.args[0], Lit) and (expr.args[0].text or "").isdigit():
        tiles = int(expr.args[0].text or 0)
        return ValuesDomain(tuple(str(i + 1) for i in range(tiles))) if 0 < tiles <= MAX_TILES else None
    if isinstance(expr, Lit):
        return ValuesDomain((expr.text,))
    if isinstance(expr, Case):
        results = [r for _, r in expr.whens] + ([expr.default] if expr.default is not None else [Lit(expr.type, None)])
        if all(isinstance(r, Lit) for r in results):
            return ValuesDomain(tuple(dict.fromkeys(r.text for r in results if isinstance(r, Lit))))
    return None


def _distinct(queries: Queries, result: RowsResult) -> RowsResult:
    rows = result.rows
    outputs = [*result.columns]
    for column in outputs:
        reading(column)
    if rows.unit is not None and all(c.id != rows.unit.id for c in outputs):
        outputs.append(rows.unit)
    known = {c.id for c in outputs}
    inner = Project(tuple(outputs), rows.node, tuple(Ref(c.type, c) for c in outputs))
    node = Distinct(tuple(outputs), inner)
    one = rows.unit is not None and all(c.constant or c.id == rows.unit.id for c in outputs)
    if rows.private:
        before = with_repetitions(rows).contribution
        contribution = replace(
            before, per_value=(*before.per_value, *rows_per_value.grouped(rows, outputs)), keyed=frozenset(known)
        )
    else:
        contribution = Contribution(beside=(beside_groups(rows, outputs, outputs),))
    distinct = Rows(
        node=node,
        unit=rows.unit,
        one=one,
        conditions=conditions_on(rows, known),
        contribution=contribution,
        identity=Identity(frozenset(i for i in rows.determinants if i in known), (), column_origins(rows, known)),
        padding=rows.padding,
    )
    return RowsResult(distinct, result.columns)
