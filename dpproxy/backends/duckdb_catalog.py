"""What a DuckDB file holds, as PostgreSQL would tell it: tables, columns, types, keys; of public tables what is in them.

Knows: DuckDB's catalog, its types and spellings. Must not know: files, threads, what a policy says. A type is told as the one of
PostgreSQL's that holds every value of it; what has no counterpart is text that no plan relies on (`bounded`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb

from dpproxy.backends.base import COUNTED, columns_of
from dpproxy.policy.catalog import SPELLINGS, Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.names import quote_name
from dpproxy.table_terms import Enumeration, TableName

TYPES = {
    "BOOLEAN": "bool",
    "TINYINT": "int2",
    "SMALLINT": "int2",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "UTINYINT": "int2",
    "USMALLINT": "int4",
    "UINTEGER": "int8",
    "UBIGINT": "numeric",
    "HUGEINT": "numeric",
    "UHUGEINT": "numeric",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "VARCHAR": "text",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP_NS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "INTERVAL": "interval",
    "UUID": "uuid",
}
"""PostgreSQL's types that hold every value of DuckDB's. DECIMAL and ENUM are matched by prefix; the rest is text."""

RANGED = frozenset({"int2", "int4", "int8", "numeric", "float4", "float8", "date", "timestamp", "timestamptz"})
NOT_ALWAYS_FINITE = frozenset({"float4", "float8", "date", "timestamp", "timestamptz"})

_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*\Z")

_COLUMNS = """
SELECT c.schema_name, c.table_name, c.column_name, c.data_type, c.is_nullable, c.comment,
       coalesce(t.comment, v.comment)
FROM duckdb_columns() c
LEFT JOIN duckdb_tables() t USING (database_oid, schema_oid, table_name)
LEFT JOIN duckdb_views() v ON (v.database_oid, v.schema_oid, v.view_name) = (c.database_oid, c.schema_oid, c.table_name)
WHERE c.database_name = current_database() AND NOT c.internal
ORDER BY c.schema_name, c.table_name, c.column_index
"""

_CONSTRAINTS = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names
FROM duckdb_constraints()
WHERE database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY')
ORDER BY schema_name, table_name, constraint_index
"""


_ENUMS = """
SELECT schema_name, type_name, labels FROM duckdb_types()
WHERE database_name = current_database() AND NOT internal AND logical_type = 'ENUM'
ORDER BY schema_name, type_name
"""
_TABLES = """
SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database()
UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = current_database()
"""
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_LONGEST = 63  # bytes of a label or a name in PostgreSQL


_COLLATED = """
SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = current_database() AND sql ILIKE '%COLLATE%'
UNION ALL
SELECT schema_name, view_name, sql FROM duckdb_views() WHERE database_name = current_database() AND NOT internal
AND (sql ILIKE '%COLLATE%' OR EXISTS (
  SELECT 1 FROM duckdb_tables() WHERE database_name = current_database() AND sql ILIKE '%COLLATE%'))
"""
"""Tables with a collation somewhere, and views that may show their columns."""

_VIEWS = "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE database_name = current_database() AND NOT internal"
_AS = re.compile(r"\bAS\b", re.IGNORECASE)

_OWN = re.compile(r'("(?:[^"]|"")*"|\w+) VARCHAR COLLATE (?!(?:binary|c|posix)\b)', re.IGNORECASE)
"""A column of a table whose equal texts may differ, in DuckDB's own spelling of CREATE TABLE."""


def fold(name: str) -> str:
    """Return PostgreSQL's spelling: lower case where that is a plain identifier, else as it is (DuckDB ignores case)."""
    return name.lower() if _PLAIN.match(name.lower()) else name


def _table_name(schema: str, table: str) -> TableName:
    return TableName("public" if schema == "main" else fold(schema), fold(table))


def quoted(table: CatalogTable) -> str:
    """Return a table's own name, quoted."""
    return ".".join(quote_name(part) for part in table.source)


