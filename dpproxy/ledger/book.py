"""The accounts of a record: what each dataset, role and user has spent in every window, and who may spend more.

Knows: entries, limits, windows. Must not know: files, threads, hashes. A `Book` is the fold of a record's entries;
the same entries give the same book on every machine. It decides (`decide`) and then takes up (`apply`) what became an
entry; `copy` is cheap, so a transaction works on a copy that is thrown away when it fails.

The clock is the record's: an entry's time is never earlier than the one before, so a clock set back cannot reopen a
window; only an operator's word that the record's clock ran ahead can (`ClockWrong`), and every charge stays charged. A request
whose time runs ahead of what a steady clock says (`steady`), or, where none is known, is more than `max_jump` after the last
entry, is refused until an operator gives a word.

Every account keeps all kinds of windows at once: a policy may change a limit's window at any time.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpproxy import budget_windows as windows
from dpproxy.budget_windows import Window
from dpproxy.ledger.entries import Checkpoint, ClockWord, ClockWrong, Entry, Exhausted, Migrated, Named, Opened
from dpproxy.ledger.ledger import (
    BudgetExhausted,
    Charge,
    ChargeRequest,
    ClockDoubtful,
    Grant,
    LedgerCorrupt,
    Scope,
    Standing,
)
from dpproxy.ledger.states import UNUSED, Account, AccountKey, Opening, State, begun, day_of, decoded, encoded
from dpproxy.privacy.accountant import Limit, admits, effective_epsilon, remaining, tuned
from dpproxy.privacy.loss import ZERO, Loss

TOLERANCE = dt.timedelta(hours=1)
"""By how much a clock may run ahead of a steady one: corrections, a machine that was paused for a while. A clock that was
wrong by no more closes windows for no longer."""


class Book:
    """A book adds up the entries of one chain. It is not thread-safe; a published book is never changed again. `steady`: the
    latest time that can be, by a clock that nobody sets; None when there is none to tell."""

    def __init__(self, max_jump: dt.timedelta) -> None:
        self.ledger = ""
        self.sequence = 0
        self.schema = 0
        self.clock: dt.datetime | None = None
        self.steady: dt.datetime | None = None
        self.closures = 0
        self._names: dict[tuple[str, str], str] = {}
        self._max_jump = max_jump
        self._accounts: dict[AccountKey, Account] = {}
        self._exhausted: dt.datetime | None = None

    def copy(self) -> Book:
        other = Book(self._max_jump)
        other.ledger, other.sequence, other.schema = self.ledger, self.sequence, self.schema
        other.clock, other._exhausted = self.clock, self._exhausted
        other._accounts, other._names = dict(self._accounts), dict(self._names)
        other.steady, other.closures = self.steady, self.closures
        return other

    def decide(self, request: ChargeRequest) -> Charge:
        """Return the charge that this request becomes as the next entry. Raises BudgetExhausted, or LedgerError for the clock.

        The asker's own limits are checked before the dataset's, so that a refusal by the latter says nothing else.
        """
        at = self.now(request.at)
        self.check_own(request)
        self._check(request, (("dataset", request.dataset, request.limits.dataset, request.dataset_loss),))
        return Charge(
            request.id,
            self.sequence + 1,
            request.dataset,
            request.role,
            request.user,
            request.loss,
            request.dataset_loss,
            request.statement,
            at,
            request.policy,
        )

    def check_own(self, request: ChargeRequest) -> None:
        """Ask the asker's own limits. Raises BudgetExhausted, or LedgerError for the clock."""
        limits = request.limits
        most = limits.per_query_epsilon
        if most is not None and request.loss.epsilon > most:
            asked = (request.loss.epsilon, request.loss.delta)
            raise BudgetExhausted("query", (most, 0), None, asked, request.dataset)
        self._check(
            request,
            (("role", request.role, limits.role, request.loss), ("user", request.user, limits.user, request.loss)),
        )

    def _check(self, request: ChargeRequest, checks: Sequence[tuple[Scope, str, Limit | None, Loss]]) -> None:
        at, asked = self.now(request.at), (request.loss.epsilon, request.loss.delta)
        for scope, name, limit, loss in checks:
            if limit is None:
                continue
            spent, bound = self._position((request.dataset, scope, name), limit, at, loss)
            if not admits(spent, loss, bound):
                left = None if scope == "dataset" else remaining(spent, bound)
                raise BudgetExhausted(scope, left, windows.end(limit.window, at), asked, request.dataset)

    def now(self, at: dt.datetime) -> dt.datetime:
        """Return the record's time for something that happens at `at`. Raises ClockDoubtful after a jump."""
        if self.clock is None or at <= self.clock:
            return self.clock or at
        if self.steady is not None and self.steady >= self.clock:
            if at > self.steady + TOLERANCE:
                minutes = dt.timedelta(minutes=round((at - self.steady) / dt.timedelta(minutes=1)))
                raise ClockDoubtful(
                    f"the clock ran ahead by {minutes} since the last charge: set it right; if it is (the machine was "
                    "paused), restart the proxy or say so with `dpproxy ledger clock`"
                )
            return at
        if at - self.clock > self._max_jump:
            raise ClockDoubtful(
                f"the clock is {(at - self.clock).days} days after the ledger's last entry: if that is right, "
                "say so with `dpproxy ledger clock`"
            )
        return at

    def _position(self, key: AccountKey, limit: Limit, at: dt.datetime, new: Loss = ZERO) -> tuple[Loss, Limit]:
        """What counts as spent in the current window, and the limit with grants, as `new` finds it; nothing but grants
        if exhausted."""
        account = self._accounts.get(key, UNUSED).on(at)
        opening = account.opening(limit.window)
        first = opening.first or new
        base = tuned(limit, first) if first else limit
        if self._is_exhausted(limit.window, at):
            base = replace(base, epsilon=0, delta=0)
        return account.total.since(opening.total), base.plus(opening.granted_epsilon, opening.granted_delta)

    def _is_exhausted(self, window: Window, at: dt.datetime) -> bool:
        return self._exhausted is not None and windows.start(window, self._exhausted) == windows.start(window, at)

    def apply(self, sequence: int, entry: Entry) -> None:
        """Take up the next entry. Raises LedgerCorrupt when it cannot follow."""
        self._follow(sequence, entry)
        match entry:
            case Opened():
                self.ledger, self.schema = entry.ledger, entry.schema
            case Migrated():
                self._migrate(entry)
            case Checkpoint():
                if entry != self.checkpoint():
                    raise LedgerCorrupt("a checkpoint of the ledger does not agree with the entries before it")
            case Charge():
                for key, loss in _parts(entry):
                    self._spend(key, loss, 1, entry.at)
            case Grant():
                self._grant(entry)
            case Exhausted():
                self._exhaust(entry)
            case ClockWrong():
                self._set_back(entry)
            case Named():
                self._names[entry.dataset, entry.data] = entry.account
            case ClockWord():
                pass

    def apply_all(self, entries: Iterable[tuple[int, Entry]]) -> None:
        """Take up the next entries, as `apply` does one by one: charges of one day and price are added to an account at once.
        Raises LedgerCorrupt, and is of no use then."""
        waiting: dict[tuple[AccountKey, Loss], int] = {}
        at: dt.datetime | None = None
        for sequence, entry in entries:
            charge = entry if isinstance(entry, Charge) else None
            if at is not None and (charge is None or day_of(charge.at) != day_of(at)):
                self._spend_all(waiting, at)
                at = None
            if charge is None:
                self.apply(sequence, entry)
                continue
            self._follow(sequence, charge)
            at = charge.at
            for part in _parts(charge):
                waiting[part] = waiting.get(part, 0) + 1
        if at is not None:
            self._spend_all(waiting, at)

    def _spend_all(self, waiting: dict[tuple[AccountKey, Loss], int], at: dt.datetime) -> None:
        """In the order in which the accounts saw these prices: the first of a window counts (`states.begun`)."""
        for (key, loss), count in waiting.items():
            self._spend(key, loss, count, at)
        waiting.clear()

    def _follow(self, sequence: int, entry: Entry) -> None:
        if sequence != self.sequence + 1 or isinstance(entry, Opened) != (sequence == 1):
            raise LedgerCorrupt("the ledger's entries are not in sequence")
        if not isinstance(entry, Opened | Migrated | Checkpoint):
            if self.clock is not None and entry.at < self.clock and not isinstance(entry, ClockWrong):
                raise LedgerCorrupt("the ledger's times run backwards")
            self.clock = entry.at
        self.sequence = sequence

    def _migrate(self, entry: Migrated) -> None:
        """Forget what checkpoints of the schema before do not say: a book is the same, whichever it was begun with."""
        if self.schema < 3 <= entry.schema:
            self.closures = 0
            self._accounts = {key: replace(account, earlier=()) for key, account in self._accounts.items()}
        self.schema = entry.schema

    def _set_back(self, entry: ClockWrong) -> None:
        self._accounts = {key: account.back(entry.at) for key, account in self._accounts.items()}
        if self._exhausted is not None:
            self._exhausted = min(self._exhausted, entry.at)

    def named(self, dataset: str, data: str) -> tuple[str | None, frozenset[str]]:
        """Return whose accounts a dataset over these data charges (None when it was never said), and the others that charge
        these data."""
        own = {account for (name, _), account in self._names.items() if name == dataset}
        known = self._names.get((dataset, data), max(own, default=None))
        return known, frozenset(account for (_, of), account in self._names.items() if of == data) - {known}

    def strangers(self, dataset: str, data: str) -> frozenset[str]:
        """Return the others that charge data which this dataset is not known to have: none with which it has others in common, as
        only an operator's word lets it."""
        if self.knows(dataset, data):
            return frozenset()
        mine = {of for name, of in self._names if name == dataset}
        agreed = {account for (_, of), account in self._names.items() if of in mine}
        return self.named(dataset, data)[1] - agreed - {dataset}

    def knows(self, dataset: str, data: str) -> bool:
        return (dataset, data) in self._names

    def spenders(self, dataset: str) -> list[tuple[Scope, str, Loss]]:
        """Return every account of a dataset, with what it has spent in all time."""
        return [(scope, name, a.total) for (of, scope, name), a in sorted(self._accounts.items()) if of == dataset]

    def checkpoint(self) -> Checkpoint:
        """Return all that the book knows, but for the sequence, as an entry."""
        known = (self.ledger, self.schema, self.clock, self._exhausted, self._accounts, self.closures, self._names)
        return Checkpoint(encoded(State(*known)))

    def restore(self, sequence: int, entry: Entry) -> None:
        """Begin with a checkpoint. Raises LedgerCorrupt when the entry is none."""
        if not isinstance(entry, Checkpoint):
            raise LedgerCorrupt("an entry of the ledger is not the checkpoint it should be")
        state = decoded(entry.state)
        self.ledger, self.sequence, self.schema = state.ledger, sequence, state.schema
        self.clock, self._exhausted = state.clock, state.exhausted
        self._accounts, self.closures, self._names = dict(state.accounts), state.closures, dict(state.names)

    def _spend(self, key: AccountKey, loss: Loss, times: int, at: dt.datetime) -> None:
        account = self._accounts.get(key, UNUSED).on(at)
        openings = begun(account.openings, loss)
        self._accounts[key] = Account(account.total + loss.times(times), account.charges + times, account.day, openings)

    def _grant(self, grant: Grant) -> None:
        key = (grant.dataset, grant.scope, grant.name)
        account = self._accounts.get(key, UNUSED).on(grant.at)
        openings = tuple(
            replace(o, granted_epsilon=o.granted_epsilon + grant.epsilon, granted_delta=o.granted_delta + grant.delta)
            for o in account.openings
        )
        self._accounts[key] = replace(account, openings=openings)

    def _exhaust(self, entry: Exhausted) -> None:
        """Spending starts again from a limit of zero: only what is granted from now on counts."""
        self._exhausted = entry.at
        self.closures += 1
        for key, account in self._accounts.items():
            account = account.on(entry.at)
            openings = tuple(Opening(o.start, account.total) for o in account.openings)
            self._accounts[key] = replace(account, openings=openings)

    def standing(self, key: AccountKey, limit: Limit, at: dt.datetime) -> Standing:
        """Tell where an account stands at `at`, or at the record's time if that is later."""
        at = max(at, self.clock or at)
        spent, bound = self._position(key, limit, at)
        account, exhausted = self._accounts.get(key, UNUSED), self._is_exhausted(limit.window, at)
        left = remaining(spent, bound)
        return Standing(
            key[1],
            key[2],
            limit.window,
            limit.epsilon if exhausted else bound.epsilon,
            limit.delta if exhausted else bound.delta,
            limit.epsilon if exhausted else effective_epsilon(spent, bound),
            limit.delta if exhausted else spent.failure,
            *left,
            account.total.epsilon,
            account.total.delta,
            account.charges,
            windows.end(limit.window, at),
        )


def _parts(charge: Charge) -> tuple[tuple[AccountKey, Loss], ...]:
    """What a charge costs which accounts."""
    of = charge.dataset
    return (
        ((of, "dataset", of), charge.dataset_loss),
        ((of, "role", charge.role), charge.loss),
        ((of, "user", charge.user), charge.loss),
    )
