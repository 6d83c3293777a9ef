"""What `dpproxy policy init` is pointed at: a DuckDB file, a Parquet or CSV file, an address of a PostgreSQL.

Knows: files, engines' catalogs. Must not know: policies' contents, terminals. Of a DuckDB or PostgreSQL only the schema is
read. A Parquet or CSV file has to be copied into a database before it can be served: the engine that serves opens nothing
but that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import duckdb

from dpproxy import postgres_connections
from dpproxy.authoring.schema_facts import DUCKDB, POSTGRES, Facts, Place, read_facts
from dpproxy.authoring.yaml_text import scalar
from dpproxy.backends.base import Backend, BackendError
from dpproxy.backends.duckdb import DuckDB
from dpproxy.backends.postgres import Postgres
from dpproxy.errors import OperatorError
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import ADDRESS
from dpproxy.policy.model import DuckDBBackend, PostgresBackend
from dpproxy.serve.data_checks import OWN_SERVER

TABLES = (".parquet", ".csv", ".tsv", ".json", ".jsonl")
PASSWORD = "PGPASSWORD"
KINDS = "name a DuckDB, Parquet or CSV file, or postgresql://role@host/database"


class SourceError(OperatorError):
    """Says that a source cannot be read, and what to name instead."""


@dataclass(frozen=True)
class Described:
    """Holds a source's schema. `backend`: YAML of it for a policy in `folder`; `made`: the database that was made of a file."""

    name: str
    backend: str
    catalog: Catalog
    facts: Mapping[Place, Facts]
    made: Path | None = None


def describe(source: str, folder: Path, env: Mapping[str, str]) -> Described:
    """Read a source's schema. Raises SourceError."""
    if source.startswith(ADDRESS):
        return asyncio.run(_postgres(source, env))
    path = Path(source)
    if not path.exists():
        raise SourceError(f"{source}: there is no such file; {KINDS}")
    made = None
    if path.suffix.lower() in TABLES:
        made = folder / f"{path.stem}.duckdb"
        _make(path, made)
    return asyncio.run(_duckdb(made or path, folder, made))


def _make(path: Path, database: Path) -> None:
    if database.exists():
        raise SourceError(f"{path}: would be copied into {database}, which exists; name that instead")
    table, file = path.stem.lower().replace('"', ""), str(path).replace("'", "''")
    try:
        with duckdb.connect(str(database)) as connection:
            connection.execute(f"CREATE TABLE \"{table}\" AS FROM '{file}'")
    except duckdb.Error as error:
        database.unlink(missing_ok=True)
        raise SourceError(f"{path}: DuckDB cannot read it ({type(error).__name__})") from None


async def _duckdb(path: Path, folder: Path, made: Path | None) -> Described:
    absolute = path.resolve()
    catalog = await _catalog(lambda: DuckDB(DuckDBBackend(str(absolute))), f"{path}", KINDS)
    with duckdb.connect(str(absolute), read_only=True) as connection:
        rows = [row for query in DUCKDB for row in connection.execute(query).fetchall()]
    inside = absolute.relative_to(folder.resolve()) if absolute.is_relative_to(folder.resolve()) else absolute
    return Described(path.stem.lower(), f"{{ duckdb: {scalar(str(inside))} }}", catalog, read_facts(rows, "duckdb"), made)


async def _postgres(address: str, env: Mapping[str, str]) -> Described:
    parts = urlsplit(address)
    password = parts.password or env.get(PASSWORD)
    plain = urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@"))) if parts.password else address
    catalog = await _catalog(lambda: Postgres(PostgresBackend(plain, password), 1), plain, OWN_SERVER)
    connection = await postgres_connections.connect(plain, password=password)
    try:
        rows = [tuple(row) for query in POSTGRES for row in await connection.fetch(query)]
    finally:
        await connection.close()
    secret = f", password: ${{env:{PASSWORD}}}" if password else ""
    backend = f"{{ postgres: {scalar(plain)}{secret} }}".replace(f"${{env:{PASSWORD}}}", f'"${{env:{PASSWORD}}}"')
    return Described(parts.path.strip("/").lower() or "data", backend, catalog, read_facts(rows, "postgres"))


async def _catalog(opened: Callable[[], Backend], name: str, fix: str) -> Catalog:
    backend: Backend | None = None
    try:
        backend = opened()
        return await backend.introspect()
    except BackendError as error:
        raise SourceError(f"{name}: {error}; {fix}") from None
    finally:
        if backend is not None:
            await backend.close()
