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
from collections.abc import Callable, Coroutine
from functools import cache
from itertools import count
from typing import Any, Final, TypeVar

import asyncpg

from dpproxy.errors import OperatorError
from dpproxy.postgres_failures import ENDED, FAILURES
from dpproxy.reuse.seal import SealError
from dpproxy.reuse.server_claims import ServerClaims, away, connect
from dpproxy.reuse.tables import FORMAT, TablesAway, Values

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
    """These are `tables.AnswerTables` on a server. The connection lives in a thread of its own, so that whoever asks may
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