def _type(data_type: str, schema: str, enumerations: Enumerations) -> tuple[str, bool]:
    """(PostgreSQL's base type, whether it is a counterpart)."""
    if data_type in TYPES:
        return TYPES[data_type], True
    if data_type.endswith("]"):
        return "text", False
    if data_type.startswith("DECIMAL("):
        return "numeric", True
    if data_type.startswith("ENUM("):
        return enumerations.of(_labels(data_type), schema), True
    return "text", False


def _labels(data_type: str) -> tuple[str, ...]:
    """The labels of ENUM('low', 'high'), in their order."""
    return tuple(found.replace("''", "'") for found in _LABEL.findall(data_type))


class Enumerations:
    """Enumerated types of a database. DuckDB's columns have labels, and no type's name: they are of the named type that has these
    labels, or of one that is named after them, so that columns of equal labels are of one type."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        taken = set(fetched(connection, _TABLES))
        self._named: dict[tuple[str, ...], Enumeration] = {}
        for schema, name, labels in fetched(connection, _ENUMS):
            if (schema, name) not in taken:  # PostgreSQL has a type of each table's name
                self._named.setdefault(tuple(labels), self._made(_table_name(schema, name), tuple(labels)))

    def of(self, labels: tuple[str, ...], schema: str) -> Enumeration:
        """Return the type of a column of a schema, by the column's labels."""
        if labels not in self._named:
            name = "enum_" + hashlib.sha256("\0".join(labels).encode()).hexdigest()[:12]
            self._named[labels] = self._made(_table_name(schema, name), labels)
        return self._named[labels]

    def _made(self, name: TableName, labels: tuple[str, ...]) -> Enumeration:
        """The type; one that publishes no labels where PostgreSQL can have none of them."""
        short = all(len(text.encode()) <= _LONGEST and "\0" not in text for text in (*labels, name.name))
        return Enumeration(name.schema, name.name, labels) if short else Enumeration()


