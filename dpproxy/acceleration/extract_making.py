"""An extract is made: tables of a PostgreSQL database, as they are at one moment, written into a DuckDB file.

Knows: one transaction of PostgreSQL's, COPY, DuckDB, the files of copies. Must not know: policies, plans, who waits for the
extract. All tables are read by one connection in one REPEATABLE READ, READ ONLY transaction, so they are of one moment, and no
load was in the middle of any at that moment (`postgres_snapshot`). What was read is held against what PostgreSQL says it
sent, row for row in number, and the tables against the shapes that were asked for.

An extract is named after what it follows from (`about`), after the epoch of the data, which a query tells in the very snapshot,
and by a number that grows: the last of a name is the one that holds. Where the epoch moves while extracts are made, one that was
overtaken holds for a while (`holds`): it is of a committed state, and names that state's epoch. Nothing takes its name before all
of it is on the disk; the one before is kept until then.

Rows of people are sorted by the column that leads to the person. They arrive in a file beside the extract, which takes them in
order, and that file is removed.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import asyncpg
import duckdb
import pyarrow as pa

from dpproxy import postgres_connections
from dpproxy.acceleration.copy_files import CopyError, CopyFolder, Manifest, free
from dpproxy.acceleration.copy_making import LEAST_FREE, MEMORY, Told, on_disk
from dpproxy.acceleration.extract_tables import ExtractTable
from dpproxy.backends import postgres_catalog
from dpproxy.backends.base import BackendError
from dpproxy.backends.duckdb import LOCKED_DOWN, backend_error, set_for_measuring
from dpproxy.backends.duckdb_catalog import fetched
from dpproxy.backends.postgres import CONNECT_TIMEOUT, SESSION, Isolation, number, own_query
from dpproxy.backends.postgres import backend_error as server_error
from dpproxy.backends.postgres_snapshot import FORMAT, NULL, Locks, Moved, planned, read_csv, whole
from dpproxy.policy.joined_keys import stored
from dpproxy.policy.model import PostgresBackend
from dpproxy.policy.names import quote_name
from dpproxy.postgres_connections import FAILURES

BATCH: Final = 16 << 20
"""Bytes of COPY that are written at once; a longer row is one batch."""
PATIENCE: Final = 600.0
"""Seconds that whoever loads the tables may take: nobody waits for an extract as for an answer."""
ARRIVING: Final = "arriving"
"""The database of rows that are to be sorted."""
SHARE: Final = 10
"""An extract holds for at least so many times what it took to make, whatever becomes of the epoch: making takes a tenth of the
time at most."""
LEAST_HELD: Final = 60.0
"""Seconds that one holds whose epoch was past when it was made: each change of extract ends sessions."""
NUMBER: Final = "\x00"
"""Stands in the name of an epoch for the number that its query tells."""

Part = Callable[[int], float]
"""Which part of all the work is done, from 0 to 1, after so many rows of a table."""


@dataclass(frozen=True)
class ExtractJob:
    """What is to be extracted. `about`: a digest of all that an extract follows from but the data; `epoch`: of the data as
    they were just now. Where a `query` tells a number of it, `numbered` is its name with `NUMBER` for that. `disk`: bytes it may
    take; `after`: a key that is too old to be this extract."""

    backend: PostgresBackend
    tables: tuple[ExtractTable, ...]
    about: str
    epoch: str
    folder: CopyFolder
    disk: int
    query: str | None = None
    numbered: str = ""
    after: str = ""

    def newest(self) -> str | None:
        """Return the key of the last extract of the epoch; where there is none, of the last one that was overtaken and still
        holds. None where there is none, or it is too old."""
        found = max(self.folder.keys(self._named(self.epoch)), key=_serial, default=None) or self._overtaken()
        return found if found is not None and _serial(found) > _serial(self.after) else None

    def _overtaken(self) -> str | None:
        """Only a query's epoch moves by itself."""
        found = max(self.folder.keys(f"{self.about}-"), key=_serial, default=None) if self.query is not None else None
        manifest = self.folder.manifest(found) if found is not None else None
        return found if manifest is not None and manifest.overtaken and holds(manifest) else None

    def there(self) -> bool:
        return self.newest() is not None

    def make(self, told: Told) -> Manifest:
        return make(self, told)

    def tidy(self, *, spilled: bool = False) -> None:
        """Remove what is older than the last extract; `spilled`: also where those spilled that had gone before."""
        self.folder.remove(but=max(self.folder.keys(), key=_serial, default=None), spilled=spilled)

    def key(self, epoch: str) -> str:
        """Return a new key, after all that there are."""
        latest = max(map(_serial, self.folder.keys()), default=0)
        return f"{self._named(epoch)}{max(time.time_ns(), latest + 1):016x}"

    def _named(self, epoch: str) -> str:
        return f"{self.about}-{hashlib.sha256(epoch.encode()).hexdigest()[:16]}-"


