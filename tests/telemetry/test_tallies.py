"""What a process counts: each statement once, as values that never change again."""

from __future__ import annotations

from dataclasses import replace

from dpproxy.telemetry.tallies import BUCKETS, RECENT, StatementEvent, Tallies

EVENT = StatementEvent(0.0, "shop", "analyst", "ada", 7, "hash", "select", "answered", "digest", epsilon=500_000, milliseconds=30)
REFUSED = replace(EVENT, verdict="refused", epsilon=0, code="53400", reason_class="budget", milliseconds=70_000)


def test_statements_are_counted_by_who_and_what_became_of_them() -> None:
    tallies = Tallies()
    tallies.statement(EVENT)
    tallies.statement(replace(EVENT, verdict="reused", epsilon=0, saved=250_000))
    tallies.statement(REFUSED)
    found = tallies.counted()
    assert dict(found.statements) == {
        ("shop", "analyst", "answered"): 1,
        ("shop", "analyst", "refused"): 1,
        ("shop", "analyst", "reused"): 1,
    }
    assert found.refusals == ((("shop", "analyst", "budget", "53400"), 1),)
    assert (found.spent, found.saved) == (((("shop", "analyst"), 500_000),), ((("shop", "analyst"), 250_000),))
    tallies.statement(EVENT)
    assert dict(found.statements)["shop", "analyst", "answered"] == 1, "a value"


def test_times_are_put_into_buckets_and_the_longest_beyond_all() -> None:
    tallies = Tallies()
    for event in (EVENT, replace(EVENT, milliseconds=25), REFUSED):
        tallies.statement(event)
    latencies = dict(tallies.counted().latencies)
    answered, refused = latencies["shop", "answered"], latencies["shop", "refused"]
    assert answered.counts[BUCKETS.index(0.025)] == answered.counts[BUCKETS.index(0.05)] == 1
    assert (refused.counts[-1], sum(refused.counts), refused.seconds) == (1, 1, 70.0)


def test_the_last_statements_are_remembered() -> None:
    tallies = Tallies()
    for i in range(RECENT + 1):
        tallies.statement(replace(EVENT, session=i))
    assert (len(tallies.recent), tallies.recent[0].session) == (RECENT, 1)


def test_logins_by_dataset_and_outcome() -> None:
    tallies = Tallies()
    for outcome in ("ok", "ok", "password"):
        tallies.login("shop", outcome)
    assert dict(tallies.counted().logins) == {("shop", "ok"): 2, ("shop", "password"): 1}
