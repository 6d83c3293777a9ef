"""What waits on a device: the day's events of which some are drawn, and reports until their moment comes.

Knows: the tables of the state, days, chance from the operating system. Must not know: claims and probabilities (a question brings
a function that randomises), HTTP.

Of the events of a day as many are drawn as the question may report, each with the same chance (reservoir sampling, Vitter 1985):
taking the first would make mornings count more, and randomising all would spend epsilon on each. When the day is over the drawn
ones are charged, then randomised, then wait for a moment drawn from the next 24 hours, which says nothing of when the event was.

A charge and its event are on the disk before the report is made. A device that stops in between makes the report when it starts
again; nobody has seen one.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from dpproxy.collect.ledger import Charge, Ledger, Limits, Refusal

DAY: Final = 86400
"""Seconds, also those of which the moment of a post is drawn."""
AGAIN: Final = 3600
"""Seconds within which a report that was not taken is posted again, at a moment that is drawn."""
CERTAIN: Final = 40 * 3600
"""Seconds for which a collector surely still knows a batch: it forgets them after 48 hours. Later, a report that may have arrived
is not sent again."""


class Question(Protocol):
    """What a report answers."""

    @property
    def name(self) -> str: ...

    @property
    def claim(self) -> str:
        """The hash under which the collector knows how the report is randomised."""
        ...

    @property
    def epsilon(self) -> int:
        """Of one report, in micro-epsilon, rounded up."""
        ...

    @property
    def per_day(self) -> int: ...

    @property
    def memoised(self) -> bool:
        """Whether the same value is always answered by the same report, at no further charge."""
        ...

    def report(self, value: str) -> str:
        """Randomise a value. Both are JSON; nothing else makes a report."""
        ...


@dataclass(frozen=True)
class Event:
    """Something true of the device's user, as JSON: its plain columns, and the value that is randomised."""

    plain: str
    value: str


@dataclass(frozen=True)
class Waiting:
    """A report whose moment has come. `unsure`: when it was first posted without a reply; None: it was not."""

    batch: str
    question: str
    claim: str
    plain: str
    report: str
    unsure: int | None


