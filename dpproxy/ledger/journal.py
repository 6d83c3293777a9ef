"""A ledger over any store that can append in a transaction: what callers submit, committed in groups by one thread.

Knows: callers, futures, the thread and its queue. Must not know: how a transaction is made (`ledger.chains`), SQL, files. One
thread owns the store; what callers submit while it is busy becomes one transaction, so a durable charge costs at most one
commit. Books that it has published are read by any thread, and never change again.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from dpproxy.ledger.book import Book
from dpproxy.ledger.chains import Chains, Job, Rules, start
from dpproxy.ledger.entries import ClockWord, ClockWrong, Exhausted, Named
from dpproxy.ledger.ledger import BudgetExhausted, Charge, ChargeRequest, Grant, LedgerError, Scope, Standing
from dpproxy.ledger.transaction import Store, Transaction
from dpproxy.ledger.witness import SYNC_SECONDS, Witness
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
    """Return the seconds of a clock that nobody can set, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Journal:
    """A journal is a `Ledger` (see there). `key` seals the head; `shared` says that other processes write to the store too."""

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
        """Start the thread and open the store in it. `boot`: a steady clock, `since_boot`, where requests come in real time.
        `accepting`: whatever a witness says, the record as it is counts from now on (`repair`). Raises LedgerError when the store
        cannot be opened."""
        self._rules = Rules(key, max_jump, boot, witness_of, accepting)
        self._shared, self._chain_of = shared, chain_of
        self._ahead: set[str] = set()  # chains of which the log was told that their clock is ahead
        self._shared_accounts: dict[str, str] = {}  # datasets that charge the accounts of another
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(open_store, opened), name="ledger", daemon=True)
        self._thread.start()
        opened.result()

    def name(self, dataset: str, data: str, at: dt.datetime, file: str = "") -> str:
        def work(tx: Transaction) -> str:
            account, _ = tx.book.named(dataset, data)
            others = tx.book.strangers(dataset, data) | (tx.book.strangers(dataset, file) if file else frozenset())
            if others:
                others_named = ", ".join(f"`{other}`" for other in sorted(others))
                raise LedgerError(
                    f"the data of dataset `{dataset}` were charged as {others_named}: under a new name they would begin with a "
                    f"new budget. `dpproxy ledger name` lets it charge the same accounts (--as {min(others)}), or its own"
                )
            for each in filter(None, (data, file)):
                if not tx.book.knows(dataset, each):
                    tx.append(Named(max(at, tx.book.clock or at), dataset, account or dataset, each))
            return account or dataset

        account: str = self._enqueue(self._chain_of(NAMES), work).result()
        self._shared_accounts[dataset] = account
        return account

    def share(self, dataset: str, data: str, account: str, at: dt.datetime, reason: str, file: str = "") -> None:
        """Take the operator's word whose accounts a dataset over these data charges: its own, or another's."""

        def work(tx: Transaction) -> None:
            for each in filter(None, (data, file)):
                tx.append(Named(max(at, tx.book.clock or at), dataset, account, each, reason))

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
        """Take the operator's word that the record's clock ran ahead, and that it is `at`. Raises LedgerError when it did not."""

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
        return not self._shared and self._chain_of(self._account(dataset)) in self._chains.books

    def standing(self, dataset: str, scope: Scope, name: str, limit: Limit, at: dt.datetime) -> Standing:
        return self.standings(dataset, [(scope, name, limit)], at)[0]

    def standings(self, dataset: str, accounts: Sequence[tuple[Scope, str, Limit]], at: dt.datetime) -> list[Standing]:
        book, account = self._book(dataset), self._account(dataset)
        return [
            replace(book.standing((account, scope, account if scope == "dataset" else name), limit, at), name=name)
            for scope, name, limit in accounts
        ]

    def lag(self, dataset: str, at: dt.datetime) -> float:
        """Return the seconds after which a transaction that charges nothing has ended: what waits before a charge. Raises
        LedgerError, also where a charge at that time would be refused whatever it costs."""
        began = time.monotonic()
        self._enqueue(self._chain_of(self._account(dataset)), lambda tx: tx.book.now(at)).result()
        return time.monotonic() - began

    def identity(self, dataset: str) -> str:
        return self._book(dataset).ledger

    def verdict(self, request: ChargeRequest) -> BudgetExhausted | None:
        try:
            book = self._book(request.dataset).copy()
            book.steady = self._chains.steady(self._chain_of(self._account(request.dataset)))
            book.check_own(replace(request, dataset=self._account(request.dataset)))
        except BudgetExhausted as refused:
            return refused
        return None

    def _book(self, dataset: str) -> Book:
        """As it is now; a published book is never changed again."""
        chain = self._chain_of(self._account(dataset))
        if not self.at_hand(dataset):
            self._enqueue(chain, lambda tx: None).result()
        return self._chains.books[chain]

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
            self._queue.put(Job(chain, work, future, id))
        return future

    def _run(self, open_store: Callable[[], Store], opened: Future[None]) -> None:
        try:
            self._chains = Chains(open_store(), self._rules)
        except Exception as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        try:
            while (jobs := self._next_batch()) is not None:
                for chain in dict.fromkeys(job.chain for job in jobs):
                    self._chains.batch(chain, [job for job in jobs if job.chain == chain and start(job.future)])
                if not jobs:
                    self._chains.idle()
                self._chains.sync()
        finally:
            self._turn_away()
            self._chains.close()

    def _turn_away(self) -> None:
        """Nobody waits for a thread that has ended, however it ended."""
        with self._closing:
            self._closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._queue.get_nowait()
                if job is not None and start(job.future):
                    job.future.set_exception(LedgerError("the ledger is closed"))

    def _next_batch(self) -> list[Job] | None:
        """Whatever waits, at least one job; none after a while in which nothing came, None after `close`."""
        try:
            first = self._queue.get(timeout=SYNC_SECONDS if self._chains.waiting else None)
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
