"""An account with its windows, and all accounts of a record as one JSON value (a checkpoint).

Knows: losses, windows, JSON. Must not know: entries, limits, who may spend. `decoded` is the inverse of `encoded`; equal
accounts give equal text, whatever their order. Each loss is written once, as most windows of an account began alike. Openings are
written in the order of the kinds of window; a checkpoint names these kinds where they are not `FIRST_KINDS`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from dpproxy import budget_windows as windows
from dpproxy.budget_windows import Window
from dpproxy.ledger.ledger import LedgerCorrupt, Scope
from dpproxy.privacy.loss import ZERO, Loss

AccountKey = tuple[str, Scope, str]
"""(dataset, scope, name)"""
FIRST_KINDS: Final = ("day", "week", "month", "quarter", "year", "never")
"""The kinds of window of a checkpoint that names none."""


@dataclass(frozen=True)
class Opening:
    """An opening is a window of one account: its `start`, the account's total then, and what was granted beyond the limit since.
    `first`: what the first statement in it cost; None before it (`privacy.accountant`)."""

    start: dt.datetime
    total: Loss = ZERO
    granted_epsilon: int = 0
    granted_delta: int = 0
    first: Loss | None = None


@dataclass(frozen=True)
class Account:
    """An account adds up losses. `total` is of all time: a charge is one addition, whatever windows there are; a window's
    spending is the total since its opening. `openings[i]` is for KINDS[i], as of `day`."""

    total: Loss = ZERO
    charges: int = 0
    day: dt.date | None = None
    openings: tuple[Opening, ...] = tuple(Opening(windows.EPOCH) for _ in windows.KINDS)
    earlier: tuple[Opening, ...] = ()
    """Of each kind the window before, for a clock that turns out to have been ahead; empty where nothing is known."""

    def opening(self, window: Window) -> Opening:
        """Return the window of one kind."""
        return self.openings[windows.KINDS.index(window)]

    def on(self, at: dt.datetime) -> Account:
        """Return the same account with the windows that hold `at`."""
        day = day_of(at)
        if day == self.day:
            return self
        pairs = zip(self.openings, _starts(day), strict=True)
        openings = tuple(o if o.start == start else Opening(start, self.total) for o, start in pairs)
        before = zip(self.openings, openings, self.earlier or self.openings, strict=True)
        earlier = tuple(last if old is new else old for old, new, last in before)
        return replace(self, day=day, openings=openings, earlier=earlier)

    def back(self, at: dt.datetime) -> Account:
        """Return the same account when its clock turns out to have been ahead, and it is `at`. Nothing is forgiven: of a
        window that was left when the clock ran ahead all counts that was spent since it opened; of one that was never seen,
        what was spent since some other window opened before it."""
        day = day_of(at)
        if self.day is None or self.day <= day:
            return self.on(at)
        known, starts = (*self.openings, *self.earlier), _starts(day)
        openings = []
        for i, start in enumerate(starts):
            same = [o for o in (self.openings[i], *self.earlier[i : i + 1]) if o.start == start]
            openings.append(same[0] if same else _unseen(start, known))
        return replace(self, day=day, openings=tuple(openings), earlier=())


def _unseen(start: dt.datetime, known: Iterable[Opening]) -> Opening:
    """Return an opening of which nothing is recorded: all counts in it that was spent since some window opened before it."""
    before = [o for o in known if o.start <= start]
    last = max(before, key=lambda o: (o.total.epsilon, o.total.delta, o.total.rdp), default=Opening(start))
    return Opening(start, last.total, first=last.first)


UNUSED = Account()
"""An account that nobody has charged."""


def begun(openings: tuple[Opening, ...], loss: Loss) -> tuple[Opening, ...]:
    """Return the openings after a charge."""
    for opening in openings:
        if opening.first is None:
            break
    else:
        return openings
    if not loss:
        return openings
    return tuple(o if o.first else replace(o, first=loss) for o in openings)


def day_of(at: dt.datetime) -> dt.date:
    """Return the day in UTC: windows begin with one."""
    return (at if at.tzinfo is dt.UTC else at.astimezone(dt.UTC)).date()


@lru_cache(maxsize=256)
def _starts(day: dt.date) -> tuple[dt.datetime, ...]:
    at = dt.datetime.combine(day, dt.time(), dt.UTC)
    return tuple(windows.start(w, at) for w in windows.KINDS)


@dataclass(frozen=True)
class State:
    """A state is all that a book knows. `ledger`: which record this is. `closures`: how often all windows were closed because
    entries may be lost. `names`: by dataset and data, the account that is charged."""

    ledger: str
    schema: int
    clock: dt.datetime | None
    exhausted: dt.datetime | None
    accounts: Mapping[AccountKey, Account]
    closures: int = 0
    names: Mapping[tuple[str, str], str] = field(default_factory=dict)


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
    accounts = [[*key, *_account(account, losses, state.schema)] for key, account in sorted(state.accounts.items())]
    times = {"clock": _text(state.clock), "exhausted": _text(state.exhausted)}
    found = {"ledger": state.ledger, "schema": state.schema, "accounts": accounts, "losses": losses.to_json()} | times
    found |= {} if windows.KINDS == FIRST_KINDS else {"windows": list(windows.KINDS)}
    if state.schema < 3:
        return found
    return found | {"closures": state.closures, "names": [[*key, account] for key, account in sorted(state.names.items())]}


def _account(account: Account, losses: _Losses, schema: int) -> list[Any]:
    def openings(found: tuple[Opening, ...]) -> list[Any]:
        return [[_text(o.start), losses.place(o.total), o.granted_epsilon, o.granted_delta, losses.place(o.first)] for o in found]

    fields = [losses.place(account.total), account.charges, account.day and account.day.isoformat(), openings(account.openings)]
    return fields if schema < 3 else [*fields, openings(account.earlier)]


def decoded(data: Any) -> State:
    """Read what `encoded` made. Raises LedgerCorrupt for anything else."""
    try:
        losses: list[Loss] = [Loss.from_json(loss) for loss in data["losses"]]
        kinds = tuple(data.get("windows", FIRST_KINDS))
        accounts = {(dataset, scope, name): _read(rest, losses, kinds) for dataset, scope, name, *rest in data["accounts"]}
        names = {(dataset, of): account for dataset, of, account in data.get("names", ())}
        times, closures = (_time(data["clock"]), _time(data["exhausted"])), int(data.get("closures", 0))
        return State(str(data["ledger"]), int(data["schema"]), *times, accounts, closures, names)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise LedgerCorrupt("a checkpoint of the ledger cannot be read") from error


def _read(fields: list[Any], losses: list[Loss], kinds: tuple[str, ...]) -> Account:
    """An account of a checkpoint with these kinds of window. One of a kind that the checkpoint did not know is taken to have
    opened as early as can be, and nothing is known of those before it."""
    total, charges, written, listed, *more = fields
    day = None if written is None else dt.date.fromisoformat(written)
    openings, earlier = _openings(listed, losses), _openings(more[0] if more else (), losses)
    if len(openings) != len(kinds) or len(earlier) not in (0, len(kinds)) or not set(kinds) <= set(windows.KINDS):
        raise ValueError("an account has one opening for each window")
    if kinds != windows.KINDS:
        starts = [windows.EPOCH] * len(windows.KINDS) if day is None else _starts(day)
        known = dict(zip(kinds, openings, strict=True))
        openings = tuple(known.get(w) or _unseen(at, openings) for w, at in zip(windows.KINDS, starts, strict=True))
        earlier = ()
    return Account(losses[total], int(charges), day, openings, earlier)


def _openings(fields: Iterable[Any], losses: list[Loss]) -> tuple[Opening, ...]:
    return tuple(
        Opening(dt.datetime.fromisoformat(start), losses[at], int(epsilon), int(delta), None if first is None else losses[first])
        for start, at, epsilon, delta, first in fields
    )


def _text(at: dt.datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _time(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text)