def _serial(key: str) -> int:
    """Which of all extracts in a folder it is, in their order."""
    last = key.rpartition("-")[2]
    with suppress(ValueError):
        return int(last, 16)
    return 0


def holds(manifest: Manifest) -> bool:
    """Return whether an extract is to be used for a while yet, though the epoch may be another one."""
    least = LEAST_HELD if manifest.overtaken else 0.0
    return time.time() - _serial(manifest.key) / 1e9 < max(least, SHARE * manifest.seconds)


def moment(key: str) -> dt.datetime:
    """Return when the snapshot of an extract was taken."""
    return dt.datetime.fromtimestamp(_serial(key) / 1e9, dt.UTC)


def make(job: ExtractJob, told: Told) -> Manifest:
    """Make an extract and return its manifest. For who has the folder's lock. Raises CopyError; what was there stays."""
    began = time.monotonic()
    try:
        job.tidy(spilled=True)
        key, epoch = asyncio.run(_read(job, told))
        size, content = on_disk(job.folder.unfinished(key))
        names = tuple(table.held.source[1] for table in job.tables)
        facts = (key, size, content, names, time.time(), time.monotonic() - began)
        manifest = Manifest(*facts, epoch=epoch, overtaken=epoch != job.epoch)
        job.folder.finish(manifest)
        return manifest
    except duckdb.Error as error:
        raise CopyError(str(backend_error(error))) from None
    except FAILURES as error:  # an OSError may be of the disk: which, the text says
        raise CopyError(f"the extract was not made: {server_error(error)}") from None
    except (BackendError, pa.ArrowException, ValueError) as error:
        text = str(error) if isinstance(error, BackendError) else type(error).__name__
        raise CopyError(f"the extract was not made: {text}") from None
    finally:
        job.tidy()


async def _read(job: ExtractJob, told: Told) -> tuple[str, str]:
    """Read all tables, in one snapshot; return the key and the epoch."""
    async with AsyncExitStack() as stack:
        tables = await whole(stack, partial(_begun, job, "read_committed"), partial(_begun, job), _locks(job), PATIENCE)
        connection = tables.connection
        found = await postgres_catalog.introspect(connection)
        if any(found.tables.get(table.source.name) != stored(table.source) for table in job.tables):
            raise CopyError("the tables were changed just now")
        key = job.key(epoch := await _epoch(connection, job))
        target = _Target(job, key)
        try:
            for table, part in zip(job.tables, await _parts(connection, job), strict=True):
                await _copied(connection, target, table, part, told)
            await tables.check()
            target.finish()
        except Moved:
            raise CopyError("tables were replaced while they were read") from None
        finally:
            target.close()
    return key, epoch


async def _epoch(connection: asyncpg.Connection, job: ExtractJob) -> str:
    """The epoch of the snapshot."""
    if job.query is None:
        return job.epoch
    return job.numbered.replace(NUMBER, str(await number(connection, job.query)))


def _locks(job: ExtractJob) -> Locks:
    epoch = own_query(job.query).statements if job.query is not None else ()
    return Locks((*planned([table.query for table in job.tables]).statements, *epoch))


@asynccontextmanager
async def _begun(job: ExtractJob, isolation: Isolation = "repeatable_read") -> AsyncIterator[asyncpg.Connection]:
    """A connection in a transaction."""
    connection = await postgres_connections.connect(
        job.backend.dsn, password=job.backend.password, timeout=CONNECT_TIMEOUT, server_settings=SESSION
    )
    try:
        await connection.transaction(isolation=isolation, readonly=True).start()
        yield connection
    finally:
        connection.terminate()  # it has nothing to say, and a server that is away does not hear a goodbye


async def _parts(connection: asyncpg.Connection, job: ExtractJob) -> list[Part]:
    """Of each table how far it is, by its rows and those before it, as many as PostgreSQL estimates there are."""
    names = [postgres_catalog.source(table.source) for table in job.tables]
    query = "SELECT greatest(reltuples::float8, 1) FROM unnest($1::text[]) WITH ORDINALITY AS t(name, n) "
    rows = await connection.fetch(f"{query} JOIN pg_class ON oid = name::regclass ORDER BY n", names)
    sizes = [float(size) for (size,) in rows]
    return [partial(_part, sum(sizes[:i]), size, sum(sizes)) for i, size in enumerate(sizes)]


