"""A device that a test can stop at any write: a question, a clock, and a process of its own that is killed at the n-th flush.

Knows: the state's parts. Must not know: claims. The process runs what a day of a device runs, again and again over one state; what
it has posted it writes to its standard output, flushed, so that nothing of a killed one is supposed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpproxy.collect.ledger import MICRO, Ledger, Limits, Refusal
from dpproxy.collect.queue import DAY, Event, Queue

NOON = 20_000 * DAY + DAY // 2
"""A moment of 2024."""


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def next_day(self, days: int = 1) -> None:
        self.now += days * DAY


@dataclass(frozen=True)
class Asked:
    """A question whose report says the value and how many reports were made."""

    name: str = "emoji"
    claim: str = "c1"
    epsilon: int = MICRO
    per_day: int = 1
    memoised: bool = False

    def report(self, value: str) -> str:
        REPORTS.append(value)
        return json.dumps([value, len(REPORTS)])


REPORTS: list[str] = []


def event(value: str, plain: str = "north") -> Event:
    return Event(json.dumps([plain]), json.dumps([value]))


def queue_of(path: Path, clock: Clock, total: int = 10, daily: int = 1) -> tuple[Ledger, Queue]:
    """The parts of a device; limits in whole epsilon."""
    ledger = Ledger(path)
    return ledger, Queue(ledger, Limits(total * MICRO, daily * MICRO), clock)


def sent(queue: Queue, questions: Mapping[str, Asked]) -> tuple[list[str], list[tuple[str, Refusal]]]:
    """Close days and take what is due: the batches, and what was refused."""
    refusals = queue.close_days(questions)
    batches = []
    for waiting in queue.due():
        queue.trying(waiting)
        print(waiting.batch, flush=True)  # what a collector has seen
        batches.append(waiting.batch)
        queue.gone(waiting)
    return batches, refusals


def live(path: Path, days: int) -> None:
    """Days of a device from the last one on that its state has seen."""
    questions = {"emoji": Asked(per_day=2), "words": Asked("words", "c2", memoised=True)}
    clock = Clock()
    ledger, queue = queue_of(path, clock, total=12, daily=3)
    for _ in range(days):
        with ledger.transaction() as db:
            clock.now = max(NOON, db.execute("SELECT day FROM standing").fetchone()[0] * DAY + DAY // 2)
        for number in range(4):
            queue.saw(questions["emoji"], event(f"e{number}"))
            queue.saw(questions["words"], event(f"w{number % 2}"))
        queue.answer(questions["emoji"], event("survey"))
        clock.next_day(2)
        sent(queue, questions)
    ledger.close()


if __name__ == "__main__":
    live(Path(sys.argv[1]), int(sys.argv[2]))
