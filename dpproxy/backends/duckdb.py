"""DuckDB as the data engine: one read-only, locked-down database file.

Knows: DuckDB's catalog, types, settings, threads. Must not know: plans, noise, clients. It runs SQL that was generated
from a checked plan, nothing else; the lock-down is the second wall, for the day the first has a hole: no files, no
network, no extensions, no writes, no Python variables as tables, no way to change a setting.

Of a path DuckDB hands out the database it has open already, though the file is another by now; a path is resolved first, so
that no other name helps. So each `DuckDB` is a database in memory of its own, with nothing in it but the file it has attached
(`datafile`), and reads nothing once that file is written over.

A measurement runs on a connection of its own in a worker thread, in one transaction. Errors may quote data
("Could not convert string 'victim'"), so of those that could, only the kind is passed on, even to the operator's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Generic, TypeVar

import duckdb
import pyarrow as pa

from dpproxy.backends.base import BackendError, Runner
from dpproxy.backends.datafile import DataFile, FileChanged
from dpproxy.backends.duckdb_catalog import fetched, introspected, quoted, with_ranges
from dpproxy.mechanisms.exact_answers import Exact
from dpproxy.policy.catalog import Catalog, CatalogTable, TableName
from dpproxy.policy.model import DuckDBBackend
from dpproxy.policy.names import quote_name
from dpproxy.sql.template import Dialect

PLACES = 4
"""Measurements at once: DuckDB runs each on all its threads already; more would only share them."""

INTERRUPT_EVERY = 0.05
"""Seconds: an interrupt between two statements is lost, so it is repeated until the thread has ended."""

LOCKED_DOWN: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": False,  # every query that needs an order says so; without, memory is bounded
}

ASIDE = "dpproxy~"
"""A database in memory, until the file is there."""

UNSOUND = ("common_subplan",)
"""Optimizers that are switched off where DuckDB has them. In 2.0.0 `common_subplan` takes one self join for another whose sides
are the other way round, and joins the next table by the wrong side's column: rows of one person could become another's."""

CELL = 512
"""Bytes of the sums of one unit in such a table: twenty sums, or forty counts."""
USUAL_BITS, MOST_BITS = 12, 20
"""DuckDB's own setting; and that of a million units, where there is memory for them."""

QUOTABLE = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConnectionException,
    duckdb.InterruptException,
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.ParserException,
    duckdb.PermissionException,
    duckdb.TransactionException,
)
"""Errors whose first line is about SQL, files or memory; the text of any other may hold a value of the data."""

T = TypeVar("T")
Work = Callable[[duckdb.DuckDBPyConnection], T]


