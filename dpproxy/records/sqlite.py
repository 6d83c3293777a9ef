"""The default ledger: one SQLite file, one process.

Knows: SQLite, file locks. Must not know: what entries mean. WAL with synchronous=FULL: a commit returns after one
fsync of the log. Beside `ledger.sqlite` lie SQLite's own `-wal` and `-shm`, a `.lock` that the running proxy holds
(the kernel frees it when the process dies, however it dies), and an `.anchor`: the head as this process last
committed it, written after the commit and without fsync. The anchor can lag behind after a power failure but never
run ahead, so a record that ends before its anchor has lost entries (a deleted `-wal`, an older copy): fail closed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from dpproxy.ledger.entries import Head, Row, head_of, stored
from dpproxy.ledger.journal import MAX_JUMP, Journal
from dpproxy.ledger.ledger import Charge, ChargeRequest, DiskShort, LedgerCorrupt, LedgerError
from dpproxy.ledger.transaction import KnownCharge, Stored, StoreError
from dpproxy.ledger.witness import Witness
from dpproxy.private_files import private_file
from dpproxy.records.reserve import Reserve

BUSY_SECONDS = 10.0
"""Readers (export, show, backup) never block the writer in WAL; this is for a checkpoint they hold up."""

PAGE = 1000
"""Entries read at once at start: under a megabyte."""

ANCHOR_BYTES = 128
"""Fixed, and within one disk sector, so that a crash leaves the old anchor or the new one."""

FORMAT = 1
"""Of the tables, in the file's user_version; what is in the entries has a version of its own (`entries.SCHEMA`)."""

SCHEMA_SQL = """
CREATE TABLE IF NOT EXISTS entries (
    sequence INTEGER PRIMARY KEY, id TEXT UNIQUE, body TEXT NOT NULL, hash BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS head (
    one INTEGER PRIMARY KEY CHECK (one = 1), sequence INTEGER NOT NULL, hash BLOB NOT NULL, seal BLOB
) STRICT;
"""


ROW = "sequence, id, body, hash"
"""The columns of an entry, as `entries.stored` takes them."""

DAMAGE = (sqlite3.Error, OSError, UnicodeError)
"""What SQLite's client raises of a damaged file; the last of a message, or a schema, that is no text."""


class FileLock:
    """An exclusive lock on a file, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises LedgerError when another process (or ledger) holds it."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise LedgerError(f"cannot lock the ledger: {error}") from error
        try:
            _lock(self._fd)
        except OSError as error:
            os.close(self._fd)
            raise LedgerError(f"another dpproxy is using this ledger ({path} is locked)") from error

    def release(self) -> None:
        os.close(self._fd)


def ledger_lock(path: Path) -> FileLock:
    """Take the lock file of a ledger's file, by whatever link one comes to it. Raises LedgerError also where the file
    has another name in a folder, which the lock is not beside."""
    path = path.resolve()
    if path.exists() and path.stat().st_nlink > 1:
        raise LedgerError(
            f"the ledger {path} has another name (a hard link), by which another dpproxy could write to it: keep one, or copy it "
            "(`dpproxy ledger backup`)"
        )
    return FileLock(path.with_name(path.name + ".lock"))


def _lock(fd: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Anchor:
    """An anchor is the head as last committed, in a file of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Head | None:
        """Read the head; None when there is no file. Raises LedgerCorrupt when it cannot be read."""
        try:
            data = json.loads(self.path.read_bytes())
            return Head(int(data["sequence"]), bytes.fromhex(data["hash"]))
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever damage has made of it
            raise LedgerCorrupt(f"the ledger's anchor {self.path.name} cannot be read") from error

    def write(self, head: Head, *, durable: bool = False) -> None:
        """Overwrite the head in place. Raises OSError."""
        text = json.dumps({"sequence": head.sequence, "hash": head.hash.hex()}).ljust(ANCHOR_BYTES - 1) + "\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.write(fd, text.encode())
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)


