"""What one process counts from its start: statements, refusals, logins, how long answers took.

Knows: events. Must not know: who reads the counts, Prometheus. The loop's thread counts; any thread may take a `Counted`, which
is a value: it never changes again, and can be sent to another process.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final, Literal

import structlog

from dpproxy import errors
from dpproxy.amounts import ATTO, MICRO

# What the operator is told of one statement over private tables: who asked, what became of it, what it cost.
#
# Knows: names, hashes, amounts, SQLSTATEs. Must not know: texts, plans, answers. Nothing here may be built from a literal of
# the statement or a value of the data: a statement is a hash, a refusal its SQLSTATE and the place in the code that decided it,
# and what was released is counted, not told. How long a statement took is told on the policy's time grid where there is one,
# since the time may depend on data.


LOG = structlog.get_logger()

Verdict = Literal["answered", "reused", "explained", "preview", "refused", "failed"]
"""`preview`: rows that are invented; `refused`: at no charge; `failed`: after the charge, which stands."""

ReasonClass = Literal[
    "budget", "unsupported", "rights", "sql", "effort", "busy", "unavailable", "paused", "disk", "cancelled", "internal"
]

CLASSES: Final[dict[str, ReasonClass]] = {
    errors.CONFIGURATION_LIMIT_EXCEEDED: "budget",
    errors.FEATURE_NOT_SUPPORTED: "unsupported",
    errors.INSUFFICIENT_PRIVILEGE: "rights",
    errors.READ_ONLY: "rights",
    errors.PROGRAM_LIMIT_EXCEEDED: "effort",
    errors.STATEMENT_TOO_COMPLEX: "effort",
    errors.OUT_OF_MEMORY: "effort",
    errors.TOO_MANY_CONNECTIONS: "busy",
    errors.SERIALIZATION_FAILURE: "busy",
    errors.CANNOT_CONNECT_NOW: "unavailable",
    errors.OBJECT_NOT_IN_PREREQUISITE_STATE: "paused",
    errors.DISK_FULL: "disk",
    errors.QUERY_CANCELED: "cancelled",
    errors.SYSTEM_ERROR: "internal",
    errors.INTERNAL_ERROR: "internal",
}
"""What an operator sorts refusals by; all other SQLSTATEs are errors in the SQL (`sql`)."""

URGENT: Final = frozenset({"budget", "unavailable", "disk", "internal"})
"""Classes of refusals that the operator may have to do something about."""


def class_of(sqlstate: str) -> ReasonClass:
    return CLASSES.get(sqlstate, "sql")


@dataclass(frozen=True)
class StatementEvent:
    """Tells of one statement. `statement` is the hash that `dpproxy.answers` shows, too; `epsilon` (millionths), `delta`
    (10^-18) what was charged, `saved` the epsilon (millionths) of what was shown at no charge; `rows` those of all released
    measurements, before the statement's own ORDER BY, LIMIT or joins; `policy` the digest of the policy's text. `code`,
    `reason_class` and `reason` are of refusals and failures: the SQLSTATE, what it is sorted under, the function that decided
    it."""

    at: float
    dataset: str
    role: str
    user: str
    session: int
    statement: str
    kind: str
    verdict: Verdict
    policy: str
    epsilon: int = 0
    delta: int = 0
    saved: int = 0
    measurements: int = 0
    reused: int = 0
    rows: int = 0
    milliseconds: int = 0
    code: str = ""
    reason_class: str = ""
    reason: str = ""


def milliseconds(seconds: float, quantum_ms: int | None) -> int:
    """Return a time as it is shown: rounded up to the policy's time grid."""
    grid = quantum_ms or 1
    return math.ceil(seconds * 1000 / grid) * grid


