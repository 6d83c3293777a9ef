"""Sums over sessions: who has to stop, who is let be, who waits for others. Without processes or clocks."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from dpproxy.limits.quota import GRACE, LONG, NEGLIGIBLE, Quota, Ration, Resource, Stop, Taken

MB = 1 << 20
QUOTA = Quota(memory=1000 * MB, disk=1000 * MB, share=0.5, reserve=100 * MB)
PLENTY = 1 << 40


def ration() -> Ration[str]:
    return Ration(QUOTA, processors=2)


def took(role: str, memory: int = 0, disk: int = 0, *, doing: object = 1, busy: bool = True, seconds: float = 0.0) -> Taken:
    return Taken(role, doing, busy, memory * MB, seconds, disk * MB)


def stopped(stops: list[Stop[str]]) -> dict[str, tuple[Resource, bool]]:
    return {stop.session: (stop.resource, stop.end) for stop in stops}


def test_within_every_limit_nobody_stops() -> None:
    sessions = {"a": took("r", 250, 250), "b": took("r", 250, 250), "c": took("s", 500, 500)}
    assert ration().over(sessions, PLENTY, 0.0) == []


def test_the_largest_of_a_role_stop_until_the_rest_fits() -> None:
    sessions = {"a": took("r", 300), "b": took("r", 290), "c": took("r", 150), "d": took("s", 310), "e": took("r", 100)}
    found = ration().over(sessions, PLENTY, 0.0)
    assert stopped(found) == {"a": (Resource.MEMORY, False), "b": (Resource.MEMORY, False)}
    assert all("this role together take more than 500 MB" in stop.detail for stop in found)


def test_of_all_together_the_role_that_takes_most_gives_back() -> None:
    sessions = {"a": took("r", 400), "b": took("s", 450), "c": took("t", 200)}
    assert stopped(ration().over(sessions, PLENTY, 0.0)) == {"b": (Resource.MEMORY, False)}


def test_what_was_told_to_stop_counts_as_given_back_for_a_while() -> None:
    sessions = {"a": took("r", 0, 300), "b": took("r", 0, 290)}
    limited = ration()
    assert stopped(limited.over(sessions, PLENTY, 0.0)) == {"a": (Resource.DISK, False)}
    assert limited.over(sessions, PLENTY, GRACE / 2) == []


def test_who_does_not_stop_is_ended() -> None:
    sessions = {"a": took("r", 600)}
    limited = ration()
    assert stopped(limited.over(sessions, PLENTY, 0.0)) == {"a": (Resource.MEMORY, False)}
    assert stopped(limited.over(sessions, PLENTY, GRACE)) == {"a": (Resource.MEMORY, True)}


def test_another_statement_is_cancelled_not_ended() -> None:
    limited = ration()
    limited.over({"a": took("r", 600)}, PLENTY, 0.0)
    assert stopped(limited.over({"a": took("r", 600, doing=2)}, PLENTY, GRACE)) == {"a": (Resource.MEMORY, False)}


def test_a_session_without_a_statement_is_ended() -> None:
    """A cursor that is held has files although nothing runs."""
    assert stopped(ration().over({"a": took("r", 0, 600, busy=False)}, PLENTY, 0.0)) == {"a": (Resource.DISK, True)}


def test_a_full_disk_stops_the_largest_of_anybody() -> None:
    sessions = {"a": took("r", 0, 100), "b": took("s", 0, 120), "c": took("s", 400, 0)}
    assert stopped(ration().over(sessions, QUOTA.reserve - 1, 0.0)) == {"b": (Resource.SPACE, False)}
    assert ration().over(sessions, QUOTA.reserve, 0.0) == []
    assert ration().over({"c": took("s", 400)}, 0, 0.0) == [], "nobody here has filled it"


def test_any_sessions_end_within_the_limits() -> None:
    """Whoever is told to stop, no sum of the others is over a limit, but for what nobody's end would help."""
    random.seed(7)
    for _ in range(300):
        sessions = {
            str(i): took(random.choice("rst"), random.randrange(400), random.randrange(400), busy=random.random() < 0.8)
            for i in range(random.randrange(12))
        }
        stops = {stop.session for stop in ration().over(sessions, PLENTY, 0.0)}
        for amount in (lambda t: t.memory, lambda t: t.disk):
            left = Counter[object]()
            for name, taken in sessions.items():
                if name not in stops and amount(taken) >= NEGLIGIBLE:
                    left[taken.role] += amount(taken)
            assert left.total() <= QUOTA.memory
            assert max(left.values(), default=0) <= QUOTA.role_memory


# processors


def test_a_long_statement_waits_and_what_follows_as_long() -> None:
    """Else it would be cut into pieces, each of them first for a while."""
    limited, one = ration(), took("r", seconds=5.0)
    assert limited.last({"a": one}, 0.0) == set()
    assert limited.last({"a": replace(one, seconds=5.0 + LONG / 2)}, 0.1) == set()
    assert limited.last({"a": replace(one, seconds=5.5)}, 0.5) == {"a"}
    following = replace(one, seconds=5.5, doing=2)
    assert limited.last({"a": replace(following, busy=False)}, 0.6) == set(), "nothing runs"
    assert limited.last({"a": following}, 0.9) == {"a"}
    assert limited.last({"a": following}, 1.1) == set(), "half a second later than what took half a second"


def test_statements_of_a_role_that_run_together_wait_sooner() -> None:
    limited = ration()
    limited.last({str(i): took("r") for i in range(16)}, 0.0)
    begun = {str(i): took("r", seconds=0.03) for i in range(16)}
    assert limited.last({**begun, "other": took("s", seconds=0.03)}, 0.1) == begun.keys()


def test_who_is_behind_waits_while_it_is_busy() -> None:
    limited = ration()
    behind = replace(took("r"), behind=True)
    assert limited.last({"a": behind, "b": replace(behind, busy=False), "c": took("s")}, 0.0) == {"a"}


def test_many_short_statements_of_a_role_wait_too() -> None:
    """Sixteen sessions keep both processors busy with statements of a tenth of a second; another role's do not suffer."""
    limited = ration()
    for step in range(40):
        now = step * 0.1
        greedy = {str(i): took("r", seconds=now / 8, doing=step) for i in range(16)}
        last = limited.last({**greedy, "other": took("s", seconds=now / 20, doing=step)}, now)
    assert last == greedy.keys()
    for step in range(40, 100):
        last = limited.last({name: replace(taken, doing=step) for name, taken in greedy.items()}, step * 0.1)
    assert last == set(), "forgotten after a few seconds of rest"
