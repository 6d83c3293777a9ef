"""Who is making which measurement, among proxies on several machines: locks of a PostgreSQL server, held by a session.

Knows: asyncpg, advisory locks. Must not know: what the names stand for, who waits. A claim is an advisory lock, whose number the
name's hash says (`claims.place_of`). The server lets go of what a session held when the session ends: with its process, or, where
the machine or the network died, once the server has not heard of it for half a minute. A session that is lost while its proxy
lives (a fail-over) is opened anew, and claims again what it had, unless another was faster: then both measure, and both pay.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import asyncpg

from dpproxy import postgres_connections
from dpproxy.postgres_failures import FAILURES
from dpproxy.reuse.claims import place_of
from dpproxy.reuse.tables import TablesAway

CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 20.0  # a statement takes milliseconds, and may wait for another proxy's

_SETTINGS = {
    "search_path": "dpproxy_ledger",
    "synchronous_commit": "off",  # what must be on disk says so (`server_tables`)
    "lock_timeout": "20s",
    "statement_timeout": "20s",
    "idle_in_transaction_session_timeout": "20s",
    "idle_session_timeout": "0",  # who has nothing to ask keeps what is claimed
    "tcp_keepalives_idle": "10",  # with the next two: what is claimed by a machine that is gone is free after half a minute
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
}

_TAKE = "SELECT pg_try_advisory_lock(place) FROM unnest($1::bigint[]) AS place"
_DROP = "SELECT pg_advisory_unlock(place) FROM unnest($1::bigint[]) AS place"


async def connect(dsn: str, name: str) -> asyncpg.Connection[Any]:
    """Connect to the server that has the ledger; `name` is what its administrator sees. Raises one of FAILURES."""
    settings = _SETTINGS | {"application_name": f"dpproxy {name}"}
    return await postgres_connections.connect(
        dsn, timeout=CONNECT_SECONDS, command_timeout=COMMAND_SECONDS, server_settings=settings
    )


def away(error: BaseException) -> TablesAway:
    """Return what is raised for a failure of that server."""
    return TablesAway(f"the ledger's PostgreSQL: {str(error) or type(error).__name__}")


class ServerClaims:
    """These are the claims of one process, `tables.Claiming`; for one event loop."""

    def __init__(self, dsn: str) -> None:
        """Connect later, when something is claimed."""
        self._dsn = dsn
        self._db: asyncpg.Connection[Any] | None = None
        self._turn: asyncio.Lock | None = None  # of the loop that claims first
        self._mine: set[int] = set()
        self._dropping: set[asyncio.Task[None]] = set()

    async def claim(self, names: Collection[str]) -> bool:
        places = sorted({place_of(name) for name in names})
        if not self._mine.isdisjoint(places):  # a session is not held off from its own locks
            return False
        self._mine.update(places)
        taking = asyncio.ensure_future(self._taken(places))
        try:
            taken = await asyncio.shield(taking)
        except asyncio.CancelledError:  # it is not known what is taken until it is
            taking.add_done_callback(partial(self._untaken, places))
            raise
        except FAILURES as error:
            self._mine.difference_update(places)
            raise away(error) from error
        if not taken:
            self._mine.difference_update(places)
        return taken

    async def _taken(self, places: Sequence[int]) -> bool:
        async with self._turns():
            if self._db is not None:
                with contextlib.suppress(*FAILURES):  # that a session is lost is seen when it is used
                    return await _taken(self._db, places)
                self._db.terminate()
            self._db = await connect(self._dsn, "claims")
            await self._db.fetch(_TAKE, sorted(self._mine.difference(places)))
            return await _taken(self._db, places)

    def _turns(self) -> asyncio.Lock:
        """One statement at a time, in the order they are asked for."""
        self._turn = self._turn or asyncio.Lock()
        return self._turn

    def _untaken(self, places: Sequence[int], taking: asyncio.Future[bool]) -> None:
        if not taking.cancelled() and taking.exception() is None and taking.result():
            self._drop(places)
        else:
            self._mine.difference_update(places)

    def drop(self, names: Collection[str]) -> None:
        self._drop(sorted({place_of(name) for name in names}))

    def _drop(self, places: Sequence[int]) -> None:
        """Done soon; whoever claims meanwhile waits for it."""
        self._mine.difference_update(places)
        task = asyncio.ensure_future(self._dropped(places))
        self._dropping.add(task)
        task.add_done_callback(self._dropping.discard)

    async def _dropped(self, places: Sequence[int]) -> None:
        with contextlib.suppress(*FAILURES):
            async with self._turns():
                if self._db is not None and not self._db.is_closed():
                    await self._db.fetch(_DROP, places)

    def close(self) -> None:
        """Let go of everything: the server sees the connection end."""
        if self._db is not None:
            self._db.terminate()
            self._db = None


async def _taken(db: asyncpg.Connection[Any], places: Sequence[int]) -> bool:
    got = [row[0] for row in await db.fetch(_TAKE, places)]
    if not all(got):
        await db.fetch(_DROP, [place for place, mine in zip(places, got, strict=True) if mine])
    return all(got)