class DuckDB:
    """Runs the `Backend` of one file. Raises BackendError when the file cannot be opened read-only."""

    dialect: Dialect = "duckdb"

    def __init__(self, config: DuckDBBackend, places: int = PLACES) -> None:
        try:
            self._file = DataFile(config.path)
        except OSError as error:
            raise BackendError(f"{config.path}: {error.strerror}") from None
        except FileChanged as error:
            raise BackendError(f"{config.path}: {error}") from None
        try:
            self._root, self._name = _attached(config)
            self._file.opened()
        except duckdb.Error as error:
            self._file.close()
            raise _backend_error(error) from None
        except FileChanged as error:
            self._root.close()
            self._file.close()
            raise BackendError(f"{config.path}: {error}") from None
        self.places = places
        self._measuring = ThreadPoolExecutor(places, thread_name_prefix="measuring")
        self._own = ThreadPoolExecutor(1, thread_name_prefix="duckdb")
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> str:
        return self._file.state

    def outdated(self) -> bool:
        return not self._file.still()

    async def public_states(self, tables: Sequence[CatalogTable]) -> dict[TableName, str]:
        """Return the file's state for each table: what is in it cannot change by itself."""
        try:
            self._file.check()
        except FileChanged as error:
            raise BackendError(str(error)) from None
        return {table.name: self._file.state for table in tables}

    async def introspect(self) -> Catalog:
        return await self._run(introspected)

    async def with_public_ranges(self, catalog: Catalog, public: frozenset[TableName]) -> Catalog:
        def ranges(connection: duckdb.DuckDBPyConnection) -> Catalog:
            tables = {n: with_ranges(connection, t) if n in public else t for n, t in catalog.tables.items()}
            return Catalog(tables)

        return await self._run(ranges)

    async def run(self, queries: Sequence[str]) -> Exact:
        tables = await self._run(lambda connection: tuple(_arrow(connection, query) for query in queries), self._measuring)
        return Exact(tables)

    def snapshot(self) -> AbstractAsyncContextManager[Runner]:
        """Return a place to run. The file cannot change while it is open, and there is a thread for each place."""
        return nullcontext(self)

    async def public_rows(self, table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
        sql = _public_rows(table, columns, cap)
        rows: pa.Table = await self._run(lambda connection: _arrow(connection, sql))
        return rows

    async def violations(self, checks: Sequence[str]) -> tuple[int, ...]:
        return await self._run(lambda connection: tuple(int(fetched(connection, check)[0][0]) for check in checks))

    async def close(self) -> None:
        """Interrupt what runs, then close the file."""
        self._root.interrupt()
        if self._stopping:
            await asyncio.wait(self._stopping)
        for pool in (self._measuring, self._own):
            pool.shutdown(wait=False, cancel_futures=True)
        self._root.close()
        self._file.close()

    async def _run(self, work: Work[T], pool: ThreadPoolExecutor | None = None) -> T:
        """`work` in a worker thread, on a connection of its own, in one read-only transaction."""
        job = _Job(self._root.cursor(), self._name, self._file, work)
        future = asyncio.get_running_loop().run_in_executor(pool or self._own, job)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            task = asyncio.ensure_future(job.stop(future))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
            raise


class _Job(Generic[T]):
    """Work on one connection, which may be told to stop from another thread."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, file: DataFile, work: Work[T]) -> None:
        self._connection, self._name, self._file, self._work, self._stopped = connection, name, file, work, False

    def __call__(self) -> T:
        try:
            if self._stopped:
                raise BackendError("interrupted before it began")
            self._file.check()
            self._connection.execute(f"USE {quote_name(self._name)}")
            self._connection.execute("BEGIN TRANSACTION READ ONLY")
            result = self._work(self._connection)
            self._connection.execute("COMMIT")
            self._file.check()
            return result
        except duckdb.Error as error:
            raise _backend_error(error) from None
        except FileChanged as error:
            raise BackendError(str(error)) from None
        finally:
            self._connection.close()

    async def stop(self, future: asyncio.Future[T]) -> None:
        """Interrupt until the thread has ended."""
        self._stopped = True
        while not future.done():
            self._connection.interrupt()
            await asyncio.wait([future], timeout=INTERRUPT_EVERY)
        if not future.cancelled():
            future.exception()  # nobody waits for it any more


def _attached(config: DuckDBBackend) -> tuple[duckdb.DuckDBPyConnection, str]:
    """A database in memory that is locked down and has nothing but the file in it; the name the file has there."""
    options: dict[str, str | bool | int | float | list[str]] = dict(LOCKED_DOWN) | {"temp_directory": f"{config.path}.tmp"}
    del options["enable_external_access"]  # as soon as the file is attached
    if config.memory_limit is not None:
        options["memory_limit"] = config.memory_limit
    if config.threads is not None:
        options["threads"] = config.threads
    root = duckdb.connect(":memory:", config=options)
    try:
        path = config.path.replace("'", "''")
        # the file keeps the name it has by itself, which its views may say, be it that of the database in memory
        root.execute(f"ATTACH ':memory:' AS {quote_name(ASIDE)}; USE {quote_name(ASIDE)}; DETACH memory")
        root.execute(f"ATTACH '{path}' (READ_ONLY, TYPE duckdb)")
        ((name,),) = fetched(root, "SELECT database_name FROM duckdb_databases() WHERE path IS NOT NULL")
        root.execute(f"USE {quote_name(name)}; DETACH {quote_name(ASIDE)}")
        set_for_measuring(root)
        root.execute("SET GLOBAL enable_external_access = false")
        root.execute("SET lock_configuration = true")
    except duckdb.Error:
        root.close()
        raise
    return root, str(name)


def set_for_measuring(root: duckdb.DuckDBPyConnection) -> None:
    """Make the settings that generated SQL relies on, of all connections to a database."""
    root.execute("SET GLOBAL TimeZone = 'UTC'")
    root.execute(f"SET GLOBAL perfect_ht_threshold = {_indexed_bits(root)}")
    known = {name for (name,) in fetched(root, "SELECT name FROM duckdb_optimizers()")}
    root.execute(f"SET GLOBAL disabled_optimizers = '{','.join(n for n in UNSOUND if n in known)}'")


def _indexed_bits(root: duckdb.DuckDBPyConnection) -> int:
    """How many bits a unit's number may have to index a table of sums, where DuckDB would hash it else, at four times the cost or
    more. Each thread of each place has such a table, outside of what `memory_limit` counts: all of them together may take half
    as much again."""
    ((limit, threads),) = fetched(
        root, "SELECT parse_formatted_bytes(current_setting('memory_limit')), current_setting('threads')"
    )
    cells = int(limit) // (2 * PLACES * int(threads) * CELL)
    return max(USUAL_BITS, min(MOST_BITS, cells.bit_length() - 1))


def _backend_error(error: duckdb.Error) -> BackendError:
    kind = type(error).__name__
    return BackendError(f"{kind}: {str(error).splitlines()[0]}" if isinstance(error, QUOTABLE) else kind)


def _arrow(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    relation = connection.sql(query)
    if relation is None:
        raise BackendError("a generated statement is not a query")
    return relation.to_arrow_table()


AS_TEXT = frozenset({"numeric", "interval", "uuid", "text"})
"""PostgreSQL types read as their text: what Arrow would carry otherwise is lossy or of DuckDB's own."""


def _public_rows(table: CatalogTable, columns: Sequence[str], cap: int) -> str:
    chosen = []
    for name in columns:
        column = table.column(name)
        if column is None:
            raise BackendError("a public table has no such column")
        cast = "VARCHAR" if column.type in AS_TEXT else "TIMESTAMP" if column.type == "timestamp" else None
        source = quote_name(column.source)
        chosen.append(f"{source if cast is None else f'CAST({source} AS {cast})'} AS {quote_name(name)}")
    return f"SELECT {', '.join(chosen)} FROM {quoted(table)} LIMIT {cap + 1}"
