"""Questions about sqlglot's trees that need no policy: where aggregates and nested queries stand.

Knows: node classes, names of aggregates. Must not know: scopes, policies.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpproxy.sql.dialect import ident

# Names of PostgreSQL's aggregates, which the parser leaves as ordinary functions.
#
# Knows: names. Must not know: which of them dpproxy measures.


AGGREGATES = {
    "count", "sum", "avg", "min", "max", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop",
    "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy",
    "regr_count", "regr_sxx", "regr_sxy", "regr_syy", "percentile_cont", "percentile_disc", "mode", "median",
    "bool_and", "bool_or", "every", "string_agg", "array_agg", "json_agg", "jsonb_agg", "json_object_agg",
    "jsonb_object_agg", "any_value", "bit_and", "bit_or", "bit_xor", "xmlagg", "rank", "dense_rank", "percent_rank",
    "cume_dist", "first", "last", "arg_max", "arg_min", "list", "histogram", "range_agg", "range_intersect_agg",
    "json_arrayagg", "json_objectagg", "group_concat",
}  # fmt: skip
"""Every aggregate PostgreSQL has (hypothetical-set ones too, which need WITHIN GROUP) and a few engines' own."""


def sources_of(select: exp.Select) -> list[exp.Expr]:
    """Return what stands in FROM, joined or listed, in order."""
    clause = select.args.get("from_")
    return ([clause.this] if clause is not None else []) + [join.this for join in select.args.get("joins") or ()]


def joins_before(select: exp.Select, join: exp.Join) -> list[exp.Join]:
    joins: list[exp.Join] = select.args["joins"]
    return joins[: next(i for i, j in enumerate(joins) if j is join)]


def table_alias(table: exp.Expr) -> str:
    """Return the name a table goes by in its query."""
    alias = table.args.get("alias")
    return ident(alias.this) if alias is not None else ident(table.this)


def nested_queries(select: exp.Select) -> list[exp.Expr]:
    """Return the queries nested in the expressions of a SELECT (not in FROM, not in WITH), outermost ones only."""
    found: list[exp.Expr] = []
    for key, value in select.args.items():
        if key in ("from_", "with_"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Join):
                on = part.args.get("on")
                found += outermost_queries(on) if on is not None else []
            elif isinstance(part, exp.Expr):
                found += outermost_queries(part)
    return found


def outermost_queries(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Select | exp.SetOperation):
        return [node]
    found = []
    for child in node.iter_expressions():
        found += outermost_queries(child)
    return found


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate call by itself (a window function is not)."""
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        return name in AGGREGATES or name == "grouping"
    if isinstance(node, exp.Dot):
        return ident(node.this) == "pg_catalog" and is_aggregate(node.expression)
    return isinstance(node, exp.Filter | exp.WithinGroup | exp.GroupConcat)


def contains_aggregate(node: exp.Expr | None) -> bool:
    """Return whether an aggregate (not a window function) stands in an expression; subqueries are not looked into."""
    if node is None or isinstance(node, exp.Select | exp.SetOperation):
        return False
    if isinstance(node, exp.Window):
        inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
        parts = [
            *([node.this.expression] if isinstance(node.this, exp.Filter) else []),
            *inner.iter_expressions(),
            *(c for k, c in node.args.items() if k != "this" and isinstance(c, exp.Expr)),
        ]
        parts += list(node.args.get("partition_by") or ())
        return any(contains_aggregate(p) for p in parts)
    if is_aggregate(node):
        return True
    return any(contains_aggregate(child) for child in node.iter_expressions())


def mentions(node: exp.Expr, name: str) -> bool:
    """Return whether a table of that name stands below `node`."""
    return any(ident(t.this) == name for t in node.find_all(exp.Table))


def aggregate_calls(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """Return the aggregate calls in an expression, also those in a window function's arguments; subqueries are not looked
    into."""
    if node is None or isinstance(node, exp.Select | exp.SetOperation):
        return
    if is_aggregate(node):
        if function_name(node) != "grouping":
            yield node
        return
    call = node.this if isinstance(node, exp.Window) else None
    for child in node.iter_expressions():
        for inner in child.iter_expressions() if child is call else (child,):
            yield from aggregate_calls(inner)


def counts_rows(node: exp.Expr) -> bool:
    """Return whether a node is COUNT(*), or COUNT of a constant."""
    return (
        function_name(node) == "count" and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Star | exp.Literal)
    )


def function_name(node: exp.Expr) -> str:
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def only_counts(query: exp.Expr) -> bool:
    """Return whether a query's only output is a COUNT."""
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    call = inner.expressions[0].unalias() if isinstance(inner, exp.Select) and len(inner.expressions) == 1 else None
    call = call.this if isinstance(call, exp.Filter) else call
    return isinstance(call, exp.Anonymous) and call.name.lower() == "count"
