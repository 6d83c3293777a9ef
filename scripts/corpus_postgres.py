"""The corpus' databases in a scratch PostgreSQL, and policies that point there.

Knows: DuckDB files, their PostgreSQL schemas (`schema/NAME.postgres.sql` where there is one, else DuckDB's own types), COPY.
Must not know: the proxy. Data travels as CSV, a table at a time, triggers and foreign keys off.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import duckdb
import psycopg
from psycopg import sql
from ruamel.yaml import YAML
from scratch_postgres import Scratch

from dpproxy.backends.duckdb_catalog import fold

TYPES = {"VARCHAR": "text", "DOUBLE": "float8", "FLOAT": "float4", "TINYINT": "smallint", "BLOB": "bytea", "HUGEINT": "numeric"}
CHUNK = 1 << 20  # bytes handed to COPY at a time


def loaded(server: Scratch, name: str, database: Path, schema: Path, work: Path) -> str:
    """Make a database `name` on the server with the rows of a DuckDB file. Returns its DSN."""
    with psycopg.connect(server.conninfo(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with duckdb.connect(str(database), read_only=True) as source:
        tables = _tables(source)
        if schema.is_file():
            _run_script(server, name, schema)
        with psycopg.connect(server.conninfo(name), autocommit=True) as target:
            target.execute("SET session_replication_role = replica")
            for (schema_name, table), columns in tables.items():
                _load(source, target, schema_name, table, columns, work)
            target.execute("ANALYZE")
    return server.dsn(name)


def _tables(source: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], dict[str, str]]:
    """(schema, table) -> column -> DuckDB type."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    rows = source.execute(
        "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal "
        "AND table_name IN (SELECT table_name FROM duckdb_tables()) ORDER BY schema_name, table_name, column_index"
    ).fetchall()
    for schema, table, column, type_ in rows:
        found.setdefault((schema, table), {})[column] = type_
    return found


def _run_script(server: Scratch, name: str, script: Path) -> None:
    """A pg_dump of a schema; what this server lacks (languages, extensions, owners) is left out."""
    program = server.server.place.binaries.program("psql")
    command = [program, "-X", "-q", "-h", str(server.home), "-U", "postgres", "-d", name, "-f", str(script)]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _load(
    source: duckdb.DuckDBPyConnection, target: psycopg.Connection, schema: str, table: str, columns: Mapping[str, str], work: Path
) -> None:
    place = sql.Identifier("public" if schema == "main" else fold(schema), fold(table))
    present = _present(target, place)
    if not present:
        types = [sql.SQL("{} " + TYPES.get(t, t)).format(sql.Identifier(fold(c))) for c, t in columns.items()]  # type: ignore[arg-type]
        if schema != "main":
            target.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(fold(schema))))
        target.execute(sql.SQL("CREATE TABLE {} ({})").format(place, sql.SQL(", ").join(types)))
        present = {fold(c) for c in columns}
    chosen = [c for c in columns if fold(c) in present]
    file = work / "rows.csv"
    listed = ", ".join('"' + c.replace('"', '""') + '"' for c in chosen)
    source.execute(f"""COPY (SELECT {listed} FROM "{schema}"."{table}") TO '{file}' (FORMAT csv, HEADER false, NULLSTR '\\N')""")
    names = sql.SQL(", ").join(sql.Identifier(fold(c)) for c in chosen)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, NULL '\\N')").format(place, names)
    with target.cursor() as cursor, cursor.copy(statement) as copy, file.open("rb") as data:
        while chunk := data.read(CHUNK):
            copy.write(chunk)
    file.unlink()


def _present(target: psycopg.Connection, place: sql.Identifier) -> set[str]:
    """The table's columns that can be written, empty when there is no such table."""
    rows = target.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 "
        "AND NOT attisdropped AND attgenerated = ''",
        [place.as_string(target)],
    ).fetchall()
    return {name for (name,) in rows}


def pointed(policy: Path, dsn: str, folder: Path, extract: bool = False) -> Path:
    """Write a copy of the policy into `folder` whose backend is the database at `dsn`, or an extract of it."""
    yaml = YAML()
    rules = yaml.load(policy.read_text())
    rules["backend"] = {"postgres": dsn}
    if extract:
        rules["accelerate"] = "extract"
    target = folder / policy.name
    with target.open("w") as file:
        yaml.dump(rules, file)
    return target
