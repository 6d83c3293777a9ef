"""What one process counts from its start: statements, refusals, logins, how long answers took.

Knows: events. Must not know: who reads the counts, Prometheus. The loop's thread counts; any thread may take a `Counted`, which
is a value: it never changes again, and can be sent to another process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from dpproxy.telemetry.statement_event import StatementEvent

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
