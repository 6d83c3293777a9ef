"""Amounts and times as pages write them: few digits, the same number of them, a unit.

Knows: numbers. Must not know: what they are of.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from dpproxy import budget_windows as windows
from dpproxy.amounts import MICRO
from dpproxy.budget_windows import Window
from dpproxy.ledger.ledger import Charge
from dpproxy.operations.status import AccountStatus, Status
from dpproxy.privacy.accountant import Limit, effective_epsilon
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.telemetry.statement_event import StatementEvent

SPANS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def epsilon(millionths: int) -> str:
    """Write epsilon with three digits behind the point, which are enough to compare, and more where it is smaller than that."""
    if 0 < abs(millionths) < 500:
        return f"{millionths / MICRO:.6f}"
    return f"{millionths / MICRO:,.3f}"


def percent(part: float) -> str:
    """Write a part of 1."""
    return f"{part * 100:.1f} %" if 0 < part < 0.1 else f"{part * 100:.0f} %"


def moment(seconds: float) -> str:
    """Write a time since 1970, in UTC."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M}"


def exactly(seconds: float) -> str:
    """Write a time as HTML's `datetime` has it."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


def span(seconds: float) -> str:
    """Write how long something takes, in its largest unit."""
    for size, unit in SPANS:
        if seconds >= size:
            number = seconds / size
            return f"{number:.1f} {unit}" if number < 10 else f"{number:,.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def number(value: float) -> str:
    """Write a number of any size with four digits that count."""
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


# How a budget was spent in its window, and when it will be spent at this pace.
#
# Knows: accounts, charges, windows. Must not know: pages. The line is made of the ledger's charges by the accountant's own rule
# (`accountant.effective_epsilon`) and ends where the ledger says the account stands. The pace is what the window has cost by
# now, over the time since it began; of a window that never ends, since the first charge that is known.


POINTS: Final = 120
"""Of a line: more cannot be told apart on a page."""
LEAST: Final = 60.0
"""Seconds of a window after which there is a pace."""


@dataclass(frozen=True)
class BurnDown:
    """An account in its window. `points`: when, and how many millionths of epsilon of the limit were left from then on;
    `begins`: of the window, or of what is known of one that never ends; `spent_by`: when the budget is spent at this pace, or
    None where the window ends before, or nothing was spent."""

    account: AccountStatus
    points: tuple[tuple[float, int], ...]
    begins: float
    now: float
    spent_by: float | None

    @property
    def ends(self) -> float:
        """Return where the picture ends."""
        return self.account.resets if self.account.resets is not None else max(self.now, self.spent_by or 0.0)


def burn_down(account: AccountStatus, charges: Sequence[Charge], now: float) -> BurnDown:
    """Return the line of an account. `charges`: of its dataset, in order."""
    begins = windows.start(cast("Window", account.window), datetime.fromtimestamp(now, UTC)).timestamp()
    own = [(charge.at.timestamp(), _loss(account, charge)) for charge in charges if charge.at.timestamp() >= begins]
    losses = [(at, loss) for at, loss in own if loss]
    if account.window == "never":
        begins = losses[0][0] if losses else now
    spent = _spent(losses, Limit(account.limit_epsilon, account.limit_delta, cast("Window", account.window)))
    unseen = account.spent_epsilon - (spent[-1][1] if spent else 0)  # charged before what is known, or since it was read
    limit = account.limit_epsilon
    points = [(at, max(0, limit - unseen - amount)) for at, amount in ((begins, 0), *spent)]
    return BurnDown(account, (*points, (now, max(0, limit - account.spent_epsilon))), begins, now, _end(account, begins, now))


def _loss(account: AccountStatus, charge: Charge) -> Loss:
    if account.scope == "dataset":
        return charge.dataset_loss
    return charge.loss if account.name == (charge.role if account.scope == "role" else charge.user) else ZERO


def _spent(losses: Sequence[tuple[float, Loss]], limit: Limit) -> list[tuple[float, int]]:
    """What was spent after charges, of which not too many are looked at."""
    step, total, found = max(1, len(losses) // POINTS), ZERO, []
    for number, (at, loss) in enumerate(losses, 1):
        total = total + loss
        if number % step == 0 or number == len(losses):
            found.append((at, effective_epsilon(total, limit)))
    return found


def _end(account: AccountStatus, begins: float, now: float) -> float | None:
    passed = max(now - begins, 1.0)
    if account.spent_epsilon <= 0 or passed < LEAST:
        return None
    end = now + max(0, account.limit_epsilon - account.spent_epsilon) * passed / account.spent_epsilon
    return end if account.resets is None or end < account.resets else None


# What many charges and events come to: by role, user and statement; refusals by their reason.
#
# Knows: charges, events. Must not know: pages. Charges are added up as they stand in the ledger (basic composition): who caused
# how much. What an account is charged for all of them together may be less.


MOST: Final = 12
"""Lines of a table of the largest."""


@dataclass(frozen=True)
class Share:
    """One of those that caused charges. `part`: of the whole, from 0 to 1; `last`: when it was charged last."""

    name: str
    epsilon: int
    charges: int
    part: float
    last: float


def shares(charges: Iterable[Charge], name: Callable[[Charge], str]) -> tuple[Share, ...]:
    """Return who caused the most, the largest first."""
    sums: dict[str, tuple[int, int, float]] = {}
    for charge in charges:
        epsilon, count, _ = sums.get(name(charge), (0, 0, 0.0))
        sums[name(charge)] = epsilon + charge.loss.epsilon, count + 1, charge.at.timestamp()
    whole = sum(epsilon for epsilon, _, _ in sums.values())
    found = [Share(key, epsilon, count, epsilon / whole if whole else 0.0, last) for key, (epsilon, count, last) in sums.items()]
    return tuple(sorted(found, key=lambda share: (-share.epsilon, share.name))[:MOST])


@dataclass(frozen=True)
class Refused:
    """What was refused for one reason: how often, whose statement last, and when."""

    dataset: str
    role: str
    reason_class: str
    code: str
    reason: str
    statement: str
    count: int
    charged: int
    last: float


def refusals(events: Sequence[StatementEvent]) -> tuple[Refused, ...]:
    """Return refusals and failures by role, reason and statement, the latest first."""
    found: dict[tuple[str, ...], Refused] = {}
    for event in sorted(events, key=lambda event: event.at):
        if event.verdict not in ("refused", "failed"):
            continue
        key = (event.dataset, event.role, event.reason_class, event.code, event.reason, event.statement)
        before = found.get(key)
        count, charged = (before.count, before.charged) if before else (0, 0)
        found[key] = Refused(*key, count + 1, charged + (event.verdict == "failed"), event.at)
    return tuple(sorted(found.values(), key=lambda refused: -refused.last))


@dataclass(frozen=True)
class Reuse:
    """What one role asked since the processes started: statements by what became of them, what they cost and what repeats
    saved."""

    dataset: str
    role: str
    answered: int
    reused: int
    refused: int
    spent: int
    saved: int

    @property
    def part(self) -> float:
        """Return what repeats saved, of what everything would have cost."""
        return self.saved / (self.saved + self.spent) if self.saved else 0.0


def reuse(statuses: Iterable[Status]) -> tuple[Reuse, ...]:
    """Add up what processes have counted."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for counted in (status.counted for status in statuses):
        for (dataset, role, verdict), count in counted.statements:
            found.setdefault((dataset, role), Counter())[verdict] += count
        for name, amounts in (("spent", counted.spent), ("saved", counted.saved)):
            for (dataset, role), amount in amounts:
                found.setdefault((dataset, role), Counter())[name] += amount
    names = ("answered", "reused", "refused", "spent", "saved")
    return tuple(Reuse(*key, *(sums[name] for name in names)) for key, sums in sorted(found.items()))
