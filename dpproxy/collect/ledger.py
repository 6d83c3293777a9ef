"""A device's own ledger: a charge is on the disk before a report exists, and the sum is bounded for ever.

Knows: one SQLite file, days, micro-epsilon. Must not know: what a question asks, how a report is randomised, who it is posted to.
The server chooses questions and their epsilon; this file bounds what they come to, whatever is asked. A transaction locks the
file for all processes of the device, and is on the disk when it ends.

In the same folder a small witness says what the sum is, and while one is charged what it was before; it is on the disk before the
charge is. A state that was lost, or an older copy of it, does not agree with the witness: then nothing is charged until the app
begins again, with the sum that the witness has. Where both are lost, a device cannot know that it ever had a ledger.

The calendar only goes forward: while the clock shows a day before the last one charged, nothing is taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Final

MICRO: Final = 10**6
DEFAULT_TOTAL: Final = 10
"""Epsilon for ever, unless the app says another finite amount."""
LOST: Final = "(a ledger that was lost)"
"""The question of the charge that stands for all charges of a ledger that was lost."""
FORMAT: Final = 1
"""Of the tables, in the file's user_version."""
BUSY_SECONDS: Final = 10.0
"""How long another process of the device is waited for."""

TABLES: Final = """
CREATE TABLE charges (id INTEGER PRIMARY KEY, question TEXT NOT NULL, day INTEGER NOT NULL, epsilon INTEGER NOT NULL);
CREATE INDEX charges_of_a_day ON charges (day);
CREATE TABLE standing (one INTEGER PRIMARY KEY CHECK (one = 1), spent INTEGER NOT NULL, day INTEGER NOT NULL);
INSERT INTO standing VALUES (1, 0, 0);
CREATE TABLE events (
    question TEXT, day INTEGER, slot INTEGER, plain TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (question, day, slot)
);
CREATE TABLE seen (question TEXT, day INTEGER, number INTEGER NOT NULL, PRIMARY KEY (question, day));
CREATE TABLE reports (
    batch TEXT PRIMARY KEY, question TEXT NOT NULL, claim TEXT NOT NULL, plain TEXT NOT NULL, value TEXT, report TEXT,
    due INTEGER NOT NULL, unsure INTEGER
);
CREATE TABLE memory (claim TEXT, value TEXT, report TEXT, PRIMARY KEY (claim, value));
"""
"""`spent`: micro-epsilon for ever. `standing.day`: the last day that was seen. The other tables are `collect.queue`'s."""


class DeviceError(Exception):
    """Why nothing is reported, in a sentence for who develops the app."""


class StateLost(DeviceError):
    """A ledger that is gone, or older than its witness."""


class StateDamaged(DeviceError):
    """A ledger, or a witness, that cannot be read."""


class StateBusy(DeviceError):
    """Another process of the device holds the state."""


class StateFull(DeviceError):
    """The state cannot be written: a full disk, a folder that is read-only."""


class Refusal(StrEnum):
    """Why a report is not made."""

    CLOCK = "the clock shows a day before the last one seen"
    QUESTION = "the question has had its reports of the day"
    DAY = "the epsilon of the day is spent"
    TOTAL = "the epsilon for ever is spent"


@dataclass(frozen=True)
class Limits:
    """What a device tells at most, in micro-epsilon: `total` for ever, `daily` in a day by all questions together."""

    total: int
    daily: int

    def __post_init__(self) -> None:
        if self.total <= 0 or self.daily <= 0:
            raise ValueError("total and daily are amounts of epsilon above 0")


@dataclass(frozen=True)
class Charge:
    """What was charged for one report. `day`: days since 1970-01-01; `epsilon`: micro."""

    question: str
    day: int
    epsilon: int


