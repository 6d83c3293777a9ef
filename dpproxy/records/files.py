"""An operator's tools on a SQLite ledger's files: read, back up, repair.

Knows: files, SQLite. Must not know: what entries mean (`record` does). Reading and backup work while the proxy runs
(SQLite's WAL gives readers a snapshot); `repair` needs it stopped.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpproxy.ledger.entries import NO_HASH, Entry, Head, Row, head_of, stored
from dpproxy.ledger.ledger import LedgerCorrupt, LedgerError
from dpproxy.ledger.transaction import Stored, StoreError
from dpproxy.private_files import private_file
from dpproxy.records.record import Verified, readable, rechained, sealed, verify
from dpproxy.records.sqlite import DAMAGE, ROW, SCHEMA_SQL, Anchor, SqliteStore, connect, ledger_lock

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


def repair(path: Path, *, at: dt.datetime, reason: str, key: bytes | None = None) -> Verified | None:
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
