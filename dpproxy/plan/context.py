"""What one statement is planned under: settings, policy, catalog, role; and the counter that numbers its columns and scans.

Knows: policies and catalogs. Must not know: the statement. Limits of a whole statement that several rooms share are here.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from sqlglot import exp

from dpproxy.errors import INSUFFICIENT_PRIVILEGE, STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.kernel.leaves import Leaves
from dpproxy.policy.catalog import Catalog, published_type
from dpproxy.policy.model import Policy, Role, TablePolicy
from dpproxy.sql import settings
from dpproxy.sql.dialect import ident
from dpproxy.sql.repeatability import CLOCK
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import Enumeration, TableName
from dpproxy.tree.expr import Column
from dpproxy.tree.measured import Written

SEE: Final = "SELECT * FROM dpproxy.tables lists those of your role."

GRID_STEPS = (2**32, 2**28, 2**20, 2**12)
"""Grid units of one value, at most: squares of cents below 650 are exact with the first, which leaves room for the noise and
for a thousand million rows with any sane row and group bounds."""


@dataclass(frozen=True)
class TableColumns:
    """A `TableColumns` is what every scan of a table has in common: columns without their numbers, names in the backend, which of
    the columns analysts see and which fix the unit (by place)."""

    columns: tuple[Column, ...]
    names: tuple[str, ...]
    visible: tuple[int, ...]
    keys: tuple[int, ...]


@dataclass(frozen=True)
class Clock:
    """A clock shows when the statement's transaction began, in the session's time zone. `day_alone`: the time of day is not told,
    since the statement is taken not to look at it."""

    start: dt.datetime
    day_alone: bool = False


@dataclass(frozen=True)
class Settings:
    """The session's settings that change a plan. `epsilon` in micro-epsilon, None for the role's default. `other`:
    groups that are not released are returned together, as one. `rows` and `groups` of a unit: where tighter than the policy's."""

    epsilon: int | None = None
    confidence: Decimal = Decimal("0.95")
    search_path: tuple[str, ...] = ("public",)
    other: bool = False
    zone: str | None = None  # of the session; None is UTC
    rows: int | None = None
    groups: int | None = None
    consistent: bool = True  # estimates of all values of a randomised column add up to the reports
    clock: Clock | None = None  # None: the facade is asked when the statement runs


def session_settings(values: Mapping[str, str | None]) -> Settings:
    """Return what a plan looks at of a session's settings, which are texts by name. Raises Refusal 22023."""
    clock = values.get(CLOCK)
    return Settings(
        epsilon=settings.EPSILON.read(values),
        confidence=settings.CONFIDENCE.read(values),
        search_path=settings.SEARCH_PATH.read(values),
        other=settings.OTHER.read(values),
        zone=settings.TIME_ZONE.read(values),
        rows=settings.ROWS.read(values),
        groups=settings.GROUPS.read(values),
        consistent=settings.CONSISTENT.read(values),
        clock=None if clock is None else Clock(dt.datetime.fromisoformat(clock), day_alone=len(clock) == len("2000-01-01")),
    )


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A stored table is made of private rows beforehand, for one epoch of the data. Its name follows from what it holds, which
    is `written`, and `label` in words. `sql` is the query that makes it, of rows or of tables that are made before it. `size`:
    how many groups are declared, where they are listed. Two of one name hold the same, by trees whose columns may have other
    numbers: each is itself alone."""

    name: str
    label: str
    sql: str
    written: Written
    size: int | None = None


@dataclass(frozen=True)
class Context:
    """Everything a plan is a function of, besides the statement."""

    policy: Policy
    catalog: Catalog
    role: Role
    dialect: Dialect
    settings: Settings = Settings()
    parameters: tuple[str, ...] = ()  # types of $1..$n
    steps: int = GRID_STEPS[0]  # of the grids values are measured on
    pick_key: int = 0  # of the hash that orders a unit's groups (PRIVACY.md section 3, The measurement)
    table_columns: dict[TableName, TableColumns] = field(
        default_factory=dict, compare=False
    )  # of the policy's tables, as they are needed
    leaves: Leaves | None = field(default=None, compare=False)  # what the kernel knows of them; None: to be made
    stored: tuple[StoredTable, ...] = ()  # tables that measurements may be read from

    def allowed(self, name: TableName) -> bool:
        table = self.policy.tables.get(name)
        if table is None:
            return False
        return self.role.tables is None or name in self.role.tables

    def find(self, schema: str, name: str) -> TablePolicy | None:
        """Return the policy of a table as the analyst names it; None when it is not one of the dataset's."""
        schemas = (schema,) if schema else self.settings.search_path
        for candidate in schemas:
            table = self.policy.tables.get(TableName(candidate, name))
            if table is not None:
                return table
        return None

    def enumeration(self, type_: exp.DataType) -> Enumeration | None:
        """Return the enumerated type that a cast names, where analysts see columns of it."""
        kind = type_.args.get("kind")
        parts = [ident(p) for p in kind.flatten()] if isinstance(kind, exp.Dot) else [ident(kind)] if kind is not None else []
        if not parts:
            return None
        known = {(t.schema, t.name): t for t in self._enumerations()}
        schemas = (parts[0],) if len(parts) > 1 else self.settings.search_path
        return next((known[schema, parts[-1]] for schema in schemas if (schema, parts[-1]) in known), None)

    def _enumerations(self) -> Iterator[Enumeration]:
        for name, table in self.policy.tables.items():
            for column in self.catalog.tables[name].columns if name in self.catalog.tables and self.allowed(name) else ():
                type_ = published_type(table, column)
                if isinstance(type_, Enumeration) and type_.labels:
                    yield type_

    def view(self, schema: str, name: str) -> str | None:
        """The query of a policy's view, None when the name is not one. Raises Refusal 42501 for a role without it."""
        schemas = (schema,) if schema else self.settings.search_path
        for candidate in schemas:
            table = TableName(candidate, name)
            if table in self.policy.views:
                if self.role.tables is not None and table not in self.role.tables:
                    raise Refusal(INSUFFICIENT_PRIVILEGE, f"permission denied for view {table}", hint=SEE)
                return self.policy.views[table]
        return None


MAX_SCANS = 500  # of one statement, with every CTE counted where it is read


@dataclass
class Counter:
    """A counter gives numbers to columns and scans: unique within a plan."""

    _columns: Iterator[int] = field(default_factory=itertools.count)
    _scans: Iterator[int] = field(default_factory=itertools.count)
    tables: dict[TableName, None] = field(default_factory=dict)  # that the statement names, in their order

    def column(self) -> int:
        return next(self._columns)

    def scan(self) -> int:
        """Count a scan; raise Refusal 54001 for too many: a query may name itself twice, and that twice again."""
        number = next(self._scans)
        if number >= MAX_SCANS:
            raise Refusal(STATEMENT_TOO_COMPLEX, f"statement reads tables more than {MAX_SCANS} times", hint="Split it.")
        return number


MAX_STAGED_ROWS = 100_000
"""Rows the facade may hand to a measurement: they become constants of its text."""


def too_many_rows(most: int) -> str:
    """Return what the facade says instead of rows where there are more."""
    return f"more than {most:,} rows that the statement computes are to be joined with private ones"
