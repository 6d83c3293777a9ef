"""Databases of a facade: built beside the one in use, filled, swapped in.

Knows: the DDL, how public tables are filled, superuser connections. Must not know: where the server comes from, clients,
private rows. A build that fails changes nothing; sessions on a database that is replaced are ended by PostgreSQL with its
own 57P01.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pyarrow as pa

from dpproxy.facade import ddl
from dpproxy.facade.copytext import copy_chunks
from dpproxy.policy.catalog import Catalog, CatalogTable, TableName
from dpproxy.policy.model import Policy

LOG = logging.getLogger(__name__)

PublicRows = Callable[[CatalogTable, Sequence[str], int], Awaitable[pa.Table]]
"""`Backend.public_rows`: at most cap + 1 rows of a public table, columns by catalog name."""

Ready = Callable[[], Awaitable[None]]
"""Called when a new database is complete, before it takes the old one's place: the time to send sessions away."""

Connected = Callable[[str | None], AbstractAsyncContextManager[Any]]
"""An asyncpg connection to a database (None: the one for administration) as the owner of everything."""


@dataclass
class Applied:
    """What a database was built from, to build it again; `digest` tells whether a reload changes anything."""

    policy: Policy
    catalog: Catalog
    public_rows: PublicRows
    digest: str
    withheld: frozenset[TableName] = field(default_factory=frozenset)


class Builder:
    """`verifier`: a SCRAM verifier every role gets, where roles log in with a password."""

    def __init__(self, connected: Connected, public_cap: int, verifier: str | None = None) -> None:
        self._connected = connected
        self._public_cap = public_cap
        self._verifier = verifier

    async def build(self, applied: Applied, ready: Ready | None = None) -> None:
        """Beside the old database under a name of its own, then swapped."""
        policy, building = applied.policy, f"{applied.policy.dataset}~new"
        ddl.quoted(building)
        async with self._connected(None) as admin:
            await admin.execute("".join(ddl.roles_script(policy, self._verifier)))
            await admin.execute(f"DROP DATABASE IF EXISTS {ddl.quoted(building)} WITH (FORCE)")
            await admin.execute(f"CREATE DATABASE {ddl.quoted(building)} TEMPLATE template0 ENCODING 'UTF8'")
            async with self._connected(building) as connection:
                await self._fill(connection, applied, building)
            if ready is not None:
                await ready()
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


async def _aiter(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def digest(policy: Policy, catalog: Catalog) -> str:
    script: list[str] = [*ddl.roles_script(policy), *ddl.tables_script(policy, catalog)]
    script += [*ddl.keys_script(policy, catalog), *ddl.grants_script(policy, catalog, policy.dataset, frozenset())]
    return hashlib.sha256("\n".join(script).encode()).hexdigest()
