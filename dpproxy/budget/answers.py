"""Answers that were paid for: released measurements, kept so that asking again costs nothing and teaches nothing.

Knows: `Released` (its type is the proof that nothing exact is kept), what was asked, who has seen what. Must not know: SQL,
policies, backends. Losing this file costs budget, never privacy: so it is a cache in a SQLite file of its own, commits
without waiting for the disk, and every failure is a miss.

The rule of use, for a caller who holds `found`:

- the role has seen it, or it was computed from what the role has seen: no charge at all;
- another role: its account is charged `asked.exposure` once, the dataset is not; *then* `mark_seen`, then show. A crash
  between charge and mark charges again: too much, never too little.

Several processes may share the file; `claims` says which of them makes what.

The file is readable by its owner only. With a key, payloads and what was asked are sealed (`sealing`); their names are
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from dpproxy.budget.asked import Asked, StoredRelease, at_the_price, serve
from dpproxy.budget.claims import Claims
from dpproxy.budget.derive import derive
from dpproxy.budget.sealing import Sealer, SealError
from dpproxy.mechanisms.exact import Released
from dpproxy.plan.loss import Loss

log = logging.getLogger(__name__)

MAX_BYTES = 256 * 2**20
"""Of payloads: a million groups of two columns take 16 MB; dashboards take kilobytes."""

EVICT_TO = 0.9
"""Room is made down to this part at once, so that not every new answer evicts."""

TOUCH_SECONDS = 60
"""Last use is kept this coarsely, so that a hit is a read."""

MOST = 64
"""Releases looked at for one question, the latest first: each has to be read."""

FORMAT = 2
"""Of the file: another number means it is put aside and begun anew."""

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
    release INTEGER NOT NULL REFERENCES releases ON DELETE CASCADE, role TEXT NOT NULL, PRIMARY KEY (release, role)
) STRICT;
"""


Mode = Literal["exact", "derive"]


@dataclass(frozen=True)
class Found:
    """What answers a question: `stored` as it was asked, or computed from releases the role has seen (`stored` is None).
    `made`: when those it is from were released."""

    released: Released
    stored: StoredRelease | None
    made: tuple[dt.datetime, ...]

    def seen(self, role: str) -> bool:
        """Whether the role may have it at no charge."""
        return self.stored is None or role in self.stored.roles


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


def _text(release: StoredRelease) -> bytes:
    """One line of what was asked, then the values."""
    line = json.dumps({"made": release.made.to_json(), "loss": release.loss.to_json()})
    return line.encode() + b"\n" + pack(release.released)


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


