"""The facade as the rest of the proxy sees it: a server of its own for each role of each dataset.

Knows: where servers are, how one is made and filled. Must not know: clients, budgets, private rows; it has no way to reach
one. Roles share no server, since whatever belongs to a whole server is seen by all of its roles: numbers of transactions,
objects and sessions, statistics, names of roles and databases, locks, notifications. No list of what to hide can be
complete, and each PostgreSQL adds to it; two servers have nothing in common.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import asyncpg
import pyarrow as pa

from dpproxy.facade import ddl
from dpproxy.facade.account import Account, FacadeError, Place, choose_account, choose_place, find_binaries
from dpproxy.facade.cluster import Cluster, Endpoint
from dpproxy.facade.database import PublicRows, fill
from dpproxy.facade.server import Bounds, kill_strays, make_pattern
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.model import Policy
from dpproxy.postgres_connections import FAILURES
from dpproxy.private_files import private_folder, write_whole
from dpproxy.table_terms import TableName

PUBLIC_CAP = 1_000_000  # rows of a public table kept here: tens of megabytes and a second or two to fill


class RoleServer(Protocol):
    """Serves one role of a dataset."""

    @property
    def endpoint(self) -> Endpoint:
        """Return where its sessions connect. Raises ConnectionRefusedError while it is being started again."""
        ...

    async def take_place(self) -> None:
        """Let whoever connects from now on come here, and not where the one before it led."""
        ...

    async def execute(self, script: str) -> None:
        """Run a script in the role's database, as its owner."""
        ...

    async def stop(self) -> None:
        """End the sessions that are there, and the server. Idempotent."""
        ...


class Rooms:
    """What the roles of one dataset connect to, under one policy. Rooms of an earlier policy may be in use at the same time."""

    def __init__(
        self, policy: Policy, catalog: Catalog, servers: Mapping[str, RoleServer], withheld: frozenset[TableName]
    ) -> None:
        """Hold the servers of all roles. `withheld`: public tables with too many rows to be kept here, which are joined below a
        measurement only."""
        self._policy = policy
        self._catalog = catalog
        self._servers = servers
        self.withheld = withheld
        self.closed = False

    def server(self, role: str) -> RoleServer:
        return self._servers[role]

    def endpoint(self, role: str) -> Endpoint:
        """Return where sessions of a role connect. Raises ConnectionRefusedError."""
        return self._servers[role].endpoint

    async def take_place(self) -> None:
        """Take the place of the rooms before these. Raises FacadeError."""
        with _told(self._policy.dataset):
            await asyncio.gather(*(server.take_place() for server in self._servers.values()))

    async def withdraw(self, policy: Policy, catalog: Catalog) -> None:
        """Let nobody read here any more what a newer policy does not show, even in what has begun; what the newer policy shows
        stays readable."""
        for name, server in self._servers.items():
            now = ddl.Shown(policy, catalog, policy.roles[name]) if name in policy.roles else None
            script = "".join(ddl.withdrawal_script(ddl.Shown(self._policy, self._catalog, self._policy.roles[name]), now))
            try:
                if script:
                    await server.execute(script)
            except FAILURES:
                await server.stop()

    @property
    def servers(self) -> Mapping[tuple[str, str], RoleServer]:
        """Return the servers by dataset and role."""
        return {(self._policy.dataset, role): server for role, server in self._servers.items()}

    async def close(self) -> None:
        """Stop all servers of these rooms. Idempotent."""
        self.closed = True
        await asyncio.gather(*(server.stop() for server in self._servers.values()))


