"""Stored answers as one statement uses them: named, looked up, shown, kept; and each made by one asker at a time.

Knows: measurements, the store of answers, epochs. Must not know: charges, connections. A measurement's names
(`privacy.measurement.Names`) with the values of this moment in their holes, on one epoch of one dataset, say what is asked for.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, Literal

import structlog

from dpproxy.amounts import MICRO
from dpproxy.backends.base import BackendError
from dpproxy.mechanisms.noise import Int64, Released
from dpproxy.plan.model import Plan
from dpproxy.privacy.measurement import EXTRA, Accept, Measurement, Names
from dpproxy.privacy.selection_ranks import draws
from dpproxy.reuse.data_epoch import Epoch, Refreshed
from dpproxy.reuse.matching import Asked, Groups, Origin, SpelledValues, StoredRelease, name
from dpproxy.reuse.store import AWAY, TOUCH_SECONDS, AnswerStore, Found
from dpproxy.reuse.tables import Claiming, TablesAway
from dpproxy.sql.settings import ReuseMode
from dpproxy.sql.template import Dialect, Param, Template, Text
from dpproxy.sql.types import INTEGERS

# Answers just shown, in memory: a dashboard asks for the same ones again and again, and a file is slow.
#
# Knows: what was asked, who has seen what. Must not know: where releases are kept, charges. Only what a role has seen is
# remembered, for this role alone: it may have it again whatever became of the file. An entry is forgotten after a minute, so
# that the file knows which answers are in use, and when something newer is kept under the same name.


MOST: Final = 1024
ROWS: Final = 1000
"""Of an answer that is remembered: together a few tens of megabytes at most, usually far less than one."""
NUMBERS: Final = 4 * ROWS
"""Of an answer of which is remembered what was said: these are mostly the same numbers as above."""
LIFE: Final = dt.timedelta(seconds=TOUCH_SECONDS)

Key = tuple[Hashable, ...]


class RecentAnswers:
    """Remembers answers that were just shown; for one dataset, one event loop."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, tuple[Found, dt.datetime]] = OrderedDict()

    def find(self, role: str, asked: Asked, now: dt.datetime, max_age: dt.timedelta | None) -> Found | None:
        key = _key(role, asked)
        found, until = self._entries.get(key, (None, now))
        if found is None or found.stored is None:
            return None
        if now >= until or (max_age is not None and found.made[0] < now - max_age):
            del self._entries[key]
            return None
        return found

    def add(self, role: str, asked: Asked, found: Found, now: dt.datetime) -> None:
        if found.stored is None or role not in found.stored.roles or found.released.rows > ROWS:
            return
        self._entries[_key(role, asked)] = (found, now + LIFE)
        if len(self._entries) > MOST:
            self._entries.popitem(last=False)

    def forget(self, asked: Asked) -> None:
        """Forget what answered this: something new does, for whoever may see it."""
        for key in [k for k in self._entries if k[1] == asked.rows]:
            del self._entries[key]


def _key(role: str, asked: Asked) -> Key:
    """All that decides what a stored release answers (`asked.serve`)."""
    return role, asked.rows, asked.keys, asked.columns, asked.noise, asked.tau


RecentValues = Mapping[int, tuple[Int64, ...]]


