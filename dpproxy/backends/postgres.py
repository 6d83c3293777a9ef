"""PostgreSQL as the data engine: a pool of connections of a role that can only read.

Knows: asyncpg, transactions, COPY, which errors pass by themselves. Must not know: plans, noise, clients. It runs SQL that was
generated from a checked plan, nothing else; the role's grants and a read-only transaction are the second wall.

A call, or all calls of a `snapshot`, are one REPEATABLE READ transaction, which sees one committed state of the data, on a
primary or a standby: `postgres_snapshot` sees to it that no load is in the middle of it. Results come as COPY in CSV and are
read by Arrow, column by column. Errors may quote data ("invalid input syntax: 'victim'"), so of those that could, only the
SQLSTATE is passed on, even to the operator's log. A connection that is lost, or a server that restarts, is tried again a few
times: reading twice releases nothing twice.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Literal, TypeVar

import asyncpg
import pyarrow as pa

from dpproxy import postgres_connections
from dpproxy.backends import postgres_catalog as catalogs
from dpproxy.backends.base import BackendError, Locked, Runner, Unreadable, in_measuring_thread, whole_number
from dpproxy.backends.postgres_snapshot import (
    FORMAT,
    NO_LOCKS,
    NULL,
    Locks,
    Moved,
    Whole,
    planned,
    read_csv,
    reading,
    told_equal,
    whole,
)
from dpproxy.errors import (
    ADMIN_SHUTDOWN,
    CANNOT_CONNECT_NOW,
    CRASH_SHUTDOWN,
    DEADLOCK_DETECTED,
    LOCK_NOT_AVAILABLE,
    SERIALIZATION_FAILURE,
    TOO_MANY_CONNECTIONS,
)
from dpproxy.mechanisms.noise import Exact
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.model import PostgresBackend
from dpproxy.postgres_connections import ENDED, FAILURES
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName

PLACES = 8
"""Measurements at once; a server's connections are dear, and parallel plans use several processes each already."""
CONNECT_TIMEOUT = 10.0  # seconds, for a connection and for a free place in the pool
CLOSE_TIMEOUT = 5.0  # seconds for the goodbye of idle connections
TRIES = (0.0, 0.2, 1.0, 3.0)
"""Seconds to wait before each attempt: a fast restart of PostgreSQL takes two or three."""

SESSION = {
    "application_name": "dpproxy",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "search_path": "pg_catalog",  # nobody's functions and operators but the server's own
    "default_transaction_read_only": "on",
}
"""What texts mean; set at connecting, so that the server's or the role's own settings cannot change it."""

DEFAULTS = {
    "statement_timeout": ("0", "10min"),
    "jit": ("on", "off"),  # generated statements are long and run once: compiling costs more than it saves
    "enable_nestloop": (
        "on",
        "off",
    ),  # by guesses of few rows; of a person who has many, work grows by a power
    "work_mem": ("4MB", "64MB"),  # hash tables of units and groups: spilled, they cost several times as much
}
"""What the proxy sets where the server still has PostgreSQL's own default (left) and neither role nor DSN say more."""

TRANSIENT = (
    "08",
    ADMIN_SHUTDOWN,
    CRASH_SHUTDOWN,
    CANNOT_CONNECT_NOW,
    TOO_MANY_CONNECTIONS,
    SERIALIZATION_FAILURE,
    DEADLOCK_DETECTED,
)
"""SQLSTATEs after which the same statement may well succeed: lost, restarting, full; conflicts with recovery on standbys."""

MISSING = ("28", "3D", "3F", "42")
"""Classes of errors about names and rights."""

UNQUALIFIED = "SET LOCAL search_path = pg_catalog, public"
"""For a policy's own query: what a policy names without a schema is in `public`."""
RESTRICTED = f"SET LOCAL search_path = {SESSION['search_path']}"

