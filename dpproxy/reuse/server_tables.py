"""Stored answers beside a ledger in PostgreSQL, for proxies on several machines: what one has paid for, all have.

Knows: asyncpg, tables. Must not know: what the rows mean. The tables are those of `file_tables`, in the ledger's schema. Texts
compare by their bytes, as they do in a file.

Who writes holds one lock, so that releases are numbered in the order in which others see them: which came first decides what
other roles are shown. As a charge's does (`records.postgres`), its transaction commits without waiting for the disk, so that the
lock is not held meanwhile, and a second one waits until the log is on disk at least that far, on a synchronous standby, too.

A connection that is lost is opened anew, and what was to be done is done again: once where something is read; where something
that was paid for is to be kept, until the server has been away for PATIENCE seconds, which is more than most fail-overs take.
While it is away, a read fails at once that comes within a second of the last try, since statements wait for each other's tries.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import cache, partial
from itertools import count
from typing import Any, Final, TypeVar

import asyncpg

from dpproxy import postgres_connections
from dpproxy.errors import OperatorError
from dpproxy.postgres_connections import ENDED, FAILURES
from dpproxy.reuse.file_tables import place_of
from dpproxy.reuse.tables import FORMAT, SealError, TablesAway, Values

# Who is making which measurement, among proxies on several machines: locks of a PostgreSQL server, held by a session.
#
# Knows: asyncpg, advisory locks. Must not know: what the names stand for, who waits. A claim is an advisory lock, whose number
# the name's hash says (`file_tables.place_of`). The server lets go of what a session held when the session ends: with its
# process, or, where the machine or the network died, once the server has not heard of it for half a minute. A session that is
# lost while its proxy lives (a fail-over) is opened anew, and claims again what it had, unless another was faster: then both
# measure, and both pay.


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
    """The claims of one process, `tables.Claiming`; for one event loop."""

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


T = TypeVar("T")

PATIENCE = 15.0
PAUSE = 1.0  # seconds between two tries

LOST: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.ReadOnlySQLTransactionError,  # the server has become a standby
    asyncpg.TargetServerAttributeNotMatched,  # so have all of them
    asyncpg.LockNotAvailableError,
    *ENDED,
)
"""Failures that may be over when the same is tried again."""

_LOCK: Final = 0x6470_7073  # an advisory lock of our own, beside the ledger's
_BEGIN: Final = f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK})"
_FLUSH: Final = "BEGIN; SET LOCAL synchronous_commit = on; SELECT pg_logical_emit_message(true, 'dpproxy', ''); COMMIT"

_SCHEMA: Final = """
CREATE TABLE releases (
    id bigint PRIMARY KEY, exact text COLLATE "C" NOT NULL, base text COLLATE "C" NOT NULL, dataset text NOT NULL,
    created text COLLATE "C" NOT NULL, used double precision NOT NULL, payload bytea NOT NULL
);
ALTER TABLE releases ALTER COLUMN payload SET STORAGE EXTERNAL; -- what is sealed does not compress
CREATE INDEX releases_exact ON releases (exact);
CREATE INDEX releases_base ON releases (base);
CREATE INDEX releases_used ON releases (used);
CREATE TABLE size (one integer PRIMARY KEY CHECK (one = 1), bytes bigint NOT NULL);
INSERT INTO size VALUES (1, 0);
CREATE FUNCTION release_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE dpproxy_ledger.size SET bytes = bytes + length(new.payload);
    ELSE
        UPDATE dpproxy_ledger.size SET bytes = bytes - length(old.payload);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER counted AFTER INSERT OR DELETE ON releases FOR EACH ROW EXECUTE FUNCTION release_counted();
