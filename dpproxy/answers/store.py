"""Answers that were paid for: released measurements, kept so that asking again costs nothing and teaches nothing.

Knows: `Released` (its type is the proof that nothing exact is kept), what was asked, who has seen what. Must not know: SQL,
policies, backends. Losing this file costs budget, never privacy: so it is a cache in a SQLite file of its own, commits
without waiting for the disk, and every failure is a miss.

The rule of use, for a caller who holds `found`:

- the role has seen it, or it was computed from what the role has seen: no charge at all;
- another role: its account is charged `asked.exposure` once, the dataset is not; *then* `mark_seen`, then show. A crash
  between charge and mark charges again: too much, never too little.

Another role is only ever shown the *first* release that answers its question: who measures anew (`reuse = off`, or other noise)
until a release says what they want it to say has chosen nothing for others. That holds as long as the file remembers: the
name of every release that is dropped, or could not be kept, is in `gone`, and what it names is measured anew for other roles,
at their own charge. Nor is another role told when the first one asked: its answer is as old as the day it first saw it.

Several processes may share the file; `claims` says which of them makes what.

The file is readable by its owner only. With a key, payloads and what was asked are sealed (`budget.seal`); their names are
digests either way. A file kept under another key, or in another format, is put aside and begun anew.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from dpproxy.answers.claims import Claims
from dpproxy.answers.derivation import derive
from dpproxy.answers.matching import NOWHERE, Asked, Origin, Repeat, StoredRelease, at_the_price, serve
from dpproxy.answers.payload import pack, unpack
from dpproxy.budget.seal import Sealer, SealError
from dpproxy.mechanisms.exact_answers import Released
from dpproxy.privacy.loss import Loss

log = logging.getLogger(__name__)

MAX_BYTES = 256 * 2**20
"""Of payloads: a million groups of two columns take 16 MB; dashboards take kilobytes."""

EVICT_TO = 0.9
"""Room is made down to this part at once, so that not every new answer evicts."""

TOUCH_SECONDS = 60
"""Last use is kept this coarsely, so that a hit is a read."""

MOST = 64
"""Releases looked at for one question, the latest first: each has to be read."""

FORMAT = 3
"""Of the file: another number means it is put aside and begun anew. One of 2 is taken over: it did not say what was dropped,
so no other role is shown what is in it."""

MOST_GONE = 1_000_000
"""Names of dropped releases: some 150 MB. Beyond, nothing of the dataset is shown to other roles."""

AHEAD = dt.timedelta(hours=1)
"""A release from further ahead was made while a clock was wrong: nobody knows how old it is."""

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
    release INTEGER NOT NULL REFERENCES releases ON DELETE CASCADE, role TEXT NOT NULL, at TEXT NOT NULL,
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
BEGIN;
ALTER TABLE seen ADD COLUMN at TEXT NOT NULL DEFAULT '';
UPDATE seen SET at = (SELECT created FROM releases WHERE id = release);
CREATE TABLE gone (exact TEXT PRIMARY KEY, dataset TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO gone SELECT exact, min(dataset) FROM releases GROUP BY exact;
PRAGMA user_version = 3;
COMMIT;
"""

_COLUMNS = "id, dataset, created, base, payload"

Mode = Literal["exact", "derive"]


@dataclass(frozen=True)
class Found:
    """Is what answers a question: `stored` as it was asked, or computed from releases the role has seen (`stored` is None).
    `made`: when the role first saw those it is from; of what it has not seen, now."""

    released: Released
    stored: StoredRelease | None
    made: tuple[dt.datetime, ...]

    def seen(self, role: str) -> bool:
        """Whether the role may have it at no charge."""
        return self.stored is None or role in self.stored.roles


def _text(release: StoredRelease) -> bytes:
    """One line of what was asked, then the values."""
    line = json.dumps({"made": release.made.to_json(), "loss": release.loss.to_json()})
    return line.encode() + b"\n" + pack(release.released)


def _text_of(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).isoformat()