class Facade:
    """Runs embedded servers, one for each role of each dataset. `await start(state)`, `open(...)`, `stop()`."""

    def __init__(
        self,
        *,
        folder: str | Path | None = None,
        connections: int = 520,
        public_cap: int = PUBLIC_CAP,
        bounds: Bounds | None = None,
    ) -> None:
        """Choose the programs and the limits. `folder`: the bin folder of an installed PostgreSQL instead of the wheel's.
        `connections`: of each server. `bounds`: of each session."""
        self._bounds = bounds
        self._folder = folder
        self._connections = connections
        self._public_cap = public_cap
        self._place: Place | None = None
        self._account: Account | None = None
        self._count = 0
        self._open: list[Rooms] = []
        self._state_lock: int | None = None

    async def start(self, state: Path) -> None:
        """Make a place under `state`. Raises FacadeError, also when another proxy uses `state`."""
        private_folder(state)
        self._state_lock = _locked(state / "facade.lock")
        _forget_earlier(state)
        binaries, self._account = find_binaries(self._folder), choose_account()
        self._place = await asyncio.to_thread(choose_place, state, self._account, binaries)
        write_whole(state / "facade.path", os.fsencode(self._place.home), replace=True)
        await asyncio.to_thread(make_pattern, self._place, self._account)

    async def open(self, policy: Policy, catalog: Catalog, public_rows: PublicRows) -> Rooms:
        """Start servers for all roles of a policy. Raises FacadeError; then nothing was made."""
        rows, withheld, clusters = _once(public_rows), set[TableName](), dict[str, Cluster]()

        async def made(name: str) -> None:
            shown = ddl.Shown(policy, catalog, policy.roles[name])

            async def filled(connection: asyncpg.Connection[asyncpg.Record]) -> None:
                await _name(connection, policy.dataset)
                await connection.execute("".join(ddl.role_script(shown)))
                withheld.update(await fill(connection, shown, policy.dataset, rows, self._public_cap))
                if shown.role.temp_tables:
                    await _vacuum(connection)
                await connection.execute("CHECKPOINT")  # commits are asynchronous: from here a killed postmaster loses nothing

            cluster = clusters[name] = self._cluster(policy.dataset, filled)
            await cluster.start()

        outcomes = await asyncio.gather(*map(made, policy.roles), return_exceptions=True)
        rooms = Rooms(policy, catalog, clusters, frozenset(withheld))
        failures = [outcome for outcome in outcomes if outcome is not None]
        if failures:
            await rooms.close()
            with _told(policy.dataset):
                raise failures[0]
        self._open.append(rooms)
        return rooms

    def _cluster(self, database: str, filled: Callable[[asyncpg.Connection[asyncpg.Record]], Awaitable[None]]) -> Cluster:
        if self._place is None or self._account is None:
            raise FacadeError("the facade is not started")
        self._count += 1
        home = self._place.home / str(self._count)
        home.mkdir(mode=0o700, exist_ok=True)
        self._account.own(home)
        place = Place(home, self._place.binaries, temporary=False)
        return Cluster(place, self._account, self._connections, database, self._place.data, filled, self._bounds)

    def clusters(self) -> list[tuple[tuple[str, str], Cluster]]:
        """Return all clusters that run, each with its dataset and role, also those of policies that are being left: a role may
        have several."""
        self._open = [rooms for rooms in self._open if not rooms.closed]
        return [(role, server) for rooms in self._open for role, server in rooms.servers.items() if isinstance(server, Cluster)]

    async def stop(self) -> None:
        """Stop all servers and remove what they kept. Idempotent."""
        await asyncio.gather(*(rooms.close() for rooms in self._open))
        self._open.clear()
        if self._place is not None:
            shutil.rmtree(self._place.home if self._place.temporary else self._place.data, ignore_errors=True)
            self._place = None
        if self._state_lock is not None:
            os.close(self._state_lock)
            self._state_lock = None


async def _name(connection: asyncpg.Connection[asyncpg.Record], database: str) -> None:
    """The only database there is gets the dataset's name; nobody is asked for another to rename it from."""
    ddl.quoted(database)
    await connection.execute("UPDATE pg_database SET datname = $1 WHERE datname = current_database()", database)
    await connection.execute("DELETE FROM pg_shdescription WHERE classoid = 'pg_database'::regclass")


async def _vacuum(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Have rows of the catalog removed whose temporary tables are gone, and tables whose sessions are. It costs a process, and
    where no temporary tables are made there is nothing to remove."""
    await connection.execute("ALTER SYSTEM SET autovacuum = on")
    await connection.execute("SELECT pg_reload_conf()")


def _once(public_rows: PublicRows) -> PublicRows:
    """Each table is read once for all roles."""
    found: dict[TableName, asyncio.Task[pa.Table]] = {}

    async def rows(table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
        if table.name not in found:
            found[table.name] = asyncio.ensure_future(_awaited(public_rows(table, columns, cap)))
        return await found[table.name]

    return rows


async def _awaited(work: Awaitable[pa.Table]) -> pa.Table:
    return await work


@contextlib.contextmanager
def _told(dataset: str) -> Iterator[None]:
    """Raises as FacadeError what is PostgreSQL's or the system's."""
    try:
        yield
    except FAILURES as error:
        raise FacadeError(f"dataset {dataset}: {error}") from error


def _locked(path: Path) -> int:
    """An exclusive lock held until `stop`: two proxies must not share a place. Raises FacadeError."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise FacadeError(f"another proxy uses {path.parent}") from error
    return handle


def _forget_earlier(state: Path) -> None:
    """Clear what a proxy that was killed left behind: its servers, and its temporary folder."""
    with contextlib.suppress(OSError):
        home = Path(os.fsdecode((state / "facade.path").read_bytes()))
        kill_strays(home)
        if home.name.startswith("dpproxy-") or home == state.resolve() / "facade":
            shutil.rmtree(home, ignore_errors=True)
