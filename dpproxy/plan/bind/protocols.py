"""What the parts of a query ask of the whole, and what binding asks of measuring.

Knows: results, scopes, expressions. Must not know: how any of it is done. A query holds expressions and an expression holds
queries: that recursion is real, and goes through `Queries`. Binding meets measuring only through `Measurer`.
"""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from dpproxy.plan.bind.expressions import ExprBinder
from dpproxy.plan.bind.results import Item, ReleasedResult, Result
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.context import Context, Counter
from dpproxy.plan.known_tables import Env, KnownTables
from dpproxy.tree.expr import Expr
from dpproxy.tree.relation import Rows


class Queries(Protocol):
    """The binder of one statement's queries, as its parts see it. Every method raises Refusal."""

    context: Context
    counter: Counter
    tables: KnownTables
    measurer: Measurer
    scalars: dict[str, list[tuple[Env, Expr]]]

    def bind(self, node: exp.Expr, env: Env, outer: Scope | None = None, want_rows: bool = False) -> Result:
        """Find the privacy type of a query. `want_rows`: a public query shall come back as rows, not as SQL for the facade."""
        ...

    def expressions(self, env: Env, rows: Rows | None, *, aggregates: bool = False) -> ExprBinder:
        """Return the binder of expressions over `rows`; None where no rows are in scope yet (conditions of ON)."""
        ...

    def with_ctes(self, node: exp.Expr, env: Env, outer: Scope | None) -> Env:
        """Return the environment inside a query with a WITH clause."""
        ...

    def from_items(self, select: exp.Select, env: Env, outer: Scope | None) -> list[Item]:
        """Return the items of FROM."""
        ...

    def joined(self, select: exp.Select, items: list[Item], env: Env, outer: Scope | None) -> tuple[Rows, Scope]:
        """FROM and its joins as one relation."""
        ...

    def nested(self, node: exp.Expr, env: Env) -> ReleasedResult:
        """Bind a subquery in an expression above a measurement."""
        ...


class Measurer(Protocol):
    """What is done with rows that are to be measured, and with what was measured. Every method raises Refusal."""

    released_ctes: dict[int, ReleasedResult]

    def measure(self, queries: Queries, select: exp.Select, rows: Rows, scope: Scope, env: Env) -> ReleasedResult:
        """Return the SELECT, rewritten to read what is released of `rows`."""
        ...

    def constant(self, sql: str, type_: str) -> Expr:
        """Return a constant that only the facade can evaluate."""
        ...

    def scalar(self, released: ReleasedResult, env: Env) -> Expr:
        """Stage a released scalar subquery below a measurement: the facade evaluates it first, then it is a constant."""
        ...

    def values(self, released: ReleasedResult, env: Env) -> Expr:
        """Stage the texts of one released column: the facade lists them first, then they are an array."""
        ...

    def rows(self, item: Item, released: exp.Expr, env: Env) -> Item:
        """Stage released rows that are joined with private ones: the facade computes them first, then they are constants."""
        ...

    def virtual(self, node: exp.Table, name: str) -> None:
        """Replace a table of schema dpproxy in its tree by arrays that the session fills."""
        ...
