"""What an extract of a PostgreSQL database holds: which columns of which tables, as which of DuckDB's types, and what is true of
them there.

Knows: PostgreSQL's types and the texts that COPY writes, DuckDB's types, policies. Must not know: connections, files, rows. Two
things are made of a catalog. One is the query and the casts that carry each table over. No value makes a cast fail, since whether
there is an extract is no secret: what DuckDB has no value for becomes its last moment or NULL, as is said beside `_cast`. The
other is the catalog of the extract, from which plans are made: PostgreSQL's names and types, with only those keys that a cast
cannot have broken.

Left out are columns that the policy does not use. Columns of types that nothing is computed with are NULL in private tables, and
texts in public ones, which are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Final

import pyarrow as pa

from dpproxy.backends.base import columns_of
from dpproxy.backends.duckdb import DuckDB
from dpproxy.backends.duckdb_catalog import quoted
from dpproxy.backends.duckdb_stages import as_table
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.grants import used_columns
from dpproxy.policy.joined_keys import spelled
from dpproxy.policy.model import ColumnRole, DuckDBBackend, Policy, TablePolicy
from dpproxy.policy.names import quote_name
from dpproxy.sql.types import FLOATS, INTEGERS, TEXTS
from dpproxy.table_terms import TableName

TYPES: Final = {
    "bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE",
    "date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "interval": "INTERVAL", "uuid": "UUID",
}  # fmt: skip
"""DuckDB's types that hold the values of PostgreSQL's. Texts are VARCHAR, NUMERIC is a DECIMAL of its own (`_decimal`)."""

DIGITS: Final = 38
"""Of DuckDB's longest DECIMAL."""
PLACES: Final = 9
"""Of NUMERIC without declared places: to as many it is computed with on DuckDB in any case (docs/limits.md)."""
LAST: Final = {
    "timestamp": "TIMESTAMP '294247-01-10 04:00:54.775806'",
    "timestamptz": "TIMESTAMPTZ '294247-01-10 04:00:54.775806+00'",
}
"""DuckDB's last moments: PostgreSQL has thirty years more."""
INEXACT: Final = frozenset({"timestamp", "timestamptz", "interval"})
"""Types of which two values may become one, or none."""

Numerics = Mapping[tuple[TableName, str], tuple[int, int]]
"""Digits and places of NUMERIC columns that declare them."""


@dataclass(frozen=True)
class ExtractTable:
    """One table to be extracted. `source`: as it is in PostgreSQL; `held`: as it is in the extract; `query`: what PostgreSQL
    is asked; `read`: the types, of PostgreSQL, of the columns c0, c1, ... that it tells; `items`: what is made of these;
    `order`: the extract's column by which its rows lie, "" where they lie as they arrive."""

    source: CatalogTable
    held: CatalogTable
    query: str
    read: tuple[str, ...]
    items: tuple[str, ...]
    order: str


def extract_tables(policy: Policy, catalog: Catalog, numerics: Numerics) -> tuple[ExtractTable, ...]:
    """Return the tables to be extracted. The policy must fit the catalog (run `check.check` first)."""
    names, used = _Names(), used_columns(policy)
    return tuple(
        _table(table, catalog.tables[table.name], used[table.name], numerics, names.unused(str(table.name)))
        for table in policy.tables.values()
    )


def held_catalog(tables: tuple[ExtractTable, ...]) -> Catalog:
    """Return the extract as plans see it. What was left out does not exist."""
    held = {table.held.name: table.held for table in tables}
    known = {(t.name, c.name) for t in held.values() for c in t.columns}
    for name, table in held.items():
        reached = (k for k in table.foreign_keys if all((k.target, c) in known for c in k.target_columns))
        held[name] = replace(table, foreign_keys=tuple(reached))
    return Catalog(held)


