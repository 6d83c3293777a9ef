"""What the policy and the catalog say of the tables that a syntax tree names, before anything is bound.

Knows: names in trees, the policy, the catalog. Must not know: rows, expressions, engines, who asks. Rewriting asks before binding
(`rewrite.rules`), where the queries of WITH are known by the whole tree; binding asks with those that are in scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlglot import exp

from dpproxy.plan.context import Context
from dpproxy.policy.data_claims import found_by
from dpproxy.policy.model import TableKind
from dpproxy.sql.dialect import ident
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name


@dataclass(frozen=True)
class Cte:
    """A query of WITH: `query` is analysed where it is referenced when its rows belong to units."""

    name: str
    query: exp.Expr
    columns: tuple[str, ...]
    env: Env
    per_unit: bool


Env = Mapping[str, Cte]
_NOTHING: Env = MappingProxyType({})


@dataclass(frozen=True)
class KnownTables:
    """Questions about tables by name. `env` holds the queries of WITH that are in scope where a table is named. `bodies`: all
    queries of WITH of the tree that is asked about, by name, where none is bound yet (`of_tree`)."""

    context: Context
    bodies: Mapping[str, exp.Expr] = field(default_factory=dict)
    _reading: dict[str, bool] = field(default_factory=dict, compare=False)  # what `reads_private` found of `bodies`

    def of_tree(self, tree: exp.Expr) -> KnownTables:
        """The same tables together with the queries of WITH in a tree, before any of them is bound."""
        return KnownTables(self.context, {ident(cte.args["alias"].this): cte.this for cte in every(tree, exp.CTE)})

    def names_private(self, node: exp.Expr, env: Env) -> bool:
        """Tell whether a query names a private table, or a query of WITH whose rows belong to units."""
        return any(self.private_table(t, env) for t in every(node, exp.Table))

    def reads_private(self, node: exp.Expr) -> bool:
        """Whether a query or table reads private rows, the queries of WITH in `bodies` included."""
        return any(self._reads_private(table) for table in every(node, exp.Table))

    def _reads_private(self, table: exp.Table) -> bool:
        name = ident(table.this)
        if name not in self.bodies or table.args.get("db"):
            return self.private_table(table, _NOTHING)
        if name not in self._reading:  # each is looked through once; one that is being looked through adds nothing
            self._reading[name] = False
            self._reading[name] = self.reads_private(self.bodies[name])
        return self._reading[name]

    def unique(self, table: exp.Table, name: str) -> bool:
        """Whether each value of a public table's column is in one row, by its keys."""
        policy = self.context.find(ident(table.args.get("db")), ident(table.this))
        found = self.context.catalog.tables.get(policy.name) if policy is not None and policy.kind.shown else None
        column = found.column(name) if found is not None else None
        keys = (found.primary_key, *found.unique) if found is not None else ()
        return column is not None and ((name,) in keys or column.most == 1)

    def type_of(self, table: exp.Table, name: str) -> str | None:
        """The type of a table's column that goes by its own name; None of a query of WITH, a view or a function."""
        alias = table.args.get("alias")
        if not isinstance(table.this, exp.Identifier) or (alias is not None and alias.args.get("columns")):
            return None
        schema, called = ident(table.args.get("db")), ident(table.this)
        policy = None if not schema and called in self.bodies else self.context.find(schema, called)
        column = self.context.catalog.tables[policy.name].column(name) if policy is not None else None
        return column.type if column is not None and isinstance(column.type, str) else None

    def filled(self, table: exp.Table, name: str) -> bool:
        """Whether a private table's column is never NULL: a scan leaves out rows of nobody."""
        policy = self.context.find(ident(table.args.get("db")), ident(table.this))
        if policy is None or policy.unit is None:
            return False
        column = self.context.catalog.tables[policy.name].column(name)
        return (not policy.unit.steps and policy.unit.column == name) or (column is not None and not column.nullable)

    def unit_column(self, table: exp.Table) -> str | None:
        """The column of a private table that holds its unit ids; None where it reaches them by a path."""
        policy = self.context.find(ident(table.args.get("db")), ident(table.this))
        return policy.unit.column if policy is not None and policy.unit is not None and not policy.unit.steps else None

    def private_key(self, table: exp.Table, name: str) -> bool:
        """Whether each value of a private table's column is in one row: by the catalog's keys, or by what the policy says."""
        policy = self.context.find(ident(table.args.get("db")), ident(table.this))
        if policy is None or policy.kind is not TableKind.PEOPLE:
            return False
        found = self.context.catalog.tables[policy.name]
        return (name,) in (*found_by(self.context.policy, policy.name), found.primary_key, *found.unique)

    def private_table(self, table: exp.Table, env: Env) -> bool:
        """Whether a table is private: not public, a view, or a query of WITH whose rows belong to units."""
        schema, name = ident(table.args.get("db")), ident(table.this)
        if not schema and name in env:
            return env[name].per_unit
        if self.context.view(schema, name) is not None:
            return True  # whatever it reads: a view is analysed where it stands in FROM, and nowhere else
        policy = self.context.find(schema, name)
        return policy is not None and not policy.kind.shown

    def columns_of(self, table: exp.Table, env: Env = _NOTHING) -> frozenset[str] | None:
        """The column names of a table or a query of WITH, None when they are not known."""
        schema, name = ident(table.args.get("db")), ident(table.this)
        if not schema and name in env:
            inner = env[name].query.unnest() if isinstance(env[name].query, exp.Subquery) else env[name].query
            plain = isinstance(inner, exp.Select) and not any(e.find(exp.Star) for e in inner.expressions if e.is_star)
            return frozenset(env[name].columns or map(output_name, inner.expressions)) if plain else None
        if not schema and name in self.bodies:
            return None  # which of them is meant, and with which columns, binding knows
        policy = self.context.find(schema, name)
        return None if policy is None else frozenset(c.name for c in self.context.catalog.tables[policy.name].columns)