QUOTABLE = ("08", "0A", "25", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58")
"""Classes of errors whose message is about SQL, sessions or the machine; any other may hold a value of the data."""

T = TypeVar("T")
Work = Callable[["asyncpg.Connection"], Awaitable[T]]
Isolation = Literal["repeatable_read", "read_committed"]


class Postgres:
    """Runs the `Backend` of one database. Nothing is opened before the first call."""

    dialect: Dialect = "postgres"

    def __init__(self, config: PostgresBackend, places: int = PLACES) -> None:
        self._config, self.places = config, places
        self._measuring = _Connections(config, places)
        self._own = _Connections(config, 1)  # what is no measurement waits for none
        self._aside = _Connections(config, 1)
        self.holding = _Connections(config, places + 2, "read_committed")
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def state(self) -> str:
        return ""

    def outdated(self) -> bool:
        return False

    def choose_by(self, key: int) -> None:
        """The key is in the SQL."""

    async def public_states(self, tables: Sequence[CatalogTable]) -> dict[TableName, str]:
        async def states(connection: asyncpg.Connection) -> dict[TableName, str]:
            return {table.name: await catalogs.state(connection, table) for table in tables}

        return await self._run(states, reading(tables)) if tables else {}

    async def introspect(self) -> Catalog:
        return await self._run(catalogs.introspect)

    async def numerics(self) -> dict[tuple[TableName, str], tuple[int, int]]:
        """Return digits and places of the NUMERIC columns that declare them. Raises BackendError."""
        return await self._run(catalogs.numerics)

    async def with_public_ranges(self, catalog: Catalog, public: frozenset[TableName]) -> Catalog:
        async def ranges(connection: asyncpg.Connection) -> Catalog:
            tables = {n: await catalogs.with_ranges(connection, t) if n in public else t for n, t in catalog.tables.items()}
            return Catalog(tables)

        return await self._run(ranges, reading([t for n, t in catalog.tables.items() if n in public]))

    async def run(self, queries: Sequence[str]) -> Exact:
        """Run the operator's queries, in a snapshot of what they read."""
        async with self._within(planned(queries)) as runner:
            return await runner.run(queries)

    def snapshot(self, tables: Sequence[CatalogTable]) -> AbstractAsyncContextManager[Runner]:
        return self._within(reading(tables))

    @asynccontextmanager
    async def _within(self, locks: Locks) -> AsyncIterator[Runner]:
        """Run in one transaction: what is lost with its connection cannot be read again, so that only its first run is
        retried."""
        snapshot = _Snapshot(self, self._measuring, locks)
        try:
            await self._tried(snapshot, _nothing)
            yield snapshot
        finally:
            await snapshot.close()

    async def public_rows(self, table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
        query = catalogs.public_rows(table, columns, cap)
        return await self._run(lambda connection: _table(connection, query), planned([query]))

    async def violations(self, checks: Sequence[str], aside: bool = False) -> tuple[int, ...]:
        async def counts(connection: asyncpg.Connection) -> tuple[int, ...]:
            return tuple([int(await connection.fetchval(check)) for check in checks])

        return await self._run(counts, planned(checks), self._aside if aside else None)

    async def number(self, query: str) -> int:
        return await self._run(lambda connection: number(connection, query), own_query(query))

    async def close(self) -> None:
        """Interrupt what runs, then close the connections."""
        self._closed = True
        for task in (running := list(self._running)):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for connections in (self._measuring, self._own, self._aside, self.holding):
            await connections.close()

    async def _run(self, work: Work[T], locks: Locks = NO_LOCKS, connections: _Connections | None = None) -> T:
        """`work` that is no measurement, in a snapshot of its own. `locks`: of the tables whose rows it reads."""
        snapshot = _Snapshot(self, connections or self._own, locks)
        try:
            return await self._tried(snapshot, work)
        finally:
            await snapshot.close()

    async def _tried(self, snapshot: _Snapshot, work: Work[T]) -> T:
        """`work` in a snapshot, tried again on another connection when its own or the server goes away."""
        for last, delay in zip((False,) * (len(TRIES) - 1) + (True,), TRIES, strict=True):
            await asyncio.sleep(delay)
            try:
                return await self._task(snapshot.once(work))
            except Moved:
                if last or snapshot.read:
                    raise BackendError("tables were replaced while they were read") from None
                await snapshot.close()
            except FAILURES as error:
                if last or snapshot.read or not _transient(error):
                    raise backend_error(error) from None
                await snapshot.close()
                await snapshot.connections.expire()
                await self.holding.expire()
            except (pa.ArrowException, ValueError) as error:
                raise BackendError(type(error).__name__) from None
        raise AssertionError("the last attempt returns or raises")

    async def _task(self, work: Coroutine[Any, Any, T]) -> T:
        """A task of its own, so that `close` can end it. Cancelling the caller cancels it, and with it the statement."""
        if self._closed:
            work.close()
            raise BackendError("the backend is closed")
        task = asyncio.ensure_future(work)  # awaiting it passes a cancellation on
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await task


class _Connections:
    """At most so many; none is opened before it is needed."""

    def __init__(self, config: PostgresBackend, most: int, isolation: Isolation = "repeatable_read") -> None:
        self._config, self._most, self._isolation = config, most, isolation
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        pool = await self._opened()
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(pool.acquire(timeout=CONNECT_TIMEOUT))
        try:
            await stack.enter_async_context(connection.transaction(isolation=self._isolation, readonly=True))
            yield connection
        finally:
            await _given_back(connection, stack)

    async def _opened(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await postgres_connections.create_pool(
                    self._config.dsn,
                    password=self._config.password,
                    min_size=0,
                    max_size=self._most,
                    timeout=CONNECT_TIMEOUT,
                    init=_prepared_session,
                    reset=_nothing,  # sessions are all alike, and `RESET ALL` would take away what `init` set
                    server_settings=SESSION,
                )
            return self._pool

    async def expire(self) -> None:
        """Use the connections that are open now not again."""
        if self._pool is not None:
            await self._pool.expire_connections()

    async def close(self) -> None:
        if self._pool is None:
            return
        try:
            await asyncio.wait_for(self._pool.close(), CLOSE_TIMEOUT)
        except FAILURES:
            self._pool.terminate()
        self._pool = None


class _Snapshot:
    """Runs in one transaction, which the first of them opens. `read`: it has told something, so that no other will do.
    `locks`: of the tables that it is to have all of."""

    def __init__(self, backend: Postgres, connections: _Connections, locks: Locks) -> None:
        self.connections, self.read = connections, False
        self._backend, self._stack, self._locks = backend, AsyncExitStack(), locks
        self._held: Whole | None = None
        self._met: set[int] = set()

    async def run(self, queries: Sequence[str]) -> Exact:
        found = await self._backend._tried(self, _tables(queries))
        self.read = True
        return _exact(found)

    async def once(self, work: Work[T]) -> T:
        if self._held is None:
            places = (self._backend.holding.transaction, self.connections.transaction)
            self._held = await whole(self._stack, *places, self._locks, met=self._met)
        found = await work(self._held.connection)
        try:
            await self._held.check()
        finally:
            self._met = self._held.met
        return found

    async def close(self) -> None:
        """Close the transaction; the next `once` opens another."""
        self._held = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()


async def _given_back(connection: asyncpg.Connection, stack: AsyncExitStack) -> None:
    """End what is done on a connection. A server that does not answer the goodbye within CLOSE_TIMEOUT loses the connection:
    asyncpg waits without end for a cancellation that the server never confirms."""
    closing = asyncio.ensure_future(stack.aclose())
    await asyncio.wait({closing}, timeout=CLOSE_TIMEOUT)
    if not closing.done():
        with suppress(*ENDED):  # it was given back in the meantime
            connection.terminate()
    with suppress(*FAILURES):
        await closing


def _tables(queries: Sequence[str]) -> Work[tuple[pa.Table, ...]]:
    async def work(connection: asyncpg.Connection) -> tuple[pa.Table, ...]:
        return tuple([await _table(connection, query) for query in queries])

    return work


def _exact(found: tuple[pa.Table, ...]) -> Exact:
    return Exact(told_equal(found) if len(found) > 1 else found)


def own_query(query: str) -> Locks:
    """Return statements that lock what a policy's own query reads."""
    return Locks((UNQUALIFIED, *planned([query]).statements, RESTRICTED))


async def number(connection: asyncpg.Connection, query: str) -> int:
    """Return what a policy's own query says. Raises BackendError where that is no whole number."""
    await connection.execute(UNQUALIFIED)
    told = whole_number(await connection.fetchval(query))
    await connection.execute(RESTRICTED)
    return told


async def _nothing(connection: asyncpg.Connection) -> None:
    """A transaction leaves nothing behind."""


async def _prepared_session(connection: asyncpg.Connection) -> None:
    """Defaults that an administrator's own settings override. Servers that lack a setting are not asked to know it."""
    for name, (stock, ours) in DEFAULTS.items():
        await connection.execute(
            "SELECT set_config(name, $2, false) FROM pg_settings WHERE name = $1 AND current_setting(name) = $3 "
            "AND source IN ('default', 'configuration file')",
            name,
            ours,
            stock,
        )


async def _table(connection: asyncpg.Connection, query: str) -> pa.Table:
    """The rows of a query: whole numbers as int64, booleans, and every other type in PostgreSQL's text form."""
    statement = await connection.prepare(query)
    types = [(a.name, a.type.name) for a in statement.get_attributes()]
    if not types:
        raise BackendError("a generated statement is not a query")
    buffer = io.BytesIO()
    await connection.copy_from_query(query, output=buffer, format=FORMAT, null=NULL)
    return await in_measuring_thread(lambda: read_csv(buffer.getbuffer(), types))


def _transient(error: Exception) -> bool:
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate).startswith(TRANSIENT)
    return isinstance(error, ENDED) and not isinstance(error, ssl.SSLCertVerificationError)


def backend_error(error: Exception) -> BackendError:
    """Return only what cannot hold data: the SQLSTATE, and the message of harmless classes."""
    if not isinstance(error, asyncpg.PostgresError):
        return BackendError(
            f"{type(error).__name__}: {error}".splitlines()[0] if isinstance(error, OSError) else type(error).__name__
        )
    state = str(error.sqlstate)
    kind = Locked if state == LOCK_NOT_AVAILABLE else Unreadable if state[:2] in MISSING else BackendError
    text = str(error).splitlines()[0] if state[:2] in QUOTABLE and str(error) else type(error).__name__
    return kind(f"{state} {text}")
