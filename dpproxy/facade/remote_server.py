"""Facades on PostgreSQL servers that somebody else runs, given as a DSN of a superuser there.

Knows: addresses, how a database is made beside another and takes its name. Must not know: clients, private rows. A server is
one role's alone, as the embedded ones are and for the same reasons: with several roles the DSN has `{role}` in it, and
`{dataset}` where there are several of these. What a role may do in other databases of its server is not looked at.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dpproxy import postgres_connections
from dpproxy.facade import ddl
from dpproxy.facade.account import OLDEST, FacadeError
from dpproxy.facade.cluster import Endpoint
from dpproxy.facade.database import PublicRows, fill
from dpproxy.facade.facade import PUBLIC_CAP, Rooms
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.policy.people import make_verifier
from dpproxy.postgres_connections import FAILURES
from dpproxy.table_terms import TableName

Address = tuple[str, int]


class RemoteFacade:
    """Opens databases on servers that somebody else runs. Roles log in with one random password, new at each start."""

    def __init__(self, dsn: str, *, public_cap: int = PUBLIC_CAP) -> None:
        self._dsn = dsn
        self._public_cap = public_cap
        self._password = secrets.token_urlsafe(24)
        self._verifier = make_verifier(self._password)
        self._holders: dict[Address, tuple[str, str]] = {}  # dataset and role

    async def start(self, state: Path) -> None:
        """Try the server, where its address needs no role's name. Raises FacadeError when it cannot be used."""
        if "{" not in self._dsn:
            await _reached(self._dsn)

    async def open(self, policy: Policy, catalog: Catalog, public_rows: PublicRows) -> Rooms:
        """Make a database on each role's server. Raises FacadeError; then the databases in use are as they were."""
        withheld, servers = set[TableName](), dict[str, RemoteServer]()
        try:
            for name in policy.roles:
                shown = ddl.Shown(policy, catalog, policy.roles[name])
                dsn = self._dsn.replace("{dataset}", quote(policy.dataset, "")).replace("{role}", quote(name, ""))
                address = await _reached(dsn)
                self._claim(address, policy.dataset, name)
                server = servers[name] = RemoteServer(
                    dsn, Endpoint(host=address[0], port=address[1], password=self._password), shown
                )
                withheld |= await server.build(self._verifier, public_rows, self._public_cap)
        except FAILURES as error:
            raise FacadeError(f"dataset {policy.dataset}: {error}") from error
        return Rooms(policy, catalog, servers, frozenset(withheld))

    def _claim(self, address: Address, dataset: str, role: str) -> None:
        """Raises FacadeError."""
        holder = self._holders.setdefault(address, (dataset, role))
        if holder != (dataset, role):
            told = f"role `{role}` of dataset {dataset} would share the facade's server with role `{holder[0]}.{holder[1]}`"
            raise FacadeError(f"{told}, and see its names and counters: write {{role}} into --facade-dsn, for a server of each")

    async def stop(self) -> None:
        """Do nothing: nothing of ours is running there."""


class RemoteServer:
    """One role's database on its server; a new one takes the place of an earlier one, which sessions may still be in."""

    def __init__(self, dsn: str, endpoint: Endpoint, shown: ddl.Shown) -> None:
        self.endpoint = endpoint
        self._dsn = dsn
        self._shown = shown
        self._oid = 0

    async def build(self, verifier: str, public_rows: PublicRows, cap: int) -> frozenset[TableName]:
        """Make the database while the earlier one is in use. Raises asyncpg's errors, OSError."""
        building = f"{self._shown.policy.dataset}~new"
        async with _connected(self._dsn) as admin:
            await admin.execute("".join(ddl.role_script(self._shown, verifier)))
            await admin.execute(f"DROP DATABASE IF EXISTS {ddl.quoted(building)} WITH (FORCE)")
            await admin.execute(f"CREATE DATABASE {ddl.quoted(building)} TEMPLATE template0 ENCODING 'UTF8'")
            self._oid = await admin.fetchval("SELECT oid FROM pg_database WHERE datname = $1", building)
            async with _connected(self._dsn, building) as connection:
                withheld = await fill(connection, self._shown, building, public_rows, cap)
            await self._drop_stale_roles(admin)
        return withheld

    async def take_place(self) -> None:
        """Take the name from whatever database has it, also while sessions are in that, which ALTER DATABASE would not do."""
        name = self._shown.policy.dataset
        async with _connected(self._dsn) as admin, admin.transaction():
            for (oid,) in await admin.fetch("SELECT oid FROM pg_database WHERE datname = $1", name):
                await admin.execute("UPDATE pg_database SET datname = $1 WHERE oid = $2", f"{name}~{oid}", oid)
            await admin.execute("UPDATE pg_database SET datname = $1 WHERE oid = $2", name, self._oid)

    async def execute(self, script: str) -> None:
        """Run a script in the database. Raises asyncpg's errors, OSError."""
        async with _connected(self._dsn) as admin:
            name = await admin.fetchval("SELECT datname FROM pg_database WHERE oid = $1", self._oid)
        async with _connected(self._dsn, name) as connection:
            await connection.execute(script)

    async def stop(self) -> None:
        """Drop the database, with the sessions in it."""
        with contextlib.suppress(*FAILURES):
            async with _connected(self._dsn) as admin:
                name = await admin.fetchval("SELECT datname FROM pg_database WHERE oid = $1", self._oid)
                if name is not None:
                    await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    async def _drop_stale_roles(self, admin: Any) -> None:
        for (name,) in await admin.fetch("SELECT rolname FROM pg_roles WHERE rolname LIKE '%@%'"):
            if name.rpartition("@")[2] == self._shown.policy.dataset and name != self._shown.user:
                await admin.execute(f"DROP ROLE IF EXISTS {ddl.quoted(name)}")


async def _reached(dsn: str) -> Address:
    """Host and port as asyncpg has read them. Raises FacadeError when the server cannot be used."""
    try:
        async with _connected(dsn) as connection:
            address = connection._addr
            if not isinstance(address, tuple):
                raise FacadeError("the facade's DSN must name a host, not a socket")
            if connection.get_server_version().major < OLDEST:
                raise FacadeError(f"the facade's server is older than PostgreSQL {OLDEST}")
            if connection.get_settings().is_superuser != "on":
                raise FacadeError("the facade's DSN must be of a superuser")
    except (*FAILURES, ValueError) as error:
        raise FacadeError(f"the facade's server cannot be used: {error}") from error
    return str(address[0]), int(address[1])


@asynccontextmanager
async def _connected(dsn: str, database: str | None = None) -> AsyncIterator[Any]:
    more = {"database": database} if database else {}
    connection = await postgres_connections.connect(dsn, statement_cache_size=0, timeout=30, **more)
    try:
        yield connection
    finally:
        await connection.close()
