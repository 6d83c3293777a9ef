"""The corpus' databases as tables of a Spark Connect session, a Parquet file each; a Sail that holds them, and policies that
point there.

Knows: DuckDB files, Spark's types. Must not know: the proxy. DuckDB's schema `main` is Spark's database `default`; what is there
already is replaced. What Spark has no type for is text. Sail keeps a catalog for each session, so that whoever opens one runs
the statements first (`scripts/loaded_dice.py` does); addresses with different parameters tell data sets apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
from ruamel.yaml import YAML

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
    """Copy the rows of a DuckDB file, and name them in the session's catalog, by `taken` names."""
    for text in written(database, folder, taken):
        session.sql(text).collect()


def taken(table: str) -> str:
    """Return the name that Spark's own catalog takes: of letters, digits and underscores alone."""
    return re.sub(r"\W", "_", table)


def written(database: Path, folder: Path, named: Callable[[str], str] = str) -> list[str]:
    """Copy the rows of a DuckDB file into a folder. Returns the statements that name them in a session's catalog."""
    with duckdb.connect(str(database), read_only=True) as source:
        tables = source.execute(TABLES).fetchall()
        return [text for schema, table in tables for text in _written(source, schema, table, named(table), folder)]


def _written(source: duckdb.DuckDBPyConnection, schema: str, table: str, name_there: str, folder: Path) -> Sequence[str]:
    place = folder / re.sub(r"\W", "_", f"{schema}.{table}")
    place.mkdir()
    columns, items = [], []
    for name, type_ in source.execute(COLUMNS, [schema, table]).fetchall():
        native = type_.replace(",", ", ") if type_.startswith("DECIMAL") else TYPES.get(type_, "STRING")
        columns.append(f"`{name}` {native}")
        quoted = '"' + name.replace('"', '""') + '"'
        plain = IN_FILES.get(native, "VARCHAR" if native == "STRING" else None)
        items.append(f"CAST({quoted} AS {plain}) AS {quoted}" if plain else quoted)
    rows = f'SELECT {", ".join(items)} FROM "{schema}"."{table}"'
    source.execute(f"COPY ({rows}) TO '{place / 'rows.parquet'}' (FORMAT parquet)")
    known = f"`{'default' if schema == 'main' else schema}`"
    return (
        f"CREATE DATABASE IF NOT EXISTS {known}",
        f"DROP TABLE IF EXISTS {known}.`{name_there}`",
        f"CREATE TABLE {known}.`{name_there}` ({', '.join(columns)}) USING parquet LOCATION '{place}'",
    )


@contextmanager
def sail() -> Iterator[str]:
    """The address of a Sail of this process. Raises ImportError without the extra `sail`."""
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    try:
        yield f"sc://{host}:{port}"
    finally:
        server.stop()


def pointed(policy: Path, address: str, folder: Path) -> Path:
    """Write a copy of the policy into `folder` whose backend is the server at the address."""
    yaml = YAML()
    rules = yaml.load(policy.read_text())
    rules["backend"] = {"spark": address}
    target = folder / policy.name
    with target.open("w") as file:
        yaml.dump(rules, file)
    return target