def log(event: StatementEvent) -> None:
    """Write the event's line."""
    who = {
        "dataset": event.dataset,
        "role": event.role,
        "user": event.user,
        "session": event.session,
        "kind": event.kind,
        "statement": event.statement,
        "policy": event.policy,
        "milliseconds": event.milliseconds,
    }
    if event.verdict in ("refused", "failed"):
        urgent = event.verdict == "failed" or event.reason_class in URGENT
        write = LOG.error if event.reason_class == "internal" else LOG.warning if urgent else LOG.info
        why = {"code": event.code, "reason_class": event.reason_class, "reason": event.reason}
        paid = {"epsilon": event.epsilon / MICRO, "delta": event.delta / ATTO} if event.verdict == "failed" else {}
        write("statement", verdict=event.verdict, **who, **why, **paid)
        return
    write = LOG.debug if event.verdict == "explained" else LOG.info
    counts = {"measurements": event.measurements, "reused": event.reused, "rows": event.rows}
    amounts = {"epsilon": event.epsilon / MICRO, "delta": event.delta / ATTO, "saved": event.saved / MICRO}
    write("statement", verdict=event.verdict, **who, **counts, **amounts)


BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: a stored answer takes a few milliseconds, a measurement of ten million rows some seconds."""
RECENT: Final = 1000
"""Statements that are remembered one by one."""

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Latency:
    """How long statements took: how many ended within each of `BUCKETS` and later, and the sum of their seconds."""

    counts: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class Counted:
    """What was counted. Labels: of `statements` dataset, role, verdict; of `refusals` dataset, role, class, SQLSTATE; of
    `spent` and `saved` (millionths of epsilon) dataset, role; of `latencies` dataset, verdict; of `logins` the dataset (empty
    where there is none of that name), and the outcome."""

    statements: tuple[tuple[Labels, int], ...] = ()
    refusals: tuple[tuple[Labels, int], ...] = ()
    spent: tuple[tuple[Labels, int], ...] = ()
    saved: tuple[tuple[Labels, int], ...] = ()
    logins: tuple[tuple[Labels, int], ...] = ()
    latencies: tuple[tuple[Labels, Latency], ...] = ()


@dataclass
class Tallies:
    """Counts. `recent`: the last statements."""

    recent: deque[StatementEvent] = field(default_factory=lambda: deque(maxlen=RECENT))
    _statements: Counter[Labels] = field(default_factory=Counter)
    _refusals: Counter[Labels] = field(default_factory=Counter)
    _spent: Counter[Labels] = field(default_factory=Counter)
    _saved: Counter[Labels] = field(default_factory=Counter)
    _logins: Counter[Labels] = field(default_factory=Counter)
    _buckets: dict[Labels, list[int]] = field(default_factory=dict)
    _seconds: dict[Labels, float] = field(default_factory=dict)

    def statement(self, event: StatementEvent) -> None:
        """Count a statement that has ended."""
        role, ended = (event.dataset, event.role), (event.dataset, event.verdict)
        self.recent.append(event)
        self._statements[*role, event.verdict] += 1
        self._spent[role] += event.epsilon
        self._saved[role] += event.saved
        if event.code:
            self._refusals[*role, event.reason_class, event.code] += 1
        seconds = event.milliseconds / 1000
        self._buckets.setdefault(ended, [0] * (len(BUCKETS) + 1))[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[ended] = self._seconds.get(ended, 0.0) + seconds

    def login(self, dataset: str, outcome: str) -> None:
        """Count an attempt to log in. `dataset`: empty where there is none of the name that was asked for."""
        self._logins[dataset, outcome] += 1

    def counted(self) -> Counted:
        """Return what there is now."""
        latencies = {labels: Latency(tuple(c), self._seconds.get(labels, 0.0)) for labels, c in self._buckets.copy().items()}
        return Counted(
            _values(self._statements),
            _values(self._refusals),
            _values(self._spent),
            _values(self._saved),
            _values(self._logins),
            tuple(sorted(latencies.items())),
        )


def _values(counter: Counter[Labels]) -> tuple[tuple[Labels, int], ...]:
    return tuple(sorted(counter.copy().items()))