CREATE TABLE seal (one integer PRIMARY KEY CHECK (one = 1), proof bytea, format integer);
CREATE TABLE seen (
    release bigint NOT NULL REFERENCES releases ON DELETE CASCADE, role text COLLATE "C" NOT NULL, at text COLLATE "C" NOT NULL,
    proof bytea, PRIMARY KEY (release, role)
);
CREATE TABLE gone (exact text COLLATE "C" PRIMARY KEY, dataset text NOT NULL);
CREATE INDEX gone_of ON gone (dataset);
CREATE TABLE asked (
    release bigint NOT NULL REFERENCES releases ON DELETE CASCADE, role text NOT NULL, statement text NOT NULL,
    epoch text NOT NULL, PRIMARY KEY (release, role)
);
"""


class ServerTables:
    """`tables.AnswerTables` on a server. The connection lives in a thread of its own, so that whoever asks may
    itself be in an event loop."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._loop = asyncio.new_event_loop()
        self._connection: asyncpg.Connection[Any] | None = None
        self._lost: float | None = None  # since when the server is away
        self._tried_at = 0.0
        self._ahead = 0.0  # seconds from the monotonic clock to the server's
        self.claims = ServerClaims(dsn)
        threading.Thread(target=self._loop.run_forever, name="stored answers", daemon=True).start()

    def open(self, check: Callable[[int], None]) -> None:
        """What others share is not begun anew: raises SealError, else OperatorError."""
        try:
            self.writing(lambda: self._made(check))
        except SealError as error:
            raise SealError(f"stored answers beside the ledger: {error}") from error
        except TablesAway as error:
            raise OperatorError(f"stored answers beside the ledger: {error}") from error

    def _made(self, check: Callable[[int], None]) -> None:
        if self.rows("SELECT to_regnamespace('dpproxy_ledger')::text") == [(None,)]:
            self.rows("CREATE SCHEMA dpproxy_ledger")
        if self.rows("SELECT to_regclass('dpproxy_ledger.releases')::text") == [(None,)]:
            self._do(self._db.execute(_SCHEMA))
        found = self.rows("SELECT format FROM seal")
        if found and found[0][0] != FORMAT:
            raise SealError("of another format, which another version of dpproxy wrote")
        check(FORMAT)
        self.rows("UPDATE seal SET format = ? WHERE format IS NULL", (FORMAT,))

    def now(self) -> dt.datetime:
        """Return the server's time, as it was at the last connection and has passed since."""
        return dt.datetime.fromtimestamp(time.monotonic() + self._ahead, dt.UTC)

    def rows(self, query: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._do(self._db.fetch(_numbered(query), *values))]

    @property
    def _db(self) -> asyncpg.Connection[Any]:
        assert self._connection is not None
        return self._connection

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def reading(self, work: Callable[[], T]) -> T:
        if self._lost is not None and time.monotonic() < self._tried_at + PAUSE:
            raise TablesAway("the ledger's PostgreSQL: it was away a moment ago")
        try:
            if self._connection is not None:
                with contextlib.suppress(*LOST):  # which is seen when it is used
                    return self._tried(work)
            return self._tried(work)
        except FAILURES as error:
            raise away(error) from error

    def writing(self, work: Callable[[], T]) -> T:
        def whole() -> T:
            self._do(self._db.execute(_BEGIN))
            done = work()
            self._do(self._db.execute(f"COMMIT; {_FLUSH}"))
            return done

        while True:
            try:
                return self._tried(whole)
            except LOST as error:
                if self._lost is not None and time.monotonic() > self._lost + PATIENCE:
                    raise away(error) from error
            except FAILURES as error:
                raise away(error) from error
            time.sleep(PAUSE)

    def _tried(self, work: Callable[[], T]) -> T:
        """On a connection that is given up when anything fails on it: so nothing is left half done there."""
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = self._do(self._connected())
            done = work()
        except BaseException as error:
            if isinstance(error, LOST):
                self._tried_at = time.monotonic()
                self._lost = self._tried_at if self._lost is None else self._lost
            self._disconnect()
            raise
        self._lost = None
        return done

    async def _connected(self) -> asyncpg.Connection[Any]:
        db = await connect(self._dsn, "stored answers")
        now = await db.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
        self._ahead = now - time.monotonic()
        return db

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._loop.call_soon_threadsafe(self._connection.terminate)
            self._connection = None

    def close(self) -> None:
        self._disconnect()
        self.claims.close()
        self._loop.call_soon_threadsafe(self._loop.stop)


@cache
def _numbered(query: str) -> str:
    """A statement with PostgreSQL's parameters; ours have no other question marks."""
    numbers = count(1)
    return "".join(f"${next(numbers)}" if part == "?" else part for part in query)
