"""DuckDB as the data engine: one read-only, locked-down database file.

Knows: DuckDB's catalog, types, settings, threads. Must not know: plans, noise, clients. It runs SQL that was generated
from a checked plan, nothing else; the lock-down is the second wall, for the day the first has a hole: no files, no
network, no extensions, no writes, no Python variables as tables, no way to change a setting but how
large an index of groups may be (`duckdb_stages`).

Of a path DuckDB hands out the database it has open already, though the file is another by now; a path is resolved first, so
that no other name helps. So each `DuckDB` is a database in memory of its own, with nothing in it but the file it has attached
(`datafile`), and reads nothing once that file is written over.

Beside the data there may be a prepared copy of them (`copy_files`), read-only under a name of its own. It comes while answers are
given: then there is a second instance with both files, which takes over from the next measurement on, and the first is closed
when what runs on it has ended.

A measurement runs on a connection of its own in a worker thread, in one transaction. Errors may quote data
("Could not convert string 'victim'"), so of those that could, only the kind is passed on, even to the operator's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import duckdb
import pyarrow as pa

from dpproxy.backends import duckdb_stages
from dpproxy.backends.base import BackendError, Runner, whole_number
from dpproxy.backends.datafile import DataFile, FileChanged, lock_again
from dpproxy.backends.duckdb_catalog import fetched, introspected, public_rows, with_ranges
from dpproxy.backends.duckdb_stages import KeptStages, as_table, said
from dpproxy.mechanisms.noise import Exact
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.model import DuckDBBackend
from dpproxy.policy.names import quote_name
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName

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
    "preserve_insertion_order": False,  # tables that are made need none, and without memory is bounded; answers: see `as_table`
}

ASIDE = "dpproxy~"
"""A database in memory, until the file is there."""

UNSOUND = ("common_subplan",)
"""Optimizers that are switched off where DuckDB has them. In 2.0.0 `common_subplan` takes one self join for another whose sides
are the other way round, and joins the next table by the wrong side's column: rows of one person could become another's."""

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
            self._instance = _Instance(*attached(config))
            self._file.opened()
        except duckdb.Error as error:
            self._file.close()
            raise backend_error(error) from None
        except FileChanged as error:
            self._instance.root.close()
            self._file.close()
            raise BackendError(f"{config.path}: {error}") from None
        self.places = places
        self.config = config
        self._former: list[_Instance] = []
        self._closed = False
        self._measuring = ThreadPoolExecutor(places, thread_name_prefix="measuring")
        self._own = ThreadPoolExecutor(1, thread_name_prefix="duckdb")
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> str:
        return self._file.state

    @property
    def size(self) -> int:
        """Return the bytes that the data take."""
        return self._file.size

    def outdated(self) -> bool:
        return not self._file.still()

    def choose_by(self, key: int) -> None:
        """The key is in the SQL."""

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

    async def run(self, queries: Sequence[str], on: _Snapshot | None = None) -> Exact:
        def work(connection: duckdb.DuckDBPyConnection) -> tuple[pa.Table, ...]:
            return tuple(read(connection, on.stages.read(query) if on is not None else query) for query in queries)

        return Exact(await self._run(work, self._measuring, on))

    def snapshot(self, tables: Sequence[CatalogTable]) -> AbstractAsyncContextManager[Runner]:
        """Return a place to run. The file cannot change while it is open, and there is a thread for each place."""
        return _Place(self)

    def begin(self) -> _Snapshot:
        """Return a connection for several runs. The instance stays as long."""
        self._instance.running += 1
        return _Snapshot(self._instance, KeptStages(self._instance.root.cursor()))

    def end(self, snapshot: _Snapshot) -> None:
        """Close it, once nothing runs on it; in a thread, as much memory may be given back."""
        if snapshot.last is not None and not snapshot.last.done():
            snapshot.last.add_done_callback(lambda _: self.end(snapshot))
        elif not self._closed:
            self._own.submit(snapshot.stages.connection.close)
            self._ended(snapshot.instance)

    async def public_rows(self, table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
        sql = public_rows(table, columns, cap)
        rows: pa.Table = await self._run(lambda connection: as_table(connection, sql))
        return rows

    async def violations(self, checks: Sequence[str], aside: bool = False) -> tuple[int, ...]:
        return await self._run(lambda connection: tuple(int(fetched(connection, check)[0][0]) for check in checks))

    async def number(self, query: str) -> int:
        return await self._run(lambda connection: whole_number(fetched(connection, query)[0][0]))

    async def adopt(self, copy: Path, name: str) -> None:
        """Attach a prepared copy of these very data by a name, for all that is run from now on. Raises BackendError."""
        made = await asyncio.get_running_loop().run_in_executor(self._own, self._beside, copy, name)
        if self._closed:
            made.root.close()
            return
        self._former.append(self._instance)
        self._instance = made
        self._let_go()

    def _beside(self, copy: Path, name: str) -> _Instance:
        """Another instance with both files. The path is to name the same data before and after."""
        text = str(copy).replace("'", "''")
        attach = f"ATTACH '{text}' AS {quote_name(name)} (READ_ONLY, TYPE duckdb)"
        try:
            self._file.check_path()
            made = _Instance(*attached(self.config, more=(attach,)))
            try:
                self._file.opened()
            except FileChanged:
                made.root.close()
                raise
        except duckdb.Error as error:
            raise backend_error(error) from None
        except FileChanged as error:
            raise BackendError(f"{self.config.path}: {error}") from None
        return made

    def _let_go(self) -> None:
        """Close earlier instances on which nothing runs any more; in a thread, as much memory may be given back."""
        for each in [former for former in self._former if not former.running and not self._closed]:
            self._former.remove(each)
            self._own.submit(self._shut, each)

    def _shut(self, former: _Instance) -> None:
        former.root.close()
        lock_again(self._file.key)

    def _ended(self, instance: _Instance) -> None:
        instance.running -= 1
        self._let_go()

    async def close(self) -> None:
        """Interrupt what runs, then close the files."""
        self._closed = True
        for each in (self._instance, *self._former):
            each.root.interrupt()
        if self._stopping:
            await asyncio.wait(self._stopping)
        for pool in (self._measuring, self._own):
            pool.shutdown(wait=False, cancel_futures=True)
        for each in (self._instance, *self._former):
            each.root.close()
        self._former.clear()
        self._file.close()

    async def _run(self, work: Work[T], pool: ThreadPoolExecutor | None = None, on: _Snapshot | None = None) -> T:
        """`work` in a worker thread, in one read-only transaction on a connection of its own; `on`: on one that stays, where
        tables of its own may be made."""
        instance = self._instance if on is None else on.instance
        connection = instance.root.cursor() if on is None else on.stages.connection
        job = _Job(connection, instance.name, self._file, work, stays=on is not None)
        future = asyncio.get_running_loop().run_in_executor(pool or self._own, job)
        instance.running += 1
        future.add_done_callback(lambda _: self._ended(instance))
        if on is not None:
            on.last = future
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            task = asyncio.ensure_future(job.stop(future))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
            raise


@dataclass
class _Instance:
    """A database in memory with the file in it, which has that name there; and how many jobs run on it."""

    root: duckdb.DuckDBPyConnection
    name: str
    running: int = 0


@dataclass
class _Snapshot:
    """A connection that several runs share, and the last of them."""

    instance: _Instance
    stages: KeptStages
    last: asyncio.Future[Any] | None = None


class _Place:
    """Where a statement's measurements run one after the other: on one connection as soon as one of them begins with what its
    other round begins with."""

    def __init__(self, backend: DuckDB) -> None:
        self._backend = backend
        self._snapshot: _Snapshot | None = None

    async def __aenter__(self) -> Runner:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._snapshot is not None:
            self._backend.end(self._snapshot)

    async def run(self, queries: Sequence[str]) -> Exact:
        if self._snapshot is None and any(map(said, queries)):
            self._snapshot = self._backend.begin()
        return await self._backend.run(queries, self._snapshot)


class _Job(Generic[T]):
    """Work on one connection, which may be told to stop from another thread."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, file: DataFile, work: Work[T], *, stays: bool) -> None:
        self._connection, self._name, self._file, self._work, self._stopped = connection, name, file, work, False
        self._stays = stays

    def __call__(self) -> T:
        try:
            if self._stopped:
                raise BackendError("interrupted before it began")
            self._file.check()
            self._connection.execute(f"USE {quote_name(self._name)}")
            self._connection.execute(f"BEGIN TRANSACTION{'' if self._stays else ' READ ONLY'}")
            result = self._work(self._connection)
            self._connection.execute("COMMIT")
            self._file.check()
            return result
        except duckdb.Error as error:
            raise backend_error(error) from None
        except FileChanged as error:
            raise BackendError(str(error)) from None
        finally:
            if not self._stays:
                self._connection.close()

    async def stop(self, future: asyncio.Future[T]) -> None:
        """Interrupt until the thread has ended."""
        self._stopped = True
        while not future.done():
            self._connection.interrupt()
            await asyncio.wait([future], timeout=INTERRUPT_EVERY)
        if not future.cancelled():
            future.exception()  # nobody waits for it any more


