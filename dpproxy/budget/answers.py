"""Answers that were paid for: released measurements, kept so that asking again costs nothing and teaches nothing.

Knows: `Released` (its type is the proof that nothing exact is kept), losses, who has seen what. Must not know: SQL,
policies, backends. Losing this file costs budget, never privacy: so it is a cache in a SQLite file of its own, commits
without waiting for the disk, and every failure is a miss.

The rule of use, for a caller who holds `stored`:

- the role has seen it: no charge at all;
- another role: its account is charged `stored.loss` once, the dataset is not; *then* `mark_seen`, then show. A crash
  between charge and mark charges again: too much, never too little.

A key names everything of a measurement but its noise (`answer_key`), so a release serves any request whose asked
noise is not smaller (`serves`). Values are not encrypted: they are released, and no cipher is among the dependencies;
the file is readable by its owner only.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpproxy.mechanisms.exact import Released
from dpproxy.plan.loss import Loss

log = logging.getLogger(__name__)

MAX_BYTES = 256 * 2**20
"""Of payloads: a million groups of two columns take 16 MB; dashboards take kilobytes."""

EVICT_TO = 0.9
"""Room is made down to this part at once, so that not every new answer evicts."""

TOUCH_SECONDS = 60
"""Last use is kept this coarsely, so that a hit is a read."""

FORMAT = 1
"""Of the file: another number means it is thrown away and begun anew."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, dataset TEXT NOT NULL, created TEXT NOT NULL, used REAL NOT NULL,
    meta TEXT NOT NULL, payload BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS releases_key ON releases (key);