class AnswerStore:
    """Thread-safe; never raises for a broken file, which is put aside at start or answers with misses."""

    def __init__(self, path: str | Path, *, max_bytes: int = MAX_BYTES, sealer: Sealer | None = None) -> None:
        self._path, self._max_bytes, self._sealer = Path(path), max_bytes, sealer
        self._lock = threading.Lock()
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
            if self._db.execute("PRAGMA user_version").fetchone()[0] not in (0, FORMAT):
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
        """What answers `asked` at least as accurately: a release the role has seen if there is any (the latest), else in mode
        `derive` one computed from such, else the latest that costs it no more than `price`. None older than `max_age`.
        """
        with self._lock:
            try:
                found = self._candidates(asked, role, now, max_age, mode)
                mine = [f for f in found if f.seen(role)]
                others = [f for f in found if f.stored is not None and at_the_price(f.stored, price)]
                best = next(iter(mine or others), None)
                if best is not None and best.stored is not None:
                    self._touch(best.stored, now)
                return best
            except sqlite3.Error as error:
                log.warning("stored answers cannot be read: %s", error)
                return None

    def _candidates(self, asked: Asked, role: str, now: dt.datetime, max_age: dt.timedelta | None, mode: Mode) -> list[Found]:
        """Best first, but for who has seen them."""
        oldest = (now - max_age).astimezone(dt.UTC).isoformat() if max_age is not None else ""
        read = self._read("exact", asked.exact, oldest)
        found = [Found(r, s, (s.created,)) for s in read if (r := serve(s, asked)) is not None]
        if mode == "derive" and not any(f.seen(role) for f in found):
            known = [s for s in self._read("base", asked.base, oldest) if role in s.roles]
            found += [Found(r, s, (s.created,)) for s in known if (r := serve(s, asked, subset=True)) is not None]
            derived = derive(asked, known)
            if derived is not None:
                found.append(Found(derived.released, None, tuple(s.created for s in derived.sources)))
        return found

    def _read(self, column: Literal["exact", "base"], value: str, oldest: str) -> list[StoredRelease]:
        """Releases by a name, the latest first; what cannot be read is not there."""
        query = "SELECT id, dataset, created, base, payload FROM releases "
        query += f"WHERE {column} = ? AND created >= ? ORDER BY created DESC, id DESC LIMIT {MOST}"
        found = []
        for id, dataset, created, base, payload in self._db.execute(query, (value, oldest)).fetchall():
            roles = frozenset(r for (r,) in self._db.execute("SELECT role FROM seen WHERE release = ?", (id,)))
            try:
                text = self._sealer.open(payload, base) if self._sealer else payload
                line, _, values = text.partition(b"\n")
                fields = json.loads(line)
                made, loss = Asked.from_json(fields["made"]), Loss.from_json(fields["loss"])
                found.append(StoredRelease(dataset, made, unpack(values), loss, dt.datetime.fromisoformat(created), roles, id))
            except (SealError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
                log.warning("a stored answer cannot be read: %s", error)
        return found

    def _touch(self, stored: StoredRelease, now: dt.datetime) -> None:
        used = now.timestamp()
        self._db.execute("UPDATE releases SET used = ? WHERE id = ? AND used < ?", (used, stored.id, used - TOUCH_SECONDS))

    def put(self, release: StoredRelease) -> None:
        """Keep a release; the least recently used ones make room. One too large for the store is not kept."""
        payload = _text(release)
        if len(payload) <= self._max_bytes:
            sealed = self._sealer.seal(payload, release.made.base) if self._sealer else payload
            self._write(lambda: self._insert(release, sealed))

    def _insert(self, release: StoredRelease, payload: bytes) -> None:
        created, used = release.created.astimezone(dt.UTC).isoformat(), release.created.timestamp()
        cursor = self._db.execute(
            "INSERT INTO releases (exact, base, dataset, created, used, payload) VALUES (?, ?, ?, ?, ?, ?)",
            (release.made.exact, release.made.base, release.dataset, created, used, payload),
        )
        self._db.executemany("INSERT INTO seen VALUES (?, ?)", [(cursor.lastrowid, role) for role in release.roles])
        (held,) = self._db.execute("SELECT bytes FROM size").fetchone()
        if held > self._max_bytes:
            self._evict(held, keep=cursor.lastrowid)

    def _evict(self, held: int, keep: int | None) -> None:
        old = self._db.execute("SELECT id, length(payload) FROM releases WHERE id <> ? ORDER BY used, id", (keep,)).fetchall()
        for id, size in old:
            if held <= self._max_bytes * EVICT_TO:
                break
            self._db.execute("DELETE FROM releases WHERE id = ?", (id,))
            held -= size

    def mark_seen(self, stored: StoredRelease, role: str) -> None:
        """The role was charged for this release and is about to see it."""
        query = "INSERT OR IGNORE INTO seen SELECT id, ? FROM releases WHERE id = ?"
        self._write(lambda: self._db.execute(query, (role, stored.id)))

    def forget(self, dataset: str, *, before: dt.datetime | None = None) -> None:
        """Drop a dataset's answers, or those made before a moment (a new data epoch; answers that expired)."""
        limit = before.astimezone(dt.UTC).isoformat() if before else "9999"

        query = "DELETE FROM releases WHERE dataset = ? AND created < ?"
        self._write(lambda: self._db.execute(query, (dataset, limit)))

    def count(self, dataset: str, role: str) -> int:
        """How many stored answers a role can ask for again at no charge."""
        query = "SELECT count(*) FROM releases JOIN seen ON release = id WHERE dataset = ? AND role = ?"
        with self._lock, contextlib.suppress(sqlite3.Error):
            return int(self._db.execute(query, (dataset, role)).fetchone()[0])
        return 0

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self.claims.close()

    def _write(self, work: Callable[[], object]) -> None:
        """All or nothing; a failure is logged and forgotten: what is not stored is asked and paid for again."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                work()
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                log.warning("an answer was not stored: %s", error)
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
