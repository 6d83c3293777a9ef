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
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import Final

import asyncpg

from dpproxy.backends.base import Locked
from dpproxy.backends.postgres_catalog import source
from dpproxy.policy.catalog import CatalogTable
from dpproxy.policy.names import quote_name

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

Begun = Callable[[], AbstractAsyncContextManager[asyncpg.Connection]]
"""A connection in a transaction that only reads."""


class Moved(Exception):
    """Says that tables were met after the snapshot was taken."""


@dataclass
class Whole:
    """Is a transaction whose snapshot has all of the `locked` tables. `met`: others that an earlier snapshot of the same
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


def reading(tables: Sequence[CatalogTable]) -> tuple[str, ...]:
    """Return statements that lock tables as whoever reads the columns named in them, and read nothing."""
    return tuple(f"SELECT {', '.join(quote_name(c.source) for c in t.columns)} FROM {source(t)} LIMIT 0" for t in tables)


def planned(queries: Sequence[str]) -> tuple[str, ...]:
    """Return statements that lock whatever some queries read. How long they take may depend on what is known of the data, so they
    are for the operator's own queries."""
    return tuple(f"EXPLAIN {query}" for query in queries)


async def whole(
    stack: AsyncExitStack,
    holding: Begun,
    reading: Begun,
    locks: Sequence[str],
    patience: float = PATIENCE,
    met: Collection[int] = (),
) -> Whole:
    """Return a transaction of `reading` (REPEATABLE READ), which `stack` ends. `holding` (READ COMMITTED) is over by then. Raises
    Locked after `patience` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while True:
        async with AsyncExitStack() as mine:
            connection = await mine.enter_async_context(reading())  # its snapshot is that of its first query
            await connection.execute(WAITING)
            async with holding() if locks else nullcontext() as first:
                held = await _lock(first, locks, end - loop.time()) if first is not None else frozenset()
                locked = await _briefly(connection, locks)
            if locked is not None and locked <= held:
                stack.push_async_exit(mine.pop_all())
                return Whole(connection, locked, set(met))
        if loop.time() >= end:
            raise Locked("the tables are replaced again and again")


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