class AnswerStore:
    """Keeps released answers in a file; thread-safe. It never raises for a broken file, which is put aside at start or answers
    with misses."""

    def __init__(self, path: str | Path, *, max_bytes: int = MAX_BYTES, sealer: Sealer | None = None) -> None:
        self._path, self._max_bytes, self._sealer = Path(path), max_bytes, sealer
        self._lock = threading.Lock()
        self._unwritten = dict[str, str]()  # of releases that could not be kept: name, dataset
        self.claims = Claims(self._path.with_name(self._path.name + ".claims"))
        with self._alone():
            try:
                self._open()
            except sqlite3.Error as error:
                log.warning("stored answers cannot be read and are begun anew: %s", error)
                self._put_aside()
                self._open()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time: who puts a broken file aside must not put aside what another has just begun."""
        while not self.claims.take((_OPENING,)):
            time.sleep(0.01)
        try:
            yield
        finally:
            self.claims.drop((_OPENING,))

    def _open(self) -> None:
        self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            os.chmod(self._path, 0o600)
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == 2:
                self._db.executescript(_FROM_2)
            elif version not in (0, FORMAT):
                raise sqlite3.DatabaseError("another format")
            for statement in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
                self._db.execute(f"PRAGMA {statement}")
            self._db.executescript(_SCHEMA)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            self._check_seal()
        except BaseException:
            self._db.close()
            raise

    def _check_seal(self) -> None:
        """The file is sealed with this key, or with none as we have none. Raises sqlite3.DatabaseError."""
        row = self._db.execute("SELECT proof FROM seal").fetchone()
        if row is None:
            proof = self._sealer.seal(b"", "proof") if self._sealer else None
            self._db.execute("INSERT INTO seal VALUES (1, ?)", (proof,))
            return
        if (row[0] is None) != (self._sealer is None):
            raise sqlite3.DatabaseError("kept with a key that is not configured, or without the one that is")
        if self._sealer is not None:
            try:
                self._sealer.open(row[0], "proof")
            except SealError as error:
                raise sqlite3.DatabaseError(str(error)) from error

    def _put_aside(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                file = self._path.with_name(self._path.name + suffix)
                os.replace(file, file.with_name(file.name + ".broken"))

    def find(
        self,
        asked: Asked,
        *,
        role: str,
        price: Loss,
        now: dt.datetime,
        max_age: dt.timedelta | None = None,
        mode: Mode = "exact",
    ) -> Found | None:
        """Return what answers `asked` at least as accurately: a release the role has seen if there is any (the latest), else in
        mode `derive` one computed from such, else the first there ever was of those that cost it no more than `price`. None that
        the role has seen for longer than `max_age`, or that is older.
        """
        oldest = now - max_age if max_age is not None else None
        with self._lock:
            try:
                best = self._of_role(asked, role, oldest, now, mode) or self._of_others(asked, price, oldest, now)
                if best is not None and best.stored is not None:
                    self._touch(best.stored, now)
                return best
            except sqlite3.Error as error:
                log.warning("stored answers cannot be read: %s", error)
                return None

    def _of_role(self, asked: Asked, role: str, oldest: dt.datetime | None, now: dt.datetime, mode: Mode) -> Found | None:
        """The best of what the role has seen."""
        read = self._seen("exact", asked.exact, role, oldest, now)
        found = [Found(r, s, (at,)) for s, at in read if (r := serve(s, asked)) is not None]
        if mode == "derive" and not found:
            known = self._seen("base", asked.base, role, oldest, now)
            found += [Found(r, s, (at,)) for s, at in known if (r := serve(s, asked, subset=True)) is not None]
            derived = derive(asked, [s for s, _ in known])
            if derived is not None:
                times = {s.id: at for s, at in known}
                found.append(Found(derived.released, None, tuple(times[s.id] for s in derived.sources)))
        return next(iter(found), None)

    def _of_others(self, asked: Asked, price: Loss, oldest: dt.datetime | None, now: dt.datetime) -> Found | None:
        """The first release that would answer, unless it may have been another one that is no longer there, or is too old."""
        if self._is_gone(asked.exact):
            return None
        query = f"SELECT {_COLUMNS}, '' FROM releases WHERE exact = ? ORDER BY id LIMIT {MOST}"
        for stored, _ in self._read(query, (asked.exact,)):
            if stored is None:
                return None
            released = serve(stored, asked) if at_the_price(stored, asked, price) else None
            if released is not None:
                aged = stored.created > now + AHEAD or (oldest is not None and stored.created < oldest)
                return None if aged else Found(released, stored, (now,))
        return None

    def _is_gone(self, exact: str) -> bool:
        query = "SELECT 1 FROM gone WHERE exact = ? OR exact = (SELECT 'all of ' || dataset FROM releases WHERE exact = ?)"
        return exact in self._unwritten or self._db.execute(query, (exact, exact)).fetchone() is not None

    def _seen(
        self, column: Literal["exact", "base"], value: str, role: str, oldest: dt.datetime | None, now: dt.datetime
    ) -> list[tuple[StoredRelease, dt.datetime]]:
        """Releases by a name that a role has seen, and since when; the latest first. What cannot be read is not there."""
        query = f"SELECT {_COLUMNS}, at FROM releases JOIN seen ON release = id WHERE {column} = ? AND role = ? "
        query += f"AND at >= ? AND at <= ? ORDER BY created DESC, id DESC LIMIT {MOST}"
        times = (_text_of(oldest) if oldest is not None else "", _text_of(now + AHEAD))
        read = self._read(query, (value, role, *times))
        return [(stored, dt.datetime.fromisoformat(at)) for stored, at in read if stored is not None]

    def _read(self, query: str, values: tuple[str, ...]) -> Iterator[tuple[StoredRelease | None, str]]:
        """None for what cannot be read."""
        for id, dataset, created, base, payload, at in self._db.execute(query, values).fetchall():
            roles = frozenset(r for (r,) in self._db.execute("SELECT role FROM seen WHERE release = ?", (id,)))
            try:
                text = self._sealer.open(payload, base) if self._sealer else payload
                line, _, packed = text.partition(b"\n")
                fields = json.loads(line)
                made, loss = Asked.from_json(fields["made"]), Loss.from_json(fields["loss"])
                moment = dt.datetime.fromisoformat(created)
                yield StoredRelease(dataset, made, unpack(packed), loss, moment, roles, id), at
            except (SealError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
                log.warning("a stored answer cannot be read: %s", error)
                yield None, at

    def _touch(self, stored: StoredRelease, now: dt.datetime) -> None:
        used = now.timestamp()
        self._db.execute("UPDATE releases SET used = ? WHERE id = ? AND used < ?", (used, stored.id, used - TOUCH_SECONDS))

    def put(self, release: StoredRelease, origin: Origin = NOWHERE) -> None:
        """Keep a release; the least recently used ones make room. Of one too large for the store the name is kept."""
        payload = _text(release)
        if len(payload) <= self._max_bytes:
            sealed = self._sealer.seal(payload, release.made.base) if self._sealer else payload
            if self._write(lambda: self._insert(release, sealed, origin)):
                return
        self._unwritten[release.made.exact] = release.dataset
        self._write(lambda: None)

    def _bury(self) -> None:
        """Remember by name what could not be kept."""
        self._db.executemany("INSERT OR IGNORE INTO gone VALUES (?, ?)", list(self._unwritten.items()))
        self._close_full(set(self._unwritten.values()))

    def _close_full(self, datasets: Iterable[str]) -> None:
        for dataset in datasets:
            (known,) = self._db.execute("SELECT count(*) FROM gone WHERE dataset = ?", (dataset,)).fetchone()
            if known > MOST_GONE:
                self._db.execute("DELETE FROM gone WHERE dataset = ?", (dataset,))
                self._db.execute("INSERT INTO gone VALUES (?, ?)", (f"all of {dataset}", dataset))

    def _insert(self, release: StoredRelease, payload: bytes, origin: Origin) -> None:
        created, used = _text_of(release.created), release.created.timestamp()
        cursor = self._db.execute(
            "INSERT INTO releases (exact, base, dataset, created, used, payload) VALUES (?, ?, ?, ?, ?, ?)",
            (release.made.exact, release.made.base, release.dataset, created, used, payload),
        )
        self._db.executemany("INSERT INTO seen VALUES (?, ?, ?)", [(cursor.lastrowid, role, created) for role in release.roles])
        for role in release.roles:
            self._ask(cursor.lastrowid, role, origin)
        (held,) = self._db.execute("SELECT bytes FROM size").fetchone()
        if held > self._max_bytes:
            self._evict(held, keep=cursor.lastrowid)

    def _evict(self, held: int, keep: int | None) -> None:
        old = self._db.execute("SELECT id, length(payload) FROM releases WHERE id <> ? ORDER BY used, id", (keep,)).fetchall()
        for id, size in old:
            if held <= self._max_bytes * EVICT_TO:
                break
            self._drop("id = ?", (id,))
            held -= size
        self._close_full([dataset for (dataset,) in self._db.execute("SELECT DISTINCT dataset FROM gone").fetchall()])

    def _drop(self, which: str, values: tuple[object, ...]) -> None:
        self._db.execute(
            f"INSERT OR IGNORE INTO gone SELECT exact, min(dataset) FROM releases WHERE {which} GROUP BY exact", values
        )
        self._db.execute(f"DELETE FROM releases WHERE {which}", values)

    def mark_seen(self, stored: StoredRelease, role: str, at: dt.datetime, origin: Origin = NOWHERE) -> None:
        """Note that the role was charged for this release and is about to see it. Another that has its number by now is not
        meant."""
        query = "INSERT OR IGNORE INTO seen SELECT id, ?, ? FROM releases WHERE id = ? AND exact = ? AND created = ?"
        values = (role, _text_of(at), stored.id, stored.made.exact, _text_of(stored.created))

        def mark() -> None:
            if self._db.execute(query, values).rowcount:
                self._ask(stored.id, role, origin)

        self._write(mark)

    def _ask(self, release: int | None, role: str, origin: Origin) -> None:
        self._db.execute("INSERT OR IGNORE INTO asked VALUES (?, ?, ?, ?)", (release, role, origin.statement, origin.epoch))

    def forget(self, dataset: str, *, before: dt.datetime | None = None) -> None:
        """Drop a dataset's answers, or those that nobody has first seen since a moment (answers that expired)."""
        limit = _text_of(before) if before else "9999"
        which = "dataset = ? AND created < ? AND id NOT IN (SELECT release FROM seen WHERE at >= ?)"
        self._write(lambda: self._drop(which, (dataset, limit, limit)))

    def count(self, dataset: str, role: str) -> int:
        """Return how many stored answers a role can ask for again at no charge."""
        query = "SELECT count(*) FROM releases JOIN seen ON release = id WHERE dataset = ? AND role = ?"
        with self._lock, contextlib.suppress(sqlite3.Error):
            return int(self._db.execute(query, (dataset, role)).fetchone()[0])
        return 0

    def repeats(self, dataset: str, epoch: str, count: int) -> list[Repeat]:
        """Return what roles can ask for again at no charge on an epoch, the latest first."""
        query = (
            "SELECT role, statement, count(*), min(at) FROM asked JOIN seen USING (release, role) JOIN releases ON id = release"
        )
        query += " WHERE dataset = ? AND epoch = ? GROUP BY 1, 2 ORDER BY 4 DESC LIMIT ?"
        with self._lock, contextlib.suppress(sqlite3.Error):
            found = self._db.execute(query, (dataset, epoch, count)).fetchall()
            return [Repeat(role, statement, parts, dt.datetime.fromisoformat(at)) for role, statement, parts, at in found]
        return []

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self.claims.close()

    def _write(self, work: Callable[[], object]) -> bool:
        """All or nothing; a failure is logged and forgotten: what is not stored is asked and paid for again."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                self._bury()
                work()
                self._db.execute("COMMIT")
                self._unwritten.clear()
                return True
            except sqlite3.Error as error:
                log.warning("an answer was not stored: %s", error)
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
        return False
