"""A ledger in PostgreSQL, for several proxies, on one machine or many.

Knows: asyncpg, tables, row locks. Must not know: what entries mean. One chain per dataset: a transaction locks its
dataset's head row, so charges to one dataset are serial (they must be: each is checked against all before it) and
datasets do not wait for each other. Each proxy batches what waits (`journal`), so the lock is taken once per commit.

Where nobody else wrote to a record for a while (`chains`), nobody is asked what is in it: BEGIN, a look whether it still ends
where this proxy knows it to end (`still`), the new rows, COMMIT and the wait for the disk are one question (`suppose`).
If somebody did write, that question fails as a whole, and the transaction is made as it is among several writers.

Among several, a transaction is two questions: `begin` waits for the lock and answers the head and what others appended, `commit`
sends the new rows, COMMIT, the wait for the disk, and the BEGIN of the next transaction, which has no lock and sees nothing yet;
if nothing comes for a while it is given back (`rest`). So the lock is held as shortly as can be: one answer and one
question cross while it is; under load each crossing waits for a processor. Who waits queues by an advisory lock, which is
handed over in order and at once; what guards the record is the lock on its row. Nor is it held while the disk works: a
charge's transaction commits with synchronous_commit off, which ends it at once, and a second, synchronous one
(`_FLUSH`) then waits until the log is on disk at least that far. Concurrent proxies' waits share one flush of the
server. Nothing is acknowledged or remembered before it; what builds on a charge comes after it in the log, so a crash
forgets both or neither. Where the server has a synchronous standby, that flush waits for the standby's disk as well. A wait
that is cut short ends with a warning and as a success: it is taken for a failure here (`_settled`).

A proxy that dies releases its lock with its connection; one that hangs is cut off by the server after
LOCK_SECONDS. A commit whose acknowledgement is lost is asked for again by the charges' ids, after the lock has been
taken anew, that is, after the server has ended the old transaction one way or the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg

from dpproxy import postgres_connections
from dpproxy.ledger.entries import Head, Row, head_of, stored
from dpproxy.ledger.journal import MAX_JUMP, Journal
from dpproxy.ledger.ledger import LedgerCorrupt, LedgerError
from dpproxy.ledger.transaction import HeadMoved, KnownCharge, Stored, StoreError
from dpproxy.ledger.witness import Witness
from dpproxy.postgres_connections import FAILURES
from dpproxy.records.postgres_tables import PREPARED, prepare
from dpproxy.records.record import Verified, readable, rechained, sealed, verify

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 60.0  # a statement of ours takes milliseconds; reading a long record at start takes seconds
LOCK_SECONDS = 20  # longer than any commit, shorter than an analyst's patience

DURABLE = ("fsync", "full_page_writes", "synchronous_commit")
"""Settings without which a commit is not durable; the last one is of our own connection, and could be held off by the server."""

_SETTINGS = {
    "application_name": "dpproxy ledger",
    "synchronous_commit": "on",  # whatever the server's default; `begin` takes it back for one transaction
    "lock_timeout": f"{LOCK_SECONDS}s",
    "statement_timeout": "0",  # a role's own would cut the wait for a standby short
    "idle_in_transaction_session_timeout": f"{LOCK_SECONDS}s",
    "search_path": "dpproxy_ledger",
    "standard_conforming_strings": "on",  # `_quoted` relies on it
}

_BEGIN = "BEGIN; SET LOCAL synchronous_commit = off"
_HELD = "SELECT sequence, hash, seal, body FROM held($1, $2, $3)"
_HEAD = "SELECT sequence, hash, seal FROM head WHERE chain = $1"
_APPEND = """
WITH added AS (
    INSERT INTO entries SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bytea[])
)
UPDATE head SET sequence = $6, hash = $7, seal = $8 WHERE chain = $1
"""
_ROWS = "SELECT sequence, id, body, hash FROM entries WHERE chain = $1 AND sequence > $2 ORDER BY sequence LIMIT $3"
_PAGE = 5000
_FLUSH = "EXECUTE flushed"
_FLUSH_AND_BEGIN = f"BEGIN; {_FLUSH}; COMMIT; {_BEGIN}"
"""Without a transaction of its own the flush would become part of what is begun after it, and nobody would wait for it."""

T = TypeVar("T")


class PostgresStore:
    """A `ledger.transaction.Store` on a server. Its connection lives in an event loop of the ledger's own thread."""

    def __init__(self, dsn: str) -> None:
        """Connect and create what is missing. Raises LedgerError."""
        self._dsn = dsn
        self._loop = new_loop()
        self._connection: asyncpg.Connection[Any] | None = None
        self._held: asyncpg.prepared_stmt.PreparedStatement[Any] | None = None
        self._ahead = False  # whether a transaction was begun that has no lock, for who comes next
        self._begun = ""  # what comes before the statements of the commit under way, where nothing was sent yet
        self._pending = ""  # these statements
        self._warning = ""  # what the server warned of since the last flush began
        try:
            self._do(self._open())
        except BaseException:
            self._loop.close()
            raise

    async def _open(self) -> None:
        self._connection = await connect(self._dsn)
        self._connection.add_log_listener(self._noted)
        await _check_durable(self._connection)
        await prepare(self._connection)
        await self._connection.execute(PREPARED)
        self._held = await self._connection.prepare(_HELD)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run_until_complete(work)
        except FAILURES as error:
            raise StoreError(f"the ledger's PostgreSQL: {str(error) or type(error).__name__}") from error

    @property
    def _db(self) -> asyncpg.Connection[Any]:
        if self._connection is None:
            raise StoreError("the ledger's PostgreSQL is not connected")
        return self._connection

    def begin(self, chain: str, known: int) -> tuple[Head, Sequence[Stored]]:
        self._begun = ""
        return self._do(self._begin(self._db, chain, known))

    async def _begin(self, db: asyncpg.Connection[Any], chain: str, known: int) -> tuple[Head, Sequence[Stored]]:
        if not self._ahead:
            await db.execute(_BEGIN)
        self._ahead = False
        assert self._held is not None
        first, *rows = await self._held.fetch(chain, known, _PAGE)
        return head_of((first["sequence"], first["hash"], first["seal"])), [(row["body"], row["hash"]) for row in rows]

    def suppose(self, chain: str, head: Head) -> bool:
        """Begin with the commit: one crossing for all of it, and the lock is held for none."""
        is_there = f"SELECT still({_quoted(chain)}, {head.sequence}, {_quoted(head.hash)}, {_quoted(head.seal)})"
        self._begun = f"{is_there}; " if self._ahead else f"{_BEGIN}; {is_there}; "
        return True

    def last(self, chain: str) -> int:
        query = "SELECT coalesce(max(sequence), 0) FROM entries WHERE chain = $1"
        return int(self._do(self._db.fetchval(query, chain)))

    def rows(self, chain: str, after: int) -> Iterator[Stored]:
        while True:
            page = self._do(self._db.fetch(_ROWS, chain, after, _PAGE))
            yield from (stored(*row) for row in page)
            if len(page) < _PAGE:
                return
            after = page[-1]["sequence"]

    def find(self, chain: str, ids: Sequence[str]) -> dict[str, str]:
        query = "SELECT sequence, id, body, hash FROM entries WHERE chain = $1 AND id = ANY($2::text[])"
        return {row["id"]: stored(*row)[0] for row in self._do(self._db.fetch(query, chain, list(ids)))}

    def append(self, chain: str, rows: Sequence[Row], head: Head) -> None:
        """Keep rows and head, which are sent with the commit."""
        name, values = _quoted(chain), [f"{r.sequence}, {_quoted(r.id)}, {_quoted(r.body)}, {_quoted(r.hash)}" for r in rows]
        added = ", ".join(f"({name}, {row})" for row in values)
        adding = f"EXECUTE added({name}, {values[0]})" if len(rows) == 1 else f"INSERT INTO entries VALUES {added}"
        self._pending = f"{adding}; EXECUTE moved({name}, {head.sequence}, {_quoted(head.hash)}, {_quoted(head.seal)})"

    def commit(self) -> None:
        """Commit, wait for the disk, and begin ahead where others write too: whoever comes next asks one question less."""
        try:
            begun, self._begun, ahead = self._begun, "", not self._begun
            self._ahead = False
            self._settled(f"{begun}{self._pending}; COMMIT; {_FLUSH_AND_BEGIN if ahead else _FLUSH}")
            self._ahead = ahead
        except StoreError as error:
            if isinstance(error.__cause__, asyncpg.SerializationError):
                raise HeadMoved("somebody else has written to the record") from error
            if isinstance(error.__cause__, asyncpg.UniqueViolationError):
                raise KnownCharge("a charge of this id exists") from error
            raise

    def settle(self) -> None:
        self.rest()
        self._settled(_FLUSH)

    @property
    def waiting(self) -> bool:
        return self._ahead

    def rest(self) -> None:
        if self._ahead:
            self._begun = ""
            self.rollback()

    def _settled(self, text: str) -> None:
        """Run what ends in a flush. Raises StoreError also for what the server calls done and warns of."""
        self._warning = ""
        self._do(self._db.execute(text))
        if self._warning:
            raise StoreError(f"the ledger's PostgreSQL: {self._warning}")

    def _noted(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        if message.severity_en == "WARNING":
            self._warning = str(message.message)

    def rollback(self) -> None:
        if self._begun:  # nothing was sent
            return
        self._ahead = False
        self._do(self._db.execute("ROLLBACK"))

    def recover(self) -> None:
        """Open a new connection: whether the old one's commit went through is for the ids to say."""
        self._ahead, self._begun = False, ""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
        self._do(self._open())

    def close(self) -> None:
        with contextlib.suppress(LedgerError):
            if self._connection is not None:
                self._do(self._connection.close(timeout=CONNECT_SECONDS))
        self._loop.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop, uvloop's where it exists: of what a charge costs a proxy, crossing to the server and back is most."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _check_durable(db: asyncpg.Connection[Any]) -> None:
    """Tell the log of a server that does not put on disk what it says is there: it forgets charges when power fails."""
    wrong = [name for name in DURABLE if await db.fetchval("SELECT current_setting($1)", name) != "on"]
    if wrong:
        log.error(
            "the ledger's PostgreSQL runs with %s: a power failure can undo charges that were answered; set it on there",
            " and ".join(f"{name} = off" for name in wrong),
        )


def _quoted(value: str | bytes | None) -> str:
    """A literal of our own text: the bodies' JSON has names of roles and users in it."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    return "'" + value.replace("'", "''") + "'"


async def connect(dsn: str) -> asyncpg.Connection[Any]:
    """Connect to the ledger's server. Raises asyncpg.PostgresError, OSError, TimeoutError."""
    return await postgres_connections.connect(
        dsn, timeout=CONNECT_SECONDS, command_timeout=COMMAND_SECONDS, server_settings=_SETTINGS
    )


class PostgresLedger(Journal):
    """Several proxies share this ledger. See `ledger.Ledger` for the contract."""

    def __init__(
        self,
        dsn: str,
        *,
        key: bytes | None = None,
        max_jump_days: int = MAX_JUMP.days,
        boot: Callable[[], float] | None = None,
        witness_of: Callable[[str], Witness | None] = lambda chain: None,
        accepting: bool = False,
    ) -> None:
        """Connect; a dataset's record is checked when it is first used. Raises LedgerError."""
        jump = dt.timedelta(days=max_jump_days)
        super().__init__(
            lambda: PostgresStore(dsn),
            key=key,
            max_jump=jump,
            shared=True,
            chain_of=lambda dataset: dataset,
            boot=boot,
            witness_of=witness_of,
            accepting=accepting,
        )


@dataclass(frozen=True)
class PostgresReader:
    """The `record.Reader` of one dataset's record."""

    dsn: str
    chain: str

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[tuple[Head, Iterator[Stored]]]:
        """Read head and entries in pages: a long record need not fit into memory."""
        with asyncio.Runner() as runner:
            with _ledger_errors():
                db = runner.run(connect(self.dsn))
            try:
                with _ledger_errors():
                    runner.run(db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
                    row = runner.run(db.fetchrow(_HEAD, self.chain))
                yield head_of(row), self._pages(runner, db)
            finally:
                with contextlib.suppress(*FAILURES):
                    runner.run(db.close())

    def _pages(self, runner: asyncio.Runner, db: asyncpg.Connection[Any]) -> Iterator[Stored]:
        after = 0
        while True:
            with _ledger_errors():
                page = runner.run(db.fetch(_ROWS, self.chain, after, _PAGE))
            if not page:
                return
            yield from (stored(*row) for row in page)
            after = page[-1]["sequence"]

    def recent(self, most: int) -> list[Stored]:
        return _run(_read_recent(self.dsn, self.chain, most))


async def _read_recent(dsn: str, chain: str, most: int) -> list[Stored]:
    db = await connect(dsn)
    try:
        query = "SELECT sequence, id, body, hash FROM entries WHERE chain = $1 ORDER BY sequence DESC LIMIT $2"
        rows = await db.fetch(query, chain, most)
    finally:
        await db.close()
    return [stored(*row) for row in reversed(rows)]


@contextlib.contextmanager
def _ledger_errors() -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        raise LedgerError(f"the ledger's PostgreSQL: {str(error) or type(error).__name__}") from error


def _run(work: Coroutine[Any, Any, T]) -> T:
    with _ledger_errors():
        return asyncio.run(work)


def repair(dsn: str, dataset: str, *, at: dt.datetime, reason: str, key: bytes | None = None) -> Verified | None:
    """Make a damaged record whole again by charging more (`record.rechained`); None when there was nothing to do.

    The damaged rows are kept in `dpproxy_ledger.damaged`. Proxies that run must be restarted. Raises LedgerError.
    """
    reader = PostgresReader(dsn, dataset)
    try:
        verify(reader, key=key)
    except LedgerCorrupt:
        _run(_repair(dsn, dataset, at, reason, key))
        return verify(reader, key=key)
    return None


async def _repair(dsn: str, chain: str, at: dt.datetime, reason: str, key: bytes | None) -> None:
    db = await connect(dsn)
    try:
        async with db.transaction():
            await db.execute("LOCK TABLE head IN EXCLUSIVE MODE")
            found = await db.fetch("SELECT body, hash FROM entries WHERE chain = $1 ORDER BY sequence", chain)
            rows = rechained(readable((r["body"], r["hash"]) for r in found), at, reason)
            moved = "INSERT INTO damaged (chain, sequence, body, hash) SELECT chain, sequence, body, hash FROM gone"
            await db.execute(f"WITH gone AS (DELETE FROM entries WHERE chain = $1 RETURNING *) {moved}", chain)
            await db.execute("INSERT INTO head VALUES ($1, 0, $2) ON CONFLICT DO NOTHING", chain, Head().hash)
            head = sealed(rows, chain, key)
            columns = ([r.sequence for r in rows], [r.id for r in rows], [r.body for r in rows], [r.hash for r in rows])
            await db.execute(_APPEND, chain, *columns, head.sequence, head.hash, head.seal)
    finally:
        await db.close()
