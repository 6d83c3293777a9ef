"""Where a ledger is kept, by its address, and the operator's tools on it: a SQLite file or a PostgreSQL server.

Knows: addresses, keys, both kinds of ledger. Must not know: policies, the command line. One secret file serves all that
is sealed; each purpose has a key of its own, derived from it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from dpproxy.derived_keys import derived
from dpproxy.ledger.book import Book
from dpproxy.ledger.entries import NO_HASH, Entry, Head, Row, head_of, stored
from dpproxy.ledger.journal import NAMES, Journal, since_boot
from dpproxy.ledger.ledger import LedgerCorrupt, LedgerError
from dpproxy.ledger.transaction import Stored, StoreError
from dpproxy.ledger.witness import Seen, Witness, witness_of
from dpproxy.private_files import private_file
from dpproxy.records import postgres
from dpproxy.records.postgres import PostgresLedger, PostgresReader
from dpproxy.records.record import Reader, Verified, current, readable, rechained, sealed, verify, witnessed
from dpproxy.records.sqlite import DAMAGE, ROW, SCHEMA_SQL, Anchor, SqliteLedger, SqliteStore, connect, ledger_lock

# An operator's tools on a SQLite ledger's files: read, back up, repair.
#
# Knows: files, SQLite. Must not know: what entries mean (`record` does). Reading and backup work while the proxy runs (SQLite's
# WAL gives readers a snapshot); `repair` needs it stopped.


_BACKUP_PAGES = 1000  # a step of the online backup: 4 MB, between which the writer may go on


@dataclass(frozen=True)
class SqliteReader:
    """The `record.Reader` of a ledger file."""

    path: Path
    chain: str = ""

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[tuple[Head, Iterator[Stored]]]:
        if not self.path.exists():
            raise LedgerError(f"there is no ledger at {self.path}")
        try:
            with contextlib.closing(connect(self.path, read_only=True)) as db:
                db.execute("BEGIN")  # one snapshot, whatever the proxy writes meanwhile
                head = head_of(db.execute("SELECT sequence, hash, seal FROM head").fetchone())
                yield head, (stored(*row) for row in db.execute(f"SELECT {ROW} FROM entries ORDER BY sequence"))
        except DAMAGE as error:
            raise StoreError(f"{self.path.name}: {error}") from error

    def recent(self, most: int) -> list[Stored]:
        if not self.path.exists():
            return []
        try:
            with contextlib.closing(connect(self.path, read_only=True)) as db:
                query = f"SELECT {ROW} FROM entries ORDER BY sequence DESC LIMIT ?"
                return [stored(*row) for row in db.execute(query, (most,))][::-1]
        except DAMAGE as error:
            raise StoreError(f"{self.path.name}: {error}") from error


def backup(path: Path, target: Path) -> None:
    """Copy the record as it is now, while the proxy runs. `target` must not exist. Raises LedgerError.

    A copy has no anchor: charges made after it would be lost with it, so a proxy starts on it only after `repair`.
    """
    if target.exists():
        raise LedgerError(f"{target} exists already")
    try:
        with contextlib.closing(connect(path, read_only=True)) as db:
            private_file(target)
            with contextlib.closing(sqlite3.connect(target)) as copy:
                db.backup(copy, pages=_BACKUP_PAGES)
    except DAMAGE as error:
        raise LedgerError(f"cannot back up {path.name}: {error}") from error


def repair_file(path: Path, *, at: dt.datetime, reason: str, key: bytes | None = None) -> Verified | None:
    """Make a damaged record whole again by charging more (`record.rechained`); None when there was nothing to do.

    The damaged files are kept beside it, named `.damaged-<time>`. Raises LedgerError when the file is in use, or
    cannot be written.
    """
    path = path.resolve()
    if not any(name.exists() for name in _files(path)):
        raise LedgerError(f"there is no ledger at {path}")
    if _is_whole(path, key):
        return None
    lock = ledger_lock(path)
    try:
        entries = _salvage(path)
        for name in _files(path):
            if name.exists():
                shutil.copy2(name, name.with_name(f"{name.name}.damaged-{at:%Y%m%dT%H%M%S}"))
        _replace(path, rechained(entries, at, reason), key)
    except DAMAGE as error:
        raise LedgerError(f"cannot repair {path.name}: {error}") from error
    finally:
        lock.release()
    return verify(SqliteReader(path), key=key)


def _is_whole(path: Path, key: bytes | None) -> bool:
    """By the checks of a start."""
    try:
        SqliteStore(path).close()
        verify(SqliteReader(path), key=key)
    except (LedgerCorrupt, StoreError):  # any other LedgerError is no damage: in use, another key or version
        return False
    return True


def _files(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", ".anchor"))


def _salvage(path: Path) -> list[Entry]:
    """What can be read, up to where the file itself is broken; whatever hashes, numbers and ids say."""
    found: list[Stored] = []
    with contextlib.suppress(*DAMAGE), contextlib.closing(connect(path, read_only=True)) as db:
        for (body,) in db.execute("SELECT body FROM entries ORDER BY sequence"):
            if isinstance(body, str):
                found.append((body, NO_HASH))
    return readable(found)


def _replace(path: Path, rows: list[Row], key: bytes | None) -> None:
    """Anchor first: a crash at any point leaves a record that does not fit its anchor, hence another repair."""
    fresh, head = path.with_name(path.name + ".repaired"), sealed(rows, "", key)
    fresh.unlink(missing_ok=True)
    private_file(fresh)
    with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as db:
        db.executescript(SCHEMA_SQL)
        db.execute("BEGIN")
        db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", [(r.sequence, r.id, r.body, r.hash) for r in rows])
        db.execute("INSERT INTO head VALUES (1, ?, ?, ?)", (head.sequence, head.hash, head.seal))
        db.execute("COMMIT")
    Anchor(path.with_name(path.name + ".anchor")).write(head, durable=True)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    os.replace(fresh, path)


FILE = "ledger.sqlite"  # in the state folder, unless an address is given
LEAST_KEY = 16  # bytes


class Place(Protocol):
    """A place is where a ledger's records are. `key` seals a record; None: records are not sealed. Every method raises
    LedgerError."""

    def open(self, key: bytes | None) -> Journal: ...

    def reader(self, dataset: str | None) -> Reader:
        """Return the record that holds this dataset; None where one record holds all."""
        ...

    def witness(self, dataset: str | None, key: bytes | None) -> Witness | None:
        """Return the witness of a record, which is kept outside of it."""
        ...

    def accept(self, dataset: str | None, reason: str, key: bytes | None) -> None:
        """Close every current window of a record that lacks what its witness has seen; from now on it counts as it is."""
        ...

    def repair(self, dataset: str | None, reason: str, key: bytes | None) -> Verified | None: ...

    def backup(self, target: Path) -> None: ...

    def names(self) -> Book:
        """Return the record that says which data each dataset has been charged for."""
        ...


@dataclass(frozen=True)
class SqlitePlace:
    """The record is one file. `anchor`: a file outside, on another volume, that tells when the folder was put back as a whole."""

    path: Path
    anchor: Path | None = None

    def open(self, key: bytes | None) -> Journal:
        return SqliteLedger(self.path, key=key, boot=since_boot, witness=self.witness(None, key), reserve=True)

    def reader(self, dataset: str | None) -> Reader:
        return SqliteReader(self.path)

    def witness(self, dataset: str | None, key: bytes | None) -> Witness | None:
        return Witness(self.anchor, "", key, begins=False) if self.anchor is not None else None

    def accept(self, dataset: str | None, reason: str, key: bytes | None) -> None:
        _accept(SqliteLedger(self.path, key=key, witness=self.witness(None, key), accepting=True), "", reason)

    def repair(self, dataset: str | None, reason: str, key: bytes | None) -> Verified | None:
        return repair_file(self.path, at=dt.datetime.now(dt.UTC), reason=reason, key=key)

    def backup(self, target: Path) -> None:
        backup(self.path, target)

    def names(self) -> Book:
        return current(self.reader(None))


@dataclass(frozen=True)
class PostgresPlace:
    """Each dataset has a record on a server. `state`: a proxy's own folder, which keeps what it has seen of each record."""

    dsn: str
    state: Path | None = None

    def open(self, key: bytes | None) -> Journal:
        return self._open(key)

    def _open(self, key: bytes | None, accepting: bool = False) -> Journal:
        seen = partial(self.witness, key=key)
        return PostgresLedger(self.dsn, key=key, boot=since_boot, witness_of=seen, accepting=accepting)

    def reader(self, dataset: str | None) -> Reader:
        return PostgresReader(self.dsn, _named(dataset))

    def witness(self, dataset: str | None, key: bytes | None) -> Witness | None:
        """Return the witness in the proxy's own folder; None on a machine that serves nothing."""
        if self.state is None or not self.state.exists():
            return None
        return witness_of(self.state, _named(dataset), key)

    def accept(self, dataset: str | None, reason: str, key: bytes | None) -> None:
        _accept(self._open(key, accepting=True), _named(dataset), reason)

    def repair(self, dataset: str | None, reason: str, key: bytes | None) -> Verified | None:
        return postgres.repair(self.dsn, _named(dataset), at=dt.datetime.now(dt.UTC), reason=reason, key=key)

    def backup(self, target: Path) -> None:
        raise LedgerError("a ledger in PostgreSQL is backed up with PostgreSQL's own tools")

    def names(self) -> Book:
        return current(PostgresReader(self.dsn, NAMES))


