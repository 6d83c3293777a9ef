"""Where reports are kept for good: a PostgreSQL database, or a DuckDB file that is written anew and takes the old one's place.

Knows: both engines, transactions, rows as texts that the engine reads as its columns' types. Must not know: HTTP, segments'
files. A table `dpproxy_loads` has the numbers of segments that are there, in the same transaction as their rows; no moment of
a load is kept. What is older than a policy's `keep` goes in the same transaction, too.

Another process cannot write a DuckDB file that a proxy reads, and a proxy takes a file that it has open for unchanging. So a
copy is written and renamed: a proxy reads the old file until it is asked to reload.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg
import duckdb
import pyarrow as pa

from dpproxy.collect.questions import DAY
from dpproxy.collector.loading import COUNT, Load, Row, Rows, StoreError
from dpproxy.collector.tables import ReportTable
from dpproxy.policy.names import quote_name
from dpproxy.postgres_connections import FAILURES, connect
from dpproxy.private_files import settle
from dpproxy.table_terms import TableName

LOADS: Final = "dpproxy_loads"
_MAKE_LOADS: Final = (
    f"CREATE TABLE IF NOT EXISTS {LOADS} (collector text NOT NULL, segment bigint NOT NULL, PRIMARY KEY (collector, segment))"
)
_INCOMING: Final = "dpproxy_incoming"


def table_sql(name: TableName) -> str:
    return f"{quote_name(name.schema)}.{quote_name(name.name)}"


def _text(value: object) -> str:
    """A value of JSON as both engines read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _old_days(table: ReportTable, today: dt.date) -> dt.date | None:
    """The first day that is kept; None where all are."""
    keep = table.reports.keep_days
    return None if keep is None or not table.dated else today - dt.timedelta(days=keep)


def _merge(rows: Rows) -> tuple[str, str]:
    """Statements that add incoming cells to those that are there."""
    target, keys = table_sql(rows.table.name), rows.columns[:-1]
    same = " AND ".join(f"t.{quote_name(key)} IS NOT DISTINCT FROM i.{quote_name(key)}" for key in keys)
    columns = ", ".join(map(quote_name, rows.columns))
    count = quote_name(COUNT)
    return (
        f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {_INCOMING} i"
        f" WHERE NOT EXISTS (SELECT 1 FROM {target} t WHERE {same})",
        f"UPDATE {target} t SET {count} = t.{count} + i.{count} FROM {_INCOMING} i WHERE {same}",
    )


class PostgresStore:
    """Tables of a PostgreSQL database."""

    def __init__(self, address: str, today: Callable[[], dt.date]) -> None:
        """`address`: as libpq has it; its role may read, write and delete in the tables, and create one in its schema."""
        self._address, self._today = address, today

    async def columns(self, tables: Iterable[ReportTable]) -> Mapping[str, frozenset[str]]:
        connection = await self._connected()
        query = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"
        try:
            found = {}
            for table in tables:
                rows = await connection.fetch(query, table_sql(table.name))
                found[str(table.name)] = frozenset(row[0] for row in rows)
        except FAILURES as error:
            raise StoreError(f"PostgreSQL: {error}") from error
        finally:
            await _end(connection)
        _check_columns(tables, found)
        return found

    async def load(self, collector: str, loads: Iterable[Load]) -> AsyncIterator[int]:
        connection = await self._connected()
        try:
            await connection.execute(_MAKE_LOADS)
            for load in loads:
                async with connection.transaction():
                    await self._take(connection, collector, load)
                yield load.segment
        except FAILURES as error:
            raise StoreError(f"PostgreSQL: {error}") from error
        finally:
            await _end(connection)

    async def _take(self, connection: asyncpg.Connection[Any], collector: str, load: Load) -> None:
        new = f"INSERT INTO {LOADS} VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1"
        if await connection.fetchval(new, collector, load.segment) is None:
            return
        for rows in load.rows:
            name = rows.table.name
            if rows.table.reports.cells:
                await connection.execute(f"LOCK TABLE {table_sql(name)} IN SHARE ROW EXCLUSIVE MODE")
                await connection.execute(f"CREATE TEMPORARY TABLE {_INCOMING} (LIKE {table_sql(name)}) ON COMMIT DROP")
                await _copy(connection, _INCOMING, None, rows)
                insert, update = _merge(rows)
                await connection.execute(update)
                await connection.execute(insert)
                await connection.execute(f"DROP TABLE {_INCOMING}")
            else:
                await _copy(connection, name.name, name.schema, rows)
            if first := _old_days(rows.table, self._today()):
                await connection.execute(f"DELETE FROM {table_sql(name)} WHERE {quote_name(DAY)} < $1", first)

    async def _connected(self) -> asyncpg.Connection[Any]:
        try:
            return await connect(self._address, timeout=20)
        except FAILURES as error:
            raise StoreError(f"PostgreSQL: {error}") from error


