"""Where the accounts of who asks stand, and when somebody has to be told.

Knows: accounts, budgets, percents. Must not know: protocols, statements. A notice is about the asker's own accounts; how
much of the dataset's is spent says what others did, so only the operator's log is told.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from dpproxy.ledger.ledger import Ledger, Scope, Standing, amounts, warnings
from dpproxy.policy.model import Budget, Policy, Role, User
from dpproxy.privacy.accountant import Limit

LOG = structlog.get_logger()


@dataclass(frozen=True)
class AppliedBudget:
    """A budget that applies to the asker, and whose budget it is."""

    scope: Scope
    name: str
    budget: Budget


def applied_budgets(policy: Policy, roles: Iterable[Role], users: Iterable[User]) -> list[AppliedBudget]:
    """Return the budgets that apply to these roles and users: the roles' first, the dataset's last."""
    own = [AppliedBudget("user", user.name, user.budget) for user in users if user.budget is not None]
    of_roles = [AppliedBudget("role", role.name, role.budget) for role in roles]
    return [*of_roles, *own, AppliedBudget("dataset", policy.dataset, policy.budget)]


def limit(budget: Budget) -> Limit:
    return Limit(budget.epsilon, budget.delta, budget.every)


def standings(ledger: Ledger, dataset: str, held: Iterable[AppliedBudget]) -> list[Standing]:
    """Return where each of these budgets stands now. Raises LedgerError."""
    return ledger.standings(dataset, [(h.scope, h.name, limit(h.budget)) for h in held], dt.datetime.now(dt.UTC))


def left(standing: Standing) -> str:
    """Return what is left of a budget, in words."""
    until = f" until {standing.resets:%Y-%m-%d}" if standing.resets else ""
    return f"{standing.scope} {standing.name} has {amounts(standing.left_epsilon, standing.left_delta)} left{until}"


class RecentStanding:
    """Remembers a role's standing of a moment ago, for answers that cost nothing: they come by the thousand, and it hardly
    moves."""

    LIFE: Final = 1.0
    """Seconds; what another process charges meanwhile shows that much later."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Standing, float]] = {}

    def find(self, role: str, now: float) -> Standing | None:
        """Return a standing that is not too old. `now` is of any clock that goes forward, in seconds."""
        standing, until = self._known.get(role, (None, now))
        return standing if now < until else None

    def keep(self, role: str, standing: Standing, now: float) -> None:
        self._known[role] = (standing, now + self.LIFE)

    def forget(self) -> None:
        """Forget all, since somebody was charged."""
        self._known.clear()


class WarningLevels:
    """Remembers which levels have been logged: each is, once in a window."""

    def __init__(self) -> None:
        self._logged: set[tuple[Scope, str, dt.datetime | None, int]] = set()

    def notices(self, dataset: str, found: Sequence[Standing], held: Sequence[AppliedBudget]) -> list[str]:
        """Return texts for the asker, by the highest level of each of its budgets; logs what is reached for the first time."""
        notices = []
        for standing, own in zip(found, held, strict=True):
            levels = warnings(standing, own.budget.warn)
            for level in levels:
                self._log(dataset, standing, level)
            if levels and own.scope != "dataset":
                notices.append(f"{levels[-1]} % of the budget of {own.scope} {own.name} is spent")
        return notices

    def _log(self, dataset: str, standing: Standing, level: int) -> None:
        entry = (standing.scope, standing.name, standing.resets, level)
        if entry not in self._logged:
            self._logged.add(entry)
            LOG.warning("budget level reached", dataset=dataset, scope=standing.scope, name=standing.name, percent=level)
