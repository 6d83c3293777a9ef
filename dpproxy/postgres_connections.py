"""Every connection that dpproxy itself opens to a PostgreSQL server: what the caller says decides, the environment nothing.

Knows: asyncpg, and that it reads libpq's variables. Must not know: which server, what for. A shell in which somebody works with
another database has PGHOST, PGPORT, PGSSLMODE, PGSERVICE or PGTARGETSESSIONATTRS set. Read by dpproxy, they would have it miss
its own facade, or read other data under the budget of a policy that is the same. Several of them have no parameter that could
overrule them, therefore asyncpg is shown an empty environment, once, here. What stands in files of the account (`~/.pgpass`,
`~/.postgresql`) still counts, and whatever an address says. A test lets no other file connect by asyncpg itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import asyncpg
from asyncpg import connect_utils


class _WithoutEnvironment:
    """Stands for `os` where asyncpg puts parameters together."""

    environ: Final[Mapping[str, str]] = MappingProxyType({})

    @staticmethod
    def getenv(_name: str, default: Any = None) -> Any:
        return default

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


vars(connect_utils)["os"] = _WithoutEnvironment()


async def connect(*dsn: str, **options: Any) -> asyncpg.Connection[Any]:
    """Connect to a server: at an address, if there is one, with asyncpg's options. Raises one of `FAILURES`."""
    return await asyncpg.connect(*dsn, **options)


async def create_pool(dsn: str, **options: Any) -> asyncpg.Pool[Any]:
    """Return a pool of connections, with asyncpg's options. Raises one of `postgres_connections.FAILURES`."""
    return await asyncpg.create_pool(dsn, **options)


# What asyncpg raises when a server, or the way to it, fails: said once, because one of the classes is easy to forget.
#
# Knows: asyncpg's exceptions. Must not know: which server, or what follows from a failure. A connection may end while nobody
# uses it. When the next call begins before asyncpg has read the server's goodbye to its end, asyncpg raises InternalClientError
# ("cannot switch to state ...; another operation is in progress"), which is no InterfaceError. Who names the classes one by one
# forgets it, and takes a lost connection for a bug. A test (tests/test_postgres_failures.py) lets no other file name them.


ENDED: Final = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""A connection ended, or none was made; InternalClientError also when no server that an address names is what it asks for, as in
the midst of a fail-over."""

FAILURES: Final = (asyncpg.PostgresError, *ENDED)
"""Any of those, or an error that the server sent."""
