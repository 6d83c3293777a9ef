"""The facade as the rest of the proxy sees it: start, apply a policy, say where to connect, stop.

Knows: the embedded server, the DDL, how to fill public tables. Must not know: clients, budgets, private rows; it has
no way to reach one. Databases are built beside the one in use and swapped in, so that a reload that fails changes
nothing; sessions on the old one are ended by PostgreSQL with its own 57P01.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pyarrow as pa

from dpproxy.facade import ddl
from dpproxy.facade.account import choose_account, choose_place
from dpproxy.facade.binaries import FacadeError, find_binaries
from dpproxy.facade.copytext import copy_chunks
from dpproxy.facade.server import SUPERUSER, EmbeddedServer, kill_strays
from dpproxy.policy.catalog import Catalog, CatalogTable, TableName
from dpproxy.policy.model import Policy

LOG = logging.getLogger(__name__)

PUBLIC_CAP = 200_000  # rows of a public table kept here: tens of megabytes and a second or two to fill
RESTARTS = 5  # attempts, doubling from 0.1 s, before the facade is declared dead

PublicRows = Callable[[CatalogTable, Sequence[str], int], Awaitable[pa.Table]]
"""`Backend.public_rows`: at most cap + 1 rows of a public table, columns by catalog name."""


@dataclass
class Applied:
    """What a database was built from, to build it again; `digest` tells whether a reload changes anything."""

    policy: Policy
    catalog: Catalog
    public_rows: PublicRows
    digest: str
    withheld: frozenset[TableName] = field(default_factory=frozenset)


class Facade:
    """One embedded PostgreSQL with a database per dataset. `await start(state)`, `apply(...)`, `stop()`."""

    def __init__(self, *, folder: str | Path | None = None, connections: int = 520, public_cap: int = PUBLIC_CAP) -> None:
        """`folder`: the bin folder of an installed PostgreSQL instead of the wheel's."""
        self._folder = folder
        self._connections = connections
        self._public_cap = public_cap
        self._server: EmbeddedServer | None = None
        self._applied: dict[str, Applied] = {}
        self._lock = asyncio.Lock()
        self._restarting: asyncio.Task[None] | None = None
        self._state_lock: int | None = None

    @property
    def socket(self) -> str:
        """Path of the server's unix socket."""
        if self._server is None:
            raise FacadeError("the facade is not started")
        return str(self._server.place.socket)

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server else None

    def withheld(self, dataset: str) -> frozenset[TableName]:
        """Public tables of the dataset with too many rows to be kept here: joined below a measurement only."""
        return self._applied[dataset].withheld

    async def start(self, state: Path) -> None:
        """Make a cluster under `state` and start it. Raises FacadeError, also when another proxy uses `state`."""
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state_lock = _locked(state / "facade.lock")
        _forget_earlier(state)
        binaries, account = find_binaries(self._folder), choose_account()
        place = await asyncio.to_thread(choose_place, state, account, binaries)
        (state / "facade.path").write_text(str(place.home))
        self._server = EmbeddedServer(place, account, self._connections, self._died)
        await self._server.create()
        await self._server.start()
        async with self._connected(SUPERUSER) as connection:
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

    async def apply(self, policy: Policy, catalog: Catalog, public_rows: PublicRows) -> None:
        """Build the dataset's database, or build it anew when policy or catalog changed. Raises FacadeError."""
        async with self._lock:
            digest = _digest(policy, catalog)
            current = self._applied.get(policy.dataset)
            if current is None or current.digest != digest:
                applied = Applied(policy, catalog, public_rows, digest)
                try:
                    await self._build(applied)
                except (asyncpg.PostgresError, OSError) as error:
                    raise FacadeError(f"dataset {policy.dataset}: {error}") from error
                self._applied[policy.dataset] = applied

    @contextlib.asynccontextmanager
    async def _connected(self, database: str) -> AsyncIterator[Any]:
        assert self._server is not None
        connection = await asyncpg.connect(
            host=str(self._server.place.home), user=SUPERUSER, database=database, statement_cache_size=0, timeout=30
        )
        try:
            yield connection
        finally:
            await connection.close()

    async def _build(self, applied: Applied) -> None:
        """Beside the old database under a name of its own, then swapped."""
        policy, building = applied.policy, f"{applied.policy.dataset}~new"
        ddl.quoted(building)
        async with self._connected(SUPERUSER) as admin:
            await admin.execute("".join(ddl.roles_script(policy)))
            await admin.execute(f"DROP DATABASE IF EXISTS {ddl.quoted(building)} WITH (FORCE)")
            await admin.execute(f"CREATE DATABASE {ddl.quoted(building)} TEMPLATE template0 ENCODING 'UTF8'")
            async with self._connected(building) as connection:
                await self._fill(connection, applied, building)
            await admin.execute(f"DROP DATABASE IF EXISTS {ddl.quoted(policy.dataset)} WITH (FORCE)")
            await admin.execute(f"ALTER DATABASE {ddl.quoted(building)} RENAME TO {ddl.quoted(policy.dataset)}")
            await self._drop_stale_roles(admin, policy)
            await admin.execute("CHECKPOINT")  # commits are asynchronous: from here a killed postmaster loses nothing

    async def _fill(self, connection: Any, applied: Applied, database: str) -> None:
        policy, catalog = applied.policy, applied.catalog
        await connection.execute(ddl.HARDENING)
        await connection.execute("".join(ddl.tables_script(policy, catalog)))
        applied.withheld = await self._fill_public(connection, applied)
        for statement in ddl.keys_script(policy, catalog):
            try:
                await connection.execute(statement)
            except asyncpg.PostgresError as error:  # a key is an ornament: duplicates in public rows, odd types
                LOG.warning("dataset %s: key left out: %s", policy.dataset, type(error).__name__)
        await connection.execute("".join(ddl.grants_script(policy, catalog, database, applied.withheld)))
        await connection.execute("ANALYZE")

    async def _fill_public(self, connection: Any, applied: Applied) -> frozenset[TableName]:
        """Rows of public tables; the names of those with more than the cap, which stay empty and are not granted."""
        withheld: set[TableName] = set()
        for table, shape in ddl.tables_of(applied.policy, applied.catalog):
            columns = [c.name for c in ddl.visible_columns(table, shape)]
            if not table.public or not columns:
                continue
            rows = await applied.public_rows(shape, columns, self._public_cap)
            if rows.num_rows > self._public_cap:
                withheld.add(table.name)
                note = f"more than {self._public_cap} rows: readable only joined in a query over private tables"
                await connection.execute(f"COMMENT ON TABLE {ddl.qualified(table.name)} IS {ddl.literal(note)}")
            else:
                await connection.copy_to_table(
                    table.name.name,
                    schema_name=table.name.schema,
                    columns=columns,
                    source=_aiter(copy_chunks(rows.select(columns))),
                    format="text",
                )
        return frozenset(withheld)

    async def _drop_stale_roles(self, admin: Any, policy: Policy) -> None:
        wanted = {ddl.role_name(role, policy.dataset) for role in policy.roles}
        found = await admin.fetch("SELECT rolname FROM pg_roles WHERE rolname LIKE '%@%'")
        for (name,) in found:
            if name.rpartition("@")[2] == policy.dataset and name not in wanted:
                await admin.execute(f"DROP ROLE {ddl.quoted(name)}")

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
            await self._build(applied)


async def _aiter(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _digest(policy: Policy, catalog: Catalog) -> str:
    script: list[str] = [*ddl.roles_script(policy), *ddl.tables_script(policy, catalog)]
    script += [*ddl.keys_script(policy, catalog), *ddl.grants_script(policy, catalog, policy.dataset, frozenset())]
    return hashlib.sha256("\n".join(script).encode()).hexdigest()


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
        home = Path((state / "facade.path").read_text())
        kill_strays(home / "data")
        if home.name.startswith("dpproxy-"):
            shutil.rmtree(home, ignore_errors=True)