def _part(before: float, size: float, total: float, rows: int) -> float:
    return (before + min(rows, size)) / total


async def _copied(connection: asyncpg.Connection, target: _Target, table: ExtractTable, part: Part, told: Told) -> None:
    """A table, batch by batch. PostgreSQL sends each row in a message of its own, and asyncpg passes messages on whole."""
    name, rows, waiting = str(table.held.name), 0, bytearray()
    told(name, part(0))
    target.begin(table)

    async def take(data: bytes) -> None:
        nonlocal rows
        waiting.extend(data)
        if len(waiting) >= BATCH:
            rows += target.add(table, bytes(waiting))
            waiting.clear()
            told(name, part(rows))

    status = await connection.copy_from_query(table.query, output=take, format=FORMAT, null=NULL)
    rows += target.add(table, bytes(waiting))
    target.end(table)
    if str(status) != f"COPY {rows}" or target.rows(table) != rows:
        raise CopyError(f"of table {name} not all rows arrived")


class _Target:
    """The DuckDB file, while it is written."""

    def __init__(self, job: ExtractJob, key: str) -> None:
        self._job, self._key = job, key
        path, spill = job.folder.unfinished(key), job.folder.spill(key)
        options: dict[str, str | bool | int | float | list[str]] = dict(LOCKED_DOWN)
        options |= {"memory_limit": MEMORY, "temp_directory": str(spill)}
        del options["enable_external_access"]  # as soon as the file is open
        self._root = duckdb.connect(str(path), config=options)
        spill.mkdir(mode=0o700)
        place = str(spill / ARRIVING).replace("'", "''")
        self._root.execute(f"ATTACH '{place}' AS {ARRIVING} (TYPE duckdb)")
        for file in (path, spill / ARRIVING):
            os.chmod(file, 0o600)
        set_for_measuring(self._root)
        self._root.execute("SET GLOBAL enable_external_access = false")
        self._root.execute("SET lock_configuration = true")

    def begin(self, table: ExtractTable) -> None:
        self._root.execute("BEGIN")
        self._run(f"CREATE TABLE {_arriving(table)} AS SELECT {', '.join(table.items)} FROM arrived LIMIT 0", table, b"")

    def add(self, table: ExtractTable, data: bytes) -> int:
        """Write rows, and return how many. Raises CopyError where there is no room for them."""
        self._check_room()
        return self._run(f"INSERT INTO {_arriving(table)} SELECT {', '.join(table.items)} FROM arrived", table, data)

    def _run(self, statement: str, table: ExtractTable, data: bytes) -> int:
        arrived = read_csv(data, [(f"c{i}", type_) for i, type_ in enumerate(table.read)])
        self._root.register("arrived", arrived)
        self._root.execute(statement)
        self._root.unregister("arrived")
        return int(arrived.num_rows)

    def end(self, table: ExtractTable) -> None:
        """All rows have arrived. Raises CopyError where there is no room to sort them."""
        self._root.execute("COMMIT")
        if table.order:
            self._check_room()
            order = quote_name(table.order)
            self._root.execute(f"CREATE TABLE {_place(table)} AS SELECT * FROM {_arriving(table)} ORDER BY {order}")
            self._root.execute(f"DROP TABLE {_arriving(table)}")
            self._check_room()

    def rows(self, table: ExtractTable) -> int:
        return int(fetched(self._root, f"SELECT count(*) FROM {_place(table)}")[0][0])

    def finish(self) -> None:
        self._root.execute("CHECKPOINT")
        self._check_room()

    def close(self) -> None:
        self._root.close()

    def _check_room(self) -> None:
        folder, disk = self._job.folder, self._job.disk
        if free(folder.path) < LEAST_FREE:
            raise CopyError(f"{folder.path} has less than {LEAST_FREE:,} bytes free")
        if folder.taken(self._key) > disk:
            raise CopyError(f"it takes more disk than it may: {disk:,} bytes (`accelerate: {{ mode: extract, disk: ... }}`)")


def _arriving(table: ExtractTable) -> str:
    """Where rows are written as they come."""
    return f"{ARRIVING}.{_place(table)}" if table.order else _place(table)


def _place(table: ExtractTable) -> str:
    return ".".join(quote_name(part) for part in table.held.source)
