"""How a budget was spent in its window, and when it will be spent at this pace.

Knows: accounts, charges, windows. Must not know: pages. The line is made of the ledger's charges by the accountant's own rule
(`accountant.effective_epsilon`) and ends where the ledger says the account stands. The pace is what the window has cost by now,
over the time since it began; of a window that never ends, since the first charge that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from dpproxy import budget_windows as windows
from dpproxy.budget_windows import Window
from dpproxy.ledger.ledger import Charge
from dpproxy.operations.status import AccountStatus
from dpproxy.privacy.accountant import Limit, effective_epsilon
from dpproxy.privacy.loss import ZERO, Loss

POINTS: Final = 120
"""Of a line: more cannot be told apart on a page."""
LEAST: Final = 60.0
"""Seconds of a window after which there is a pace."""


@dataclass(frozen=True)
class BurnDown:
    """Is an account in its window. `points`: when, and how many millionths of epsilon of the limit were left from then on;
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
