"""A snapshot of whole tables: none of them was being loaded when it was taken.

Knows: asyncpg, locks and snapshots of PostgreSQL's. Must not know: policies, plans, who waits. A query of a REPEATABLE READ
transaction takes its snapshot first and its tables' locks afterwards. A table that is truncated, rewritten, renamed or replaced
in between is read as empty, or with columns that nobody had filled. So a second connection locks the tables first (ACCESS SHARE,
as any SELECT does), and lets go once the snapshot is taken and the first connection has the same locks.

What a transaction reads is what it has locked (`pg_locks`): views' tables, partitions and children as well. A table that it meets
only after its snapshot may be half of something else: a partition that was attached, a schema that took another's name, or a
table that a view's function reads. Then nothing that was read counts.

Locks are taken by statements that read no row and need no right but that of reading the columns they name. `LOCK TABLE` needs the
right to all columns, and takes neither materialized views nor foreign tables. Of a foreign table the lock is here, not on its own
server: a load there that truncates it is not noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import Final

import asyncpg
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from dpproxy.backends.base import Locked, Unreadable
from dpproxy.backends.postgres_catalog import source
from dpproxy.errors import DATATYPE_MISMATCH
from dpproxy.policy.catalog import CatalogTable
from dpproxy.policy.joined_keys import spelled

PATIENCE: Final = 60.0
"""Seconds that a statement waits for whoever loads its tables, before it is refused: as long as for a place on the engine."""
BRIEF: Final = 0.2
"""Seconds to wait for a lock that another connection of ours has. Whoever waits longer stands behind a loader, which waits for
that connection: none of the three would ever go on."""

WAITING: Final = "SET LOCAL idle_in_transaction_session_timeout = 0"
READY: Final = "SET LOCAL idle_in_transaction_session_timeout TO DEFAULT; SET LOCAL lock_timeout TO DEFAULT"
"""A transaction that waits for the other's locks is not to be ended for being idle."""

OURS: Final = 16_384
"""The first number of a table that somebody made (FirstNormalObjectId): those below are PostgreSQL's own."""

_READ: Final = f"""
SELECT DISTINCT l.relation::int8, c.oid IS NOT NULL AND coalesce(pg_relation_filenode(c.oid), 0) = c.relfilenode AS same
FROM pg_locks AS l LEFT JOIN pg_class AS c ON c.oid = l.relation
WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.relation >= {OURS}
  AND (c.relkind IN ('r', 'p', 'v', 'm', 'f') OR c.oid IS NULL AND pg_index_has_property(l.relation, 'clusterable') IS NULL)
"""
"""The tables that this transaction has locked. `same`: its snapshot has the table, and in the file that it is in now. Rows of the
catalog are those of the snapshot; PostgreSQL's functions know what is there now."""

_CHANGED: Final = """
SELECT string_agg(format('%s of %s (%s, now %s)', t.name, t.place, t.type, format_type(a.atttypid, NULL)), ', ')
FROM unnest($1::text[], $2::text[], $3::text[]) AS t (place, name, type)
JOIN pg_attribute AS a ON a.attrelid = t.place::regclass AND a.attname = t.name
WHERE format_type(a.atttypid, NULL) <> t.type
"""
"""Columns that have another type than they had: a plan of the old type would be charged before the engine refuses it."""

Begun = Callable[[], AbstractAsyncContextManager[asyncpg.Connection]]
"""A connection in a transaction that only reads."""


class Moved(Exception):
    """Tables were met after the snapshot was taken."""


@dataclass
class Whole:
    """A transaction whose snapshot has all of the `locked` tables. `met`: others that an earlier snapshot of the same
    statement met late. Those are reached only while it runs, so they may be met again as long as they are what the snapshot
    has."""

    connection: asyncpg.Connection
    locked: frozenset[int]
    met: set[int]

    async def check(self) -> None:
        """Raises Moved when the transaction has read what its snapshot may have half of."""
        late = {table: same for table, same in (await _read(self.connection)).items() if table not in self.locked}
        if late.keys() - self.met or not all(late.values()):
            self.met |= late.keys()
            raise Moved


@dataclass(frozen=True)
class Locks:
    """`statements` that lock whatever is to be read. `types`: of columns, as they were when plans were made, each a table as
    PostgreSQL spells it, a column and a type."""

    statements: tuple[str, ...] = ()
    types: tuple[tuple[str, str, str], ...] = ()


NO_LOCKS: Final = Locks()


def reading(tables: Sequence[CatalogTable]) -> Locks:
    """Return statements that lock tables as whoever reads the columns named in them, and read nothing."""
    return Locks(
        tuple(f"SELECT {', '.join(columns)} FROM {source(table)} LIMIT 0" for table, columns in _columns(tables)),
        tuple((source(table), c.source, c.stored) for table in tables for c in table.columns if c.stored),
    )


