"""An account with its windows, and all accounts of a record as one JSON value (a checkpoint).

Knows: losses, windows, JSON. Must not know: entries, limits, who may spend. `decoded` is the inverse of `encoded`; equal
accounts give equal text, whatever their order. Each loss is written once, as most windows of an account began alike.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dpproxy.budget import window as windows
from dpproxy.budget.ledger import LedgerCorrupt, Scope
from dpproxy.plan.loss import ZERO, Loss

AccountKey = tuple[str, Scope, str]
"""(dataset, scope, name)"""


@dataclass(frozen=True)
class Opening:
    """A window of one account: its `start`, the account's total then, and what was granted beyond the limit since.
    `first`: what the first statement in it cost; None before it (`budget.tuning`)."""

    start: dt.datetime
    total: Loss = ZERO
    granted_epsilon: int = 0
    granted_delta: int = 0
    first: Loss | None = None


@dataclass(frozen=True)
class Account:
    """`total` is of all time: a charge is one addition, whatever windows there are; a window's spending is the total
    since its opening. `openings[i]` is for WINDOWS[i], as of `day`."""

    total: Loss = ZERO
    charges: int = 0
    day: dt.date | None = None
    openings: tuple[Opening, ...] = tuple(Opening(windows.EPOCH) for _ in windows.WINDOWS)

    def on(self, at: dt.datetime) -> Account:
        """The same account with the windows that hold `at`."""
        day = at.astimezone(dt.UTC).date()
        if day == self.day:
            return self
        pairs = zip(self.openings, _starts(day), strict=True)
        openings = tuple(o if o.start == start else Opening(start, self.total) for o, start in pairs)
        return replace(self, day=day, openings=openings)


def begun(openings: tuple[Opening, ...], loss: Loss) -> tuple[Opening, ...]:
    """The openings after a charge."""
    if not loss or all(o.first for o in openings):
        return openings
    return tuple(o if o.first else replace(o, first=loss) for o in openings)


@lru_cache(maxsize=256)
def _starts(day: dt.date) -> tuple[dt.datetime, ...]:
    at = dt.datetime.combine(day, dt.time(), dt.UTC)
    return tuple(windows.start(w, at) for w in windows.WINDOWS)


@dataclass(frozen=True)
class State:
    """`ledger`: which record this is."""

    ledger: str
    schema: int
    clock: dt.datetime | None
    exhausted: dt.datetime | None
    accounts: Mapping[AccountKey, Account]


class _Losses:
    """Each loss once, by its place."""

    def __init__(self) -> None:
        self._places: dict[Loss, int] = {}

    def place(self, loss: Loss | None) -> int | None:
        return None if loss is None else self._places.setdefault(loss, len(self._places))

    def to_json(self) -> list[Any]:
        return [loss.to_json() for loss in self._places]


def encoded(state: State) -> Any:
    losses = _Losses()
    accounts = [[*key, *_account(account, losses)] for key, account in sorted(state.accounts.items())]
    times = {"clock": _text(state.clock), "exhausted": _text(state.exhausted)}
    return {"ledger": state.ledger, "schema": state.schema, "accounts": accounts, "losses": losses.to_json()} | times


def _account(account: Account, losses: _Losses) -> list[Any]:
    openings = [
        [_text(o.start), losses.place(o.total), o.granted_epsilon, o.granted_delta, losses.place(o.first)]
        for o in account.openings
    ]
    return [losses.place(account.total), account.charges, account.day and account.day.isoformat(), openings]


def decoded(data: Any) -> State:
    """Raises LedgerCorrupt for what `encoded` does not make."""
    try:
        losses: list[Loss] = [Loss.from_json(loss) for loss in data["losses"]]
        accounts = {(dataset, scope, name): _read(rest, losses) for dataset, scope, name, *rest in data["accounts"]}
        return State(str(data["ledger"]), int(data["schema"]), _time(data["clock"]), _time(data["exhausted"]), accounts)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise LedgerCorrupt("a checkpoint of the ledger cannot be read") from error


def _read(fields: list[Any], losses: list[Loss]) -> Account:
    total, charges, day, openings = fields
    found = tuple(
        Opening(dt.datetime.fromisoformat(start), losses[at], int(epsilon), int(delta), None if first is None else losses[first])
        for start, at, epsilon, delta, first in openings
    )
    if len(found) != len(windows.WINDOWS):
        raise ValueError("an account has one opening for each window")
    return Account(losses[total], int(charges), None if day is None else dt.date.fromisoformat(day), found)


def _text(at: dt.datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _time(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text)