async def _copy(connection: asyncpg.Connection[Any], table: str, schema: str | None, rows: Rows) -> None:
    """PostgreSQL itself reads the texts as its columns' types."""
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([_text(value) for value in row] for row in rows.rows)
    source = io.BytesIO(text.getvalue().encode())
    await connection.copy_to_table(table, source=source, schema_name=schema, columns=rows.columns, format="csv", timeout=None)


async def _end(connection: asyncpg.Connection[Any]) -> None:
    try:
        await connection.close(timeout=5)
    except FAILURES:
        connection.terminate()


class DuckDBStore:
    """Tables of a DuckDB file. All segments of one load are one new file."""

    def __init__(self, path: Path, today: Callable[[], dt.date]) -> None:
        self._path, self._today = path, today

    async def columns(self, tables: Iterable[ReportTable]) -> Mapping[str, frozenset[str]]:
        query = "SELECT column_name FROM duckdb_columns() WHERE schema_name = ? AND table_name = ? AND NOT internal"
        try:
            with duckdb.connect(self._path, read_only=True) as connection:
                found = {
                    str(table.name): frozenset(
                        row[0] for row in connection.execute(query, [schema_of(table.name), table.name.name]).fetchall()
                    )
                    for table in tables
                }
        except duckdb.Error as error:
            raise StoreError(f"{self._path.name}: {error}") from error
        _check_columns(tables, found)
        return found

    async def load(self, collector: str, loads: Iterable[Load]) -> AsyncIterator[int]:
        for number in self._write_anew(collector, loads):
            yield number

    def _write_anew(self, collector: str, loads: Iterable[Load]) -> list[int]:
        """Write a copy with the segments and put it in the file's place. Return their numbers."""
        if self._path.with_name(f"{self._path.name}.wal").exists():
            raise StoreError(f"somebody writes to {self._path.name}: there is a log of changes in its folder")
        new = self._path.with_name(f".{self._path.name}.new")
        try:
            shutil.copy2(self._path, new)
            with duckdb.connect(new) as connection:
                connection.execute(_MAKE_LOADS)
                numbers = [self._take(connection, collector, load) for load in loads]
                connection.execute("CHECKPOINT")
            with new.open("rb+") as file:
                os.fsync(file.fileno())
            new.replace(self._path)
            settle(self._path.parent)
        except duckdb.Error as error:
            raise StoreError(f"{self._path.name}: {error}") from error
        finally:
            new.unlink(missing_ok=True)
        return numbers

    def _take(self, connection: duckdb.DuckDBPyConnection, collector: str, load: Load) -> int:
        connection.execute("BEGIN")
        key = [collector, load.segment]
        known = connection.execute(f"SELECT 1 FROM {LOADS} WHERE collector = ? AND segment = ?", key).fetchone()
        if known is None:
            connection.execute(f"INSERT INTO {LOADS} VALUES (?, ?)", key)
            for rows in load.rows:
                self._insert(connection, rows)
        connection.execute("COMMIT")
        return load.segment

    def _insert(self, connection: duckdb.DuckDBPyConnection, rows: Rows) -> None:
        target, columns = _duckdb_name(rows.table.name), ", ".join(map(quote_name, rows.columns))
        connection.execute(f"CREATE OR REPLACE TEMPORARY TABLE {_INCOMING} AS SELECT {columns} FROM {target} LIMIT 0")
        connection.register("dpproxy_texts", _texts(rows.columns, rows.rows))
        connection.execute(f"INSERT INTO {_INCOMING} SELECT * FROM dpproxy_texts")
        connection.unregister("dpproxy_texts")
        if rows.table.reports.cells:
            insert, update = _merge(rows)
            for statement in (update, insert):
                connection.execute(statement.replace(table_sql(rows.table.name), target))
        else:
            connection.execute(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {_INCOMING}")
        if first := _old_days(rows.table, self._today()):
            connection.execute(f"DELETE FROM {target} WHERE {quote_name(DAY)} < ?", [first])


def _texts(names: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return pa.table({name: pa.array(map(_text, column), pa.string()) for name, column in zip(names, columns, strict=True)})


def schema_of(name: TableName) -> str:
    """A policy's `public` is DuckDB's `main`."""
    return "main" if name.schema == "public" else name.schema


def _duckdb_name(name: TableName) -> str:
    return f"{quote_name(schema_of(name))}.{quote_name(name.name)}"


def _check_columns(tables: Iterable[ReportTable], found: Mapping[str, frozenset[str]]) -> None:
    """Raises StoreError where a table, or a column of one, is missing."""
    for table in tables:
        present = found[str(table.name)]
        if not present:
            raise StoreError(f"the store has no table {table.name}")
        missing = {*table.columns, *((COUNT,) if table.reports.cells else ())} - present
        if missing:
            raise StoreError(f"{table.name} has no column {', '.join(sorted(missing))}")
