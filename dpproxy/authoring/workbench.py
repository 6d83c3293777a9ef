"""From a policy file to a bench on which questions are tried: the data's shape is read, and nothing of a private row.

Knows: files, backends. Must not know: what is asked. Of public tables sizes and ranges are read, since plans rest on them.
`shape` names another DuckDB file of the same shape, as `dpproxy policy sample` writes it: then the policy's own backend is not
touched, so that tests run where no data are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from dpproxy.answers import public_tables
from dpproxy.authoring.progress import Progress, silent
from dpproxy.backends.base import Backend
from dpproxy.errors import OperatorError
from dpproxy.facade.sample import Size, sample
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.model import DuckDBBackend, Policy, TableKind
from dpproxy.policy.names import quote_name
from dpproxy.review.verdicts import Bench
from dpproxy.serve.data_checks import fitting_catalog, open_backend
from dpproxy.serve.extracts import held
from dpproxy.table_terms import TableName


@dataclass(frozen=True)
class Workbench:
    """A policy file that was read, and the bench to try questions on."""

    loaded: Loaded
    bench: Bench


def on_shape(loaded: Loaded, shape: Path | None) -> Loaded:
    """Return the policy over another DuckDB file, where one is named."""
    if shape is None:
        return loaded
    return replace(loaded, policy=replace(loaded.policy, backend=DuckDBBackend(str(shape.absolute()))))


async def open_workbench(path: Path, shape: Path | None = None) -> Workbench:
    """Read a policy and the shape of its data. Raises PolicyError, BackendError."""
    loaded = on_shape(load_file(path), shape)
    backend = open_backend(loaded)
    try:
        catalog = await fitting_catalog(loaded, backend)
        known, _ = await public_tables.read(loaded.policy, catalog, backend)
        known, dialect = await held(loaded, known, backend)
    finally:
        await backend.close()
    return Workbench(loaded, Bench(loaded.policy, known, dialect))


# Invented rows (`facade.sample`) as a DuckDB file, to develop dashboards on and to test policies with.
#
# Knows: files, backends, DuckDB's names of types. Must not know: how rows are invented. A half-written file is never seen under
# its name.


MOST_PUBLIC = 1_000_000  # rows of a public table that are taken over

_TYPES = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "numeric": "DECIMAL(38, 6)", "float4": "REAL", "float8": "DOUBLE",
    "bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ", "time": "TIME", "uuid": "UUID",
    "interval": "INTERVAL", "bytea": "BLOB", "json": "JSON", "jsonb": "JSON",
}  # fmt: skip


async def invented(loaded: Loaded, out: Path, size: Size, progress: Progress = silent) -> dict[TableName, int]:
    """Write a file of a policy's shape: invented rows, and the rows of its public tables. Return how many rows each table has.
    Raises OperatorError, OSError."""
    backend = open_backend(loaded)
    try:
        catalog = await fitting_catalog(loaded, backend)
        publics = await public_rows(loaded.policy, catalog, backend)
    finally:
        await backend.close()
    return write_sample(out, loaded.policy, catalog, publics, size, progress)


async def public_rows(policy: Policy, catalog: Catalog, backend: Backend) -> dict[TableName, pa.Table]:
    """Read the public tables, at most MOST_PUBLIC rows each. Raises BackendError."""
    found = {}
    for table in policy.of_kind(TableKind.PUBLIC):
        shape = catalog.tables[table.name]
        names = [column.name for column in shape.columns]
        found[table.name] = await backend.public_rows(shape, names, MOST_PUBLIC)
    return found


def write_sample(
    path: Path,
    policy: Policy,
    catalog: Catalog,
    publics: Mapping[TableName, pa.Table],
    size: Size,
    progress: Progress = silent,
) -> dict[TableName, int]:
    """Write a file of invented rows, and return how many rows each table has. Raises OperatorError, OSError."""
    fresh, rows = path.with_name(f".{path.name}.{os.getpid()}"), {}
    try:
        with duckdb.connect(str(fresh)) as database:
            for done, (shape, table) in enumerate(sample(policy, catalog, publics, size)):
                progress(str(shape.name), done, len(policy.tables))
                write_table(database, shape, table)
                rows[shape.name] = table.num_rows
        fresh.replace(path)
    except duckdb.IOException as error:
        raise OperatorError(f"{path}: cannot be written ({str(error).splitlines()[0]})") from None
    finally:
        for left in path.parent.glob(f"{fresh.name}*"):
            left.unlink()
    return rows


def write_table(database: duckdb.DuckDBPyConnection, shape: CatalogTable, table: pa.Table) -> None:
    """Write one table, with the primary key that the data's has where the invented rows keep it."""
    schema = "main" if shape.name.schema == "public" else shape.name.schema
    where = f"{quote_name(schema)}.{quote_name(shape.name.name)}"
    columns = [c for c in shape.columns if c.name in table.column_names]
    names = ", ".join(quote_name(c.name) for c in columns)
    types = ", ".join(f"{quote_name(c.name)} {_TYPES.get(c.type, 'VARCHAR')}" for c in columns)
    values = ", ".join(f"CAST({quote_name(c.name)} AS {_TYPES.get(c.type, 'VARCHAR')})" for c in columns)
    database.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_name(schema)}")
    database.execute(f"CREATE TABLE {where} ({types})")
    database.register("invented", table)
    database.execute(f"INSERT INTO {where} ({names}) SELECT {values} FROM invented")
    database.unregister("invented")
    for column in columns:
        if not column.nullable:
            database.execute(f"ALTER TABLE {where} ALTER COLUMN {quote_name(column.name)} SET NOT NULL")
    if shape.primary_key and unique(table, shape.primary_key):
        database.execute(f"ALTER TABLE {where} ADD PRIMARY KEY ({', '.join(map(quote_name, shape.primary_key))})")


def unique(table: pa.Table, columns: tuple[str, ...]) -> bool:
    """Return whether no two rows of a table share the values of these columns, which are never NULL."""
    keys = table.select(columns)
    return bool(keys.group_by(list(columns)).aggregate([]).num_rows == keys.num_rows) and not any(
        c.null_count for c in keys.columns
    )
