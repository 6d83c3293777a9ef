"""The one who measures: what binding calls where rows of units have to become released values.

Knows: how a SELECT is rewritten, registered and staged. Must not know: how queries are bound. It implements `protocols.Measurer`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.results import ReleasedResult
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.known_tables import Env
from dpproxy.plan.outer.measured_select import SelectRewriter
from dpproxy.plan.outer.released_source import released_source
from dpproxy.plan.outer.staging import Stager
from dpproxy.plan.refusals import unsupported
from dpproxy.tree.expr import Expr
from dpproxy.tree.relation import Rows


@dataclass
class StatementMeasurer(Stager):
    """This is a stager that measures as well, for one statement."""

    def measure(self, queries: Queries, select: exp.Select, rows: Rows, scope: Scope, env: Env) -> ReleasedResult:
        rewriter = SelectRewriter(queries, self.registry, select, rows, scope, env)
        tree = rewriter.rewrite()
        if not rewriter.request.empty:
            select.set("from_", exp.From(this=released_source(self.registry, rewriter, rows)))
        elif rewriter.shares:
            select.set("from_", None)  # its aggregates are read from sources of their own
        else:
            raise unsupported("a query with neither keys nor aggregates", "Select an aggregate: count(*).")
        return ReleasedResult(tree, True)

    def constant(self, sql: str, type_: str) -> Expr:
        return self.registry.constant(sql, type_)

    def virtual(self, node: exp.Table, name: str) -> None:
        self.registry.virtual(node, name)
