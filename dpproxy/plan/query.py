"""Queries analysed bottom-up by privacy type: which are rows of units, which are released (PRIVACY.md section 2).

Knows: sqlglot's query nodes, CTEs, the rules of the table of section 2. Must not know: noise, engines' spelling. `analyse`
returns either `RowsResult` (rows that belong to units, or public rows that were asked for as rows) or
`ReleasedResult`, the rewritten tree of a query the facade may run. The default branch is a refusal. Rooms beside it:
`sources` (items of FROM), `from_join` (their joins), `sets` (UNION and its like), `select` (what a SELECT over rows becomes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from dpproxy.errors import SYNTAX_ERROR, Refusal
from dpproxy.plan import counted, joins
from dpproxy.plan.accuracy import refuse_misplaced
from dpproxy.plan.bind_expr import ExprBinder
from dpproxy.plan.correlated import counts, decorrelated, mark_outer
from dpproxy.plan.from_join import joined
from dpproxy.plan.functions import unsupported
from dpproxy.plan.names import output_name
from dpproxy.plan.narrowing import narrowed_scope
from dpproxy.plan.placement import check_placement
from dpproxy.plan.relation import Rows
from dpproxy.plan.results import (
    Item,
    ReleasedResult,
    Result,
    RowsResult,
    limited,
    located,
    mixed,
    private_correlation,
    private_in_public,
    row_level,
)
from dpproxy.plan.scope import Cte, Env, Scope
from dpproxy.plan.sets import SetOperation, fix_unit
from dpproxy.plan.sources import Sources
from dpproxy.plan.trees import mentions, nested_queries
from dpproxy.plan.unmatched import Catalog as Known
from dpproxy.sql.dialect import begins, copied, ident, position

if TYPE_CHECKING:
    from dpproxy.plan.planner import Planner


class Analyser:
    """Analyses the queries of one statement; what is measured is registered with the planner."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.context = planner.context
        self.counter = planner.counter

    def analyse(self, node: exp.Expr, env: Env, outer: Scope | None = None, want_rows: bool = False) -> Result:
        """The privacy type of a query. `want_rows`: a public query shall come back as rows, not as SQL for the facade."""
        at = begins(node)  # of the text as it was: analysis rewrites it
        try:
            return self._analyse(node, env, outer, want_rows)
        except Refusal as refusal:
            raise located(refusal, at) from None

    def _analyse(self, node: exp.Expr, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        if isinstance(node, exp.Subquery):
            return self._parenthesised(node, env, outer, want_rows)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, env, outer, want_rows)
        if isinstance(node, exp.Select):
            return self._select(node, env, outer, want_rows)
        if isinstance(node, exp.Values) and want_rows:
            item = self.planner.values_item(self, node)
            assert item.rows is not None
            return RowsResult(item.rows, item.columns)
        if isinstance(node, exp.Values | exp.Table):
            if self.names_private(node, env):
                raise row_level(node, self.context)
            return ReleasedResult(node, False)
        raise unsupported(f"{type(node).__name__.upper()}")

    def _parenthesised(self, node: exp.Subquery, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        env = self.with_ctes(node, env, outer)
        result = self.analyse(node.this, env, outer, want_rows)
        if isinstance(result, ReleasedResult):
            node.set("this", result.tree)
            return ReleasedResult(node, result.measured)
        if any(node.args.get(k) for k in ("limit", "offset", "fetch")):
            raise limited(node)
        return result

    def names_private(self, node: exp.Expr, env: Env) -> bool:
        return any(self.private_table(t, env) for t in node.find_all(exp.Table))

    def reads_private(self, tree: exp.Expr) -> Callable[[exp.Expr], bool]:
        """Whether a query of a tree reads private rows, its CTEs included, before any is analysed."""
        bodies = {ident(cte.args["alias"].this): cte.this for cte in tree.find_all(exp.CTE)}

        known: dict[str, bool] = {}  # each is looked through once; one that is being looked through adds nothing

        def reads(node: exp.Expr) -> bool:
            for table in node.find_all(exp.Table):
                name = ident(table.this)
                if name in bodies and not table.args.get("db"):
                    if name not in known:
                        known[name] = False
                        known[name] = reads(bodies[name])
                    if known[name]:
                        return True
                elif self.private_table(table, {}):
                    return True
            return False

        return reads

    def unique(self, table: exp.Table, name: str) -> bool:
        """Whether each value of a public table's column is in one row, by its keys."""
        policy = self.context.find(ident(table.args.get("db")), ident(table.this))
        found = self.context.catalog.tables.get(policy.name) if policy is not None and policy.public else None
        column = found.column(name) if found is not None else None
        keys = (found.primary_key, *found.unique) if found is not None else ()
        return column is not None and ((name,) in keys or column.most == 1)

    def filled(self, table: exp.Table, name: str) -> bool:
        """Whether a private table's column is never NULL: a scan leaves out rows of nobody."""
        policy = self.context.find(ident(table.args.get("db")), ident(table.this))
        if policy is None or policy.unit is None:
            return False
        column = self.context.catalog.tables[policy.name].column(name)
        return (not policy.unit.steps and policy.unit.column == name) or (column is not None and not column.nullable)

    def known(self, private: Callable[[exp.Expr], bool]) -> Known:
        return Known(private, self.unique, self.filled, lambda table: self.columns_of(table, {}))

    def private_table(self, table: exp.Table, env: Env) -> bool:
        schema, name = ident(table.args.get("db")), ident(table.this)
        if not schema and name in env:
            return env[name].per_unit
        if self.context.view(schema, name) is not None:
            return True  # whatever it reads: a view is analysed where it stands in FROM, and nowhere else
        policy = self.context.find(schema, name)
        return policy is not None and not policy.public

    # --- WITH

    def with_ctes(self, node: exp.Expr, env: Env, outer: Scope | None) -> Env:
        """The environment inside a query with CTEs; per-unit CTEs leave the tree, released ones are rewritten in it."""
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
            result = self.analyse(cte.this, new, outer)
            per_unit = isinstance(result, RowsResult)
            new[name] = Cte(name, original, columns, dict(new), per_unit)
            if isinstance(result, ReleasedResult):
                cte.set("this", result.tree)
                kept.append(cte)
                self.planner.released_ctes[id(original)] = result
        if kept:
            clause.set("expressions", kept)
        else:
            node.set("with_", None)
        return new

    def _recursive(self, cte: exp.Expr, name: str, columns: tuple[str, ...], env: dict[str, Cte]) -> None:
        env[name] = Cte(name, cte.this, columns, dict(env), False)
        result = self.analyse(cte.this, env)
        if isinstance(result, RowsResult):
            raise unsupported("a recursive query over private rows", "Aggregate them first.")
        cte.set("this", result.tree)
        self.planner.released_ctes[id(env[name].query)] = ReleasedResult(_named(copied(result.tree), columns), result.measured)

    # --- set operations

    def _set_operation(self, node: exp.SetOperation, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        env = self.with_ctes(node, env, outer)
        inside = node.args.get("distinct") and not _answers(node)
        sides = [copied(node.this), copied(node.expression)] if inside else []
        left = self.analyse(node.this, env, outer, want_rows)
        right = self.analyse(node.expression, env, outer, want_rows)
        if sides and not fix_unit(left, right):
            left, right = (self._distinct(r, s, env, outer) for r, s in zip((left, right), sides, strict=True))
        if isinstance(left, ReleasedResult) and isinstance(right, ReleasedResult):
            node.set("this", left.tree)
            node.set("expression", right.tree)
            return ReleasedResult(node, left.measured or right.measured)
        if isinstance(left, ReleasedResult) or isinstance(right, ReleasedResult):
            measured = any(isinstance(side, ReleasedResult) and side.measured for side in (left, right))
            raise (row_level if measured or _answers(node) else mixed)(node, self.context)
        if node.args.get("limit") or node.args.get("offset"):
            raise limited(node)
        return SetOperation(self.context, self.counter, node).of(left, right)

    def _distinct(self, result: Result, original: exp.Expr, env: Env, outer: Scope | None) -> Result:
        """A side of a set operation without duplicates: which of its values are there is a measurement of its own."""
        if not isinstance(result, RowsResult) or not result.rows.private or not isinstance(original, exp.Select):
            return result
        original.set("distinct", exp.Distinct())
        return self.analyse(original, env, outer)

    # --- SELECT

    def _select(self, select: exp.Select, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        env = self.with_ctes(select, env, outer)
        inner = counted.mark(select)
        items = self.from_items(select, env, outer)
        counted.read(select, inner)
        if not any(i.private for i in items) and not want_rows:
            return self._released(select, env, items)
        rows, scope = self.joined(select, items, env, outer)
        where = select.args.get("where")
        if where is not None:
            rows = joins.filtered(rows, self.binder(env, rows).condition(where.this, scope))
        scope = narrowed_scope(scope, rows.conditions)
        return self.planner.finish_select(self, select, rows, scope, env)

    def binder(self, env: Env, rows: Rows | None) -> ExprBinder:
        return ExprBinder(self.planner.hooks(self, env, rows))

    def from_items(self, select: exp.Select, env: Env, outer: Scope | None) -> list[Item]:
        if select.args.get("joins") and select.args.get("from_") is None:
            raise Refusal(SYNTAX_ERROR, "a JOIN needs a FROM before it", position(select))
        return Sources(self, env, outer).items(select)

    def joined(self, select: exp.Select, items: list[Item], env: Env, outer: Scope | None) -> tuple[Rows, Scope]:
        """FROM and its joins as one relation: of any SELECT whose rows are computed here, so that all are checked here."""
        check_placement(select)
        if not items:
            return self.planner.one_row(), Scope((), outer=outer)
        sources = Sources(self, env, outer)
        return joined(self, select, [sources.as_rows(i) for i in items], env, outer)

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
        """A subquery in an expression above a measurement; it may refer to the queries around it. Raises Refusal."""
        refers = mark_outer(node, lambda table: self.columns_of(table, env))
        query, looked_up = node, refers and self.names_private(node, env)
        if looked_up:
            grouped = decorrelated(node)
            if grouped is None:
                decides = isinstance(node.parent, exp.Exists | exp.In)
                raise (private_in_public if decides else private_correlation)(node, self.context)
            query = grouped
        zero = looked_up and counts(node) and isinstance(node.parent, exp.Subquery)
        result = self.analyse(query, env)
        if isinstance(result, RowsResult):
            raise private_in_public(node, self.context)
        if not zero:
            return result
        lookup = exp.Anonymous(this="coalesce", expressions=[exp.Subquery(this=result.tree), exp.Literal.number(0)])
        return ReleasedResult(exp.select(lookup), result.measured)

    def columns_of(self, table: exp.Table, env: Env) -> frozenset[str] | None:
        """The column names of a table or a CTE, None when they are not known."""
        schema, name = ident(table.args.get("db")), ident(table.this)
        if not schema and name in env:
            inner = env[name].query.unnest() if isinstance(env[name].query, exp.Subquery) else env[name].query
            plain = isinstance(inner, exp.Select) and not any(e.find(exp.Star) for e in inner.expressions if e.is_star)
            return frozenset(env[name].columns or map(output_name, inner.expressions)) if plain else None
        policy = self.context.find(schema, name)
        return None if policy is None else frozenset(c.name for c in self.context.catalog.tables[policy.name].columns)


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
