"""What a catalog on Spark Connect holds, as PostgreSQL would tell it: tables, columns, types; of public tables what is in them.

Knows: Spark's types and names. Must not know: sessions' ends, what a policy says. A type is told as the one of PostgreSQL's
that holds every value of it; what has no counterpart is text that no plan relies on (`bounded`). Spark enforces no keys and, of
files that others write, no NOT NULL: none are told, and what a policy claims of rows is counted, as everywhere. The database
`default` is PostgreSQL's `public`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dpproxy.backends.base import COUNTED, columns_of
from dpproxy.policy.catalog import SPELLINGS, Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.names import fold, quote_name
from dpproxy.table_terms import TableName

TYPES = {
    "boolean": "bool", "tinyint": "int2", "smallint": "int2", "int": "int4", "bigint": "int8", "float": "float4",
    "double": "float8", "string": "text", "date": "date", "timestamp": "timestamptz", "timestamp_ntz": "timestamp",
}  # fmt: skip
RANGED = frozenset({"int2", "int4", "int8", "numeric", "float4", "float8", "date", "timestamp", "timestamptz"})
FLOATS = frozenset({"float4", "float8"})
AS_TEXT = frozenset({"numeric", "text"})
"""PostgreSQL types read as their text: what has no counterpart is text, and Arrow's decimals may be wider than PostgreSQL's."""
SYSTEM = frozenset({"information_schema", "system", "sys"})
_VARCHAR = re.compile(r"varchar\(\d+\)")


def rows(session: Any, query: str) -> pa.Table:
    """Return what a query says."""
    table: pa.Table = session.sql(query).toArrow()
    return table


def _name(text: str) -> str:
    return quote_name(text, "`")


def source(table: CatalogTable) -> str:
    return ".".join(_name(part) for part in table.source)


def introspected(session: Any, unreadable: type[Exception]) -> Catalog:
    """Return names and types of every table of the current catalog but those that cannot be described, as `unreadable` says;
    temporary views are none."""
    tables: dict[TableName, CatalogTable] = {}
    for schema in rows(session, "SHOW DATABASES").column(0).to_pylist():
        if schema.lower() in SYSTEM:
            continue
        for _, table, temporary, *_ in zip(*rows(session, f"SHOW TABLES IN {_name(schema)}").to_pydict().values(), strict=True):
            if not temporary:
                with suppress(unreadable):
                    found = _table(session, schema, table)
                    tables[found.name] = found
    return Catalog(tables)


def _table(session: Any, schema: str, table: str) -> CatalogTable:
    fields = session.sql(f"SELECT * FROM {_name(schema)}.{_name(table)}").schema.fields
    columns = tuple(_column(f.name, f.dataType.simpleString()) for f in fields)
    known = TableName("public" if schema.lower() == "default" else fold(schema), fold(table))
    return CatalogTable(known, (schema, table), columns)


def _column(name: str, native: str) -> CatalogColumn:
    kind, reason = _type(native.lower())
    exact = native.lower() if kind == "numeric" else ""
    return CatalogColumn(fold(name), name, kind, True, not reason, reason=reason, exact=exact)


def _type(native: str) -> tuple[str, str]:
    """(PostgreSQL's base type, why the planner cannot compute with it)."""
    if native in TYPES:
        return TYPES[native], ""
    if native.startswith("decimal("):
        return "numeric", ""
    if _VARCHAR.fullmatch(native):
        return "text", ""
    if native.startswith("string collate "):
        return "text", "" if native == "string collate utf8_binary" else SPELLINGS
    return "text", f"of type {native[:40]}, which has no counterpart"


def with_ranges(session: Any, table: CatalogTable) -> CatalogTable:
    """Return the table with what is in it. A column with NaN or an infinity gets no range: it has no bounds."""
    table = _with_sizes(session, table)
    ranged = [c for c in table.columns if c.type in RANGED and c.bounded]
    if not ranged:
        return table
    (found,) = zip(
        *rows(session, f"SELECT {', '.join(map(_range, ranged))} FROM {source(table)}").to_pydict().values(), strict=True
    )
    ranges = {c.name: (found[3 * i], found[3 * i + 1]) for i, c in enumerate(ranged) if found[3 * i + 2]}
    return replace(table, columns=tuple(replace(c, public_range=ranges.get(c.name)) for c in table.columns))


def _range(column: CatalogColumn) -> str:
    name = _name(column.source)
    text = f"CAST({name} AS TIMESTAMP_NTZ)" if column.type == "timestamptz" else name
    finite = f"coalesce(bool_and(abs({name}) < CAST('inf' AS DOUBLE)), FALSE)" if column.type in FLOATS else f"count({name}) > 0"
    alias = column.name.replace("`", "")
    return ", ".join(
        f"{what} AS `{kind} {alias}`"
        for what, kind in ((f"CAST(min({text}) AS STRING)", "lo"), (f"CAST(max({text}) AS STRING)", "hi"), (finite, "finite"))
    )


def _with_sizes(session: Any, table: CatalogTable) -> CatalogTable:
    count = int(rows(session, f"SELECT count(*) AS n FROM {source(table)}").column(0)[0].as_py())
    if count > COUNTED:
        return replace(table, rows=count)
    columns = []
    for column in table.columns:
        name, most = _name(column.source), None
        if column.bounded:  # of maps and their like there are no groups
            groups = f"SELECT count({name}) AS n FROM {source(table)} GROUP BY {name}"
            most = int(rows(session, f"SELECT coalesce(max(n), 0) AS most FROM ({groups}) AS g").column(0)[0].as_py())
        columns.append(replace(column, most=most))
    return replace(table, rows=count, columns=tuple(columns))


def state(session: Any, table: CatalogTable) -> str:
    """Name what is in a public table: by its rows, whatever their order."""
    columns = ", ".join(_name(c.source) for c in table.columns if c.bounded)
    digest = f"coalesce(sum(CAST(xxhash64({columns}) AS DECIMAL(28, 0))), 0)" if columns else "0"
    found = rows(session, f"SELECT count(*) AS n, CAST({digest} AS STRING) AS digest FROM {source(table)}")
    return " ".join(str(column[0].as_py()) for column in found.columns)


def public_rows(table: CatalogTable, columns: Sequence[str], cap: int) -> str:
    """Return the query that reads a public table's rows. Raises BackendError for a column the table has not."""
    chosen = []
    for column in columns_of(table, columns):
        text = _name(column.source)
        if column.type in AS_TEXT:
            text = f"try_validate_utf8(CAST({text} AS STRING))"  # as measurements read them
        chosen.append(f"{text} AS {_name(column.name)}")
    return f"SELECT {', '.join(chosen)} FROM {source(table)} LIMIT {cap + 1}"