def _columns(tables: Sequence[CatalogTable]) -> Iterator[tuple[CatalogTable, list[str]]]:
    """Tables with the text of their columns, also of those that are joined of others."""
    for table in tables:
        yield table, [spelled(column.source, '"') for column in table.columns]


def planned(queries: Sequence[str]) -> Locks:
    """Return statements that lock whatever some queries read. How long they take may depend on what is known of the data, so they
    are for the operator's own queries."""
    return Locks(tuple(f"EXPLAIN {query}" for query in queries))


async def whole(
    stack: AsyncExitStack,
    holding: Begun,
    reading: Begun,
    locks: Locks,
    patience: float = PATIENCE,
    met: Collection[int] = (),
) -> Whole:
    """Return a transaction of `reading` (REPEATABLE READ), which `stack` ends. `holding` (READ COMMITTED) is over by then. Raises
    Locked after `patience` seconds, and Unreadable where a column has another type than it had."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while True:
        async with AsyncExitStack() as mine:
            connection = await mine.enter_async_context(reading())  # its snapshot is that of its first query
            await connection.execute(WAITING)
            async with holding() if locks.statements else nullcontext() as first:
                held = await _held(first, locks, end - loop.time()) if first is not None else frozenset()
                locked = await _briefly(connection, locks.statements)
            if locked is not None and locked <= held:
                stack.push_async_exit(mine.pop_all())
                return Whole(connection, locked, set(met))
        if loop.time() >= end:
            raise Locked("the tables are replaced again and again")


async def _held(connection: asyncpg.Connection, locks: Locks, seconds: float) -> frozenset[int]:
    """Lock, and look at the columns' types: those of now, as the transaction sees whatever is committed."""
    held = await _lock(connection, locks.statements, seconds)
    if locks.types and (changed := await connection.fetchval(_CHANGED, *map(list, zip(*locks.types, strict=True)))):
        raise Unreadable(f"{DATATYPE_MISMATCH} of another type than at the start: {changed}")
    return held


async def _briefly(connection: asyncpg.Connection, locks: Sequence[str]) -> frozenset[int] | None:
    """None where another waits for the same locks."""
    try:
        return await _lock(connection, locks, BRIEF)
    except asyncpg.LockNotAvailableError:
        return None


async def _lock(connection: asyncpg.Connection, locks: Sequence[str], seconds: float) -> frozenset[int]:
    """Lock for as long as the transaction lasts; return what is locked."""
    limit = f"SET LOCAL lock_timeout = {max(1, round(1000 * seconds))}"
    await connection.execute("; ".join([limit, *locks, READY]))
    return frozenset(await _read(connection))


async def _read(connection: asyncpg.Connection) -> dict[int, bool]:
    return {int(table): bool(same) for table, same in await connection.fetch(_READ)}


# COPY's CSV as Arrow tables.
#
# Knows: the CSV that PostgreSQL writes, Arrow's reader. Must not know: connections, what the columns mean. NULL is an unquoted
# `\N`, which PostgreSQL quotes when it is a text, so that it differs from every text, the empty one included.


FORMAT, NULL = "csv", "\\N"
_TYPES = {"int2": pa.int64(), "int4": pa.int64(), "int8": pa.int64(), "bool": pa.bool_()}
_DECIMAL = {b"numeric", b"float4", b"float8"}
_TYPE = b"postgres"  # the metadata of a column that says its PostgreSQL type
_BLOCK = 2**31 - 1  # bytes: a row must not be longer than a block, so there is one block where Arrow can count so far


def read_csv(data: bytes | memoryview, columns: Sequence[tuple[str, str]]) -> pa.Table:
    """Return the rows of a CSV; `columns` are names and PostgreSQL types. Raises ArrowException for what is not such a CSV."""
    schema = pa.schema([pa.field(n, _TYPES.get(t, pa.string()), metadata={_TYPE: t}) for n, t in columns])
    names = [f"c{i}" for i in range(len(columns))]  # the statement's own names need not be distinct
    if not len(data):
        return schema.empty_table()
    table = csv.read_csv(
        pa.py_buffer(data),
        read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=min(len(data) + 1, _BLOCK)),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict(zip(names, schema.types, strict=True)),
            null_values=[NULL],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return pa.table(table.columns, schema=schema)


def told_equal(tables: tuple[pa.Table, ...]) -> tuple[pa.Table, ...]:
    """Return tables whose keys are matched by their text: equal numbers get equal texts (`1.50` and `1.5`, `-0` and `0`)."""
    return tuple(pa.table([_plain(c, f) for c, f in zip(t.columns, t.schema, strict=True)], schema=t.schema) for t in tables)


def _plain(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if (field.metadata or {}).get(_TYPE) not in _DECIMAL:
        return column
    for pattern, kept in ((r"^(-?[0-9]+\.[0-9]*?)0+$", r"\1"), (r"\.$", ""), (r"^-0$", "0")):
        column = pc.replace_substring_regex(column, pattern, kept)
    return column
