"""Where rows of units become released values: measured SELECTs, and values that are needed below another measurement.

Knows: how a SELECT is rewritten and registered; trees of released queries, their types and CTEs. Must not know: private rows,
engines, how queries are bound. `StatementMeasurer` implements `protocols.Measurer`, which binding calls. Released values that a
measurement needs below it are computed first, by the facade; then they are constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.results import Item, ReleasedResult, alias_columns, renamed
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.known_tables import Env
from dpproxy.plan.measure.row_costs import most_staged_rows
from dpproxy.plan.outer.measured_select import SelectRewriter
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.outer.released_source import released_source
from dpproxy.plan.outer.reports import ReportSelect
from dpproxy.plan.outer.safe_division import with_safe_division
from dpproxy.plan.outer.staged_rows import known_sizes, output_bounds, rows_as_json, session_local
from dpproxy.plan.outer.types import TreeTypes
from dpproxy.plan.refusals import unsupported
from dpproxy.sql.dialect import copied, to_sql
from dpproxy.sql.skeleton import parse_expression
from dpproxy.sql.trees import mentions
from dpproxy.sql.types import wire_type
from dpproxy.table_terms import longest_label
from dpproxy.tree.expr import Column, Expr
from dpproxy.tree.interval import OPEN
from dpproxy.tree.relation import Contribution, Rows, Staged


@dataclass
class Stager:
    """A stager has the facade compute values before measurements run. `released_ctes`: the released CTEs of a statement, by the
    identity of their query."""

    registry: Registry
    released_ctes: dict[int, ReleasedResult] = field(default_factory=dict)

    def scalar(self, released: ReleasedResult, env: Env) -> Expr:
        """Stage a released scalar subquery below a measurement: evaluated by the facade first, then a constant."""
        ctes = self._released_trees(env)
        type_ = TreeTypes(self.registry.context, ctes).scalar(released.tree)
        if not type_:
            raise unsupported("a scalar subquery of this form", "Cast its result: (SELECT ...)::numeric.")
        bounds = output_bounds(released.tree, ctes)
        hole = self.registry.input(f"(SELECT ({self._text(released.tree, ctes)})::{wire_type(type_)})", type_)
        return replace(hole, bound=bounds[0]) if len(bounds) == 1 else hole

    def values(self, released: ReleasedResult, env: Env) -> Expr:
        """Stage the texts of one released column: the facade lists them first, then they are an array."""
        text = self._text(released.tree, self._released_trees(env))
        return self.registry.input(f"ARRAY(SELECT c::text FROM ({text}) AS dpproxy_listed(c))", "text[]")

    def _text(self, tree: exp.Expr, ctes: Mapping[str, exp.Expr]) -> str:
        """A query as the facade evaluates it. Of noisy numbers no division fails; of public rows it does as in PostgreSQL."""
        sql = _with_ctes(tree, ctes)
        if not self.registry.reads_released(sql):
            return sql
        return _with_ctes(with_safe_division(copied(tree)), {name: with_safe_division(c) for name, c in ctes.items()})

    def _released_trees(self, env: Env) -> dict[str, exp.Expr]:
        """The rewritten trees of the released CTEs in scope, in order."""
        found = {}
        for name, cte in env.items():
            result = self.released_ctes.get(id(cte.query))
            if result is not None:
                tree = copied(result.tree)
                found[name] = tree if not cte.columns or mentions(tree, name) else _renamed(tree, cte.columns)
        return found

    def rows(self, item: Item, released: exp.Expr, env: Env) -> Item:
        """Stage released rows that are joined with private ones: the facade computes them first, then they are constants."""
        ctes = self._released_trees(env)
        types = TreeTypes(self.registry.context, ctes).columns(released)
        if not types or not all(type_ for _, type_ in types):
            raise unsupported("joining these released rows with private rows", "Cast their columns: x::text, n::numeric.")
        names = [f"c{i}" for i in range(len(types))]
        cells = ", ".join(f"{session_local(n, t)}::text" for n, t in zip(names, (t for _, t in types), strict=True))
        bounds = output_bounds(released, ctes)
        bounds = bounds if len(bounds) == len(types) else [OPEN] * len(types)
        columns = tuple(
            Column(self.registry.counter.column(), n, t, b, length=longest_label(t))
            for (n, t), b in zip(types, bounds, strict=True)
        )
        beside = known_sizes(released, columns, ctes)
        sql = rows_as_json(self._text(released, ctes), names, cells, most_staged_rows(beside))
        hole = self.registry.input(sql, f"rows({','.join(t for _, t in types)})")
        self.registry.beside[hole.index] = beside
        given = Item(
            item.alias, Rows(node=Staged(columns, hole.index), contribution=Contribution(beside=(beside,))), columns, item.node
        )
        return renamed(given, alias_columns(item.node))


def _renamed(tree: exp.Expr, columns: tuple[str, ...]) -> exp.Expr:
    """A CTE's query under the column names of its WITH clause."""
    names = ", ".join(f'"{c}"' for c in columns)
    return parse_expression(f"SELECT * FROM ({to_sql(tree)}) AS dpproxy_cte({names})")


def _with_ctes(tree: exp.Expr, ctes: Mapping[str, exp.Expr]) -> str:
    """A released query with the CTEs it may refer to in front of it."""
    if not ctes:
        return to_sql(tree)
    bodies = ", ".join(f'"{name}" AS ({to_sql(body)})' for name, body in ctes.items())
    word = "WITH RECURSIVE" if any(mentions(body, name) for name, body in ctes.items()) else "WITH"
    return f"{word} {bodies} SELECT * FROM ({to_sql(tree)}) AS dpproxy_staged"


@dataclass
class StatementMeasurer(Stager):
    """A stager that measures as well, for one statement."""

    def measure(self, queries: Queries, select: exp.Select, rows: Rows, scope: Scope, env: Env) -> ReleasedResult:
        if rows.reports is not None:
            return ReportSelect(queries, self.registry, select, rows, scope, env).rewritten()
        rewriter = SelectRewriter(queries, self.registry, select, rows, scope, env)
        tree = rewriter.rewrite()
        if not rewriter.request.empty:
            select.set("from_", exp.From(this=released_source(self.registry, rewriter, rows)))
            if rewriter.answers is not None:
                select.append("joins", exp.Join(this=rewriter.answers, kind="CROSS"))
        elif rewriter.shares:
            select.set("from_", None)  # its aggregates are read from sources of their own
        else:
            raise unsupported("a query with neither keys nor aggregates", "Select an aggregate: count(*).")
        return ReleasedResult(tree, True)

    def constant(self, sql: str, type_: str) -> Expr:
        return self.registry.constant(sql, type_)

    def virtual(self, node: exp.Table, name: str) -> None:
        self.registry.virtual(node, name)
