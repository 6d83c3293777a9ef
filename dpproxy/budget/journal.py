"""A ledger over any store that can append in a transaction: group commit, catch-up, retry.

Knows: threads, books, rows, the order of steps. Must not know: SQL, files. One thread owns the store; what callers
submit while it is busy becomes one transaction, so a durable charge costs at most one commit. The steps:

1. `begin` locks the record and reads its head; rows that other processes added come with it, are checked and taken up;
2. each request is decided on a copy of the book, in the order of submission, and becomes a row;
3. rows and head are committed; only then is the copy published and anyone told.

Where a record has a witness (`budget.witness`), it is asked when the record is first read, and told after each commit; a
transaction whose witness could not be told of the one before is refused.

When the store fails anywhere, the copy is dropped, the store recovers, and the same batch is tried once more: a batch
whose commit went through although its acknowledgement was lost finds its charges by their ids, so nothing is charged
twice and nothing is shown uncharged. If it fails again, everybody in the batch gets a LedgerError.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from dpproxy.budget.book import Book
from dpproxy.budget.entries import (
    CHECKPOINT_EVERY,
    SCHEMA,
    ClockWord,
    ClockWrong,
    Entry,
    Exhausted,
    Head,
    Migrated,
    Named,
    Opened,
    Row,
    check_seal,
    checkpoint_id,
    decode,
    link,
    row_of,
    seal,
)
from dpproxy.budget.ledger import (
    BudgetExhausted,
    Charge,
    ChargeRequest,
    Grant,
    LedgerCorrupt,
    LedgerError,
    Scope,
    Standing,
)
from dpproxy.budget.store import KnownCharge, Store, Stored, StoreError
from dpproxy.budget.witness import SYNC_SECONDS, Seen, Witness, check
from dpproxy.privacy.accountant import Limit

log = logging.getLogger(__name__)

MAX_BATCH = 256
"""Jobs in one transaction: far more than can wait in one commit's time, and still a short transaction."""

MAX_JUMP = dt.timedelta(days=35)
"""A month may pass unused while no proxy runs; a clock further ahead than this is more likely wrong. While one runs,
what counts is the time since this machine started (`since_boot`)."""

NAMES = ""
"""The record of names, where each dataset has a record of its own: no dataset is called so."""

BEHIND = dt.timedelta(hours=1)
"""A record this far ahead of our clock: one of the two is wrong, and the log is told."""


