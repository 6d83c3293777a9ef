"""What the operators' pages are made of: a contract, and the values it passes.

Knows: statuses, events, charges. Must not know: backends, data, how anything is found out. Whoever serves implements `Source`;
pages ask nothing else. All methods are called in threads of the pages, may wait, and may raise OperationError, TimeoutError,
LedgerError and OSError. Times are seconds since 1970, amounts of epsilon millionths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dpproxy.ledger.ledger import Charge
from dpproxy.operations.requests import Request
from dpproxy.operations.status import Status
from dpproxy.telemetry.tallies import StatementEvent


@dataclass(frozen=True)
class AnswerLine:
    """One answer as `dpproxy.answers` has it. `errors`: what its notice said of typical errors, or empty."""

    dataset: str
    role: str
    at: float
    epsilon: int
    measurements: int | None
    reused: bool
    statement: str
    outcome: str
    errors: str


@dataclass(frozen=True)
class StoredAnswers:
    """Counts the stored answers of a role: those it may have again at no charge. `count`: None where the policy reuses none."""

    dataset: str
    role: str
    count: int | None


@dataclass(frozen=True)
class FreeRepeat:
    """A statement, by its hash, that a role may ask again at no charge, with what it first cost. `measurements`: how
    many of it are stored; `until`: when they are too old, None for as long as the data stay; `errors`: as its notice stated
    them, or empty."""

    dataset: str
    role: str
    statement: str
    measurements: int
    since: float
    until: float | None
    epsilon: int
    errors: str


@dataclass(frozen=True)
class Review:
    """What is doubtful in a policy. `changed`: the file is no longer what is served; `unread`: why it cannot be read."""

    dataset: str
    warnings: tuple[str, ...]
    changed: bool = False
    unread: str = ""


@dataclass(frozen=True)
class Section:
    """A part of what a role can learn: sentences, then a table of which the first row is the head."""

    title: str
    sentences: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Explained:
    """What would become of a statement. Refused: `sqlstate`, `message`, `hint`. Answered: its price, the lines of EXPLAIN,
    `account` (the same as EXPLAIN's JSON has it), and the SQL that the backend would be sent."""

    sqlstate: str = ""
    message: str = ""
    hint: str = ""
    epsilon: int = 0
    delta: int = 0
    lines: tuple[str, ...] = ()
    account: Mapping[str, Any] = field(default_factory=dict)
    generated: tuple[str, ...] = ()


class Source(Protocol):
    """Tells operators' pages what they show, and carries out what they ask."""

    def statuses(self, checked: bool = False) -> Sequence[Status]:
        """Return what all processes know of themselves, this one's first. `checked`: after their parts were tried."""
        ...

    def roles(self) -> Mapping[str, tuple[str, ...]]:
        """Return the roles of each dataset."""
        ...

    def recent(self, count: int) -> Sequence[StatementEvent]:
        """Return the last statements of all processes, the newest first."""
        ...

    def answers(self, count: int) -> Sequence[AnswerLine]:
        """Return the last answers of this process, the newest first."""
        ...

    def charges(self, dataset: str) -> Sequence[Charge]:
        """Return the ledger's last charges of a dataset, in order."""
        ...

    def stored(self) -> Sequence[StoredAnswers]: ...

    def repeats(self, count: int) -> Sequence[FreeRepeat]:
        """Return what may be asked again at no charge, the latest first; each dataset's `count`."""
        ...

    def reviews(self) -> Sequence[Review]: ...

    def exposure(self, dataset: str, role: str) -> tuple[Section, ...]:
        """Return what a role can learn, in words. Raises KeyError for one that there is not."""
        ...

    def explain(self, dataset: str, role: str, statement: str, epsilon: str) -> Explained:
        """Plan a statement; nothing is measured, nothing is charged. `epsilon`: empty for the role's own. Raises KeyError."""
        ...

    def carry_out(self, request: Request, by: str) -> Any:
        """Carry out what an operator asks, with a line in the audit log. Raises OperationError."""
        ...

    def ledger(self) -> str:
        """Return which ledger is kept, as a grant names it."""
        ...

    def audited(self, count: int) -> Sequence[Mapping[str, Any]]:
        """Return the last lines of the audit log, the newest first."""
        ...

    def note(self, action: str, by: str, outcome: str) -> None:
        """Write a line to the audit log."""
        ...