CREATE INDEX IF NOT EXISTS releases_used ON releases (used);
CREATE TABLE IF NOT EXISTS seen (
    release INTEGER NOT NULL REFERENCES releases ON DELETE CASCADE, role TEXT NOT NULL, PRIMARY KEY (release, role)
) STRICT;
"""


@dataclass(frozen=True)
class StoredRelease:
    """A release and what a role that has not seen it would be charged. `scales` are the noise of bases, in order,
    then epsilon per group of selections negated (less epsilon: larger noise). `id` is None until stored."""

    key: str
    dataset: str
    released: Released
    loss: Loss
    scales: tuple[Fraction, ...]
    created: dt.datetime
    roles: frozenset[str]
    id: int | None = None


def answer_key(dataset: str, epoch: str, canonical: str) -> str:
    """The name of a measurement on one state of the data: SHA-256 of all three, unambiguously joined."""
    return hashlib.sha256(json.dumps([dataset, epoch, canonical]).encode()).hexdigest()


def serves(stored: StoredRelease, scales: Sequence[Fraction]) -> bool:
    """Whether every column of `stored` is at least as accurate as asked."""
    return len(stored.scales) == len(scales) and all(a <= b for a, b in zip(stored.scales, scales, strict=True))


def pack(released: Released) -> bytes:
    """Arrow IPC: keys k0.., values v0... The number of rows is in the metadata, for answers without columns."""
    columns = {f"k{i}": key for i, key in enumerate(released.keys)}
    columns |= {f"v{i}": pa.array(value, pa.int64()) for i, value in enumerate(released.values)}
    schema = pa.schema([(n, c.type) for n, c in columns.items()], metadata={"rows": str(released.rows)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    return bytes(sink.getvalue())


def unpack(payload: bytes) -> Released:
    """The inverse of `pack`. Raises pa.ArrowInvalid, KeyError or ValueError for anything else."""
    table = pa.ipc.open_stream(payload).read_all()
    rows = int(table.schema.metadata[b"rows"])
    keys = tuple(_array(table, n) for n in table.column_names if n.startswith("k"))
    values = tuple(_array(table, n).to_numpy(zero_copy_only=False) for n in table.column_names if n.startswith("v"))
    if any(len(c) != rows for c in (*keys, *values)) or any(v.dtype != np.int64 for v in values):
        raise ValueError("a stored answer has columns of another shape")
    return Released(keys, values, rows)


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


class AnswerStore:
    """Thread-safe; never raises for a broken file, which is put aside at start or answers with misses."""

    def __init__(self, path: str | Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._path, self._max_bytes = Path(path), max_bytes
        self._lock = threading.Lock()
        try:
            self._open()
        except sqlite3.Error as error:
            log.warning("stored answers cannot be read and are begun anew: %s", error)
            self._put_aside()
            self._open()

    def _open(self) -> None:
        self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            os.chmod(self._path, 0o600)
            if self._db.execute("PRAGMA user_version").fetchone()[0] not in (0, FORMAT):
                raise sqlite3.DatabaseError("another format")
            for statement in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
                self._db.execute(f"PRAGMA {statement}")
            self._db.executescript(_SCHEMA)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            self._bytes = self._db.execute("SELECT coalesce(sum(length(payload)), 0) FROM releases").fetchone()[0]
        except BaseException:
            self._db.close()
            raise

    def _put_aside(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                file = self._path.with_name(self._path.name + suffix)
                os.replace(file, file.with_name(file.name + ".broken"))

    def get(
        self,
        key: str,
        *,
        role: str,
        now: dt.datetime,
        scales: Sequence[Fraction],
        max_age: dt.timedelta | None = None,
    ) -> StoredRelease | None:
        """The release that answers at least as accurately as `scales`: one the role has seen if there is any (the
        latest), else the latest. None older than `max_age`."""
        with self._lock:
            try:
                found = self._candidates(key, now, max_age)
                fitting = [s for s in found if serves(s, scales)]
                best = max(fitting, key=lambda s: (role in s.roles, s.created), default=None)
                if best is not None:
                    self._touch(best, now)
                return best
            except (sqlite3.Error, pa.ArrowException, KeyError, TypeError, ValueError) as error:
                log.warning("a stored answer cannot be read: %s", error)
                return None

    def _candidates(self, key: str, now: dt.datetime, max_age: dt.timedelta | None) -> list[StoredRelease]:
        found = []
        for row in self._db.execute("SELECT id, dataset, created, meta, payload FROM releases WHERE key = ?", (key,)):
            id, dataset, created, meta, payload = row
            at = dt.datetime.fromisoformat(created)
            if max_age is not None and now - at > max_age:
                continue
            fields = json.loads(meta)
            roles = frozenset(r for (r,) in self._db.execute("SELECT role FROM seen WHERE release = ?", (id,)))
            scales = tuple(Fraction(s) for s in fields["scales"])
            loss = Loss.from_json(fields["loss"])
            found.append(StoredRelease(key, dataset, unpack(payload), loss, scales, at, roles, id))
        return found

    def _touch(self, stored: StoredRelease, now: dt.datetime) -> None:
        used = now.timestamp()
        self._db.execute("UPDATE releases SET used = ? WHERE id = ? AND used < ?", (used, stored.id, used - TOUCH_SECONDS))

    def put(self, release: StoredRelease) -> None:
        """Keep a release; the least recently used ones make room. One too large for the store is not kept."""
        payload = pack(release.released)
        if len(payload) > self._max_bytes:
            return
        meta = json.dumps({"scales": [str(s) for s in release.scales], "loss": release.loss.to_json()})
        created = release.created.astimezone(dt.UTC).isoformat()
        with self._transaction():
            cursor = self._db.execute(
                "INSERT INTO releases (key, dataset, created, used, meta, payload) VALUES (?, ?, ?, ?, ?, ?)",
                (release.key, release.dataset, created, release.created.timestamp(), meta, payload),
            )
            rows = [(cursor.lastrowid, role) for role in release.roles]
            self._db.executemany("INSERT INTO seen VALUES (?, ?)", rows)
            self._bytes += len(payload)
            if self._bytes > self._max_bytes:
                self._evict(keep=cursor.lastrowid)

    def _evict(self, keep: int | None) -> None:
        old = self._db.execute("SELECT id, length(payload) FROM releases WHERE id <> ? ORDER BY used, id", (keep,)).fetchall()
        for id, size in old:
            if self._bytes <= self._max_bytes * EVICT_TO:
                break
            self._db.execute("DELETE FROM releases WHERE id = ?", (id,))
            self._bytes -= size

    def mark_seen(self, stored: StoredRelease, role: str) -> None:
        """The role was charged for this release and is about to see it."""
        with self._transaction():
            self._db.execute("INSERT OR IGNORE INTO seen SELECT id, ? FROM releases WHERE id = ?", (role, stored.id))

    def forget(self, dataset: str, *, before: dt.datetime | None = None) -> None:
        """Drop a dataset's answers, or those made before a moment (a new data epoch; answers that expired)."""
        limit = before.astimezone(dt.UTC).isoformat() if before else "9999"
        with self._transaction():
            self._db.execute("DELETE FROM releases WHERE dataset = ? AND created < ?", (dataset, limit))
            self._bytes = self._db.execute("SELECT coalesce(sum(length(payload)), 0) FROM releases").fetchone()[0]

    def count(self, dataset: str, role: str) -> int:
        """How many stored answers a role can ask for again at no charge."""
        query = "SELECT count(*) FROM releases JOIN seen ON release = id WHERE dataset = ? AND role = ?"
        with self._lock, contextlib.suppress(sqlite3.Error):
            return int(self._db.execute(query, (dataset, role)).fetchone()[0])
        return 0

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; a failure is logged and forgotten: what is not stored is asked and paid for again."""
        with self._lock:
            before = self._bytes
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                self._bytes = before
                log.warning("an answer was not stored: %s", error)
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