def since_boot() -> float:
    """Seconds by a clock that nobody can set, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass
class Transaction:
    """One chain, locked and caught up: `book` is a copy that holds every row appended so far; `charges` has those
    that were asked for and exist."""

    book: Book
    digest: bytes
    charges: dict[str, Charge] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def append(self, entry: Entry) -> None:
        """The entry, and a checkpoint if one is due."""
        self._append(entry)
        if (self.book.sequence + 1) % CHECKPOINT_EVERY == 0:
            self._append(self.book.checkpoint())

    def _append(self, entry: Entry) -> None:
        row = row_of(entry, self.book.sequence + 1, self.digest)
        self.book.apply(row.sequence, entry)
        self.digest = row.hash
        self.rows.append(row)

    def charge(self, request: ChargeRequest) -> Charge:
        """Raises BudgetExhausted; LedgerError for the clock, or for an id that stands for something else."""
        earlier = self.charges.get(request.id)
        if earlier is not None:
            return _same(earlier, request)
        charge = self.book.decide(request)
        self.append(charge)
        self.charges[request.id] = charge
        return charge


def _same(charge: Charge, request: ChargeRequest) -> Charge:
    def of(x: Charge | ChargeRequest) -> tuple[object, ...]:
        return (x.dataset, x.role, x.user, x.loss, x.dataset_loss, x.statement)

    if of(charge) != of(request):
        raise LedgerError("the id of a charge was used for another statement")
    return charge


@dataclass(frozen=True)
class _Job:
    """`id` is that of the charge it asks for."""

    chain: str
    work: Callable[[Transaction], Any]
    future: Future[Any]
    id: str | None = None


class Journal:
    """A `Ledger` (see there). `key` seals the head; `shared` says that other processes write to the store too."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        key: bytes | None = None,
        max_jump: dt.timedelta = MAX_JUMP,
        shared: bool = False,
        chain_of: Callable[[str], str] = lambda dataset: "",
        boot: Callable[[], float] | None = None,
        witness_of: Callable[[str], Witness | None] = lambda chain: None,
        accepting: bool = False,
    ) -> None:
        """Starts the thread and opens the store in it. `boot`: a steady clock, `since_boot`, where requests come in real time.
        `accepting`: whatever a witness says, the record as it is counts from now on (`repair`). Raises LedgerError when the store
        cannot be opened."""
        self._witness_of, self._accepting = witness_of, accepting
        self._witnesses: dict[str, Witness | None] = {}
        self._told: dict[str, int] = {}  # the sequence that a record's witness was last told
        self._synced = time.monotonic()
        self._boot = boot
        self._seconds: dict[str, tuple[dt.datetime, float]] = {}  # the last time that moved a record's clock, by both clocks
        self._ahead: set[str] = set()  # records of which the log was told so
        self._key, self._max_jump, self._shared, self._chain_of = key, max_jump, shared, chain_of
        self._shared_accounts: dict[str, str] = {}  # datasets that charge the accounts of another
        self._books: dict[str, Book] = {}
        self._digests: dict[str, bytes] = {}
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(open_store, opened), name="ledger", daemon=True)
        self._thread.start()
        opened.result()

    def name(self, dataset: str, data: str, at: dt.datetime) -> str:
        def work(tx: Transaction) -> str:
            account, others = tx.book.named(dataset, data)
            if tx.book.knows(dataset, data):
                return account or dataset
            if others - {dataset}:
                others_named = ", ".join(f"`{other}`" for other in sorted(others))
                raise LedgerError(
                    f"the data of dataset `{dataset}` were charged as {others_named}: under a new name they would begin with a "
                    f"new budget. `dpproxy ledger name` lets it charge the same accounts (--as {min(others)}), or its own"
                )
            tx.append(Named(max(at, tx.book.clock or at), dataset, account or dataset, data))
            return account or dataset

        account: str = self._enqueue(self._chain_of(NAMES), work).result()
        self._shared_accounts[dataset] = account
        return account

    def share(self, dataset: str, data: str, account: str, at: dt.datetime, reason: str) -> None:
        """The operator's word whose accounts a dataset over these data charges: its own, or another's."""

        def work(tx: Transaction) -> None:
            tx.append(Named(max(at, tx.book.clock or at), dataset, account, data, reason))

        self._enqueue(self._chain_of(NAMES), work).result()

    def _account(self, dataset: str) -> str:
        return self._shared_accounts.get(dataset, dataset)

    def submit(self, request: ChargeRequest) -> Future[Charge]:
        request = replace(request, dataset=self._account(request.dataset))
        chain = self._chain_of(request.dataset)

        def work(tx: Transaction) -> Charge:
            self._compare(chain, tx.book.clock, request.at)
            return tx.charge(request)

        return self._enqueue(chain, work, request.id)

    def _compare(self, chain: str, clock: dt.datetime | None, at: dt.datetime) -> None:
        """Tell the log, once, when the record's clock is ahead of ours."""
        if clock is None or clock - at <= BEHIND:
            self._ahead.discard(chain)
        elif chain not in self._ahead:
            self._ahead.add(chain)
            log.error(
                "the ledger's clock is %s ahead of this machine's: windows stay as they are until then; if this machine is "
                "right, `dpproxy ledger clock --wrong` opens those of today",
                clock - at,
            )

    def grant(self, grant: Grant) -> None:
        if not grant.reason.strip() or grant.epsilon < 0 or grant.delta < 0:
            raise LedgerError("a grant has a reason, and is not negative")
        account = self._account(grant.dataset)

        def work(tx: Transaction) -> None:
            at = tx.book.now(grant.at)
            whole = grant.scope == "dataset"
            names = (account, grant.scope, account if whole else grant.name)
            tx.append(Grant(*names, grant.epsilon, grant.delta, grant.reason, at))

        self._enqueue(self._chain_of(account), work).result()

    def accept_clock(self, dataset: str, at: dt.datetime, reason: str) -> None:
        dataset = self._account(dataset)

        def work(tx: Transaction) -> None:
            if tx.book.clock is None or at > tx.book.clock:
                tx.append(ClockWord(at, reason))

        self._enqueue(self._chain_of(dataset), work).result()

    def set_clock_back(self, dataset: str, at: dt.datetime, reason: str) -> None:
        """The operator's word that the record's clock ran ahead, and that it is `at`. Raises LedgerError when it did not."""

        def work(tx: Transaction) -> None:
            if tx.book.clock is None or at >= tx.book.clock:
                raise LedgerError("the ledger's clock is not ahead: nothing was done")
            tx.append(ClockWrong(at, reason))

        self._enqueue(self._chain_of(dataset), work).result()

    def exhaust(self, dataset: str, at: dt.datetime, reason: str) -> None:
        """Close every current window of the dataset's chain: what `repair` does when entries may be lost."""

        def work(tx: Transaction) -> None:
            tx.append(Exhausted(max(at, tx.book.clock or at), reason))

        self._enqueue(self._chain_of(dataset), work).result()

    def at_hand(self, dataset: str) -> bool:
        return not self._shared and self._chain_of(self._account(dataset)) in self._books

    def standing(self, dataset: str, scope: Scope, name: str, limit: Limit, at: dt.datetime) -> Standing:
        return self.standings(dataset, [(scope, name, limit)], at)[0]

    def standings(self, dataset: str, accounts: Sequence[tuple[Scope, str, Limit]], at: dt.datetime) -> list[Standing]:
        book, account = self._book(dataset), self._account(dataset)
        return [
            replace(book.standing((account, scope, account if scope == "dataset" else name), limit, at), name=name)
            for scope, name, limit in accounts
        ]

    def identity(self, dataset: str) -> str:
        return self._book(dataset).ledger

    def verdict(self, request: ChargeRequest) -> BudgetExhausted | None:
        try:
            book = self._book(request.dataset).copy()
            book.steady = self._steady(self._chain_of(self._account(request.dataset)))
            book.check_own(replace(request, dataset=self._account(request.dataset)))
        except BudgetExhausted as refused:
            return refused
        return None

    def _book(self, dataset: str) -> Book:
        """As it is now; a published book is never changed again."""
        chain = self._chain_of(self._account(dataset))
        if not self.at_hand(dataset):
            self._enqueue(chain, lambda tx: None).result()
        return self._books[chain]

    def close(self) -> None:
        """Finish what is queued, then close the store. Later calls raise LedgerError."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _enqueue(self, chain: str, work: Callable[[Transaction], Any], id: str | None = None) -> Future[Any]:
        future: Future[Any] = Future()
        with self._closing:
            if self._closed:
                raise LedgerError("the ledger is closed")
            self._queue.put(_Job(chain, work, future, id))
        return future

    def _run(self, open_store: Callable[[], Store], opened: Future[None]) -> None:
        try:
            self._store = open_store()
        except Exception as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        try:
            while (jobs := self._next_batch()) is not None:
                for chain in dict.fromkeys(job.chain for job in jobs):
                    self._batch(chain, [job for job in jobs if job.chain == chain and _start(job.future)])
                self._sync()
        finally:
            self._turn_away()
            self._store.close()
            self._sync(at_once=True)
            for witness in filter(None, self._witnesses.values()):
                witness.close()

    def _sync(self, at_once: bool = False) -> None:
        """Put on disk what witnesses were told, every SYNC_SECONDS."""
        if not at_once and time.monotonic() - self._synced < SYNC_SECONDS:
            return
        self._synced = time.monotonic()
        for witness in filter(None, self._witnesses.values()):
            try:
                witness.sync()
            except LedgerError as error:
                log.error("%s", error)

    def _turn_away(self) -> None:
        """Nobody waits for a thread that has ended, however it ended."""
        with self._closing:
            self._closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._queue.get_nowait()
                if job is not None and _start(job.future):
                    job.future.set_exception(LedgerError("the ledger is closed"))

    def _next_batch(self) -> list[_Job] | None:
        """Whatever waits, at least one job; none after a while in which nothing came, None after `close`."""
        try:
            first = self._queue.get(timeout=SYNC_SECONDS if self._told else None)
        except queue.Empty:
            return []
        if first is None:
            return None
        jobs = [first]
        while len(jobs) < MAX_BATCH:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._queue.put(None)
                break
            jobs.append(job)
        return jobs

    def _batch(self, chain: str, jobs: list[_Job]) -> None:
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

    def _attempt(self, chain: str, jobs: list[_Job], again: bool) -> list[Any]:
        try:
            return self._transact(chain, jobs, again)
        except KnownCharge:
            if again:
                raise
            self._store.rollback()
            return self._transact(chain, jobs, again=True)

    def _recover(self) -> None:
        try:
            self._store.recover()
        except LedgerError as error:
            log.error("the ledger's store did not recover: %s", error)

    def _transact(self, chain: str, jobs: list[_Job], again: bool) -> list[Any]:
        """`again`: charges of these ids may exist. Otherwise that is found out by those that are refused or known."""
        tx, seen = self._caught_up(chain), self._books.get(chain)
        tx.book.steady, clock = self._steady(chain), tx.book.clock
        self._ask(chain, tx)
        if again:
            tx.charges.update(self._stored(chain, [job.id for job in jobs if job.id is not None]))
        outcomes = [_outcome(job, tx) for job in jobs]
        refused = [j.id for j, o in zip(jobs, outcomes, strict=True) if j.id is not None and isinstance(o, BudgetExhausted)]
        if not again and refused and self._stored(chain, refused):
            raise KnownCharge("a charge of this id exists")
        if tx.rows:
            last = tx.rows[-1]
            sealed = seal(self._key, chain, last.sequence, last.hash) if self._key else None
            self._store.append(chain, tx.rows, Head(last.sequence, last.hash, sealed))
            self._store.commit()
        else:
            self._store.rollback()
            if seen is None or seen.sequence < tx.book.sequence:
                self._store.settle()  # never remember what a failing server could still forget
        if self._boot is not None and tx.book.clock is not None and tx.book.clock != clock:
            self._seconds[chain] = tx.book.clock, self._boot()
        self._books[chain], self._digests[chain] = tx.book, tx.digest
        try:
            self._tell(chain)
        except LedgerError as error:  # what is committed stands; the next transaction tries again
            log.error("%s", error)
        return outcomes

    def _ask(self, chain: str, tx: Transaction) -> None:
        """Before the first transaction whether the witness has seen more, before others that it was told of the last one.
        Raises LedgerCorrupt, LedgerError."""
        if chain in self._books:
            self._tell(chain)
            return
        witness = self._witnesses.setdefault(chain, self._witness_of(chain))
        if witness is None or self._accepting:
            return
        seen, known = witness.read(), tx.book.sequence - len(tx.rows)
        if seen is None and not known:
            return
        rows = self._store.rows(chain, seen.sequence - 1) if seen is not None and seen.sequence <= known else ()
        found = next((Head(seen.sequence, digest) for _, digest in rows if seen is not None), None)
        check(seen, tx.book.ledger, tx.book.closures, found, witness)

    def _tell(self, chain: str) -> None:
        """Raises LedgerError."""
        witness, book = self._witnesses.get(chain), self._books[chain]
        if witness is not None and book.sequence > self._told.get(chain, 0):
            seen = Seen(book.ledger, book.sequence, self._digests[chain], book.closures)
            witness.note(seen, anew=self._accepting)
            self._told[chain] = book.sequence

    def _steady(self, chain: str) -> dt.datetime | None:
        """The latest time it can be, for a clock that was right when it last moved the record's."""
        if self._boot is None or chain not in self._seconds:
            return None
        at, seconds = self._seconds[chain]
        return at + dt.timedelta(seconds=max(0.0, self._boot() - seconds))

    def _stored(self, chain: str, ids: Sequence[str]) -> dict[str, Charge]:
        found = self._store.find(chain, ids) if ids else {}
        entries = {id: decode(body)[1] for id, body in found.items()}
        return {id: entry for id, entry in entries.items() if isinstance(entry, Charge)}

    def _caught_up(self, chain: str) -> Transaction:
        """Begin, and take up what this process has not seen. Raises LedgerCorrupt when it does not fit."""
        known = self._books.get(chain)
        book, digest = (known.copy(), self._digests[chain]) if known else self._read(chain)
        head, page = self._store.begin(chain, book.sequence)
        check_seal(self._key, chain, head)
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
        book, last = Book(self._max_jump), self._store.last(chain)
        latest = last - last % CHECKPOINT_EVERY
        places = [n for n in (latest, latest - CHECKPOINT_EVERY) if n > 0]
        found = self._store.find(chain, [checkpoint_id(n) for n in places]) if places else {}
        checkpoint = next((n for n in places if checkpoint_id(n) in found), 0)
        return book, replay(book, Head().hash, self._store.rows(chain, 0), checkpoint)


def replay(book: Book, digest: bytes, rows: Iterable[Stored], checkpoint: int = 0) -> bytes:
    """Check rows against the chain and take them up. Returns the last hash. Raises LedgerCorrupt.

    What comes before the checkpoint of that sequence is checked against the chain alone; what it adds up to is in it.
    """
    sequence = book.sequence
    for body, stored in rows:
        sequence += 1
        digest = link(digest, body)
        if digest != stored:
            raise LedgerCorrupt(f"entry {sequence} of the ledger was changed, or one before it was lost")
        if sequence > checkpoint:
            book.apply(*decode(body))
        elif sequence == checkpoint:
            book.restore(*decode(body))
    return digest


def _start(future: Future[Any]) -> bool:
    """False when the caller has given up already; from now on it is too late to."""
    return future.set_running_or_notify_cancel()


def _outcome(job: _Job, tx: Transaction) -> Any:
    """What this job gets when the transaction commits: a value, or its own refusal."""
    try:
        return job.work(tx)
    except StoreError:
        raise
    except (BudgetExhausted, LedgerError) as refusal:
        return refusal
