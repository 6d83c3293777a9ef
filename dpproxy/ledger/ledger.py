"""What the rest of the proxy needs of a ledger: a request, a durable charge or a refusal, and where one stands.

Knows: losses, limits, names, times. Must not know: files, databases, SQL, answers. Both ledgers (`sqlite`,
`postgres`) keep this contract and pass one test suite:

- a `Charge` exists only when it is durable; nothing is ever refunded;
- every limit is checked in the transaction that charges;
- charging one id again returns the first charge and costs nothing (a lost acknowledgement is asked for again);
- what a refusal says is a function of the asker's own accounts, but for the fact that the dataset's cap is reached.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from dpproxy.amounts import ATTO, MICRO
from dpproxy.budget_windows import Window
from dpproxy.errors import CANNOT_CONNECT_NOW, CONFIGURATION_LIMIT_EXCEEDED, DISK_FULL, OperatorError, Refusal
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import Loss

Scope = Literal["dataset", "role", "user"]
UNCHARGED: Final = "Nothing was charged."


class LedgerError(OperatorError):
    """The ledger cannot answer: nothing may be taken as charged, so no statement may run. For the operator."""


class LedgerCorrupt(LedgerError):
    """The record is not what was written. Nothing is charged; `repair` goes on by charging more."""


class Suspended(LedgerError):
    """Nothing is charged until an operator has done something, and nothing was. The text says what, for the operator."""

    def refusal(self) -> Refusal:
        """Return the client's error."""
        raise NotImplementedError


class DiskShort(Suspended):
    """The disk has no room to spare."""

    def refusal(self) -> Refusal:
        hint = "The operator has to make room; answers that are stored are told all the same."
        return Refusal(DISK_FULL, "the disk of the ledger is full", detail=UNCHARGED, hint=hint)


class ClockDoubtful(Suspended):
    """The machine's clock says what the ledger cannot believe: it might open windows that are not due."""

    def refusal(self) -> Refusal:
        hint = "The operator has to look at the clock; answers that are stored are told all the same."
        return Refusal(CANNOT_CONNECT_NOW, "the clock of the proxy's machine is in doubt", detail=UNCHARGED, hint=hint)


@dataclass(frozen=True)
class Limits:
    """These limits apply to one statement. `per_query_epsilon` is micro-epsilon, in the basic reading."""

    role: Limit
    dataset: Limit
    user: Limit | None = None
    per_query_epsilon: int | None = None


@dataclass(frozen=True)
class ChargeRequest:
    """A request to charge one statement. `loss` is what the role (and user) is exposed to; `dataset_loss` is less when a
    stored release is shown to a further role. `id` is a UUID; `statement` a hash of the statement; `at` timezone-aware;
    `policy` the digest of the policy's text."""

    id: str
    dataset: str
    role: str
    user: str
    loss: Loss
    dataset_loss: Loss
    limits: Limits
    statement: str
    at: dt.datetime
    policy: str = ""


@dataclass(frozen=True)
class Charge:
    """A charge is a durable entry. `at` is the time of the ledger's record, never earlier than the entry before. `policy`: the
    digest of the policy's text; empty in entries of versions that kept none."""

    id: str
    sequence: int
    dataset: str
    role: str
    user: str
    loss: Loss
    dataset_loss: Loss
    statement: str
    at: dt.datetime
    policy: str = ""


@dataclass(eq=False)  # not frozen: context managers assign a passing exception's __traceback__
class BudgetExhausted(Exception):
    """A limit does not admit the statement. `left` is (micro-epsilon, atto-delta) of the asker's own account, None
    for the dataset's; `reopens` is None for limits without a window."""

    which: Literal["query", "role", "user", "dataset"]
    left: tuple[int, int] | None
    reopens: dt.datetime | None
    asked: tuple[int, int]
    dataset: str

    def refusal(self) -> Refusal:
        """Return the refusal, SQLSTATE 53400: which limit binds, what is left, and when it reopens."""
        asked = f"the statement costs {amounts(*self.asked)}"
        if self.which == "query":
            most = f"one statement may cost at most epsilon {decimal(self.left[0], MICRO)}" if self.left else ""
            return Refusal(
                CONFIGURATION_LIMIT_EXCEEDED,
                "the statement costs more than one statement may",
                detail=f"{asked}; {most}",
                hint="Lower `dpproxy.epsilon`, or ask for fewer aggregates at once.",
            )
        if self.left is None:
            name = f"dataset `{self.dataset}`"
            detail = f"{asked}; all roles together have too little of the dataset's budget left"
        else:
            name, detail = f"your {self.which}", f"{asked}; {amounts(*self.left)} is left"
        return Refusal(
            CONFIGURATION_LIMIT_EXCEEDED,
            f"the privacy budget of {name} does not cover this statement",
            detail=detail,
            hint=f"{self._renewal()} Answers that were paid for can be asked again at no cost.",
        )

    def _renewal(self) -> str:
        if self.reopens is None:
            return "This budget does not renew; ask the operator."
        return f"It renews at {self.reopens:%Y-%m-%d %H:%M} UTC."


