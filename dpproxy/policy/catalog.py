"""What a backend's tables look like: names, types, keys. Never how many rows, or a value, of a private one.

Knows: shapes. Must not know: statistics, engines. Made by `backends`, read by policy checks, the planner and
the facade.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpproxy.policy.model import KeyPart, TablePolicy
from dpproxy.table_terms import Enumeration, TableName, hidden_labels

SPELLINGS = "its collation takes different spellings for equal"
"""The `reason` of a column whose equal texts are not the same: the one shown for a group could be one person's."""


@dataclass(frozen=True)
class CatalogColumn:
    """Describes a column. `name` is PostgreSQL's spelling (lower case where a plain identifier), `source` the backend's own.

    `type` is PostgreSQL's name of the base type without modifiers (`int4`, `int8`, `numeric`, `float8`, `text`,
    `varchar`, `bool`, `date`, `time`, `timestamp`, `timestamptz`, `interval`, `uuid`, ...); an engine's type
    with no counterpart is `text` here with `bounded=False`: shown, never aggregated, and `reason` says why. Of an enumerated type
    it is that type with its labels, whatever is published of them (`published_type`).
    `public_range` is only set for columns of public tables: (lowest, highest) as text, from the data,
    and `most`: how many rows share one value. `collated`: texts with another collation than the database's.
    `exact`: of numbers, the kind of those they are compared with as they are (`table_terms.same_kind`); empty: those of their
    `type`. Of moments of another precision than usual, the engine's own type. `parts`: the columns that it is joined of
    (`policy.joined_keys`); none of a column that the backend has. `stored`: the type that the backend calls it, where that is
    compared before each measurement; no part of what a column is. `reports`: of a column that devices randomised, the one that
    the backend has, with what they reported (`policy.report_columns`).
    """

    name: str
    source: str
    type: str
    nullable: bool = True
    bounded: bool = True
    comment: str | None = None
    public_range: tuple[str, str] | None = None
    most: int | None = None
    reason: str = ""
    collated: bool = False
    exact: str = ""
    parts: tuple[KeyPart, ...] = ()
    stored: str = field(default="", compare=False, repr=False)
    reports: CatalogColumn | None = None


def published_type(table: TablePolicy, column: CatalogColumn) -> str:
    """Return a column's type as analysts see it. Labels of an enumerated type may be values that somebody has: they are published
    where the policy declares them, all and no others, as `values` of the column; of public tables always."""
    listed = table.columns.get(column.name)
    declared = {str(v) for v in listed.values or ()} if listed is not None else set()
    shown = table.kind.shown or (isinstance(column.type, Enumeration) and declared == set(column.type.labels))
    return column.type if shown else hidden_labels(column.type)


@dataclass(frozen=True)
class ForeignKey:
    """Describes a foreign key. `enforced`: every row that there is has been checked."""

    columns: tuple[str, ...]
    target: TableName
    target_columns: tuple[str, ...]
    enforced: bool = True


@dataclass(frozen=True)
class CatalogTable:
    """Describes a table. `source` is the backend's (schema, name). `rows`: how many rows a public table has. `reads`: of a view,
    the tables that its query reads, also those that the role may not; no part of what a table is."""

    name: TableName
    source: tuple[str, str]
    columns: tuple[CatalogColumn, ...]
    primary_key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    comment: str | None = None
    rows: int | None = None
    reads: tuple[TableName, ...] = field(default=(), compare=False, repr=False)

    def column(self, name: str) -> CatalogColumn | None:
        return next((c for c in self.columns if c.name == name), None)


@dataclass(frozen=True)
class Catalog:
    """All tables of a backend. `withheld`: columns that exist, in these tables or in others, and that the role the proxy
    reads with may not read."""

    tables: Mapping[TableName, CatalogTable] = field(default_factory=dict)
    withheld: Mapping[TableName, frozenset[str]] = field(default_factory=dict)
