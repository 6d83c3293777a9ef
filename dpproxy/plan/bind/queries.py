"""Queries analysed bottom-up by privacy type: which are rows of units, which are released (PRIVACY.md section 2).

Knows: sqlglot's query nodes, CTEs, the rules of the table of section 2. Must not know: noise, engines' spelling. `bind`
returns either `RowsResult` (rows that belong to units, or public rows that were asked for as rows) or
`ReleasedResult`, the rewritten tree of a query the facade may run. The default branch is a refusal. Rooms beside it:
`sources` (items of FROM), `from_clause` (their joins), `set_operations` (UNION and its like), `select` (what a SELECT over rows
becomes).
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.errors import SYNTAX_ERROR, Refusal
from dpproxy.plan.bind import group_counts, joins
from dpproxy.plan.bind.decorrelation import decorrelated
from dpproxy.plan.bind.expressions import ExprBinder
from dpproxy.plan.bind.from_clause import bind_from
from dpproxy.plan.bind.protocols import Measurer
from dpproxy.plan.bind.results import Item, ReleasedResult, Result, RowsResult
from dpproxy.plan.bind.scope import Scope, narrowed_scope
from dpproxy.plan.bind.select import finish_select
from dpproxy.plan.bind.set_operations import SetOperation, fix_unit
from dpproxy.plan.bind.sources import Sources
from dpproxy.plan.bind.subqueries import Subqueries
from dpproxy.plan.bind.values import values_item
from dpproxy.plan.context import Context, Counter
from dpproxy.plan.intervals.calls import refuse_misplaced
from dpproxy.plan.known_tables import Cte, Env, KnownTables
from dpproxy.plan.refusals import (
    FormRefusal,
    limit_below,
    mixed_rows,
    positioned,
    private_correlation,
    private_in_public,
    recursion,
    rows_of_people,
    unsupported,
)
from dpproxy.sql.capture import mark_outer
from dpproxy.sql.dialect import begins, copied, ident, position
from dpproxy.sql.effort import step
from dpproxy.sql.placement import check_placement
from dpproxy.sql.trees import mentions, nested_queries, only_counts
from dpproxy.tree.expr import Expr
from dpproxy.tree.relation import Rows, Values

OF_SELECT = 10
"""Steps that binding a SELECT takes, beside those of its expressions (`sql.effort`)."""


class QueryBinder:
    """Binds the queries of one statement; what is measured goes to the measurer. `scalars`: staged values by their text."""

    def __init__(self, context: Context, counter: Counter, measurer: Measurer) -> None:
        self.context, self.counter, self.measurer = context, counter, measurer
        self.tables = KnownTables(context)
        self.scalars: dict[str, list[tuple[Env, Expr]]] = {}

    def bind(self, node: exp.Expr, env: Env, outer: Scope | None = None, want_rows: bool = False) -> Result:
        """Find the privacy type of a query. `want_rows`: a public query shall come back as rows, not as SQL for the facade."""
        at = begins(node)  # of the text as it was: analysis rewrites it
        try:
            return self._bind(node, env, outer, want_rows)
        except Refusal as refusal:
            raise positioned(refusal, at) from None

    def _bind(self, node: exp.Expr, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        if isinstance(node, exp.Subquery):
            return self._parenthesised(node, env, outer, want_rows)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, env, outer, want_rows)
        if isinstance(node, exp.Select):
            return self._select(node, env, outer, want_rows)
        if isinstance(node, exp.Values) and want_rows:
            item = values_item(self, node)
            assert item.rows is not None
            return RowsResult(item.rows, item.columns)
        if isinstance(node, exp.Values | exp.Table):
            if self.tables.names_private(node, env):
                raise rows_of_people(node, self.context.policy.unit_name)
            return ReleasedResult(node, False)
        raise unsupported(f"{type(node).__name__.upper()}")

    def _parenthesised(self, node: exp.Subquery, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        env = self.with_ctes(node, env, outer)
        result = self.bind(node.this, env, outer, want_rows)
        if isinstance(result, ReleasedResult):
            node.set("this", result.tree)
            return ReleasedResult(node, result.measured)
        if any(node.args.get(k) for k in ("limit", "offset", "fetch")):
            raise limit_below(node)
        return result

    # --- WITH

    def with_ctes(self, node: exp.Expr, env: Env, outer: Scope | None) -> Env:
        """Return the environment inside a query with CTEs; per-unit CTEs leave the tree, released ones are rewritten in it."""
        clause = node.args.get("with_")
        if clause is None:
            return env
        new = dict(env)
        kept = []
        for cte in clause.expressions:
            name = ident(cte.args["alias"].this)
            columns = tuple(ident(c) for c in cte.args["alias"].args.get("columns") or ())
            if clause.args.get("recursive") and mentions(cte.this, name):
                self._recursive(cte, name, columns, new)
                kept.append(cte)
                continue
            original = copied(cte.this)
            result = self.bind(cte.this, new, outer)
            per_unit = isinstance(result, RowsResult)
            new[name] = Cte(name, original, columns, dict(new), per_unit)
            if isinstance(result, ReleasedResult):
                cte.set("this", result.tree)
                kept.append(cte)
                self.measurer.released_ctes[id(original)] = result
        if kept:
            clause.set("expressions", kept)
        else:
            node.set("with_", None)
        return new

    def _recursive(self, cte: exp.Expr, name: str, columns: tuple[str, ...], env: dict[str, Cte]) -> None:
        env[name] = Cte(name, cte.this, columns, dict(env), False)
        private = self.tables.names_private(cte.this, env)
        try:
            result = self.bind(cte.this, env)
        except Refusal as refusal:
            if private or isinstance(refusal, FormRefusal):
                raise recursion(cte, self.context.policy.unit_name) from None
            raise
        if isinstance(result, RowsResult):
            raise recursion(cte, self.context.policy.unit_name)
        cte.set("this", result.tree)
        self.measurer.released_ctes[id(env[name].query)] = ReleasedResult(_named(copied(result.tree), columns), result.measured)

    # --- set operations

    def _set_operation(self, node: exp.SetOperation, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        env = self.with_ctes(node, env, outer)
        inside = node.args.get("distinct") and not _answers(node)
        sides = [copied(node.this), copied(node.expression)] if inside else []
        left = self.bind(node.this, env, outer, want_rows)
        right = self.bind(node.expression, env, outer, want_rows)
        if sides and not fix_unit(left, right):
            left, right = (self._distinct(r, s, env, outer) for r, s in zip((left, right), sides, strict=True))
        if isinstance(left, ReleasedResult) and isinstance(right, ReleasedResult):
            node.set("this", left.tree)
            node.set("expression", right.tree)
            return ReleasedResult(node, left.measured or right.measured)
        if isinstance(left, ReleasedResult) or isinstance(right, ReleasedResult):
            measured = any(isinstance(side, ReleasedResult) and side.measured for side in (left, right))
            raise (rows_of_people if measured or _answers(node) else mixed_rows)(node, self.context.policy.unit_name)
        if node.args.get("limit") or node.args.get("offset"):
            raise limit_below(node)
        return SetOperation(self.context, self.counter, node).of(left, right)

    def _distinct(self, result: Result, original: exp.Expr, env: Env, outer: Scope | None) -> Result:
        """A side of a set operation without duplicates: which of its values are there is a measurement of its own."""
        if not isinstance(result, RowsResult) or not result.rows.private or not isinstance(original, exp.Select):
            return result
        original.set("distinct", exp.Distinct())
        return self.bind(original, env, outer)

    # --- SELECT

    def _select(self, select: exp.Select, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        step(OF_SELECT)
        env = self.with_ctes(select, env, outer)
        inner = group_counts.mark(select)
        items = self.from_items(select, env, outer)
        group_counts.read(select, inner)
        if not any(i.private for i in items) and not want_rows:
            return self._released(select, env, items)
        rows, scope = self.joined(select, items, env, outer)
        where = select.args.get("where")
        if where is not None:
            binder = self.expressions(env, rows)
            binder.weighs = True
            rows = joins.filtered(rows, binder.condition(where.this, scope))
        scope = narrowed_scope(scope, rows.conditions)
        return finish_select(self, select, rows, scope, env)

    def expressions(self, env: Env, rows: Rows | None, *, aggregates: bool = False) -> ExprBinder:
        return Subqueries(self, env, rows, aggregates).binder

    def from_items(self, select: exp.Select, env: Env, outer: Scope | None) -> list[Item]:
        if select.args.get("joins") and select.args.get("from_") is None:
            raise Refusal(SYNTAX_ERROR, "a JOIN needs a FROM before it", position(select))
        return Sources(self, env, outer).items(select)

    def joined(self, select: exp.Select, items: list[Item], env: Env, outer: Scope | None) -> tuple[Rows, Scope]:
        """FROM and its joins as one relation: of any SELECT whose rows are computed here, so that all are checked here."""
        check_placement(select)
        if not items:
            return Rows(node=Values((), ((),))), Scope((), outer=outer)
        sources = Sources(self, env, outer)
        return bind_from(self, select, [sources.as_rows(i) for i in items], env, outer)

    def _released(self, select: exp.Select, env: Env, items: list[Item]) -> ReleasedResult:
        """A SELECT over public and released sources: only nested subqueries may still need rewriting."""
        refuse_misplaced(select)
        measured = any(i.node.meta.get("dpproxy_measured") for i in items)
        for nested in nested_queries(select):
            result = self.nested(nested, env)
            measured = measured or result.measured
            if result.tree is not nested:
                nested.replace(result.tree)
        return ReleasedResult(select, measured)

    def nested(self, node: exp.Expr, env: Env) -> ReleasedResult:
        """Bind a subquery in an expression above a measurement; it may refer to the queries around it. Raises Refusal."""
        refers = mark_outer(node, lambda table: self.tables.columns_of(table, env))
        query, looked_up = node, refers and self.tables.names_private(node, env)
        if looked_up:
            grouped = decorrelated(node)
            if grouped is None:
                decides = isinstance(node.parent, exp.Exists | exp.In)
                raise (private_in_public if decides else private_correlation)(node, self.context.policy.unit_name)
            query = grouped
        zero = looked_up and only_counts(node) and isinstance(node.parent, exp.Subquery)
        result = self.bind(query, env)
        if isinstance(result, RowsResult):
            raise private_in_public(node, self.context.policy.unit_name)
        if not zero:
            return result
        lookup = exp.Anonymous(this="coalesce", expressions=[exp.Subquery(this=result.tree), exp.Literal.number(0)])
        return ReleasedResult(exp.select(lookup), result.measured)


def _named(tree: exp.Expr, columns: tuple[str, ...]) -> exp.Expr:
    """A recursive query that names its columns itself: its first SELECT does."""
    first = tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    if columns and isinstance(first, exp.Select):
        named = [exp.alias_(e.unalias(), c, quoted=True) for e, c in zip(first.expressions, columns, strict=False)]
        first.set("expressions", named)
    return tree


def _answers(node: exp.Expr) -> bool:
    """Whether the rows of a set operation are those of the whole statement: rows of people, not something counted of them."""
    parent = node.parent
    while isinstance(parent, exp.SetOperation | exp.Subquery) and not isinstance(parent.parent, exp.From | exp.Join):
        parent = parent.parent
    return parent is None