def attached(config: DuckDBBackend, spill: Path | None = None, more: Sequence[str] = ()) -> tuple[duckdb.DuckDBPyConnection, str]:
    """Return a database in memory that is locked down and has nothing but the file in it, and what `more` attaches; and the name
    the file has there. `spill`: where to, if not beside the file. Raises duckdb.Error."""
    folder = spill or f"{config.path}.tmp"
    options: dict[str, str | bool | int | float | list[str]] = dict(LOCKED_DOWN) | {"temp_directory": str(folder)}
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
        for statement in more:
            root.execute(statement)
        set_for_measuring(root)
        root.execute("SET GLOBAL enable_external_access = false")
        root.execute("SET GLOBAL allowed_configs = ['perfect_ht_threshold', 'preserve_insertion_order']")  # see `duckdb_stages`
        root.execute("SET lock_configuration = true")
    except duckdb.Error:
        root.close()
        raise
    return root, str(name)


def set_for_measuring(root: duckdb.DuckDBPyConnection) -> None:
    """Make the settings that generated SQL relies on, of all connections to a database."""
    root.execute("SET GLOBAL TimeZone = 'UTC'")
    root.execute(f"SET GLOBAL perfect_ht_threshold = {duckdb_stages.unit_bits(root, PLACES)}")
    known = {name for (name,) in fetched(root, "SELECT name FROM duckdb_optimizers()")}
    root.execute(f"SET GLOBAL disabled_optimizers = '{','.join(n for n in UNSOUND if n in known)}'")


def backend_error(error: duckdb.Error) -> BackendError:
    """Return what the operator may be told of an error."""
    kind = type(error).__name__
    return BackendError(f"{kind}: {str(error).splitlines()[0]}" if isinstance(error, QUOTABLE) else kind)


def read(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """Return the rows of a measurement's query, which may have an index. Raises duckdb.Error, BackendError."""
    with duckdb_stages.indexing(connection, query, PLACES):
        return as_table(connection, query)
