"""A checked policy as the other rooms see it: frozen values, no YAML, no positions.

Knows: the field's terms. Must not know: files, engines, SQL. `policy.load` makes these; nobody else does
outside tests. Amounts of budget are integers: micro-epsilon (1e-6) and atto-delta (1e-18).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction
from typing import Final, Literal, assert_never

from dpproxy.budget_windows import Window
from dpproxy.local.claims import Claim
from dpproxy.table_terms import TableName

Value = str | int | bool | Decimal | dt.date | None


def constant_text(value: Value) -> str:
    """Return a declared value, not None, as PostgreSQL writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return value.isoformat(sep=" ")
        case Decimal():
            return format(value, "f")
    return str(value)


class ColumnRole(StrEnum):
    """What a column is for. Of a table of reports, a plain column without `randomised` was left as it is by devices."""

    PLAIN = "plain"
    UNIT = "unit"  # counted and joined on, never shown or compared with a constant
    KEY = "key"  # joined on, counted, grouped by inside one unit; never shown
    HIDDEN = "hidden"  # does not exist for analysts


@dataclass(frozen=True)
class ColumnPolicy:
    """What may be asked of a column. `range` is inclusive; a last day stands for its last microsecond; declared numbers and
    dates have their hull as range. `values` never holds None: that is what `nulls` says. `resolution` is the grid of the column.

    `nulls`: NULL is one of the declared keys (else rows whose declared key is NULL are in no group). `lasts`: the range of
    intervals, by their length.
    """

    name: str
    role: ColumnRole = ColumnRole.PLAIN
    values: tuple[Value, ...] | None = None
    range: tuple[Decimal, Decimal] | tuple[dt.datetime, dt.datetime] | None = None
    resolution: Decimal | None = None
    nulls: bool = False
    length: int | None = None  # of texts: characters that count, at most
    lasts: tuple[dt.timedelta, dt.timedelta] | None = None
    references: tuple[TableName, str] | None = None  # of a KEY: the row referred to belongs to the same unit
    plain: bool = False  # of a table of reports: told without noise to whoever may read the table
    randomised: Randomised | None = None  # on devices, before it was stored


@dataclass(frozen=True)
class ReleasedList:
    """Candidates that a public table lists: its first `count` values of `column`, in the order of `order` (None: of the table's
    primary key). A claim is about so many candidates, and stays the same when the list grows at its end."""

    table: TableName
    column: str
    count: int
    order: str | None = None


@dataclass(frozen=True)
class Randomised:
    """How a column was randomised on devices.

    `claims`: by the number in the column `claim` of the table, in order; a column of one mechanism alone has the number 1.
    `stored`: the column that holds the reports, which is this one or one that nobody sees. `values`: the candidates, in the
    order in which reports number them; None where they are open. Of a table with a unit: noise is added on top.
    """

    claims: tuple[tuple[int, Claim], ...]
    stored: str
    values: tuple[Value, ...] | ReleasedList | None = None

    @property
    def epsilon(self) -> Fraction:
        """The greatest epsilon of one report."""
        return max(claim.epsilon for _, claim in self.claims)


@dataclass(frozen=True)
class Reports:
    """What a policy says of a table of reports.

    `epsilon`: of one report, all of its columns together, at most. `per_day`: reports that a device makes in one day, at
    most. `keep_days`: days after which reports are deleted; None where they stay. `at_least`: groups of fewer are not shown.
    `fresh`: each report is drawn anew; else a device draws once for each value and repeats itself. `cells`: a row stands
    for the `n` reports that are alike.
    """

    epsilon: Fraction
    per_day: int = 1
    keep_days: int | None = None
    at_least: int = 1000
    fresh: bool = True
    cells: bool = False


@dataclass(frozen=True)
class Bounds:
    """Bounds what one unit contributes to any group: `rows` per group, `groups` reached (None means `all`).

    `whole`: `rows` bounds all of its groups together: what it adds to them, as a vector, is no longer than that many rows
    in one group would be, and is scaled down where it is.
    """

    rows: int
    groups: int | None
    whole: bool = False


@dataclass(frozen=True)
class KeyPart:
    """A column that is part of a key. `day`: of a moment, its day alone."""

    column: str
    day: bool = False


@dataclass(frozen=True)
class UnitPath:
    """How a row of a private table finds its unit.

    `steps` is empty when the table has the unit column itself; else each step joins
    `column` of the table so far with `target.target_column`. `column` at the end is the unit column of the
    last table on the path.
    """

    column: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Step:
    column: str
    target: TableName
    target_column: str


class TableKind(Enum):
    """Whose rows a table holds. A table without a unit is not for that a public one: `TablePolicy.kind` alone infers a kind,
    and what is decided by one is decided for each member by name."""

    PEOPLE = "private"  # rows of privacy units: measured with noise, and charged
    REPORTS = "reports"  # rows that devices randomised: counted by the plain columns, and no row is shown
    PUBLIC = "public"  # rows about nobody: shown as they are

    @property
    def shown(self) -> bool:
        """Whether its rows, and statistics of them, are for everybody: copied to the facade, joined, listed."""
        match self:
            case TableKind.PUBLIC:
                return True
            case TableKind.PEOPLE | TableKind.REPORTS:
                return False
            case _:
                assert_never(self)


