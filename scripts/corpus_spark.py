"""The corpus' databases as tables of a Spark Connect session: a Parquet file each.

Knows: DuckDB files, Spark's types. Must not know: the proxy. DuckDB's schema `main` is Spark's database `default`; what is there
already is replaced. What Spark has no type for is text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb

TYPES = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INT", "BIGINT": "BIGINT",
    "UTINYINT": "SMALLINT", "USMALLINT": "INT", "UINTEGER": "BIGINT", "HUGEINT": "DECIMAL(38, 0)", "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE", "VARCHAR": "STRING", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
}  # fmt: skip
IN_FILES = {
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "DECIMAL(38, 0)": "DECIMAL(38, 0)",
}
"""What whole numbers are written as: Parquet's unsigned ones are not Spark's."""
COLUMNS = "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = ? AND table_name = ? ORDER BY column_index"
VIEWS = "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
TABLES = f"SELECT schema_name, table_name FROM duckdb_tables() UNION {VIEWS}"


def loaded(session: Any, database: Path, folder: Path) -> None:
    """Copy the rows of a DuckDB file, and name them in the session's catalog."""
    with duckdb.connect(str(database), read_only=True) as source:
        for schema, table in source.execute(TABLES).fetchall():
            _load(session, source, schema, table, folder)


def _load(session: Any, source: duckdb.DuckDBPyConnection, schema: str, table: str, folder: Path) -> None:
    place = folder / re.sub(r"\W", "_", f"{schema}.{table}")
    place.mkdir()
    columns, items = [], []
    for name, type_ in source.execute(COLUMNS, [schema, table]).fetchall():
        native = type_.replace(",", ", ") if type_.startswith("DECIMAL") else TYPES.get(type_, "STRING")
        columns.append(f"`{name}` {native}")
        quoted = '"' + name.replace('"', '""') + '"'
        written = IN_FILES.get(native, "VARCHAR" if native == "STRING" else None)
        items.append(f"CAST({quoted} AS {written}) AS {quoted}" if written else quoted)
    rows = f'SELECT {", ".join(items)} FROM "{schema}"."{table}"'
    source.execute(f"COPY ({rows}) TO '{place / 'rows.parquet'}' (FORMAT parquet)")
    known = f"`{'default' if schema == 'main' else schema}`"
    for text in (
        f"CREATE DATABASE IF NOT EXISTS {known}",
        f"DROP TABLE IF EXISTS {known}.`{table}`",
        f"CREATE TABLE {known}.`{table}` ({', '.join(columns)}) USING parquet LOCATION '{place}'",
    ):
        session.sql(text).collect()