class RecentNotices:
    """Remembers what was said of answers just shown: computing typical errors takes longer than finding what they are of."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Plan, RecentValues, tuple[str, ...]]] = OrderedDict()

    def find(self, plan: Plan, values: RecentValues) -> tuple[str, ...] | None:
        """Return what was said of these very objects; equal ones are not looked for."""
        known = self._known.get(id(plan))
        if known is None or known[0] is not plan or known[1].keys() != values.keys():
            return None
        return known[2] if all(known[1][i] is v for i, v in values.items()) else None

    def keep(self, plan: Plan, values: RecentValues, texts: tuple[str, ...]) -> None:
        if sum(len(column) for columns in values.values() for column in columns) > NUMBERS:
            return
        self._known[id(plan)] = (plan, dict(values), texts)
        self._known.move_to_end(id(plan))
        if len(self._known) > MOST:
            self._known.popitem(last=False)


LOG = structlog.get_logger()

NAMED = 1024  # measurements whose names are kept


FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.2
"""Seconds between two looks at whether another process is through: little beside what it is at, whatever that takes."""

Values = Sequence[str | None]


class InFlight:
    """Measurements in progress: whoever needs one meanwhile waits, and then has it from the store. It is for one event
    loop; with `file_tables` for all processes that share the stored answers.

    Names are held all at once, and none is held by who waits: so no two wait for each other.
    """

    def __init__(self, claims: Claiming | None = None) -> None:
        self._held: dict[str, asyncio.Future[None]] = {}
        self._claims = claims

    def busy(self, names: Collection[str]) -> list[asyncio.Future[None]]:
        """Return futures that are done when somebody is through with one of the names; empty when all are free here."""
        return [self._held[n] for n in names if n in self._held]

    @asynccontextmanager
    async def held(self, names: Collection[str], sleep: Callable[[float], Awaitable[object]]) -> AsyncIterator[None]:
        """Hold names that are not busy here; of several who wait for another process one `sleep`s, the others wait for it. Raises
        Refusal when it cannot be asked what others hold."""
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        self._held |= {n: loop.create_future() for n in names}
        try:
            while self._claims is not None and not await self._claimed(self._claims, names):
                await sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            try:
                yield
            finally:
                if self._claims is not None:
                    self._claims.drop(names)
        finally:
            for n in names:
                self._held.pop(n).set_result(None)

    @staticmethod
    async def _claimed(claims: Claiming, names: Collection[str]) -> bool:
        try:
            return await claims.claim(names)
        except TablesAway as error:
            LOG.error("stored answers cannot be reached", error=str(error))
            raise replace(AWAY) from None


@dataclass(frozen=True)
class Reuse:
    """What a dataset needs to reuse answers. `ledger`: the record in which answers are paid for; one paid for elsewhere is
    nobody's here. `max_age`: None for as long as the epoch lasts."""

    store: AnswerStore
    epoch: Epoch
    ledger: str
    max_age: dt.timedelta | None = None
    in_flight: InFlight = field(init=False)
    recent: RecentAnswers = field(default_factory=RecentAnswers)
    named: dict[tuple[object, ...], tuple[Measurement, Asked | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_flight", InFlight(self.store.claims))

    async def close(self) -> None:
        if isinstance(self.epoch, Refreshed):
            await self.epoch.close()


def epoch_name(ledger: str, epoch: str) -> str:
    """Return the digest by which `reuse.store` lists what is free on an epoch, for who pays in a ledger."""
    return name("epoch", ledger, epoch)


class _Unspelled(Exception):
    """A value that the engine cannot take."""


@dataclass(frozen=True)
class AnswerLookup:
    """Looks stored answers up for one statement: it finds what the statement's role may see on one epoch. `reuse` is None where
    nothing is stored."""

    reuse: Reuse | None
    mode: ReuseMode
    dataset: str
    role: str
    dialect: Dialect
    spelled: SpelledValues
    epoch: str | None = None
    statement: str = ""

    @staticmethod
    async def opened(
        reuse: Reuse | None,
        mode: ReuseMode,
        dataset: str,
        role: str,
        dialect: Dialect,
        spelled: SpelledValues,
        statement: str = "",
    ) -> AnswerLookup:
        """Return the look-up on the epoch of this moment. If the backend does not tell it, nothing is looked up and nothing
        kept."""
        epoch = None
        if reuse is not None:
            try:
                epoch = await reuse.epoch.current(reuse.store.now())
            except BackendError as error:
                LOG.error("the data's epoch is unknown", dataset=dataset, error=str(error))
        return AnswerLookup(reuse, mode, dataset, role, dialect, spelled, epoch, statement)

    def asked(self, measurement: Measurement, values: Values) -> Asked | None:
        """Return what a measurement is looked for as; None for what is not reused."""
        names = measurement.canonical
        if self.reuse is None or self.epoch is None or names is None:
            return None
        key, known = (id(measurement), self.epoch, *self.spelled.key(values)), self.reuse.named
        found = known.get(key)
        if found is None or found[0] is not measurement:
            if len(known) >= NAMED:
                known.clear()
            found = known[key] = (measurement, self._named(measurement, names, values))
        return found[1]

    def _named(self, measurement: Measurement, names: Names, values: Values) -> Asked | None:
        try:
            return self._asked(measurement, names, values)
        except _Unspelled:  # the measurement has the same value in it, and will say so
            return None

    def _asked(self, m: Measurement, names: Names, values: Values) -> Asked:
        mechanisms: list[str] = [b.mechanism for b in m.bases] + [s.kind for s in m.selections for _ in s.fractions or (0,)]
        noise = [b.scale / b.fine for b in m.bases]
        for s in m.selections:
            noise += [Fraction(MICRO, s.epsilon // draws(s.fractions))] * max(len(s.fractions), 1)
        for i in m.stepped:  # what is known of the basis is as exact as the basis
            mechanisms += [m.bases[i].mechanism] * EXTRA
            noise += [noise[i]] * EXTRA

        where = (self.dataset, self.reuse.ledger if self.reuse is not None else "", self.epoch or "")

        def digest(text: Text, mechanism: str = "") -> str:
            try:
                spelled = Template(self.dialect, text).render(values, self.spelled.named)
            except ValueError as error:
                raise _Unspelled from error
            return name(*where, mechanism, spelled)

        totals = zip(names.totals, mechanisms, strict=True)
        mixes = zip(names.mixes, mechanisms, strict=True)
        accepts = self._accepts(names.accepts, values, digest)
        return Asked(
            digest(names.rows),
            tuple(map(digest, names.keys)),
            tuple(digest(c, m) for c, m in zip(names.columns, mechanisms, strict=True)),
            tuple(noise),
            m.threshold.tau if m.threshold else None,
            digest(names.base),
            tuple(None if text is None else digest(text, mechanism) for text, mechanism in totals),
            accepts or {},
            tuple(Groups(digest(g.source), None if g.open is None else tuple(map(digest, g.open)), g.held) for g in names.groups),
            names.complete and accepts is not None,
            names.bound,
            names.additive,
            tuple(mechanism == "laplace" for mechanism in mechanisms),
            tuple(tuple((digest(text, mechanism), times) for text, times in mix) for mix, mechanism in mixes),
        )

    @staticmethod
    def _accepts(accepts: Sequence[Accept], values: Values, digest: Callable[[Text], str]) -> dict[str, frozenset[str]] | None:
        """By the key's name, the texts it may be; None when NULL is among what it is compared with."""
        found: dict[str, frozenset[str]] = {}
        for accept in accepts:
            texts = [values[v.index] if isinstance(v, Param) else v for v in accept.values]
            if any(t is None for t in texts):
                return None
            spelled = frozenset(str(int(t)) if accept.type in INTEGERS else t for t in texts if t is not None)
            key = digest(accept.key)
            found[key] = found.get(key, spelled) & spelled
        return found

    async def find(self, wanted: Mapping[int, tuple[Asked, Measurement]]) -> dict[int, Found]:
        """Return what is stored, by the same numbers."""
        reuse = self.reuse
        if reuse is None or self.mode == "off" or not wanted:
            return {}
        role, mode, now, age = self.role, self.mode, reuse.store.now(), reuse.max_age
        near = {i: f for i, (asked, _) in wanted.items() if (f := reuse.recent.find(role, asked, now, age)) is not None}
        far = {i: w for i, w in wanted.items() if i not in near}
        if not far:
            return near

        def look() -> dict[int, Found]:
            modes: dict[int, Literal["exact", "derive"]] = {i: "exact" if m.independent else mode for i, (_, m) in far.items()}
            found = {
                i: reuse.store.find(asked, role=role, price=m.loss, now=now, max_age=age, mode=modes[i])
                for i, (asked, m) in far.items()
            }
            return {i: f for i, f in found.items() if f is not None}

        found = await asyncio.to_thread(look)
        for i, each in found.items():
            reuse.recent.add(role, wanted[i][0], each, now)
        return near | found

    async def keep(self, asked: Asked, measurement: Measurement, released: Released) -> None:
        """Keep a release that this role has paid for."""
        if self.reuse is None:
            return
        roles, now = frozenset({self.role}), self.reuse.store.now()
        stored = StoredRelease(self.dataset, asked, released, measurement.loss, now, roles)
        try:
            await asyncio.to_thread(self.reuse.store.put, stored, self._origin)
            self.reuse.recent.forget(asked)
        except Exception as error:  # an answer that cannot be kept is an answer all the same
            LOG.error("an answer was not stored", dataset=self.dataset, error=type(error).__name__)

    async def seen(self, stored: StoredRelease) -> None:
        """Note that this role has paid for a release of another's."""
        if self.reuse is not None:
            store = self.reuse.store
            await asyncio.to_thread(store.mark_seen, stored, self.role, store.now(), self._origin)

    @property
    def _origin(self) -> Origin:
        return Origin(self.statement, epoch_name(self.reuse.ledger if self.reuse else "", self.epoch or ""))

    @property
    def in_flight(self) -> InFlight:
        """Return what is being made; nothing where nothing is looked up, since then there is nothing to wait for."""
        return InFlight() if self.reuse is None or self.mode == "off" else self.reuse.in_flight