@dataclass(frozen=True)
class TablePolicy:
    """What may be asked of a table. `columns` holds what the policy lists: any other column is plain in a public table, and
    hidden in one of another kind.

    `unit` and `reports` say of what kind the table is: a public one has neither. `one`: at most one row per unit (checked against
    the data at start). `keys`: columns whose values together are those of one row at most (checked likewise). `reviewed`: when,
    and by whom, a public table was found to be about nobody; empty where nobody says so. `joined`: keys of several columns, by
    the name of the one column that stands for them (`policy.joined_keys`). `unprotected`: columns by which a row names further
    units, which it is not counted for. `rows_at_most`: rows that a unit has, taken as true; None: not stated."""

    name: TableName
    unit: UnitPath | None
    one: bool
    bounds: Bounds
    columns: Mapping[str, ColumnPolicy]
    keys: tuple[tuple[str, ...], ...] = ()
    reviewed: str = ""
    joined: Mapping[str, tuple[KeyPart, ...]] = field(default_factory=dict)
    unprotected: tuple[str, ...] = ()
    rows_at_most: int | None = None
    reports: Reports | None = None

    def __post_init__(self) -> None:
        if self.unit is not None and self.reports is not None:
            raise ValueError(f"table {self.name} has both a unit and reports")

    @property
    def kind(self) -> TableKind:
        """Whose rows the table holds; the one place where a kind is inferred."""
        if self.unit is not None:
            return TableKind.PEOPLE
        return TableKind.PUBLIC if self.reports is None else TableKind.REPORTS


@dataclass(frozen=True)
class Budget:
    """How much may be spent in a window. `warn`: the percentages of it at which its user and the log get a warning."""

    epsilon: int  # micro
    delta: int  # atto
    every: Window = "never"
    warn: tuple[int, ...] = (80,)


PARAMETER_BYTES: Final = 1 << 20
"""Bytes of a statement's parameters: a hundred thousand numbers of ten digits in one array."""


@dataclass(frozen=True)
class QueryLimits:
    epsilon: int  # micro; what a statement costs unless the session says otherwise
    max_epsilon: int  # micro
    delta: int  # atto; what a statement with undeclared keys costs
    measure_bounds: int = 0  # millionths of a statement's epsilon that measure how many units its bounds cut
    parameter_bytes: int = PARAMETER_BYTES  # that the parameters of a statement over private tables may have together


Previews = Literal["refuse", "empty", "synthetic"]
"""What becomes of a query for rows of people without a filter, as tools ask it to show what a table looks like."""


@dataclass(frozen=True)
class Role:
    name: str
    budget: Budget
    query: QueryLimits
    tables: frozenset[TableName] | None  # None: all
    min_units: int = 1
    temp_tables: bool = False
    previews: Previews = "refuse"


@dataclass(frozen=True)
class User:
    name: str
    role: str
    password: str = field(repr=False)  # a SCRAM-SHA-256 verifier
    budget: Budget | None = None  # of what the role has; None: all of it


@dataclass(frozen=True)
class DuckDBBackend:
    path: str  # absolute, resolved against the policy file's folder
    memory_limit: str | None = None
    threads: int | None = None


@dataclass(frozen=True)
class PostgresBackend:
    dsn: str = field(repr=False)
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class SparkBackend:
    """Names a Spark Connect server, and one of its catalogs (None: the server's own default)."""

    url: str = field(repr=False)
    catalog: str | None = None
    token: str | None = field(default=None, repr=False)


Backend = DuckDBBackend | PostgresBackend | SparkBackend

Mechanism = Literal["laplace", "gaussian", "auto"]

AccelerateMode = Literal["off", "auto", "on", "extract"]


@dataclass(frozen=True)
class Accelerate:
    """Whether there is a prepared copy of the private tables. `auto`: where the data are large; `extract`: all tables of a
    PostgreSQL database are read once for each epoch, and DuckDB measures. `disk`: bytes it may take, None for a part of what
    the data take; `folder`: where it is kept, absolute, None for the state folder. `queries`: statements
    that it is made for, beside those that are thought of for every policy."""

    mode: AccelerateMode = "auto"
    disk: int | None = None
    folder: str | None = None
    queries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    dataset: str
    backend: Backend
    unit_name: str
    unit_table: TableName | None  # None, and no column, where no table has a unit
    unit_column: str
    budget: Budget
    tables: Mapping[TableName, TablePolicy]
    roles: Mapping[str, Role]
    users: Mapping[str, User]
    mechanism: Mechanism = "laplace"
    views: Mapping[TableName, str] = field(default_factory=dict)
    reuse_seconds: int | None = None
    epoch: str | None = None
    timing_quantum_ms: int | None = None
    accelerate: Accelerate = Accelerate()
    digest: str = field(default="", compare=False)  # of the text it was read from: what a charge in the ledger was made under

    def of_kind(self, kind: TableKind) -> tuple[TablePolicy, ...]:
        """Return the tables of one kind, in the policy's order."""
        return tuple(table for table in self.tables.values() if table.kind is kind)

    @property
    def unit_key(self) -> tuple[TableName, str] | None:
        """Return where the unit's key is; None where no table has a unit."""
        return (self.unit_table, self.unit_column) if self.unit_table is not None else None

    @property
    def unit_parts(self) -> tuple[KeyPart, ...]:
        """Return the columns of the unit's key where it has several, else ()."""
        known = self.tables.get(self.unit_table) if self.unit_table is not None else None
        return known.joined.get(self.unit_column, ()) if known is not None else ()

    @property
    def by_day(self) -> bool:
        """Return whether a unit is what somebody does in one day, and no more."""
        return any(part.day for part in self.unit_parts)
