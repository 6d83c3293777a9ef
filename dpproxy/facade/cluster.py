"""One embedded PostgreSQL, supervised: started on new files, started again when it dies, made anew, stopped and removed.

Knows: a server and what makes its files, whom to ask to fill them, how far they have grown since. Must not know: policies,
clients, limits. The files are a copy of a pattern, since a copy takes a third of the time that making them takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpproxy import postgres_connections
from dpproxy.facade import usage
from dpproxy.facade.account import Account, FacadeError, Place, choose_account, choose_place, find_binaries
from dpproxy.facade.server import CHANGES, SUPERUSER, Bounds, EmbeddedServer
from dpproxy.postgres_connections import FAILURES

LOG = logging.getLogger(__name__)

ALARM = 5  # attempts that fail before somebody has to look
LONGEST_PAUSE = 30.0  # seconds between two attempts, doubling up to here from 0.2 s
LITTLE = 1 << 20  # bytes of temporary tables of which nobody asks whose they are


@dataclass(frozen=True)
class Endpoint:
    """Where sessions connect, as which role they like: a unix socket (`path`), or a host with the roles' password."""

    path: str | None = None
    host: str = ""
    port: int = 0
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Held:
    """What a server keeps on disk, in bytes: `tables`, the temporary tables of each server process, and `grown`, what no
    process will give back: the catalog, whose rows outlive the tables they describe, the server's log, tables of sessions
    that are gone. What the server had when it was filled does not count."""

    tables: Counter[int] = field(default_factory=Counter)
    grown: int = 0


def plain(folder: Path, connections: int = 20) -> Cluster:
    """Return an empty PostgreSQL for whoever needs one, not yet started, with `postgres` for its superuser and its database."""
    account = choose_account()
    return Cluster(choose_place(folder, account, find_binaries()), account, connections)


Fill = Callable[[Any], Awaitable[None]]
"""Given a superuser's connection to the only database of new files; it may rename it."""


class Cluster:
    """Runs one server. `database` is its name. `pattern`: a folder of files to copy; None: made by initdb. `fill` is called again
    whenever files were lost."""

    def __init__(
        self,
        place: Place,
        account: Account,
        connections: int,
        database: str = SUPERUSER,
        pattern: Path | None = None,
        fill: Fill | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._database = database
        self._server = EmbeddedServer(place, account, connections, self._died, bounds)
        self._pattern = pattern
        self._fill = fill
        self._restarting: asyncio.Task[None] | None = None
        self._lost = False  # the server died since it was last started
        self._filled = 0  # bytes of its own files when they were filled

    @property
    def socket(self) -> str:
        """Return the path of the server's unix socket."""
        return str(self._server.place.socket)

    @property
    def endpoint(self) -> Endpoint:
        """Return where sessions connect. Raises ConnectionRefusedError while the server is being started again, perhaps without
        its database yet."""
        if self.restarting:
            raise ConnectionRefusedError("the facade is being started again")
        return Endpoint(self.socket)

    @property
    def restarting(self) -> bool:
        """Return whether it is being started again, or made anew."""
        return self._restarting is not None and not self._restarting.done()

    @property
    def pid(self) -> int | None:
        return self._server.pid

    @property
    def data(self) -> Path:
        """Return the folder of its files."""
        return self._server.place.data

    async def owners(self) -> dict[int, int]:
        """Server processes by the number of their temporary schema."""
        async with self.connected() as connection:
            found = await connection.fetch("SELECT n, pg_stat_get_backend_pid(n) FROM pg_stat_get_backend_idset() n")
        return {number: pid for number, pid in found if pid is not None}

    async def held(self) -> Held:
        """Return what the server keeps on disk. Raises nothing: of one that does not answer all is its own."""
        files = await asyncio.to_thread(usage.files, self.data)
        if files.temporary.total() < LITTLE:
            return Held(grown=self._grown(files))
        owners: dict[int, int] = {}
        with contextlib.suppress(*FAILURES):
            owners = await self.owners()
        tables = Counter({owners[number]: size for number, size in files.temporary.items() if number in owners})
        grown = self._grown(files)
        if lost := files.temporary.keys() - owners.keys():  # unless their process went, with them, while it was asked about
            later = (await asyncio.to_thread(usage.files, self.data)).temporary
            grown += sum(min(files.temporary[number], later[number]) for number in lost)
        return Held(tables, grown)

    def _grown(self, files: usage.Files) -> int:
        return max(0, self._own(files) - self._filled)

    def _own(self, files: usage.Files) -> int:
        log = 0
        with contextlib.suppress(FileNotFoundError):  # it goes with large ones when the files are made anew
            log = self._server.place.log.stat().st_size
        return files.others + max(0, files.changes - CHANGES) + log

    async def start(self) -> None:
        """Start the server and fill its database. Raises FacadeError, and whatever `fill` raises."""
        await self._server.create(self._pattern)
        await self._server.start()
        if self._fill is not None:
            async with self.connected("template1") as connection:
                await self._fill(connection)
        self._filled = self._own(await asyncio.to_thread(usage.files, self.data))

    def make_anew(self) -> None:
        """End all sessions and make the files anew, so that what they have grown by is given back. Returns at once; who
        connects meanwhile waits."""
        if not self.restarting:
            self._restarting = asyncio.ensure_future(self._revive(anew=True))

    async def take_place(self) -> None:
        """Do nothing: nobody else is at this address."""

    async def execute(self, script: str) -> None:
        """Run a script in the server's database, as its owner. Raises asyncpg's errors, OSError."""
        async with self.connected() as connection:
            await connection.execute(script)

    async def stop(self) -> None:
        """Stop the server and remove what it kept. Idempotent."""
        if self._restarting:
            self._restarting.cancel()
            with contextlib.suppress(asyncio.CancelledError, FacadeError):
                await self._restarting
        await self._server.stop()
        await asyncio.to_thread(shutil.rmtree, self._server.place.data, ignore_errors=True)

    @asynccontextmanager
    async def connected(self, database: str | None = None) -> AsyncIterator[Any]:
        """Connect as the owner of everything."""
        connection = await postgres_connections.connect(
            host=str(self._server.place.home),
            user=SUPERUSER,
            database=database or self._database,
            statement_cache_size=0,
            timeout=30,
        )
        try:
            yield connection
        finally:
            await connection.close()

    def _died(self) -> None:
        self._lost = True
        if self.restarting:
            return  # it is tried again
        LOG.error("facade: the postmaster died; starting it again")
        self._restarting = asyncio.ensure_future(self._revive())

    async def _revive(self, *, anew: bool = False) -> None:
        """Start again on the same files; when they are unusable (or `anew`), make new ones. What fails is tried again for as long
        as it takes: a disk that is full now has room later."""
        for attempt in itertools.count():
            self._lost = False
            try:
                if attempt == 0 and not anew:
                    await self._server.restart()
                else:
                    await asyncio.sleep(_pause(attempt))
                    await self._server.stop()
                    await self.start()
                if self._lost:
                    raise FacadeError("the postmaster died again")
            except Exception:  # whatever it is: without another attempt the role stays without its server
                LOG.exception("facade: restart failed")
                if attempt + 1 == ALARM:
                    LOG.critical("facade: still down; it is tried again every %.0f seconds", LONGEST_PAUSE)
            else:
                LOG.info("facade: running again")
                return


def _pause(attempt: int) -> float:
    """Seconds before an attempt."""
    return min(LONGEST_PAUSE, 0.1 * 2 ** min(attempt, 20)) if attempt else 0.0