def _accept(ledger: Journal, dataset: str, reason: str) -> None:
    try:
        ledger.exhaust(dataset, dt.datetime.now(dt.UTC), reason)
    finally:
        ledger.close()


def repair(place: Place, dataset: str | None, reason: str, key: bytes | None) -> Verified | None:
    """Make a record whole by charging more, and accept one that was rolled back, by charging more; None when it was neither."""
    repaired, witness = place.repair(dataset, reason, key), place.witness(dataset, key)
    try:
        witnessed(place.reader(dataset), witness)
    except LedgerCorrupt:
        place.accept(dataset, reason, key)
        repaired = verify(place.reader(dataset), key=key)
    return repaired


def begin_anchor(place: Place, dataset: str | None, key: bytes | None) -> None:
    """Begin a witness for a record that has none. Raises LedgerError when it has one."""
    witness, verified = place.witness(dataset, key), verify(place.reader(dataset), key=key)
    if witness is None:
        raise LedgerError("say where: --anchor PATH")
    if witness.read() is not None:
        raise LedgerError(f"{witness.path} exists already")
    book = current(place.reader(dataset))
    witness.note(Seen(book.ledger, verified.entries, bytes.fromhex(verified.hash), book.closures))
    witness.sync()
    witness.close()


def _named(dataset: str | None) -> str:
    if dataset is None:
        raise LedgerError("a ledger in PostgreSQL has a record for each dataset: say which one")
    return dataset


