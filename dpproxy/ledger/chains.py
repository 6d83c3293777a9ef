"""The chains of a store as this process knows them: a batch of jobs is one transaction, tried twice.

Knows: stores, books, rows, witnesses, the order of steps. Must not know: what a job is for, SQL, files, threads
(one thread calls it, the journal's). The steps of a transaction:

1. `begin` locks the chain and reads its head; rows that other processes added come with it, are checked and taken up;
2. each job is done on a copy of the book, in the order of submission, and becomes rows;
3. rows and head are committed; only then is the copy published and anyone told.

A store that is far away need not be asked for the head by who was the last to write it, several times in a row: steps 1 and 3
become one (`Store.suppose`), which fails if the chain ends elsewhere; then the jobs are done anew, on what is there.

Where a chain has a witness (`ledger.witness`), it is asked when the chain is first read, and told after each commit; a
transaction whose witness could not be told of the one before is refused.

When the store fails anywhere, the copy is dropped, the store recovers, and the same batch is tried once more: a batch
whose commit went through although its acknowledgement was lost finds its charges by their ids, so nothing is charged
twice and nothing is shown uncharged. If it fails again, everybody in the batch gets a LedgerError.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from dpproxy.ledger.book import Book
from dpproxy.ledger.entries import CHECKPOINT_EVERY, SCHEMA, Head, Migrated, Opened, check_seal, checkpoint_id, decode, seal
from dpproxy.ledger.ledger import BudgetExhausted, Charge, LedgerCorrupt, LedgerError
from dpproxy.ledger.transaction import HeadMoved, KnownCharge, Store, StoreError, Transaction, replay
from dpproxy.ledger.witness import SYNC_SECONDS, Seen, Witness, check

log = logging.getLogger(__name__)

ALONE = 4
"""Transactions that find nothing new before the next is made without asking: it has to be made twice if somebody has written."""


@dataclass(frozen=True)
class Job:
    """A job is what one caller wants done in a transaction of a chain. `id` is that of the charge it asks for."""

    chain: str
    work: Callable[[Transaction], Any]
    future: Future[Any]
    id: str | None = None


@dataclass(frozen=True)
class Rules:
    """These rules are settled when a journal is opened.

    `key` seals the heads. `max_jump`: how far a clock may leap. `boot`: seconds of a steady clock, where requests come in real
    time. `witness_of` finds the witness of a chain. `accepting`: whatever a witness says, the chain as it is counts from now on.
    """

    key: bytes | None
    max_jump: dt.timedelta
    boot: Callable[[], float] | None
    witness_of: Callable[[str], Witness | None]
    accepting: bool


class Chains:
    """The chains are read by any thread (`books`), and changed by the thread that opened the store."""

    def __init__(self, store: Store, rules: Rules) -> None:
        self.books: dict[str, Book] = {}
        self._store, self._rules = store, rules
        self._digests: dict[str, bytes] = {}
        self._witnesses: dict[str, Witness | None] = {}
        self._unseen: dict[str, int] = {}  # the transactions since somebody else was seen to write to a chain
        self._told: dict[str, int] = {}  # the sequence that a chain's witness was last told
        self._synced = time.monotonic()
        self._seconds: dict[str, tuple[dt.datetime, float]] = {}  # the last time that moved a chain's clock, by both clocks

    @property
    def waiting(self) -> bool:
        """Tell whether something is to be done when nothing comes for a while (`idle`): a witness waits for `sync`, or the store
        holds a transaction ready."""
        return bool(self._told) or self._store.waiting

    def idle(self) -> None:
        """Nothing came for SYNC_SECONDS."""
        try:
            self._store.rest()
        except StoreError as error:
            log.warning("the ledger's store: %s", error)
            self._recover()

    def close(self) -> None:
        self._store.close()
        self.sync(at_once=True)
        for witness in filter(None, self._witnesses.values()):
            witness.close()

    def sync(self, at_once: bool = False) -> None:
        """Put on disk what witnesses were told, every SYNC_SECONDS."""
        if not at_once and time.monotonic() - self._synced < SYNC_SECONDS:
            return
        self._synced = time.monotonic()
        for witness in filter(None, self._witnesses.values()):
            try:
                witness.sync()
            except LedgerError as error:
                log.error("%s", error)

    def batch(self, chain: str, jobs: list[Job]) -> None:
        """Run the jobs in one transaction, twice if the store fails, and tell everybody."""
        if not jobs:
            return
        outcomes: list[Any] = []
        for attempt in (1, 2):
            try:
                outcomes = self._attempt(chain, jobs, again=attempt > 1)
                break
            except StoreError as error:
                log.warning("ledger transaction failed (attempt %d): %s", attempt, error)
                outcomes = [LedgerError(f"the ledger cannot be written: {error}")] * len(jobs)
                self._recover()
            except Exception as error:
                failure = error if isinstance(error, LedgerError) else LedgerError(f"the ledger failed: {error!r}")
                outcomes = [failure] * len(jobs)
                self._recover()
                break
        for job, outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, Exception):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

    def _attempt(self, chain: str, jobs: list[Job], again: bool) -> list[Any]:
        try:
            charging = not again and any(job.id is not None for job in jobs)  # who only looks has to ask
            if charging and (tx := self._supposed(chain)) is not None:
                try:
                    return self._transact(chain, tx, jobs)
                except HeadMoved:
                    self._store.rollback()
                    self._unseen[chain] = 0
            return self._transact(chain, self._caught_up(chain), jobs, again)
        except KnownCharge:
            if again:
                raise
            self._store.rollback()
            return self._transact(chain, self._caught_up(chain), jobs, again=True)

    def _recover(self) -> None:
        try:
            self._store.recover()
        except LedgerError as error:
            log.error("the ledger's store did not recover: %s", error)

    def _transact(self, chain: str, tx: Transaction, jobs: list[Job], again: bool = False) -> list[Any]:
        """`again`: charges of these ids may exist. Otherwise that is found out by those that are refused or known."""
        seen = self.books.get(chain)
        tx.book.steady, clock = self.steady(chain), tx.book.clock
        self._ask(chain, tx)
        if again:
            tx.charges.update(self._stored(chain, [job.id for job in jobs if job.id is not None]))
        outcomes = [_outcome(job, tx) for job in jobs]
        refused = [j.id for j, o in zip(jobs, outcomes, strict=True) if j.id is not None and isinstance(o, BudgetExhausted)]
        if not again and refused and self._stored(chain, refused):
            raise KnownCharge("a charge of this id exists")
        if tx.rows:
            self._store.append(chain, tx.rows, self._head(chain, tx.rows[-1].sequence, tx.rows[-1].hash))
            self._store.commit()
        elif tx.supposed:
            raise HeadMoved("what adds nothing asks how the chain ends")
        else:
            self._store.rollback()
            if seen is None or seen.sequence < tx.book.sequence:
                self._store.settle()  # never remember what a failing server could still forget
        if self._rules.boot is not None and tx.book.clock is not None and tx.book.clock != clock:
            self._seconds[chain] = tx.book.clock, self._rules.boot()
        self.books[chain], self._digests[chain] = tx.book, tx.digest
        try:
            self._tell(chain)
        except LedgerError as error:  # what is committed stands; the next transaction tries again
            log.error("%s", error)
        return outcomes

    def _ask(self, chain: str, tx: Transaction) -> None:
        """Before the first transaction whether the witness has seen more, before others that it was told of the last one.
        Raises LedgerCorrupt, LedgerError."""
        if chain in self.books:
            self._tell(chain)
            return
        witness = self._witnesses.setdefault(chain, self._rules.witness_of(chain))
        if witness is None or self._rules.accepting:
            return
        seen, known = witness.read(), tx.book.sequence - len(tx.rows)
        if seen is None and not known:
            return
        rows = self._store.rows(chain, seen.sequence - 1) if seen is not None and seen.sequence <= known else ()
        found = next((Head(seen.sequence, digest) for _, digest in rows if seen is not None), None)
        check(seen, tx.book.ledger, tx.book.closures, found, witness)

    def _tell(self, chain: str) -> None:
        """Raises LedgerError."""
        witness, book = self._witnesses.get(chain), self.books[chain]
        if witness is not None and book.sequence > self._told.get(chain, 0):
            seen = Seen(book.ledger, book.sequence, self._digests[chain], book.closures)
            witness.note(seen, anew=self._rules.accepting)
            self._told[chain] = book.sequence

    def steady(self, chain: str) -> dt.datetime | None:
        """Return the latest time it can be, for a clock that was right when it last moved the record's."""
        if self._rules.boot is None or chain not in self._seconds:
            return None
        at, seconds = self._seconds[chain]
        return at + dt.timedelta(seconds=max(0.0, self._rules.boot() - seconds))

    def _stored(self, chain: str, ids: Sequence[str]) -> dict[str, Charge]:
        found = self._store.find(chain, ids) if ids else {}
        entries = {id: decode(body)[1] for id, body in found.items()}
        return {id: entry for id, entry in entries.items() if isinstance(entry, Charge)}

    def _supposed(self, chain: str) -> Transaction | None:
        """Begin where this process knows the chain to end, if nobody else has written to it for a while."""
        if self._unseen.get(chain, 0) < ALONE:
            return None
        known, digest = self.books[chain], self._digests[chain]
        if not self._store.suppose(chain, self._head(chain, known.sequence, digest)):
            return None
        return Transaction(known.copy(), digest, supposed=True)

    def _head(self, chain: str, sequence: int, digest: bytes) -> Head:
        return Head(sequence, digest, seal(self._rules.key, chain, sequence, digest) if self._rules.key else None)

    def _caught_up(self, chain: str) -> Transaction:
        """Begin, and take up what this process has not seen. Raises LedgerCorrupt when it does not fit."""
        known = self.books.get(chain)
        book, digest = (known.copy(), self._digests[chain]) if known else self._read(chain)
        head, page = self._store.begin(chain, book.sequence)
        check_seal(self._rules.key, chain, head)
        self._unseen[chain] = self._unseen.get(chain, 0) + 1 if known and head.sequence == known.sequence else 0
        digest = replay(book, digest, page)
        if head.sequence > book.sequence:
            digest = replay(book, digest, self._store.rows(chain, book.sequence))
        if (book.sequence, digest) != (head.sequence, head.hash):
            raise LedgerCorrupt("the ledger's entries and its head do not agree: entries were changed or lost")
        tx = Transaction(book, digest)
        if not head.sequence:
            tx.append(Opened(str(uuid.uuid4())))
        elif book.schema < SCHEMA:
            tx.append(Migrated())
        return tx

    def _read(self, chain: str) -> tuple[Book, bytes]:
        """The record as far as it goes, before anybody is locked out: hashed from its first entry, added up from the last
        checkpoint."""
        book, last = Book(self._rules.max_jump), self._store.last(chain)
        latest = last - last % CHECKPOINT_EVERY
        places = [n for n in (latest, latest - CHECKPOINT_EVERY) if n > 0]
        found = self._store.find(chain, [checkpoint_id(n) for n in places]) if places else {}
        checkpoint = next((n for n in places if checkpoint_id(n) in found), 0)
        return book, replay(book, Head().hash, self._store.rows(chain, 0), checkpoint)


def start(future: Future[Any]) -> bool:
    """Begin a job: False when its caller has given up already; from now on the caller cannot."""
    return future.set_running_or_notify_cancel()


def _outcome(job: Job, tx: Transaction) -> Any:
    """What this job gets when the transaction commits: a value, or its own refusal."""
    try:
        return job.work(tx)
    except StoreError:
        raise
    except (BudgetExhausted, LedgerError) as refusal:
        return refusal
