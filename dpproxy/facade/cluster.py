"""One embedded PostgreSQL, supervised: started on new files, started again when it dies, stopped and removed.

Knows: a server and what makes its files, whom to ask to fill them. Must not know: policies, clients. The files are a copy of
a pattern, since a copy takes a third of the time that making them takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpproxy import postgres_connections
from dpproxy.facade.account import Account, Place, choose_account, choose_place
from dpproxy.facade.binaries import FacadeError, find_binaries
from dpproxy.facade.server import SUPERUSER, Bounds, EmbeddedServer
from dpproxy.postgres_failures import FAILURES

LOG = logging.getLogger(__name__)

RESTARTS = 5  # attempts, doubling from 0.1 s, before the facade is declared dead


@dataclass(frozen=True)
class Endpoint:
    """Says where sessions connect, as which role they like: a unix socket (`path`), or a host with the roles' password."""

    path: str | None = None
    host: str = ""
    port: int = 0
    password: str | None = field(default=None, repr=False)


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

    @property
    def socket(self) -> str:
        """Return the path of the server's unix socket."""
        return str(self._server.place.socket)

    @property
    def endpoint(self) -> Endpoint:
        """Return where sessions connect. Raises ConnectionRefusedError while the server is being started again, perhaps without
        its database yet."""
        if self._restarting is not None and not self._restarting.done():
            raise ConnectionRefusedError("the facade is being started again")
        return Endpoint(self.socket)

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

    async def start(self) -> None:
        """Start the server and fill its database. Raises FacadeError, and whatever `fill` raises."""
        await self._server.create(self._pattern)
        await self._server.start()
        if self._fill is not None:
            async with self.connected("template1") as connection:
                await self._fill(connection)

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
        LOG.error("facade: the postmaster died; starting it again")
        self._restarting = asyncio.ensure_future(self._revive())

    async def _revive(self) -> None:
        """Start again on the same files; when they are unusable, make new ones."""
        for attempt in range(RESTARTS):
            try:
                if attempt == 0:
                    await self._server.restart()
                else:
                    await asyncio.sleep(0.1 * 2**attempt)
                    await self._server.stop()
                    await self.start()
                LOG.info("facade: running again")
                return
            except (FacadeError, *FAILURES):
                LOG.exception("facade: restart failed")
        LOG.critical("facade: given up")