def place_of(address: str | None, state: Path, anchor: Path | None = None) -> Place:
    """Return the place at an address. `address`: a URI `postgresql://...`, or a path; None: a file in the state folder. Raises
    LedgerError."""
    if address is not None and address.startswith(("postgresql://", "postgres://")):
        if anchor is not None:
            raise LedgerError("--anchor is for a SQLite ledger: of one in PostgreSQL each --state keeps its own")
        return PostgresPlace(address, state)
    return SqlitePlace(Path(address) if address is not None else state / FILE, anchor)


def named(place: Place) -> str:
    """Return what tells a place from others, for people: a file, or that it is a server."""
    return str(place.path.resolve()) if isinstance(place, SqlitePlace) else "a ledger in PostgreSQL"


def read_secret(path: Path | None) -> bytes | None:
    """Read the secret in a file, without the white space around it. Raises LedgerError when it is too short or unreadable."""
    if path is None:
        return None
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise LedgerError(f"the key file {path} cannot be read: {error.strerror}") from error
    if len(secret) < LEAST_KEY:
        raise LedgerError(f"the key file {path} holds fewer than {LEAST_KEY} bytes")
    return secret


def ledger_key(secret: bytes | None) -> bytes | None:
    return derived(secret, "ledger") if secret is not None else None