def fetched(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """Return what a query of ours says. Raises duckdb.Error."""
    return connection.execute(query).fetchall()


def introspected(connection: duckdb.DuckDBPyConnection) -> Catalog:
    """Return the shape of the current database. Raises duckdb.Error."""
    tables: dict[TableName, CatalogTable] = {}
    enumerations = Enumerations(connection)
    for schema, table, column, data_type, nullable, comment, table_comment in fetched(connection, _COLUMNS):
        name = _table_name(schema, table)
        known = tables.get(name) or CatalogTable(name, (schema, table), (), comment=table_comment)
        kind, bounded = _type(data_type, schema, enumerations)
        exact = data_type if kind == "numeric" or data_type.startswith("TIMESTAMP_") else ""
        added = CatalogColumn(fold(column), column, kind, nullable, bounded, comment, exact=exact)
        tables[name] = replace(known, columns=(*known.columns, added))
    for schema, table, sql in fetched(connection, _COLLATED):
        name = _table_name(schema, table)
        tables[name] = _with_spellings(tables[name], sql)
    for schema, table, kind, columns, target, target_columns in fetched(connection, _CONSTRAINTS):
        name = _table_name(schema, table)
        # DuckDB has no foreign keys across schemas
        foreign = ForeignKey(_folded(columns), _table_name(schema, target or ""), _folded(target_columns))
        tables[name] = _constrained(tables[name], kind, _folded(columns), foreign)
    for schema, table, sql in fetched(connection, _VIEWS):
        name = _table_name(schema, table)
        if name in tables:
            tables[name] = replace(tables[name], reads=_read(connection, sql))
    return Catalog(tables)


def _read(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[TableName, ...]:
    """The tables that a view's query reads: what comes after the first AS that a query comes after. Nothing of a text that DuckDB
    cannot take apart."""
    for place in _AS.finditer(sql):
        try:
            parts = connection.get_table_names(sql[place.end() :], qualified=True)
        except duckdb.Error:
            continue
        if parts:
            return tuple(sorted({_qualified(text) for text in parts}, key=str))
    return ()


def _qualified(text: str) -> TableName:
    """A table by its name in a query, in the main schema where no other is named."""
    *schema, table = (part.strip('"').replace('""', '"') for part in re.findall(r'"(?:[^"]|"")*"|[^."]+', text))
    return _table_name(schema[-1] if schema else "main", table)


def _with_spellings(table: CatalogTable, sql: str) -> CatalogTable:
    """The table with its texts of many spellings marked; of a view, all texts."""
    own = {found.strip('"').replace('""', '"') for found in _OWN.findall(sql)} if sql.startswith("CREATE TABLE") else None
    columns = (
        replace(c, bounded=False, reason=SPELLINGS) if c.type == "text" and (own is None or c.source in own) else c
        for c in table.columns
    )
    return replace(table, columns=tuple(columns))


def _folded(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(fold(name) for name in names)


def _constrained(table: CatalogTable, kind: str, columns: tuple[str, ...], foreign: ForeignKey) -> CatalogTable:
    if kind == "PRIMARY KEY":
        return replace(table, primary_key=columns)
    if kind == "UNIQUE":
        return replace(table, unique=(*table.unique, columns))
    return replace(table, foreign_keys=(*table.foreign_keys, foreign))


def with_ranges(connection: duckdb.DuckDBPyConnection, table: CatalogTable) -> CatalogTable:
    """Return the table with what is in it. A column with NaN or an infinity gets no range: it has no bounds."""
    table = _with_sizes(connection, table)
    ranged = [c for c in table.columns if c.type in RANGED]
    if not ranged:
        return table
    wanted = ", ".join(_range(c) for c in ranged)
    found = fetched(connection, f"SELECT {wanted} FROM {quoted(table)}")[0]
    ranges = {c.name: (found[3 * i], found[3 * i + 1]) for i, c in enumerate(ranged) if found[3 * i + 2]}
    return replace(table, columns=tuple(replace(c, public_range=ranges.get(c.name)) for c in table.columns))


def _with_sizes(connection: duckdb.DuckDBPyConnection, table: CatalogTable) -> CatalogTable:
    rows = int(fetched(connection, f"SELECT count(*) FROM {quoted(table)}")[0][0])
    if rows > COUNTED:
        return replace(table, rows=rows)
    counts = [
        f"(SELECT coalesce(max(n), 0) FROM (SELECT count({c}) AS n FROM {quoted(table)} GROUP BY {c}))"
        for c in (quote_name(column.source) for column in table.columns)
    ]
    most = fetched(connection, f"SELECT {', '.join(counts)}")[0] if counts else ()
    columns = tuple(replace(c, most=int(n)) for c, n in zip(table.columns, most, strict=True))
    return replace(table, rows=rows, columns=columns)


def _range(column: CatalogColumn) -> str:
    name = quote_name(column.source)
    finite = f"bool_and(isfinite({name}))" if column.type in NOT_ALWAYS_FINITE else f"count({name}) > 0"
    return f"min({name})::VARCHAR, max({name})::VARCHAR, coalesce({finite}, false)"


# --- public rows

AS_TEXT = frozenset({"numeric", "interval", "uuid", "text"})
"""PostgreSQL types read as their text: what Arrow would carry otherwise is lossy or of DuckDB's own."""


def public_rows(table: CatalogTable, columns: Sequence[str], cap: int) -> str:
    """Write the query of a public table's rows, at most `cap` + 1 of them. Raises BackendError for a column the table has not."""
    chosen = []
    for column in columns_of(table, columns):
        cast = "VARCHAR" if column.type in AS_TEXT else "TIMESTAMP" if column.type == "timestamp" else None
        source = quote_name(column.source)
        chosen.append(f"{source if cast is None else f'CAST({source} AS {cast})'} AS {quote_name(column.name)}")
    return f"SELECT {', '.join(chosen)} FROM {quoted(table)} LIMIT {cap + 1}"