class _Names:
    """Names that DuckDB, which ignores case, tells apart."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unused(self, name: str) -> str:
        found, number = name, 1
        while found.casefold() in self._taken:
            number += 1
            found = f"{name}~{number}"
        self._taken.add(found.casefold())
        return found


def _table(policy: TablePolicy, table: CatalogTable, used: frozenset[str], numerics: Numerics, name: str) -> ExtractTable:
    names, hidden = _Names(), {c.name for c in policy.columns.values() if c.role is ColumnRole.HIDDEN}
    kept = [c for c in table.columns if policy.kind.shown or c.name in used]
    columns, asked, read, items = [], [], [], []
    for i, column in enumerate(kept):
        held, text, type_, item = _column(column.reports or column, policy, column.name in hidden - used, numerics, f"c{i}")
        held = replace(held, source=names.unused(held.name))
        held = held if column.reports is None else replace(column, source=held.source, reports=held)
        columns.append(held)
        asked.append(text)
        read.append(type_)
        items.append(f"{item} AS {quote_name(held.source)}")
    if not kept:  # a table has a column
        asked, read, items = ["NULL::text"], ["text"], ['c0 AS "~"']
    known = {c.name: c for c in columns}
    held_table = replace(
        table,
        source=("main", name),
        columns=tuple(columns),
        primary_key=table.primary_key if _kept_apart(table.primary_key, known) else (),
        unique=tuple(key for key in table.unique if _kept_apart(key, known)),
        foreign_keys=tuple(_foreign(key, known) for key in table.foreign_keys if all(c in known for c in key.columns)),
    )
    place = ".".join(quote_name(part) for part in table.source)
    query = f"SELECT {', '.join(asked)} FROM {place}"
    return ExtractTable(table, held_table, query, tuple(read), tuple(items), _order(policy, known))


def _order(policy: TablePolicy, columns: Mapping[str, CatalogColumn]) -> str:
    """The column that leads to the person: DuckDB groups rows by person in less time where those of one person lie together."""
    if policy.unit is None:
        return ""
    first = policy.unit.steps[0].column if policy.unit.steps else policy.unit.column
    return columns[first].source


def _column(
    column: CatalogColumn, policy: TablePolicy, unread: bool, numerics: Numerics, name: str
) -> tuple[CatalogColumn, str, str, str]:
    """The column in the extract; what PostgreSQL is asked, the type of that, and what is made of it."""
    quoted = spelled(column.source, '"')
    held = replace(column, collated=False, exact="")
    if unread or (not column.bounded and not policy.kind.shown):
        return replace(held, type="text", bounded=False, nullable=True) if unread else held, "NULL::text", "text", name
    if not column.bounded:
        return held, quoted, "text", name
    if column.type in TEXTS:
        return held, f"{quoted}::text", "text", name  # of CHAR(n) without its padding, as it is compared
    if column.type == "numeric":
        type_ = _decimal(column, policy, numerics)
        return replace(held, exact=type_, nullable=True), quoted, "text", f"TRY_CAST({name} AS {type_})"
    nullable = column.nullable or column.type == "interval"
    return replace(held, nullable=nullable), quoted, _read(column.type), _cast(column.type, name)


def _read(type_: str) -> str:
    return type_ if type_ in ("bool", "int2", "int4", "int8") else "text"


def _decimal(column: CatalogColumn, policy: TablePolicy, numerics: Numerics) -> str:
    """Its own digits and places where DuckDB has as many; else the places of its resolution. NaN, infinities and what is too long
    become NULL."""
    digits, places = numerics.get((policy.name, column.name), (0, 0))
    if 0 < digits <= DIGITS and 0 <= places <= digits:
        return f"DECIMAL({digits},{places})"
    declared = policy.columns.get(column.name)
    resolution = declared.resolution if declared is not None else None
    fine = -int(Decimal(resolution).normalize().as_tuple().exponent) if resolution is not None else 0
    return f"DECIMAL({DIGITS},{min(max(PLACES, fine), DIGITS)})"


def _cast(type_: str, name: str) -> str:
    """A text of PostgreSQL's as a value of DuckDB's: years before Christ are marked in another place; moments after DuckDB's last
    are that one; infinite intervals, which DuckDB does not have, are NULL."""
    to = TYPES[type_]
    if type_ in ("date", "timestamp", "timestamptz"):  # DuckDB overlooks a mark where it does not expect one
        marked = rf"CASE WHEN {name} LIKE '% BC' THEN regexp_replace({name}, '^(\S+)(.*) BC$', '\1 (BC)\2') ELSE {name} END"
        last = f"CASE WHEN {name} IS NOT NULL THEN {LAST[type_]} END" if type_ in LAST else "NULL"
        return f"coalesce(TRY_CAST({marked} AS {to}), {last})"
    if type_ == "interval":
        return f"TRY_CAST(replace({name}, '+', '') AS {to})"
    return f"TRY_CAST({name} AS {to})"


def _kept_apart(key: tuple[str, ...], columns: Mapping[str, CatalogColumn]) -> bool:
    """Whether rows that differ in a key do so in the extract."""
    return bool(key) and all(c in columns and not _may_merge(columns[c]) for c in key)


def _may_merge(column: CatalogColumn) -> bool:
    return not column.bounded or column.type in INEXACT or column.exact.startswith(f"DECIMAL({DIGITS},")


def _foreign(key: ForeignKey, columns: Mapping[str, CatalogColumn]) -> ForeignKey:
    """A row whose value was lost finds nothing."""
    lost = any(not columns[c].bounded or columns[c].type in INEXACT or columns[c].type == "numeric" for c in key.columns)
    return replace(key, enforced=key.enforced and not lost)


def described(tables: tuple[ExtractTable, ...]) -> Iterator[tuple[object, ...]]:
    """Yield all that the tables of an extract follow from, but the rows."""
    for table in tables:
        columns = [(c.name, c.source, c.type, c.nullable, c.bounded, c.exact) for c in table.held.columns]
        yield str(table.held.name), table.held.source, table.query, table.read, table.items, table.order, columns


# An extract as the data engine: a DuckDB file that was read from a PostgreSQL database, with that database's names and types.
#
# Knows: DuckDB, the catalog that the extract was made by. Must not know: PostgreSQL's connections, how an extract is made or
# found. What is measured is what was read; the database is not asked.


class Extract(DuckDB):
    """Runs the `Backend` of one extract. Raises BackendError when its file cannot be opened."""

    def __init__(self, path: Path, catalog: Catalog, places: int) -> None:
        super().__init__(DuckDBBackend(str(path)), places)
        self._catalog = catalog

    async def introspect(self) -> Catalog:
        """Return the catalog that it was made by: DuckDB has fewer types."""
        return self._catalog

    async def public_rows(self, table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
        """Return rows as PostgreSQL would write them."""
        items = ", ".join(f"{_text(c)} AS {quote_name(c.name)}" for c in columns_of(table, columns))
        return await self._run(lambda connection: as_table(connection, f"SELECT {items} FROM {quoted(table)} LIMIT {cap + 1}"))


def _text(column: CatalogColumn) -> str:
    name = quote_name(column.source)
    if column.type in (*INTEGERS, *FLOATS, "bool"):
        return name
    text = f"CAST({name} AS VARCHAR)"
    if column.exact.startswith(f"DECIMAL({DIGITS},") and not column.exact.endswith(",0)"):
        return f"regexp_replace({text}, '[.]?0+$', '')"  # of no declared places: zeros at the end are the extract's
    if column.type in ("date", "timestamp", "timestamptz"):
        return rf"regexp_replace({text}, '^(\S+) \(BC\)(.*)$', '\1\2 BC')"
    return text