class Queue:
    """Events and reports of one device."""

    def __init__(self, ledger: Ledger, limits: Limits, clock: Callable[[], float]) -> None:
        self._ledger, self._limits, self._clock = ledger, limits, clock

    def saw(self, question: Question, event: Event) -> Refusal | None:
        """Keep an event of today, or let it go, so that each of the day's is drawn with the same chance."""
        day = self._today()
        with self._ledger.transaction() as db:
            if refused := self._ledger.see(day):
                return refused
            key = (question.name, day)
            db.execute("INSERT INTO seen VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET number = number + 1", key)
            number = db.execute("SELECT number FROM seen WHERE question = ? AND day = ?", key).fetchone()[0]
            slot = number - 1 if number <= question.per_day else secrets.randbelow(number)
            if slot < question.per_day:
                db.execute("INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)", (*key, slot, event.plain, event.value))
            return None

    def answer(self, question: Question, event: Event) -> Refusal | None:
        """Charge an event of today at once; its report is due at once. The same value again is the same report, sent once."""
        day = self._today()
        with self._ledger.transaction() as db:
            if refused := self._ledger.see(day):
                return refused
            if _remembers(db, question, event.value):
                return None
            refused = self._take(db, question, event, day, due=int(self._clock()))
            if refused is None:
                _remember(db, question, event.value)
            return refused

    def close_days(self, questions: Mapping[str, Question]) -> list[tuple[str, Refusal]]:
        """Charge what was drawn on days that are over, then make the reports. Return for which questions nothing was charged,
        and why."""
        day, refusals = self._today(), []
        with self._ledger.transaction() as db:
            if clock := self._ledger.see(day):
                return [(name, clock) for name in questions]
            over = db.execute(
                "SELECT question, day, plain, value FROM events WHERE day < ? ORDER BY day, question, slot", (day,)
            ).fetchall()
            for name, then, plain, value in over:
                question = questions.get(name)  # None: the app asks it no more
                if question is None:
                    continue
                if refused := self._take(db, question, Event(plain, value), then, due=self._moment(DAY)):
                    refusals.append((name, refused))
            db.execute("DELETE FROM events WHERE day < ?", (day,))
            db.execute("DELETE FROM seen WHERE day < ?", (day,))
        self._make_reports(questions)
        return refusals

    def _take(self, db: sqlite3.Connection, question: Question, event: Event, day: int, *, due: int) -> Refusal | None:
        """Charge an event whose report is to be made; one that is remembered is not charged again."""
        if not (question.memoised and _remembers(db, question, event.value)):
            charge = Charge(question.name, day, question.epsilon)
            if refused := self._ledger.charge(charge, question.per_day, self._limits):
                return refused
            if question.memoised:
                _remember(db, question, event.value)
        row = (secrets.token_hex(16), question.name, question.claim, event.plain, event.value, due)
        db.execute("INSERT INTO reports VALUES (?, ?, ?, ?, ?, NULL, ?, NULL)", row)
        return None

    def _make_reports(self, questions: Mapping[str, Question]) -> None:
        """Make the reports that were charged: the charges are on the disk."""
        with self._ledger.transaction() as db:
            charged = db.execute("SELECT batch, question, claim, value FROM reports WHERE report IS NULL ORDER BY rowid")
            for batch, name, claim, value in charged.fetchall():
                question = questions.get(name)
                if question is None or question.claim != claim:  # the app's update asks otherwise
                    db.execute("DELETE FROM reports WHERE batch = ?", (batch,))
                    continue
                report = (_remembered(db, question, value) if question.memoised else None) or question.report(value)
                db.execute("UPDATE reports SET report = ?, value = NULL WHERE batch = ?", (report, batch))
                if question.memoised:
                    db.execute("UPDATE memory SET report = ? WHERE claim = ? AND value = ?", (report, claim, value))

    def due(self) -> list[Waiting]:
        """List the reports whose moment has come. What may have arrived too long ago is dropped."""
        now = int(self._clock())
        with self._ledger.transaction() as db:
            for (batch,) in db.execute("SELECT batch FROM reports WHERE due > ?", (now + DAY,)).fetchall():
                db.execute("UPDATE reports SET due = ? WHERE batch = ?", (self._moment(DAY), batch))  # the clock was set back
            db.execute("DELETE FROM reports WHERE unsure < ? OR unsure > ?", (now - CERTAIN, now + AGAIN))
            rows = db.execute(
                "SELECT batch, question, claim, plain, report, unsure FROM reports WHERE report IS NOT NULL AND due <= ? "
                "ORDER BY batch",
                (now,),
            )
            return [Waiting(*row) for row in rows.fetchall()]

    def trying(self, waiting: Waiting) -> None:
        """Note that a report is being posted, before it is."""
        with self._ledger.transaction() as db:
            db.execute("UPDATE reports SET unsure = coalesce(unsure, ?) WHERE batch = ?", (int(self._clock()), waiting.batch))

    def gone(self, waiting: Waiting) -> None:
        """Forget a report that was taken, or is not wanted."""
        with self._ledger.transaction() as db:
            db.execute("DELETE FROM reports WHERE batch = ?", (waiting.batch,))

    def later(self, waiting: Waiting, *, unsure: bool) -> None:
        """Keep a report for a later moment. `unsure`: it may have arrived."""
        with self._ledger.transaction() as db:
            db.execute("UPDATE reports SET due = ? WHERE batch = ?", (self._moment(AGAIN), waiting.batch))
            if not unsure:
                db.execute("UPDATE reports SET unsure = ? WHERE batch = ?", (waiting.unsure, waiting.batch))

    def forget(self) -> None:
        """Delete events, answers and reports; charges stay."""
        with self._ledger.transaction() as db:
            for table in ("events", "seen", "reports", "memory"):
                db.execute(f"DELETE FROM {table}")

    def _today(self) -> int:
        return int(self._clock() // DAY)

    def _moment(self, within: int) -> int:
        return int(self._clock()) + secrets.randbelow(within)


def _remembers(db: sqlite3.Connection, question: Question, value: str) -> bool:
    """Whether a value was charged for, though its report may not be made yet."""
    key = (question.claim, value)
    return db.execute("SELECT 1 FROM memory WHERE claim = ? AND value = ?", key).fetchone() is not None


def _remember(db: sqlite3.Connection, question: Question, value: str) -> None:
    db.execute("INSERT OR IGNORE INTO memory VALUES (?, ?, NULL)", (question.claim, value))


def _remembered(db: sqlite3.Connection, question: Question, value: str) -> str | None:
    row = db.execute("SELECT report FROM memory WHERE claim = ? AND value = ?", (question.claim, value)).fetchone()
    return row[0] if row else None