class SqliteStore:
    """A `ledger.transaction.Store` in one file."""

    def __init__(self, path: Path, reserve: Reserve | None = None) -> None:
        """Create or open the file. Raises LedgerError: in use, read-only, not a ledger, damaged."""
        self._path = path = path.resolve()
        self._reserve = reserve
        self._lock = ledger_lock(path)
        self._anchor = Anchor(path.with_name(path.name + ".anchor"))
        self._head = Head()
        self._connection: sqlite3.Connection | None = None
        try:
            self._open()
            self._check_anchor()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with self._store_errors():
            self._connection = connect(self._path)
            if self._connection.execute("PRAGMA user_version").fetchone()[0] > FORMAT:
                raise LedgerError("the ledger's file was written by a later version of dpproxy; this one cannot read it")
            self._connection.executescript(SCHEMA_SQL)
            # proves that the file can be written and, after a failure, puts what only the log holds on disk
            self._connection.execute(f"PRAGMA user_version = {FORMAT}")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _check_anchor(self) -> None:
        """The record must hold the anchored entry. Raises LedgerCorrupt."""
        head, anchor = self._read_head(), self._anchor.read()
        if anchor is None and head.sequence:
            raise LedgerCorrupt("the ledger's anchor is missing: the file may be an older copy (`dpproxy ledger repair`)")
        if anchor is not None and anchor.sequence:
            found = self._db.execute("SELECT hash FROM entries WHERE sequence = ?", (anchor.sequence,)).fetchone()
            if found is None or found[0] != anchor.hash or head.sequence < anchor.sequence:
                raise LedgerCorrupt("the ledger ends before its anchor: entries are lost (`dpproxy ledger repair`)")
        if anchor is None:
            with self._store_errors():
                self._anchor.write(head, durable=True)

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError("the ledger's file is not open")
        return self._connection

    @contextlib.contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            if self._reserve is not None:
                self._reserve.give_up()  # the journal tries once more
            raise StoreError(f"{self._path.name}: {error}") from error

    def _read_head(self) -> Head:
        with self._store_errors():
            return head_of(self._db.execute("SELECT sequence, hash, seal FROM head").fetchone())

    def begin(self, chain: str, known: int) -> tuple[Head, Sequence[Stored]]:
        with self._store_errors():
            self._db.execute("BEGIN IMMEDIATE")
        return self._read_head(), ()

    def suppose(self, chain: str, head: Head) -> bool:
        """Nobody else writes, and the file is at hand."""
        return False

    def last(self, chain: str) -> int:
        with self._store_errors():
            return int(self._db.execute("SELECT coalesce(max(sequence), 0) FROM entries").fetchone()[0])

    def rows(self, chain: str, after: int) -> Iterator[Stored]:
        """Read rows in pages, so that no cursor is left open when a reader stops in the middle."""
        query = f"SELECT {ROW} FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?"
        while True:
            with self._store_errors():
                page = self._db.execute(query, (after, PAGE)).fetchall()
            if not page:
                return
            yield from (stored(*row) for row in page)
            after = page[-1][0]

    def find(self, chain: str, ids: Sequence[str]) -> dict[str, str]:
        query = f"SELECT {ROW} FROM entries WHERE id IN ({','.join('?' * len(ids))})"
        with self._store_errors():
            return {row[1]: stored(*row)[0] for row in self._db.execute(query, ids)}

    def append(self, chain: str, rows: Sequence[Row], head: Head) -> None:
        with self._store_errors():
            values = [(r.sequence, r.id, r.body, r.hash) for r in rows]
            try:
                self._db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", values)
            except sqlite3.IntegrityError as error:
                raise KnownCharge("a charge of this id exists") from error
            self._db.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?, ?)", (head.sequence, head.hash, head.seal))
        self._head = head

    def commit(self) -> None:
        with self._store_errors():
            self._db.execute("COMMIT")
        with contextlib.suppress(OSError):  # the charge is durable; an anchor that lags only detects less
            self._anchor.write(self._head)

    def settle(self) -> None:
        """Nobody else writes, and our own commits are durable."""

    def rollback(self) -> None:
        with self._store_errors():
            self._db.execute("ROLLBACK")

    @property
    def waiting(self) -> bool:
        return False

    def rest(self) -> None:
        """Nothing is held between two transactions."""

    def recover(self) -> None:
        """Open the file again: after a failed fsync, what the log holds must be written anew before anything is built on it."""
        self._disconnect()
        self._open()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        self._disconnect()
        self._lock.release()


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection without implicit transactions. Raises sqlite3.Error."""
    if not read_only:
        private_file(path)
    mode = "ro" if read_only else "rwc"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    connection.text_factory = _text
    if not read_only:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    return connection


def _text(value: bytes) -> str | bytes:
    """A text of a file, which may hold bytes that are none."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


class SqliteLedger(Journal):
    """The default ledger, one file. See `ledger.Ledger` for the contract."""

    def __init__(
        self,
        path: str | Path,
        *,
        key: bytes | None = None,
        max_jump_days: int = MAX_JUMP.days,
        boot: Callable[[], float] | None = None,
        witness: Witness | None = None,
        accepting: bool = False,
        reserve: bool = False,
    ) -> None:
        """Open and check the whole record. Raises LedgerError (in use, read-only, another version), LedgerCorrupt.

        `reserve`: keep room on the disk, and charge nothing without it.
        """
        self.path = Path(path).resolve()  # what lies beside the file lies beside it, by whatever name it is opened
        self._reserve = Reserve(self.path.with_name(self.path.name + ".reserve")) if reserve else None
        super().__init__(
            lambda: SqliteStore(self.path, self._reserve),
            key=key,
            max_jump=dt.timedelta(days=max_jump_days),
            boot=boot,
            witness_of=lambda chain: witness,
            accepting=accepting,
        )
        try:
            self._enqueue("", lambda tx: None).result()
        except BaseException:
            self.close()
            raise

    def submit(self, request: ChargeRequest) -> Future[Charge]:
        try:
            self._check_reserve()
        except DiskShort as short:
            refused: Future[Charge] = Future()
            refused.set_exception(short)
            return refused
        return super().submit(request)

    def lag(self, dataset: str, at: dt.datetime) -> float:
        self._check_reserve()
        return super().lag(dataset, at)

    def _check_reserve(self) -> None:
        """Raises DiskShort."""
        if self._reserve is not None and not self._reserve.hold():
            raise DiskShort("the disk is full: the ledger's reserve cannot be kept, and nothing is charged without")