def micro(amount: int | float | str | Decimal | Fraction, *, up: bool = False) -> int:
    """Return an epsilon as micro-epsilon: limits are rounded down, charges up. Raises ValueError unless it is finite."""
    try:
        exact = Fraction(str(amount)) * MICRO
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{amount!r} is no finite amount of epsilon") from None
    return -int(-exact // 1) if up else int(exact // 1)


class Ledger:
    """The state of one device. Several processes may open it; each transaction is one process's alone."""

    def __init__(self, path: Path) -> None:
        """Open the state, made if there was none. Raises StateLost, StateDamaged, StateBusy, StateFull."""
        self.path = path.absolute()
        self._witness = Witness(self.path.with_name(self.path.name + ".witness"))
        with _named():
            if not self.path.exists() and self._witness.exists():
                raise StateLost(f"the ledger {self.path.name} is gone: {_AGAIN}")
            self._db = _opened(self.path)
            try:
                with self.transaction():
                    pass
            except BaseException:
                self._db.close()
                raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Lock the state until the block ends; then what was written is on the disk, or nothing of it. Raises as the
        constructor does."""
        with _named():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                _make_tables(self._db)
                before = self._spent()
                self._witness.check(before)
                yield self._db
                after = self._spent()
                if after != before:
                    self._witness.write(before, after, self._day())
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self._db.execute("ROLLBACK")
                raise
        if after != before:
            self._settle()

    def _settle(self) -> None:
        """Write the sum alone into the witness, under the lock: without it, another process may have charged since. Where that
        fails the charge stands, and the next transaction does it."""
        with contextlib.suppress(sqlite3.Error, OSError, DeviceError):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._witness.check(self._spent())
            finally:
                self._db.execute("ROLLBACK")

    def see(self, day: int) -> Refusal | None:
        """Note that it is a day, inside a transaction: from then on no day before it is taken."""
        if day < self._day():
            return Refusal.CLOCK
        self._db.execute("UPDATE standing SET day = ?", (day,))
        return None

    def charge(self, new: Charge, per_day: int, limits: Limits) -> Refusal | None:
        """Charge for a report, inside a transaction, unless a limit is against it."""
        of_question, of_day = self._db.execute(
            "SELECT count(*) FILTER (WHERE question = ?), coalesce(sum(epsilon), 0) FROM charges WHERE day = ?",
            (new.question, new.day),
        ).fetchone()
        if of_question >= per_day:
            return Refusal.QUESTION
        if self._spent() + new.epsilon > limits.total:
            return Refusal.TOTAL
        if of_day + new.epsilon > limits.daily:
            return Refusal.DAY
        self._db.execute("INSERT INTO charges (question, day, epsilon) VALUES (?, ?, ?)", (new.question, new.day, new.epsilon))
        self._db.execute("UPDATE standing SET spent = spent + ?", (new.epsilon,))
        return None

    def charges(self) -> list[Charge]:
        """List all charges, the oldest first."""
        with self.transaction() as db:
            return [Charge(*row) for row in db.execute("SELECT question, day, epsilon FROM charges ORDER BY id")]

    def close(self) -> None:
        self._db.close()

    def _spent(self) -> int:
        return int(self._db.execute("SELECT spent FROM standing").fetchone()[0])

    def _day(self) -> int:
        return int(self._db.execute("SELECT day FROM standing").fetchone()[0])


def begin_again(path: Path, day: int, limits: Limits) -> None:
    """Begin a ledger in place of one that was lost or damaged: all that its witness, or what can be read of it, has charged
    stays charged, where nothing can be read all of `total`; and nothing is taken before the day after."""
    path = path.absolute()
    witness = Witness(path.with_name(path.name + ".witness"))
    known = [reading for reading in (_standing(path), witness.standing()) if reading is not None]
    spent = max((reading[0] for reading in known), default=limits.total)
    last = max([day, *(reading[1] for reading in known)])
    with _named():
        witness.write(spent, spent, last)  # first: a new state that does not come to be is one that was lost
        for name in (path.name, f"{path.name}-journal", f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
        db = _opened(path)
        db.execute("BEGIN IMMEDIATE")
        _make_tables(db)
        db.execute("INSERT INTO charges (question, day, epsilon) VALUES (?, ?, ?)", (LOST, last, spent))
        db.execute("UPDATE standing SET spent = ?, day = ?", (spent, last + 1))
        db.execute("COMMIT")
        db.close()


_AGAIN: Final = "`Device.begin_again` starts one that counts what was charged"


class Witness:
    """The sums before and after the last charge, in a file of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        return self.path.exists()

    def check(self, spent: int) -> None:
        """Raises StateLost where a ledger has another sum, StateDamaged."""
        content = self._content()
        if content is None:
            if spent:
                self.write(spent, spent, 0)
        elif spent not in (content["before"], content["after"]):
            raise StateLost(f"the ledger is an older copy of itself: {_AGAIN}")
        elif content["before"] != content["after"]:
            self.write(spent, spent, content["day"])

    def standing(self) -> tuple[int, int] | None:
        """Return the sum and its day, where they can be read."""
        with contextlib.suppress(StateDamaged, OSError):
            if content := self._content():
                return content["after"], content["day"]
        return None

    def write(self, before: int, after: int, day: int) -> None:
        """Put the sums on the disk, whole or not at all. Raises OSError."""
        new = self.path.with_name(f".{self.path.name}")  # the state's lock is held: nobody else writes it
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump({"before": before, "after": after, "day": day}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        _settle(self.path.parent)

    def _content(self) -> dict[str, int] | None:
        try:
            content = json.loads(self.path.read_bytes())
            return {name: int(content[name]) for name in ("before", "after", "day")}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise StateDamaged(f"the witness {self.path.name} cannot be read: {_AGAIN}") from None


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file, which its owner alone reads; what SQLite makes in its folder has the same mode."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _settle(path.parent)
    db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA synchronous = EXTRA")  # the journal's end is on the disk, too: no charge comes back undone
    db.execute("PRAGMA secure_delete = ON")  # events are overwritten, not only forgotten
    return db


def _make_tables(db: sqlite3.Connection) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        for statement in TABLES.split(";\n"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {FORMAT}")
    elif version != FORMAT:
        raise StateDamaged(f"the ledger is of another version ({version}) than this library reads")


def _standing(path: Path) -> tuple[int, int] | None:
    """Return the sum and the last day of a ledger, where they can be read."""
    if not path.exists():
        return None
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        row = db.execute("SELECT spent, day FROM standing").fetchone()
        return (int(row[0]), int(row[1])) if row else None
    return None


def _settle(folder: Path) -> None:
    """Put on the disk which names a folder has, where a system lets one."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """Raise a DeviceError for what SQLite or the system says."""
    try:
        yield
    except sqlite3.OperationalError as error:
        said = str(error)
        if "locked" in said or "busy" in said:
            raise StateBusy("another process of the device holds the ledger") from error
        if "malformed" in said or "no such" in said:
            raise StateDamaged(f"the ledger cannot be read ({said}): {_AGAIN}") from error
        raise StateFull(f"the ledger cannot be written: {said}") from error
    except sqlite3.DatabaseError as error:
        raise StateDamaged(f"the ledger cannot be read ({error}): {_AGAIN}") from error
    except OSError as error:
        raise StateFull(f"the ledger cannot be written: {error}") from error
