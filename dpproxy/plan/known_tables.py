"""What the policy and the catalog say of the tables that a syntax tree names, before anything is bound.

Knows: names in trees, the policy, the catalog. Must not know: rows, expressions, engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.context import Context
from dpproxy.plan.rewrite.anti_join_counts import Catalog as Known
from dpproxy.sql.dialect import ident
from dpproxy.sql.output_names import output_name


@dataclass(frozen=True)
class KnownTables:
    """Questions about tables by name. `env` holds the queries of WITH that are in scope where a table is named."""

    context: Context

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

    def columns_of(self, table: exp.Table, env: Env) -> frozenset[str] | None:
        """The column names of a table or a CTE, None when they are not known."""
        schema, name = ident(table.args.get("db")), ident(table.this)
        if not schema and name in env:
            inner = env[name].query.unnest() if isinstance(env[name].query, exp.Subquery) else env[name].query
            plain = isinstance(inner, exp.Select) and not any(e.find(exp.Star) for e in inner.expressions if e.is_star)
            return frozenset(env[name].columns or map(output_name, inner.expressions)) if plain else None
        policy = self.context.find(schema, name)
        return None if policy is None else frozenset(c.name for c in self.context.catalog.tables[policy.name].columns)


@dataclass(frozen=True)
class Cte:
    """A WITH query: `query` is analysed where it is referenced when its rows belong to units."""

    name: str
    query: exp.Expr
    columns: tuple[str, ...]
    env: Env
    per_unit: bool


Env = Mapping[str, Cte]