@dataclass(frozen=True)
class Standing:
    """A standing says where an account stands in its window, for `dpproxy.budget`.

    `spent_*` is composed by the best certificate, so it grows more slowly than charges add up; `left_epsilon` is the
    largest further statement; `lifetime_*` adds up all windows, by basic composition. Amounts in micro-epsilon and
    atto-delta.
    """

    scope: Scope
    name: str
    window: Window
    limit_epsilon: int
    limit_delta: int
    spent_epsilon: int
    spent_delta: int
    left_epsilon: int
    left_delta: int
    lifetime_epsilon: int
    lifetime_delta: int
    charges: int
    resets: dt.datetime | None


@dataclass(frozen=True)
class Grant:
    """A grant is extra budget for one account in its current window, by an operator, with a reason that stays in the record."""

    dataset: str
    scope: Scope
    name: str  # the role or user; the dataset itself for scope `dataset`
    epsilon: int
    delta: int
    reason: str
    at: dt.datetime


class Ledger(Protocol):
    """A ledger is thread-safe. Every method raises LedgerError when the record cannot be read or written."""

    def submit(self, request: ChargeRequest) -> Future[Charge]:
        """Queue a charge; charges that wait together share one transaction. The future raises BudgetExhausted or
        LedgerError. Cancelling it before it is taken up means it is not charged; later, it stands."""
        ...

    def at_hand(self, dataset: str) -> bool:
        """Tell whether `standing` answers at once, without asking a server or reading a record."""
        ...

    def standing(self, dataset: str, scope: Scope, name: str, limit: Limit, at: dt.datetime) -> Standing:
        """Tell where one account stands, reading nothing from disk where the ledger has one process."""
        ...

    def standings(self, dataset: str, accounts: Sequence[tuple[Scope, str, Limit]], at: dt.datetime) -> list[Standing]:
        """Tell where several accounts stand, in one look at a record that is shared."""
        ...

    def name(self, dataset: str, data: str, at: dt.datetime, file: str = "") -> str:
        """Tell whose accounts a dataset of this name over these data charges: its own, or those of the one it was made to share
        (`dpproxy ledger name`). From now on the record knows the data by that name, and so the file that they are in (`file`
        names it, wherever it is). Raises LedgerError when it knows either by another one: whoever renames a dataset, or lays a
        second policy over the same data, would begin with a new budget."""
        ...

    def identity(self, dataset: str) -> str:
        """Return the name of this record. A stored answer was paid for in one record: another has nothing of it."""
        ...

    def verdict(self, request: ChargeRequest) -> BudgetExhausted | None:
        """Ask what the asker's own accounts would say of a charge; nothing is charged. Of the dataset's it says nothing: asking
        costs nothing, and would tell what others have spent."""
        ...

    def grant(self, grant: Grant) -> None: ...

    def accept_clock(self, dataset: str, at: dt.datetime, reason: str) -> None:
        """Take the operator's word that it is `at` now, when charges are refused after a jump of the clock. For every
        dataset in the same record (all of a SQLite ledger's)."""
        ...

    def close(self) -> None: ...


def charge(ledger: Ledger, request: ChargeRequest) -> Charge:
    """Charge and wait until it is durable. Raises BudgetExhausted, LedgerError."""
    return ledger.submit(request).result()


def decimal(amount: int, unit: int) -> str:
    """Write an integer amount as a plain decimal number, exactly."""
    whole, part = divmod(amount, unit)
    digits = str(part).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def amounts(epsilon: int, delta: int) -> str:
    """Write micro-epsilon and atto-delta for people."""
    return f"epsilon {decimal(epsilon, MICRO)}" + (f" and delta {decimal(delta, ATTO)}" if delta else "")


def warnings(standing: Standing, levels: Sequence[int]) -> tuple[int, ...]:
    """Return the levels, in percent of the limit's epsilon or delta, that an account has reached."""
    return tuple(
        level
        for level in levels
        if standing.spent_epsilon * 100 >= level * standing.limit_epsilon
        or (standing.spent_delta and standing.spent_delta * 100 >= level * standing.limit_delta)
    )
