"""The facade as the rest of the proxy sees it: start, apply a policy, say where to connect, stop.

Knows: the embedded server or the address of another, when to build databases. Must not know: clients, budgets, private
rows; it has no way to reach one. The embedded server is supervised: one that dies is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from dpproxy.facade.account import choose_account, choose_place
from dpproxy.facade.binaries import OLDEST, FacadeError, find_binaries
from dpproxy.facade.building import Applied, Builder, PublicRows, Ready, digest
from dpproxy.facade.server import SUPERUSER, Bounds, EmbeddedServer, kill_strays
from dpproxy.policy.catalog import Catalog, TableName
from dpproxy.policy.model import Policy
from dpproxy.policy.password import make_verifier

LOG = logging.getLogger(__name__)

PUBLIC_CAP = 1_000_000  # rows of a public table kept here: tens of megabytes and a second or two to fill
RESTARTS = 5  # attempts, doubling from 0.1 s, before the facade is declared dead


@dataclass(frozen=True)
class Endpoint:
    """Where sessions connect, as which role they like: a unix socket (`path`), or a host with the roles' password."""

    path: str | None = None
    host: str = ""
    port: int = 0
    password: str | None = field(default=None, repr=False)


class _Applying:
    """What both kinds of facade share: databases made from policies."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._applied: dict[str, Applied] = {}
        self._lock = asyncio.Lock()

    def withheld(self, dataset: str) -> frozenset[TableName]:
        """Public tables of the dataset with too many rows to be kept here: joined below a measurement only."""
        return self._applied[dataset].withheld

    async def apply(self, policy: Policy, catalog: Catalog, public_rows: PublicRows, ready: Ready | None = None) -> None:
        """Build the dataset's database, or build it anew when policy or catalog changed. Raises FacadeError.

        `ready` is awaited before the old one is replaced; not when nothing has to be.
        """
        async with self._lock:
            current = self._applied.get(policy.dataset)
            if current is not None and current.digest == digest(policy, catalog):
                return
            applied = Applied(policy, catalog, public_rows, digest(policy, catalog))
            try:
                await self._builder.build(applied, ready)
            except (asyncpg.PostgresError, OSError) as error:
                raise FacadeError(f"dataset {policy.dataset}: {error}") from error
            self._applied[policy.dataset] = applied


class Facade(_Applying):
    """One embedded PostgreSQL with a database per dataset. `await start(state)`, `apply(...)`, `stop()`."""

    def __init__(
        self,
        *,
        folder: str | Path | None = None,
        connections: int = 520,
        public_cap: int = PUBLIC_CAP,
        bounds: Bounds | None = None,
    ) -> None:
        """`folder`: the bin folder of an installed PostgreSQL instead of the wheel's. `bounds`: of each session."""
        super().__init__(Builder(self._connected, public_cap))
        self._folder = folder
        self._bounds = bounds
        self._connections = connections
        self._server: EmbeddedServer | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._state_lock: int | None = None

    @property
    def socket(self) -> str:
        """Path of the server's unix socket."""
        if self._server is None:
            raise FacadeError("the facade is not started")
        return str(self._server.place.socket)

    @property
    def endpoint(self) -> Endpoint:
        """Raises ConnectionRefusedError while the server is being started again, perhaps without its databases yet."""
        if self._restarting is not None and not self._restarting.done():
            raise ConnectionRefusedError("the facade is being started again")
        return Endpoint(self.socket)

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server else None

    @property
    def data(self) -> Path | None:
        """The folder of the cluster, while there is one."""
        return self._server.place.data if self._server else None

    async def owners(self) -> dict[int, int]:
        """Server processes by the number of their temporary schema."""
        async with self._connected() as connection:
            found = await connection.fetch("SELECT n, pg_stat_get_backend_pid(n) FROM pg_stat_get_backend_idset() n")
        return {number: pid for number, pid in found if pid is not None}

    async def start(self, state: Path) -> None:
        """Make a cluster under `state` and start it. Raises FacadeError, also when another proxy uses `state`."""
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state_lock = _locked(state / "facade.lock")
        _forget_earlier(state)
        binaries, account = find_binaries(self._folder), choose_account()
        place = await asyncio.to_thread(choose_place, state, account, binaries)
        (state / "facade.path").write_bytes(os.fsencode(place.home))
        self._server = EmbeddedServer(place, account, self._connections, self._died, self._bounds)
        await self._server.create()
        await self._server.start()
        async with self._connected() as connection:
            await connection.execute(
                "REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC; REVOKE ALL ON DATABASE template0 FROM PUBLIC"
            )

    async def stop(self) -> None:
        """Stop the server and remove what it kept. Idempotent."""
        if self._restarting:
            self._restarting.cancel()
            with contextlib.suppress(asyncio.CancelledError, FacadeError):
                await self._restarting
        if self._server is not None:
            await self._server.stop()
            place = self._server.place
            shutil.rmtree(place.home if place.temporary else place.data, ignore_errors=True)
            self._server = None
        if self._state_lock is not None:
            os.close(self._state_lock)
            self._state_lock = None

    @contextlib.asynccontextmanager
    async def _connected(self, database: str | None = None) -> AsyncIterator[Any]:
        assert self._server is not None
        connection = await asyncpg.connect(
            host=str(self._server.place.home),
            user=SUPERUSER,
            database=database or SUPERUSER,
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
        """Start again on the same files; when they are unusable, make new ones and apply every policy again."""
        assert self._server is not None
        async with self._lock:
            for attempt in range(RESTARTS):
                try:
                    if attempt == 0:
                        await self._server.restart()
                    else:
                        await asyncio.sleep(0.1 * 2**attempt)
                        await self._rebuild()
                    LOG.info("facade: running again")
                    return
                except (FacadeError, OSError, asyncpg.PostgresError):
                    LOG.exception("facade: restart failed")
        LOG.critical("facade: given up")

    async def _rebuild(self) -> None:
        assert self._server is not None
        await self._server.stop()
        await self._server.create()
        await self._server.start()
        for applied in self._applied.values():
            await self._builder.build(applied)


class RemoteFacade(_Applying):
    """The same on a PostgreSQL that somebody else runs, given as a DSN of a superuser there.

    Its roles log in with one random password, new at each start. The server must be for this proxy alone: what an
    analyst may do in other databases of it is not looked at.
    """

    def __init__(self, dsn: str, *, public_cap: int = PUBLIC_CAP) -> None:
        self._dsn = dsn
        self._password = secrets.token_urlsafe(24)
        self._address: tuple[str, int] = ("", 0)
        super().__init__(Builder(self._connected, public_cap, make_verifier(self._password)))

    @property
    def endpoint(self) -> Endpoint:
        host, port = self._address
        return Endpoint(host=host, port=port, password=self._password)

    async def start(self, state: Path) -> None:
        """Raises FacadeError when the server cannot be reached, is too old, or the user is no superuser."""
        try:
            async with self._connected() as connection:
                self._address = connection._addr  # host and port as asyncpg has read them from the DSN
                if not isinstance(self._address, tuple):
                    raise FacadeError("the facade's DSN must name a host, not a socket")
                if connection.get_server_version().major < OLDEST:
                    raise FacadeError(f"the facade's server is older than PostgreSQL {OLDEST}")
                if connection.get_settings().is_superuser != "on":
                    raise FacadeError("the facade's DSN must be of a superuser")
        except (asyncpg.PostgresError, OSError, ValueError) as error:
            raise FacadeError(f"the facade's server cannot be used: {error}") from error

    async def stop(self) -> None:
        """Nothing of ours is running there."""

    @contextlib.asynccontextmanager
    async def _connected(self, database: str | None = None) -> AsyncIterator[Any]:
        more = {"database": database} if database else {}
        connection = await asyncpg.connect(self._dsn, statement_cache_size=0, timeout=30, **more)
        try:
            yield connection
        finally:
            await connection.close()


def _locked(path: Path) -> int:
    """An exclusive lock held until `stop`: two proxies must not share a cluster. Raises FacadeError."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise FacadeError(f"another proxy uses {path.parent}") from error
    return handle


def _forget_earlier(state: Path) -> None:
    """Clear what a proxy that was killed left behind: its server, and its temporary folder."""
    with contextlib.suppress(OSError):
        home = Path(os.fsdecode((state / "facade.path").read_bytes()))
        kill_strays(home / "data")
        if home.name.startswith("dpproxy-"):
            shutil.rmtree(home, ignore_errors=True)
