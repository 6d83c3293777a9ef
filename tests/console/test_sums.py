"""Sums are held against sums by another road, and sorted as they are read."""

from __future__ import annotations

from dpproxy.console.figures import MOST, Reuse, refusals, reuse, shares
from dpproxy.telemetry.tallies import StatementEvent, Verdict
from tests.worlds.told_source import charge
from tests.worlds.told_status import STATUS


def test_shares_add_up() -> None:
    charges = [charge(1, user="ada", epsilon=300), charge(2, user="ben", epsilon=500), charge(3, user="ada", epsilon=400)]
    found = shares(charges, lambda each: each.user)
    assert [(s.name, s.epsilon, s.charges) for s in found] == [("ada", 700, 2), ("ben", 500, 1)]
    assert sum(s.part for s in found) == 1
    assert shares([], lambda each: each.user) == ()
    assert len(shares([charge(n, user=str(n)) for n in range(50)], lambda each: each.user)) == MOST


def event(at: float, verdict: Verdict, statement: str, reason: str = "select") -> StatementEvent:
    who = ("shop", "analyst", "ada", 7, statement, "select")
    return StatementEvent(at, *who, verdict, "digest", code="0A000", reason_class="unsupported", reason=reason)


def test_refusals_are_counted_by_reason_and_statement() -> None:
    events = [event(5, "refused", "a"), event(2, "failed", "a"), event(3, "refused", "b"), event(9, "answered", "c")]
    found = refusals(events)
    assert [(r.statement, r.count, r.charged, r.last) for r in found] == [("a", 2, 1, 5), ("b", 1, 0, 3)]


def test_processes_are_added_up() -> None:
    (found,) = reuse([STATUS, STATUS])
    assert found == Reuse("shop", "analyst", 2, 2, 2, 1_000_000, 1_000_000)
    assert found.part == 0.5
    assert Reuse("shop", "clerk", 0, 0, 0, 0, 0).part == 0
