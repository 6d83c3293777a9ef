"""An operator's tools on a ledger file: verify, show, export, back up, repair.

Knows: rows and files. Must not know: policies. All but `repair` only read, and work while the proxy runs (SQLite's
WAL gives readers a snapshot). `repair` needs the proxy stopped; it can only ever charge more: every entry that can
still be read stays charged, and since what was lost is unknown, every current window is closed (`entries.Exhausted`)
until it ends or an operator grants budget, with a reason that stays in the record.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hmac
import json
import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from dpproxy.budget.book import Book
from dpproxy.budget.entries import (
    NO_HASH,
    Entry,
    Exhausted,
    Head,
    Opened,
    Row,
    check_seal,
    decode,
    encode,
    link,
    seal,
)
from dpproxy.budget.journal import MAX_JUMP, StoreError, replay
from dpproxy.budget.ledger import Charge, LedgerCorrupt, LedgerError
from dpproxy.budget.sqlite import SCHEMA_SQL, Anchor, FileLock, SqliteStore, connect

_BACKUP_PAGES = 1000  # a step of the online backup: 4 MB, between which the writer may go on


@dataclass(frozen=True)
class Verified:
    """A record that holds together: how many entries, and the hash that names it all."""

    entries: int
    hash: str
    last: dt.datetime | None


def verify(path: Path, *, key: bytes | None = None) -> Verified:
    """Check the whole chain, the head, its seal. Raises LedgerCorrupt, LedgerError."""
    with _reading(path) as db:
        head = _head(db)
        check_seal(key, "", head)
        book = Book(MAX_JUMP)
        digest = replay(book, NO_HASH, _rows(db))
    if (book.sequence, digest) != (head.sequence, head.hash):
        raise LedgerCorrupt("the entries and the head do not agree: entries were changed or lost")
    return Verified(book.sequence, digest.hex(), book.clock)


def show(
    path: Path, *, role: str | None = None, dataset: str | None = None, since: dt.datetime | None = None
) -> Iterator[tuple[int, Entry]]:
    """(sequence, entry) in order. With `role`, only charges of that role. Raises LedgerError."""
    with _reading(path) as db:
        for body, _ in _rows(db):
            sequence, entry = decode(body)
            if isinstance(entry, Opened) or (since is not None and entry.at < since):
                continue
            if role is not None and not (isinstance(entry, Charge) and entry.role == role):
                continue
            if dataset is not None and getattr(entry, "dataset", dataset) != dataset:
                continue
            yield sequence, entry


def export(path: Path, out: TextIO, *, key: bytes | None = None) -> Verified:
    """Write every entry as a line of JSON with its hash, then a line with the head, sealed if there is a key.

    Checks the chain while it writes. Raises LedgerCorrupt, LedgerError.
    """
    verified = verify(path, key=key)
    digest = NO_HASH
    with _reading(path) as db:
        for body, _ in _rows(db, up_to=verified.entries):
            digest = link(digest, body)
            out.write(json.dumps({"entry": body, "hash": digest.hex()}) + "\n")
    if digest.hex() != verified.hash:
        raise LedgerCorrupt("the ledger changed while it was exported")
    end = {"sequence": verified.entries, "hash": verified.hash}
    signature = seal(key, "export", verified.entries, digest).hex() if key else None
    out.write(json.dumps({"head": end, "signature": signature}) + "\n")
    return verified


def verify_export(lines: Iterable[str], *, key: bytes | None = None) -> Verified:
    """Check what `export` wrote. Raises LedgerCorrupt: a line changed, missing or added; no or another signature."""
    book, digest, end = Book(MAX_JUMP), NO_HASH, None
    try:
        for line in lines:
            data = json.loads(line)
            if end is not None:
                raise LedgerCorrupt("the export goes on after its head")
            if "head" in data:
                end = data
            else:
                digest = replay(book, digest, [(data["entry"], bytes.fromhex(data["hash"]))])
        if end is None or (end["head"]["sequence"], end["head"]["hash"]) != (book.sequence, digest.hex()):
            raise LedgerCorrupt("the export does not end with the head of its entries")
        if key is not None:
            _check_signature(key, end["signature"], book.sequence, digest)
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerCorrupt("a line of the export cannot be read") from error
    return Verified(book.sequence, digest.hex(), book.clock)


def _check_signature(key: bytes, signature: object, sequence: int, digest: bytes) -> None:
    expected = seal(key, "export", sequence, digest).hex()
    if not isinstance(signature, str) or not hmac.compare_digest(signature, expected):
        raise LedgerCorrupt("the export is not signed with this key")


def backup(path: Path, target: Path) -> None:
    """Copy the record as it is now, while the proxy runs. `target` must not exist. Raises LedgerError.

    A copy has no anchor: charges made after it would be lost with it, so a proxy starts on it only after `repair`.
    """
    if target.exists():
        raise LedgerError(f"{target} exists already")
    try:
        with (
            contextlib.closing(connect(path, read_only=True)) as db,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            db.backup(copy, pages=_BACKUP_PAGES)
        os.chmod(target, 0o600)
    except (sqlite3.Error, OSError) as error:
        raise LedgerError(f"cannot back up {path.name}: {error}") from error


def repair(path: Path, *, at: dt.datetime, reason: str, key: bytes | None = None) -> Verified | None:
    """Make a damaged record whole again by charging more (module docstring); None when there was nothing to do.

    The damaged files are kept beside it, named `.damaged-<time>`. Raises LedgerError when the file is in use, or
    cannot be written.
    """
    if not any(name.exists() for name in _files(path)):
        raise LedgerError(f"there is no ledger at {path}")
    if _is_whole(path, key):
        return None
    lock = FileLock(path.with_name(path.name + ".lock"))
    try:
        entries = _salvage(path)
        for name in _files(path):
            if name.exists():
                shutil.copy2(name, name.with_name(f"{name.name}.damaged-{at:%Y%m%dT%H%M%S}"))
        rows = list(_rechained(entries, at, reason))
        _replace(path, rows, key)
    except (sqlite3.Error, OSError) as error:
        raise LedgerError(f"cannot repair {path.name}: {error}") from error
    finally:
        lock.release()
    return verify(path, key=key)


def _is_whole(path: Path, key: bytes | None) -> bool:
    """By the checks of a start."""
    try:
        SqliteStore(path).close()
        verify(path, key=key)
    except (LedgerCorrupt, StoreError):  # any other LedgerError is no damage: in use, another key or version
        return False
    return True


def _files(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", ".anchor"))


def _salvage(path: Path) -> list[Entry]:
    """Every entry that can be read, in order, whatever its hash says."""
    found: list[Entry] = []
    with contextlib.suppress(LedgerError, sqlite3.Error), _reading(path) as db:
        for body, _ in _rows(db):
            with contextlib.suppress(LedgerCorrupt):
                found.append(decode(body)[1])
    return found


def _rechained(entries: list[Entry], at: dt.datetime, reason: str) -> Iterator[Row]:
    """A new record of the same entries, and the one that closes every window. Times never run backwards in it."""
    digest, clock, ids = NO_HASH, None, set[str]()
    kept: list[Entry] = [e for e in entries if not isinstance(e, Opened)]
    sequence = 0
    for entry in [Opened(str(uuid.uuid4())), *kept, Exhausted(at, reason)]:
        if not isinstance(entry, Opened):
            clock = max(entry.at, clock or entry.at)
            entry = replace(entry, at=clock)
        if isinstance(entry, Charge):
            if entry.id in ids:
                continue
            ids.add(entry.id)
        sequence += 1
        body = encode(entry, sequence)
        digest = link(digest, body)
        yield Row(sequence, entry.id if isinstance(entry, Charge) else None, body, digest)


def _replace(path: Path, rows: list[Row], key: bytes | None) -> None:
    """Anchor first: a crash at any point leaves a record that does not fit its anchor, hence another repair."""
    fresh = path.with_name(path.name + ".repaired")
    fresh.unlink(missing_ok=True)
    last = rows[-1]
    with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as db:
        db.executescript(SCHEMA_SQL)
        db.execute("BEGIN")
        db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", [(r.sequence, r.id, r.body, r.hash) for r in rows])
        sealed = seal(key, "", last.sequence, last.hash) if key else None
        db.execute("INSERT INTO head VALUES (1, ?, ?, ?)", (last.sequence, last.hash, sealed))
        db.execute("COMMIT")
    os.chmod(fresh, 0o600)
    Anchor(path.with_name(path.name + ".anchor")).write(Head(last.sequence, last.hash), durable=True)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    os.replace(fresh, path)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.exists():
        raise LedgerError(f"there is no ledger at {path}")
    try:
        with contextlib.closing(connect(path, read_only=True)) as db:
            db.execute("BEGIN")  # one snapshot, whatever the proxy writes meanwhile
            yield db
    except sqlite3.Error as error:
        raise StoreError(f"{path.name}: {error}") from error


def _head(db: sqlite3.Connection) -> Head:
    row = db.execute("SELECT sequence, hash, seal FROM head").fetchone()
    return Head(*row) if row else Head()


def _rows(db: sqlite3.Connection, up_to: int | None = None) -> Iterator[tuple[str, bytes]]:
    limit = up_to if up_to is not None else 2**62
    yield from db.execute("SELECT body, hash FROM entries WHERE sequence <= ? ORDER BY sequence", (limit,))
