"""Stored answers in a SQLite file, for the processes of one proxy.

Knows: sqlite3, files. Must not know: what the rows mean. Losing the file costs budget, never privacy: it commits without waiting
for the disk, and a file that is broken, of another format or kept under another key is put aside and begun anew. It is readable
by its owner only.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import logging
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

from dpproxy.errors import OperatorError
from dpproxy.private_files import private_file
from dpproxy.reuse.tables import FORMAT, SealError, TablesError, Values

# Who is making which measurement, among the processes that share a file of stored answers.
#
# Knows: file locks, names. Must not know: what the names stand for, who waits. A claim is a lock of one byte of a file, at a
# place that the name's hash says; the system lets go of what a dead process held. Two names at one place would only wait for
# each other's end. Where the system has no such locks there is one process, and claims are kept within it.


PLACE_BYTES = 7  # of the hash: places are far apart, and fit a signed offset


class Claims:
    """The claims of one process; for one thread. All names of a call are taken, or none."""

    def __init__(self, path: Path) -> None:
        """Open the file of claims. Raises OSError."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        self._mine: set[int] = set()

    def take(self, names: Collection[str]) -> bool:
        """Take names; return False when one is somebody else's. It never waits."""
        places = sorted(map(place_of, set(names)))
        if not self._mine.isdisjoint(places):  # the system does not hold a process off from its own locks
            return False
        for i, place in enumerate(places):
            if not _lock(self._fd, place):
                self._let_go(places[:i])
                return False
        self._mine.update(places)
        return True

    async def claim(self, names: Collection[str]) -> bool:
        """Take names, as `tables.Claiming` says."""
        return self.take(names)

    def drop(self, names: Collection[str]) -> None:
        places = sorted(map(place_of, set(names)))
        self._mine.difference_update(places)
        self._let_go(places)

    def _let_go(self, places: Collection[int]) -> None:
        for place in places:
            _unlock(self._fd, place)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def place_of(name: str) -> int:
    """Return the number that stands for a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:PLACE_BYTES], "big")


def _lock(fd: int, place: int) -> bool:
    if sys.platform == "win32" or fd < 0:
        return True
    import fcntl

    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES, as the system likes
        return False
    except OSError:  # no locks on this file system: as if alone, which costs budget when one is not
        return True
    return True


def _unlock(fd: int, place: int) -> None:
    if sys.platform == "win32" or fd < 0:
        return
    import fcntl

    fcntl.lockf(fd, fcntl.LOCK_UN, 1, place)


log = logging.getLogger(__name__)

T = TypeVar("T")

_OPENING = "opening"  # no digest is this

_SCHEMA = """
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY, exact TEXT NOT NULL, base TEXT NOT NULL, dataset TEXT NOT NULL, created TEXT NOT NULL,
    used REAL NOT NULL, payload BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS releases_exact ON releases (exact);
CREATE INDEX IF NOT EXISTS releases_base ON releases (base);
CREATE INDEX IF NOT EXISTS releases_used ON releases (used);
CREATE TABLE IF NOT EXISTS size (one INTEGER PRIMARY KEY CHECK (one = 1), bytes INTEGER NOT NULL) STRICT;
INSERT OR IGNORE INTO size SELECT 1, coalesce(sum(length(payload)), 0) FROM releases;
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON releases
    BEGIN UPDATE size SET bytes = bytes + length(new.payload); END;
CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON releases
    BEGIN UPDATE size SET bytes = bytes - length(old.payload); END;
CREATE TABLE IF NOT EXISTS seal (one INTEGER PRIMARY KEY CHECK (one = 1), proof BLOB) STRICT;
CREATE TABLE IF NOT EXISTS seen (
    release INTEGER NOT NULL REFERENCES releases ON DELETE CASCADE, role TEXT NOT NULL, at TEXT NOT NULL, proof BLOB,
    PRIMARY KEY (release, role)
) STRICT;
CREATE TABLE IF NOT EXISTS gone (exact TEXT PRIMARY KEY, dataset TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS gone_of ON gone (dataset);
CREATE TABLE IF NOT EXISTS asked (
    release INTEGER NOT NULL REFERENCES releases ON DELETE CASCADE, role TEXT NOT NULL, statement TEXT NOT NULL,
    epoch TEXT NOT NULL, PRIMARY KEY (release, role)
) STRICT;
"""

_FROM_2 = """
ALTER TABLE seen ADD COLUMN at TEXT NOT NULL DEFAULT '';
UPDATE seen SET at = (SELECT created FROM releases WHERE id = release);
CREATE TABLE gone (exact TEXT PRIMARY KEY, dataset TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO gone SELECT exact, min(dataset) FROM releases GROUP BY exact;
"""
_FROM_3 = "ALTER TABLE seen ADD COLUMN proof BLOB"


class NoRegularFile(OperatorError):
    """A folder has the name of the file of stored answers: it holds something else, which must not be put aside."""


class FileTables:
    """`tables.AnswerTables` in a file."""

    def __init__(self, path: Path) -> None:
        """Open the file of claims in the same folder. Raises OSError; NoRegularFile."""
        if path.exists() and not path.is_file():
            raise NoRegularFile(f"stored answers are kept in the file {path}, but that is a folder or device: move it away")
        self._path = path
        self.claims = Claims(path.with_name(path.name + ".claims"))

    def open(self, check: Callable[[int], None]) -> None:
        with self._alone():
            try:
                self._open(check)
            except (sqlite3.Error, SealError) as error:
                log.warning("stored answers cannot be read and are begun anew: %s", error)
                self._put_aside()
                self._open(check)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time: who puts a broken file aside must not put aside what another has just begun."""
        while not self.claims.take((_OPENING,)):
            time.sleep(0.01)
        try:
            yield
        finally:
            self.claims.drop((_OPENING,))

    def _open(self, check: Callable[[int], None]) -> None:
        private_file(self._path)
        self.db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            for statement in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
                self.db.execute(f"PRAGMA {statement}")
            self.db.execute("BEGIN IMMEDIATE")
            found = self._made()
            check(found)
            self.db.execute(f"PRAGMA user_version = {FORMAT}")
            self.db.execute("COMMIT")
        except BaseException:
            self.db.close()
            raise

    def _made(self) -> int:
        """Make what is missing; return the format that was there. Raises sqlite3.DatabaseError for one that is not known."""
        (found,) = self.db.execute("PRAGMA user_version").fetchone()
        if found not in (0, 2, 3, FORMAT):
            raise sqlite3.DatabaseError("another format")
        for script in ((_FROM_2, _FROM_3) if found == 2 else (_FROM_3,) if found == 3 else ()) + (_SCHEMA,):
            for statement in _statements(script):
                self.db.execute(statement)
        return found or FORMAT

    def _put_aside(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                file = self._path.with_name(self._path.name + suffix)
                os.replace(file, file.with_name(file.name + ".broken"))

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def rows(self, query: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return self.db.execute(query, values).fetchall()

    def reading(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            raise TablesError(str(error)) from error

    def writing(self, work: Callable[[], T]) -> T:
        try:
            self.db.execute("BEGIN IMMEDIATE")
            done = work()
            self.db.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise TablesError(str(error)) from error
            raise
        return done

    def close(self) -> None:
        self.db.close()
        self.claims.close()


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: run as a script they would commit what is under way."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
