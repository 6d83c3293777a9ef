"""Lists of values that policies take from public tables, read from the policy's own data.

Knows: backends' engines, primary keys. Must not know: claims. A claim numbers the values of a list in the order of its table's
key, and a released list only grows at its end.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import duckdb

from dpproxy.collector.stores import schema_of, table_sql
from dpproxy.collector.tables import Lists, ReportTable, released_lists, tables_of
from dpproxy.errors import OperatorError
from dpproxy.policy.model import DuckDBBackend, Policy, PostgresBackend, ReleasedList
from dpproxy.policy.names import quote_name
from dpproxy.postgres_connections import FAILURES, connect


class ListError(OperatorError):
    """A list of values that cannot be read, or is shorter than its claim says."""


def report_tables(policy: Policy) -> dict[str, ReportTable]:
    """Return a policy's tables of reports, with the lists that they refer to. Raises OperatorError."""
    return tables_of(policy, read_lists(policy))


def read_lists(policy: Policy) -> Lists:
    """Read the lists of values. Raises ListError."""
    wanted = released_lists(policy)
    if not wanted:
        return {}
    match policy.backend:
        case DuckDBBackend(path=path):
            found = {each: _of_duckdb(path, each) for each in wanted}
        case PostgresBackend():
            found = asyncio.run(_of_postgres(policy.backend, wanted))
        case _:
            raise ListError("values from a public table are read of PostgreSQL and DuckDB: write the list into the policy")
    for each, values in found.items():
        if len(values) < each.count:
            raise ListError(f"{each.table}.{each.column} has {len(values)} values, and the policy says {each.count}")
    return found


def _query(each: ReleasedList, table: str, order: str) -> str:
    return f"SELECT {quote_name(each.column)} FROM {table} ORDER BY {order} LIMIT {each.count}"


def _of_duckdb(path: str, each: ReleasedList) -> list[str]:
    schema = schema_of(each.table)
    try:
        with duckdb.connect(Path(path), read_only=True) as connection:
            order = [each.order] if each.order else _duckdb_key(connection, schema, each.table.name)
            table = f"{quote_name(schema)}.{quote_name(each.table.name)}"
            rows = connection.execute(_query(each, table, _ordered(each, order))).fetchall()
    except duckdb.Error as error:
        raise ListError(f"{each.table} cannot be read: {error}") from error
    return [str(row[0]) for row in rows]


def _duckdb_key(connection: duckdb.DuckDBPyConnection, schema: str, table: str) -> list[str]:
    query = (
        "SELECT constraint_column_names FROM duckdb_constraints() "
        "WHERE schema_name = ? AND table_name = ? AND constraint_type = 'PRIMARY KEY'"
    )
    row = connection.execute(query, [schema, table]).fetchone()
    return list(row[0]) if row else []


async def _of_postgres(backend: PostgresBackend, wanted: set[ReleasedList]) -> dict[ReleasedList, list[str]]:
    password: dict[str, Any] = {} if backend.password is None else {"password": backend.password}
    key = (
        "SELECT a.attname FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, place), pg_attribute a "
        "WHERE i.indrelid = to_regclass($1) AND i.indisprimary AND a.attrelid = i.indrelid AND a.attnum = k.number "
        "ORDER BY k.place"
    )
    try:
        connection = await connect(backend.dsn, timeout=20, **password)
        try:
            found = {}
            for each in wanted:
                table = table_sql(each.table)
                order = [each.order] if each.order else [row[0] for row in await connection.fetch(key, table)]
                rows = await connection.fetch(_query(each, table, _ordered(each, order)))
                found[each] = [str(row[0]) for row in rows]
            return found
        finally:
            await connection.close(timeout=5)
    except FAILURES as error:
        raise ListError(f"lists of values cannot be read: PostgreSQL: {error}") from error


def _ordered(each: ReleasedList, columns: list[str]) -> str:
    """Raises ListError where a table has no key."""
    if not columns:
        raise ListError(
            f"{each.table} is not there, or has no primary key: with `order` the policy says how its values are numbered"
        )
    return ", ".join(map(quote_name, columns))
