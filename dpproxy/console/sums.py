"""What many charges and events come to: by role, user and statement; refusals by their reason.

Knows: charges, events. Must not know: pages. Charges are added up as they stand in the ledger (basic composition): who caused how
much. What an account is charged for all of them together may be less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dpproxy.ledger.ledger import Charge
from dpproxy.operations.status import Status
from dpproxy.telemetry.statement_event import StatementEvent

MOST: Final = 12
"""Lines of a table of the largest."""


@dataclass(frozen=True)
class Share:
    """Is one of those that caused charges. `part`: of the whole, from 0 to 1; `last`: when it was charged last."""

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
    """Is what was refused for one reason: how often, whose statement last, and when."""

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
    """Is what one role asked since the processes started: statements by what became of them, what they cost and what repeats
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
