"""A source of operators' pages that tells made-up things, with names that are markup where a page forgets to escape."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpproxy.console.source import AnswerLine, Explained, FreeRepeat, Review, Section, StoredAnswers
from dpproxy.ledger.ledger import Charge
from dpproxy.operations.requests import OperationError, Request
from dpproxy.operations.status import Status
from dpproxy.privacy.loss import Loss
from dpproxy.telemetry.tallies import StatementEvent
from tests.worlds.told_status import STATUS

EVIL = "<script>alert('x')</script>"
SAFE = "&lt;script&gt;"
NOW = dt.datetime.now(dt.UTC)


def charge(number: int, role: str = "analyst", user: str = "ada", epsilon: int = 100_000, at: dt.datetime = NOW) -> Charge:
    loss = Loss.pure(epsilon)
    return Charge(str(number), number, "shop", role, user, loss, loss, f"{number % 3:016x}", at)


ACCOUNT: Mapping[str, Any] = {
    "Confidence": 0.95,
    "Measurements": [
        {"Outputs": [{"Aggregate": "count(*)", "Within": 30.0}, {"Aggregate": "avg(income)", "Within Times Rows": 5e6}]},
        {"Outputs": [{"Aggregate": "median(income)", "Within Ranks": 12}]},
    ],
}


@dataclass
class ToldSource:
    """Tells what its fields say, and notes what it is asked to do."""

    status: Status = field(
        default_factory=lambda: replace(
            STATUS,
            sessions=(replace(STATUS.sessions[0], user=EVIL),),
            pauses=(replace(STATUS.pauses[0], reason=EVIL),),
        )
    )
    done: list[tuple[Request, str]] = field(default_factory=list)
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    refuse: str = ""
    silent: bool = False

    def statuses(self, checked: bool = False) -> Sequence[Status]:
        if self.silent:
            raise TimeoutError
        return [self.status if checked else replace(self.status, checks=())]

    def roles(self) -> Mapping[str, tuple[str, ...]]:
        return {"shop": ("analyst", f"{EVIL}/x")}

    def recent(self, count: int) -> Sequence[StatementEvent]:
        who = ("shop", "analyst", EVIL, 7, "feed", "select")
        refused = StatementEvent(NOW.timestamp(), *who, "refused", "d", code="0A000", reason_class="unsupported", reason=EVIL)
        return [refused, StatementEvent(NOW.timestamp() - 9, *who, "answered", "d", epsilon=500_000)][:count]

    def answers(self, count: int) -> Sequence[AnswerLine]:
        return [AnswerLine("shop", "analyst", NOW.timestamp(), 500_000, 1, False, "feed", "told", f"count ± 30 {EVIL}")][:count]

    def charges(self, dataset: str) -> Sequence[Charge]:
        return [charge(number, user=EVIL) for number in range(1, 6)]

    def stored(self) -> Sequence[StoredAnswers]:
        return [StoredAnswers("shop", "analyst", 12), StoredAnswers("city", "clerk", None)]

    def repeats(self, count: int) -> Sequence[FreeRepeat]:
        at = dt.datetime.now(dt.UTC).timestamp()  # ages are told to the minute
        return [
            FreeRepeat("shop", "analyst", "feed", 2, at - 7200, at + 3 * 86400, 500_000, f"count ± 30 {EVIL}"),
            FreeRepeat("shop", f"{EVIL}", "", 1, at - 60, None, 0, ""),
        ][:count]

    def reviews(self) -> Sequence[Review]:
        return [Review("shop", (f"line 3: {EVIL}",), changed=True)]

    def exposure(self, dataset: str, role: str) -> tuple[Section, ...]:
        {"analyst": 1}[role]
        return (Section(EVIL, (EVIL,), (("question", "error"), (EVIL, "± 3"))),)

    def explain(self, dataset: str, role: str, statement: str, epsilon: str) -> Explained:
        if statement == "refuse":
            return Explained("0A000", EVIL, "ask for less")
        return Explained("", "", "", 500_000, 10**12, (EVIL, dataset, role, statement, epsilon), ACCOUNT, (f"SELECT {EVIL}",))

    def carry_out(self, request: Request, by: str) -> Any:
        if self.refuse:
            raise OperationError(self.refuse)
        self.done.append((request, by))
        return True

    def ledger(self) -> str:
        return "this ledger"

    def audited(self, count: int) -> Sequence[Mapping[str, Any]]:
        return [{"at": NOW.isoformat(), "action": "pause", "by": "root", "outcome": "done", "reason": EVIL}]

    def note(self, action: str, by: str, outcome: str) -> None:
        self.notes.append((action, by, outcome))
