"""The accounts of a record: what each dataset, role and user has spent in every window, and who may spend more.

Knows: entries, limits, windows. Must not know: files, threads, hashes. A `Book` is the fold of a record's entries;
the same entries give the same book on every machine. It decides (`decide`) and then takes up (`apply`) what became an
entry; `copy` is cheap, so a transaction works on a copy that is thrown away when it fails.

The clock is the record's: an entry's time is never earlier than the one before, so a clock set back cannot reopen a
window. A request more than `max_jump` after the last entry is refused until an operator gives a word.

Every account keeps all kinds of windows at once: a policy may change a limit's window at any time.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from functools import lru_cache

from dpproxy.budget import window as windows
from dpproxy.budget.accountant import Limit, admits, effective_epsilon, remaining
from dpproxy.budget.entries import ClockWord, Entry, Exhausted, Opened
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
from dpproxy.plan.loss import ZERO, Loss
from dpproxy.policy.model import Window

AccountKey = tuple[str, Scope, str]
"""(dataset, scope, name)"""


@dataclass(frozen=True)
class Spending:
    """What one account spent, and was granted beyond its limit, since `start` of a window."""

    start: dt.datetime
    loss: Loss = ZERO
    granted_epsilon: int = 0
    granted_delta: int = 0


@dataclass(frozen=True)
class Account:
    """`windows[i]` is for the window WINDOWS[i]. Lifetime sums are by basic composition."""

    windows: tuple[Spending, ...] = tuple(Spending(windows.EPOCH) for _ in windows.WINDOWS)
    epsilon: int = 0
    delta: int = 0
    charges: int = 0


@lru_cache(maxsize=256)
def _starts_of_day(day: dt.date) -> tuple[dt.datetime, ...]:
    at = dt.datetime.combine(day, dt.time(), dt.UTC)
    return tuple(windows.start(w, at) for w in windows.WINDOWS)


def _starts(at: dt.datetime) -> tuple[dt.datetime, ...]:
    return _starts_of_day(at.astimezone(dt.UTC).date())


class Book:
    """Not thread-safe; a published book is never changed again."""

    def __init__(self, max_jump: dt.timedelta) -> None:
        self.sequence = 0
        self.clock: dt.datetime | None = None
        self._max_jump = max_jump
        self._accounts: dict[AccountKey, Account] = {}
        self._exhausted: dt.datetime | None = None

    def copy(self) -> Book:
        other = Book(self._max_jump)
        other.sequence, other.clock, other._exhausted = self.sequence, self.clock, self._exhausted
        other._accounts = dict(self._accounts)
        return other

    def decide(self, request: ChargeRequest) -> Charge:
        """The charge this request becomes as the next entry. Raises BudgetExhausted, or LedgerError for the clock.

        The asker's own limits are checked before the dataset's, so that a refusal by the latter says nothing else.
        """
        at = self.now(request.at)
        self._check(request, at)
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
        )

    def _check(self, request: ChargeRequest, at: dt.datetime) -> None:
        limits, asked = request.limits, (request.loss.epsilon, request.loss.delta)
        most = limits.per_query_epsilon
        if most is not None and request.loss.epsilon > most:
            raise BudgetExhausted("query", (most, 0), None, asked, request.dataset)
        checks: list[tuple[Scope, str, Limit | None, Loss]] = [
            ("role", request.role, limits.role, request.loss),
            ("user", request.user, limits.user, request.loss),
            ("dataset", request.dataset, limits.dataset, request.dataset_loss),
        ]
        for scope, name, limit, loss in checks:
            if limit is None:
                continue
            spent, bound = self._position((request.dataset, scope, name), limit, at)
            if not admits(spent, loss, bound):
                left = None if scope == "dataset" else remaining(spent, bound)
                raise BudgetExhausted(scope, left, windows.end(limit.window, at), asked, request.dataset)

    def now(self, at: dt.datetime) -> dt.datetime:
        """The record's time for something that happens at `at`. Raises LedgerError after a jump."""
        if self.clock is None or at <= self.clock:
            return self.clock or at
        if at - self.clock > self._max_jump:
            raise LedgerError(
                f"the clock is {(at - self.clock).days} days after the ledger's last entry: if that is right, "
                "say so with `dpproxy ledger clock`"
            )
        return at

    def _position(self, key: AccountKey, limit: Limit, at: dt.datetime) -> tuple[Loss, Limit]:
        """What counts as spent in the current window, and the limit with grants; nothing but grants if exhausted."""
        spending = self._spending(key, limit.window, at)
        base = replace(limit, epsilon=0, delta=0, conversion=None) if self._is_exhausted(limit.window, at) else limit
        return spending.loss, base.plus(spending.granted_epsilon, spending.granted_delta)

    def _spending(self, key: AccountKey, window: Window, at: dt.datetime) -> Spending:
        begin = windows.start(window, at)
        account = self._accounts.get(key, Account())
        spending = account.windows[windows.WINDOWS.index(window)]
        return spending if spending.start == begin else Spending(begin)

    def _is_exhausted(self, window: Window, at: dt.datetime) -> bool:
        return self._exhausted is not None and windows.start(window, self._exhausted) == windows.start(window, at)

    def apply(self, sequence: int, entry: Entry, horizon: dt.datetime | None = None) -> None:
        """Take up the next entry. `horizon`: the record's last time, when many old entries are taken up: windows
        that are over by then are not summed. Raises LedgerCorrupt when the entry cannot follow."""
        if sequence != self.sequence + 1 or isinstance(entry, Opened) != (sequence == 1):
            raise LedgerCorrupt("the ledger's entries are not in sequence")
        if not isinstance(entry, Opened):
            if self.clock is not None and entry.at < self.clock:
                raise LedgerCorrupt("the ledger's times run backwards")
            self.clock = entry.at
        self.sequence = sequence
        match entry:
            case Charge():
                self._charge(entry, horizon)
            case Grant():
                self._grant(entry)
            case Exhausted():
                self._exhaust(entry)
            case Opened() | ClockWord():
                pass

    def _charge(self, charge: Charge, horizon: dt.datetime | None) -> None:
        starts = _starts(charge.at)
        current = [horizon is None or a == b for a, b in zip(starts, _starts(horizon or charge.at), strict=True)]
        for scope, name, loss in (
            ("dataset", charge.dataset, charge.dataset_loss),
            ("role", charge.role, charge.loss),
            ("user", charge.user, charge.loss),
        ):
            key: AccountKey = (charge.dataset, scope, name)  # type: ignore[assignment]
            account = self._accounts.get(key, Account())
            spendings = tuple(
                (_spend(s, start, loss) if now else s) for s, start, now in zip(account.windows, starts, current, strict=True)
            )
            self._accounts[key] = Account(
                spendings, account.epsilon + loss.epsilon, account.delta + loss.delta, account.charges + 1
            )

    def _grant(self, grant: Grant) -> None:
        key: AccountKey = (grant.dataset, grant.scope, grant.name)
        account = self._accounts.get(key, Account())
        spendings = []
        for s, start in zip(account.windows, _starts(grant.at), strict=True):
            s = s if s.start == start else Spending(start)
            more = (s.granted_epsilon + grant.epsilon, s.granted_delta + grant.delta)
            spendings.append(Spending(start, s.loss, *more))
        self._accounts[key] = replace(account, windows=tuple(spendings))

    def _exhaust(self, entry: Exhausted) -> None:
        self._exhausted = entry.at
        empty = tuple(Spending(start) for start in _starts(entry.at))
        self._accounts = {k: replace(a, windows=empty) for k, a in self._accounts.items()}

    def standing(self, key: AccountKey, limit: Limit, at: dt.datetime) -> Standing:
        """Where an account stands at `at`, or at the record's time if that is later."""
        at = max(at, self.clock or at)
        spent, bound = self._position(key, limit, at)
        account, exhausted = self._accounts.get(key, Account()), self._is_exhausted(limit.window, at)
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
            account.epsilon,
            account.delta,
            account.charges,
            windows.end(limit.window, at),
        )


def _spend(spending: Spending, start: dt.datetime, loss: Loss) -> Spending:
    if spending.start != start:
        return Spending(start, loss)
    return replace(spending, loss=spending.loss + loss) if loss else spending
