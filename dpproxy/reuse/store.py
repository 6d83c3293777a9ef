"""Answers that were paid for: released measurements, kept so that asking again costs nothing and teaches nothing.

Knows: `Released` (its type is the proof that nothing exact is kept), what was asked, who has seen what. Must not know: analysts'
SQL, policies, backends, where the tables are (`tables`). Losing them costs budget, never privacy: so in a file of this
proxy every failure is a miss. Tables that other proxies share have what is paid for elsewhere: as long as they cannot be
reached, nothing is looked up, and nothing charged.

The rule of use, for a caller who holds `found`:

- the role has seen it, or it was computed from what the role has seen: no charge at all;
- another role: its account is charged `asked.exposure` once, the dataset is not; *then* `mark_seen`, then show. A crash
  between charge and mark charges again: too much, never too little.

Another role is only ever shown the *first* release that answers its question: who measures anew (`reuse = off`, or other noise)
until a release says what they want it to say has chosen nothing for others. That holds as long as the tables remember: the
name of every release that is dropped, or could not be kept, is in `gone`, and what it names is measured anew for other roles,
at their own charge. Nor is another role told when the first one asked: its answer is as old as the day it first saw it.

Several processes may share the tables; `file_tables` says which of them makes what.

With a key, payloads and what was asked are sealed (`reuse.tables`), and so is who has seen them: whoever can write the
tables, but has no key, can remove answers, and put nothing in their place. The names of answers are digests either way.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow as pa

from dpproxy.errors import CANNOT_CONNECT_NOW, Refusal
from dpproxy.mechanisms.noise import Released
from dpproxy.privacy.loss import Loss
from dpproxy.reuse.derivation import derive
from dpproxy.reuse.file_tables import FileTables
from dpproxy.reuse.matching import NOWHERE, Asked, Origin, Repeat, StoredRelease, at_the_price, serve
from dpproxy.reuse.server_tables import ServerTables
from dpproxy.reuse.tables import FORMAT, AnswerTables, ReleaseKey, Sealer, SealError, TablesAway, TablesError, pack, unpack

log = logging.getLogger(__name__)

MAX_BYTES = 256 * 2**20
"""Of payloads: a million groups of two columns take 16 MB; dashboards take kilobytes."""

EVICT_TO = 0.9
"""Room is made down to this part at once, so that not every new answer evicts."""

TOUCH_SECONDS = 60
"""Last use is kept this coarsely, so that a hit is a read."""

MOST = 64
"""Releases looked at for one question, the latest first: each has to be read."""

MOST_GONE = 1_000_000
"""Names of dropped releases: some 150 MB. Beyond, nothing of the dataset is shown to other roles."""

AHEAD = dt.timedelta(hours=1)
"""A release from further ahead was made while a clock was wrong: nobody knows how old it is."""

_COLUMNS = "id, exact, base, dataset, created, payload"

AWAY = Refusal(
    CANNOT_CONNECT_NOW,
    "the stored answers cannot be reached",
    detail="They are shared with other proxies: as long as it is not known what is paid for, nothing is charged.",
    hint="Ask again later; the reason is in the proxy's log only.",
)

Mode = Literal["exact", "derive"]


@dataclass(frozen=True)
class Found:
    """What answers a question: `stored` as it was asked, or computed from releases the role has seen (`stored` is None).
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
    """Keeps released answers; thread-safe. In a file it never raises: what is broken is put aside at start, or is a miss. Where
    they are shared (`server_tables`), what cannot be reached is no miss: looking up is refused."""

    def __init__(self, place: Path | str, *, max_bytes: int = MAX_BYTES, sealer: Sealer | None = None) -> None:
        """Open the tables in a file, or on a server. Raises OperatorError for those on a server."""
        self._tables: AnswerTables = ServerTables(place) if isinstance(place, str) else FileTables(place)
        self._max_bytes, self._sealer = max_bytes, sealer
        self._lock = threading.Lock()
        self._unwritten = dict[str, str]()  # of releases that could not be kept: name, dataset
        self.claims = self._tables.claims
        self._tables.open(self._check)

    def _check(self, found: int) -> None:
        """The tables are sealed with this key, or with none as we have none. Raises SealError."""
        rows = self._tables.rows("SELECT proof FROM seal")
        if not rows:
            proof = self._sealer.seal(b"", "proof") if self._sealer else None
            self._tables.rows("INSERT INTO seal (one, proof) VALUES (1, ?)", (proof,))
            return
        if (rows[0][0] is None) != (self._sealer is None):
            raise SealError("kept with a key that is not configured, or without the one that is")
        if self._sealer is not None:
            self._sealer.open(rows[0][0], "proof")
            if found < FORMAT:
                self._reseal(self._sealer)

    def _reseal(self, sealer: Sealer) -> None:
        """Bring what was sealed to its name alone to this format."""
        for row in self._tables.rows(f"SELECT {_COLUMNS} FROM releases"):
            key = ReleaseKey(*row[:-1])
            try:
                text = sealer.open(row[-1], key.base)
            except SealError:  # nor could it be read before
                continue
            self._tables.rows("UPDATE releases SET payload = ? WHERE id = ?", (sealer.seal(text, key.sealed_as), key.id))
            for role, at in self._tables.rows("SELECT role, at FROM seen WHERE release = ?", (key.id,)):
                proof = sealer.seal(b"", key.seen_as(role, at))
                self._tables.rows("UPDATE seen SET proof = ? WHERE release = ? AND role = ?", (proof, key.id, role))

    def now(self) -> dt.datetime:
        """Return the time by which answers age."""
        return self._tables.now()

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
                return self._tables.reading(lambda: self._best(asked, role, price, oldest, now, mode))
            except TablesAway as error:
                log.error("stored answers cannot be reached: %s", error)
                raise replace(AWAY) from None
            except TablesError as error:
                log.warning("stored answers cannot be read: %s", error)
                return None

    def _best(
        self, asked: Asked, role: str, price: Loss, oldest: dt.datetime | None, now: dt.datetime, mode: Mode
    ) -> Found | None:
        best = self._of_role(asked, role, oldest, now, mode) or self._of_others(asked, price, oldest, now)
        if best is not None and best.stored is not None:
            self._touch(best.stored, now)
        return best

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
        query = "SELECT 1 FROM gone WHERE exact = ? "
        query += "OR exact = (SELECT 'all of ' || dataset FROM releases WHERE exact = ? LIMIT 1)"
        return exact in self._unwritten or bool(self._tables.rows(query, (exact, exact)))

    def _seen(
        self, column: Literal["exact", "base"], value: str, role: str, oldest: dt.datetime | None, now: dt.datetime
    ) -> list[tuple[StoredRelease, dt.datetime]]:
        """Releases by a name that a role has seen, and since when; the latest first. What cannot be read is not there."""
        query = f"SELECT {_COLUMNS}, at FROM releases JOIN seen ON release = id WHERE {column} = ? AND role = ? "
        query += f"AND at >= ? AND at <= ? ORDER BY created DESC, id DESC LIMIT {MOST}"
        times = (_text_of(oldest) if oldest is not None else "", _text_of(now + AHEAD))
        read = self._read(query, (value, role, *times))
        return [(stored, dt.datetime.fromisoformat(at)) for stored, at in read if stored is not None and role in stored.roles]

    def _read(self, query: str, values: tuple[str, ...]) -> Iterator[tuple[StoredRelease | None, str]]:
        """None for what cannot be read."""
        for *fields, payload, at in self._tables.rows(query, values):
            key = ReleaseKey(*fields)
            try:
                text = self._sealer.open(payload, key.sealed_as) if self._sealer else payload
                line, _, packed = text.partition(b"\n")
                said = json.loads(line)
                made, loss = Asked.from_json(said["made"]), Loss.from_json(said["loss"])
                moment = dt.datetime.fromisoformat(key.created)
                yield StoredRelease(key.dataset, made, unpack(packed), loss, moment, self._roles(key), key.id), at
            except (SealError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
                log.warning("a stored answer cannot be read: %s", error)
                yield None, at

    def _roles(self, key: ReleaseKey) -> frozenset[str]:
        """Who has seen a release, as far as it is we who say so."""
        rows = self._tables.rows("SELECT role, at, proof FROM seen WHERE release = ?", (key.id,))
        return frozenset(role for role, at, proof in rows if self._is_ours(key.seen_as(role, at), proof))

    def _is_ours(self, name: str, proof: bytes | None) -> bool:
        if self._sealer is None:
            return True
        try:
            self._sealer.open(proof or b"", name)
        except SealError as error:
            log.warning("that a role has seen a stored answer is not believed: %s", error)
            return False
        return True

    def _touch(self, stored: StoredRelease, now: dt.datetime) -> None:
        used = now.timestamp()
        self._tables.rows("UPDATE releases SET used = ? WHERE id = ? AND used < ?", (used, stored.id, used - TOUCH_SECONDS))

    def put(self, release: StoredRelease, origin: Origin = NOWHERE) -> None:
        """Keep a release; the least recently used ones make room. Of one too large for the store the name is kept."""
        payload, tries = _text(release), itertools.count()

        def insert() -> None:
            made, created = release.made.exact, _text_of(release.created)
            if next(tries) and self._tables.rows("SELECT 1 FROM releases WHERE exact = ? AND created = ?", (made, created)):
                return  # it was done, and nobody said so
            self._insert(release, payload, origin)

        if len(payload) > self._max_bytes or not self._write(insert):
            self._unwritten[release.made.exact] = release.dataset
            self._write(lambda: None)

    def _bury(self) -> None:
        """Remember by name what could not be kept."""
        for name in self._unwritten.items():
            self._tables.rows("INSERT INTO gone VALUES (?, ?) ON CONFLICT DO NOTHING", name)
        self._close_full(set(self._unwritten.values()))

    def _close_full(self, datasets: Iterable[str]) -> None:
        for dataset in datasets:
            ((known,),) = self._tables.rows("SELECT count(*) FROM gone WHERE dataset = ?", (dataset,))
            if known > MOST_GONE:
                self._tables.rows("DELETE FROM gone WHERE dataset = ?", (dataset,))
                self._tables.rows("INSERT INTO gone VALUES (?, ?)", (f"all of {dataset}", dataset))

    def _insert(self, release: StoredRelease, payload: bytes, origin: Origin) -> None:
        made, created, used = release.made, _text_of(release.created), release.created.timestamp()
        ((id,),) = self._tables.rows("SELECT coalesce(max(id), 0) + 1 FROM releases")
        key = ReleaseKey(id, made.exact, made.base, release.dataset, created)
        sealed = self._sealer.seal(payload, key.sealed_as) if self._sealer else payload
        self._tables.rows(f"INSERT INTO releases ({_COLUMNS}, used) VALUES (?, ?, ?, ?, ?, ?, ?)", (*key.columns, sealed, used))
        for role in release.roles:
            self._saw(key, role, created, origin)
        ((held,),) = self._tables.rows("SELECT bytes FROM size")
        if held > self._max_bytes:
            self._evict(held, keep=id)

    def _evict(self, held: int, keep: int) -> None:
        old = self._tables.rows("SELECT id, length(payload) FROM releases WHERE id <> ? ORDER BY used, id", (keep,))
        for id, size in old:
            if held <= self._max_bytes * EVICT_TO:
                break
            self._drop("id = ?", (id,))
            held -= size
        self._close_full([dataset for (dataset,) in self._tables.rows("SELECT DISTINCT dataset FROM gone")])

    def _drop(self, which: str, values: tuple[object, ...]) -> None:
        names = f"SELECT exact, min(dataset) FROM releases WHERE {which} GROUP BY exact"
        self._tables.rows(f"INSERT INTO gone {names} ON CONFLICT DO NOTHING", values)
        self._tables.rows(f"DELETE FROM releases WHERE {which}", values)

    def mark_seen(self, stored: StoredRelease, role: str, at: dt.datetime, origin: Origin = NOWHERE) -> None:
        """Note that the role was charged for this release and is about to see it. Another that has its number by now is not
        meant."""
        if stored.id is None:
            return
        made = stored.made
        key = ReleaseKey(stored.id, made.exact, made.base, stored.dataset, _text_of(stored.created))
        query = "SELECT 1 FROM releases WHERE id = ? AND exact = ? AND created = ?"

        def mark() -> None:
            if self._tables.rows(query, (key.id, key.exact, key.created)) and role not in self._roles(key):
                for table in ("seen", "asked"):  # of what somebody else wrote
                    self._tables.rows(f"DELETE FROM {table} WHERE release = ? AND role = ?", (key.id, role))
                self._saw(key, role, _text_of(at), origin)

        self._write(mark)

    def _saw(self, key: ReleaseKey, role: str, at: str, origin: Origin) -> None:
        proof = self._sealer.seal(b"", key.seen_as(role, at)) if self._sealer else None
        self._tables.rows("INSERT INTO seen (release, role, at, proof) VALUES (?, ?, ?, ?)", (key.id, role, at, proof))
        self._tables.rows("INSERT INTO asked VALUES (?, ?, ?, ?)", (key.id, role, origin.statement, origin.epoch))

    def forget(self, dataset: str, *, before: dt.datetime | None = None) -> None:
        """Drop a dataset's answers, or those that nobody has first seen since a moment (answers that expired)."""
        limit = _text_of(before) if before else "9999"
        which = "dataset = ? AND created < ? AND id NOT IN (SELECT release FROM seen WHERE at >= ?)"
        self._write(lambda: self._drop(which, (dataset, limit, limit)))

    def count(self, dataset: str, role: str) -> int:
        """Return how many stored answers a role can ask for again at no charge."""
        query = "SELECT count(*) FROM releases JOIN seen ON release = id WHERE dataset = ? AND role = ?"
        with self._lock, contextlib.suppress(TablesError):
            return int(self._tables.reading(lambda: self._tables.rows(query, (dataset, role)))[0][0])
        return 0

    def repeats(self, dataset: str, epoch: str, count: int) -> list[Repeat]:
        """Return what roles can ask for again at no charge on an epoch, the latest first."""
        query = (
            "SELECT role, statement, count(*), min(at) FROM asked JOIN seen USING (release, role) JOIN releases ON id = release"
        )
        query += " WHERE dataset = ? AND epoch = ? GROUP BY 1, 2 ORDER BY 4 DESC LIMIT ?"
        with self._lock, contextlib.suppress(TablesError):
            found = self._tables.reading(lambda: self._tables.rows(query, (dataset, epoch, count)))
            return [Repeat(role, statement, parts, dt.datetime.fromisoformat(at)) for role, statement, parts, at in found]
        return []

    def close(self) -> None:
        with self._lock:
            self._tables.close()

    def _write(self, work: Callable[[], object]) -> bool:
        """All or nothing; a failure is logged and forgotten: what is not stored is asked and paid for again."""

        def all_of_it() -> None:
            self._bury()
            work()

        with self._lock:
            try:
                self._tables.writing(all_of_it)
                self._unwritten.clear()
                return True
            except TablesError as error:
                log.warning("an answer was not stored: %s", error)
        return False
