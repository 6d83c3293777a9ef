"""Names in scope, as PostgreSQL resolves them.

Knows: aliases, columns, CTEs. Must not know: expressions, engines. An unqualified name that fits two sources is ambiguous; a
name found nowhere inside is looked up in the enclosing query (a correlated reference).
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from dpproxy.errors import AMBIGUOUS_COLUMN, INSUFFICIENT_PRIVILEGE, UNDEFINED_COLUMN, Refusal
from dpproxy.plan.expr import Column
from dpproxy.plan.grids import STEPS
from dpproxy.plan.model import Dialect
from dpproxy.policy.catalog import Catalog, TableName
from dpproxy.policy.model import Policy, Role, TablePolicy

if TYPE_CHECKING:
    from sqlglot import exp

    from dpproxy.plan.tables import Shape


@dataclass(frozen=True)
class Settings:
    """The session's settings that change a plan. `epsilon` in micro-epsilon, None for the role's default. `other`: groups
    that are not released are returned together, as one. `rows` and `groups` of a unit: where tighter than the policy's."""

    epsilon: int | None = None
    confidence: Decimal = Decimal("0.95")
    search_path: tuple[str, ...] = ("public",)
    other: bool = False
    zone: str | None = None  # of the session; None is UTC
    rows: int | None = None
    groups: int | None = None


@dataclass(frozen=True)
class Context:
    """Everything a plan is a function of, besides the statement."""

    policy: Policy
    catalog: Catalog
    role: Role
    dialect: Dialect
    settings: Settings = Settings()
    parameters: tuple[str, ...] = ()  # types of $1..$n
    steps: int = STEPS[0]  # of the grids values are measured on
    pick_key: int = 0  # of the hash that orders a unit's groups (PRIVACY.md section 3, The measurement)
    shapes: dict[TableName, Shape] = field(default_factory=dict, compare=False)  # of the policy's tables, as they are needed

    def allowed(self, name: TableName) -> bool:
        table = self.policy.tables.get(name)
        if table is None:
            return False
        return self.role.tables is None or name in self.role.tables

    def find(self, schema: str, name: str) -> TablePolicy | None:
        """The policy of a table as the analyst names it; None when it is not one of the dataset's."""
        schemas = (schema,) if schema else self.settings.search_path
        for candidate in schemas:
            table = self.policy.tables.get(TableName(candidate, name))
            if table is not None:
                return table
        return None

    def view(self, schema: str, name: str) -> str | None:
        """The query of a policy's view, None when the name is not one. Raises Refusal 42501 for a role without it."""
        schemas = (schema,) if schema else self.settings.search_path
        for candidate in schemas:
            table = TableName(candidate, name)
            if table in self.policy.views:
                if self.role.tables is not None and table not in self.role.tables:
                    raise Refusal(INSUFFICIENT_PRIVILEGE, f"permission denied for view {table}")
                return self.policy.views[table]
        return None


MAX_SCANS = 500  # of one statement, with every CTE counted where it is read


@dataclass
class Counter:
    """Numbers for columns and scans: unique within a plan."""

    _columns: Iterator[int] = field(default_factory=itertools.count)
    _scans: Iterator[int] = field(default_factory=itertools.count)

    def column(self) -> int:
        return next(self._columns)

    def scan(self) -> int:
        """Raises Refusal 54001: a query may name itself twice, and that twice again."""
        number = next(self._scans)
        if number >= MAX_SCANS:
            raise Refusal("54001", f"statement reads tables more than {MAX_SCANS} times", hint="Split it.")
        return number


@dataclass(frozen=True)
class Source:
    """One item of FROM: its alias and visible columns."""

    alias: str
    columns: tuple[Column, ...]
    schema: str = ""

    def find(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)


@dataclass(frozen=True)
class Cte:
    """A WITH query: `query` is analysed where it is referenced when its rows belong to units."""

    name: str
    query: exp.Expr
    columns: tuple[str, ...]
    env: Env
    per_unit: bool


Env = Mapping[str, Cte]


@dataclass(frozen=True)
class Merged:
    """A name that USING or NATURAL made one: column `column` stands for all those of `of`, itself among them. What is known of
    that column is in its source alone."""

    name: str
    column: int
    of: frozenset[int]


@dataclass(frozen=True)
class Scope:
    """`merged`: names made one, the last join's first. Columns computed for them are in a source without an alias."""

    sources: tuple[Source, ...]
    merged: tuple[Merged, ...] = ()
    outer: Scope | None = None

    def resolve(self, table: str, name: str, position: int | None = None) -> Column:
        """The column a reference means. Raises Refusal 42703 or 42702."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._local(table, name, position)
            if found is not None:
                return found
            scope = scope.outer
        label = f"{table}.{name}" if table else name
        raise Refusal(
            UNDEFINED_COLUMN,
            f'column "{label}" is not available here',
            position,
            hint="Hidden columns and whole rows cannot be used; see `SELECT * FROM dpproxy.policy`.",
        )

    def _local(self, table: str, name: str, position: int | None) -> Column | None:
        if table:
            found = [c for s in self.sources if s.alias == table if (c := s.find(name)) is not None]
        else:
            found = [c for _, c in self.visible() if c.name == name]
        if len(found) > 1 and len({c.id for c in found}) > 1:
            raise Refusal(AMBIGUOUS_COLUMN, f'column reference "{name}" is ambiguous', position)
        return found[0] if found else None

    def visible(self, table: str = "") -> tuple[tuple[str, Column], ...]:
        """The columns `*` or `table.*` stands for (merged ones once, first), each with its source's alias."""
        named = [(s.alias, c) for s in self.sources if not table or s.alias == table for c in s.columns]
        if table or not self.merged:
            return tuple(named)
        by_id = {c.id: (alias, c) for alias, c in named}
        once = [(by_id[m.column][0], replace(by_id[m.column][1], name=m.name)) for m in self.merged]
        absorbed = frozenset().union(*(m.of for m in self.merged))
        return (*once, *((alias, c) for alias, c in named if c.id not in absorbed))


EPOCH = dt.datetime(1970, 1, 1)
