"""Sums over sessions: who has to stop, who is let be, who waits for others. Without processes or clocks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace

import pytest

from dpproxy.limits.quota import GRACE, LONG, NEGLIGIBLE, Quota, Ration, Resource, Stop, Taken

MB = 1 << 20
QUOTA = Quota(memory=1000 * MB, disk=1000 * MB, share=0.5, reserve=100 * MB)
PLENTY = 1 << 40


def ration() -> Ration[str]:
    return Ration(QUOTA, processors=2)


def over(
    sessions: Mapping[str, Taken], free: int = PLENTY, now: float = 0.0, limited: Ration[str] | None = None
) -> list[Stop[str]]:
    """Where no server has grown."""
    orders = (limited or ration()).over(sessions, {}, free, now)
    assert not orders.renewals
    return orders.stops


def took(role: str, memory: int = 0, disk: int = 0, *, doing: object = 1, busy: bool = True, seconds: float = 0.0) -> Taken:
    return Taken(role, doing, busy, memory * MB, seconds, disk * MB)


def stopped(stops: list[Stop[str]]) -> dict[str, tuple[Resource, bool]]:
    return {stop.session: (stop.resource, stop.end) for stop in stops}


def test_within_every_limit_nobody_stops() -> None:
    sessions = {"a": took("r", 250, 250), "b": took("r", 250, 250), "c": took("s", 500, 500)}
    assert over(sessions) == []


def test_the_largest_of_a_role_stop_until_the_rest_fits() -> None:
    sessions = {"a": took("r", 300), "b": took("r", 290), "c": took("r", 150), "d": took("s", 310), "e": took("r", 100)}
    found = over(sessions)
    assert stopped(found) == {"a": (Resource.MEMORY, False), "b": (Resource.MEMORY, False)}
    assert all("this role together take more than 500 MB" in stop.detail for stop in found)


def test_of_all_together_the_role_that_takes_most_gives_back() -> None:
    sessions = {"a": took("r", 400), "b": took("s", 450), "c": took("t", 200)}
    assert stopped(over(sessions)) == {"b": (Resource.MEMORY, False)}


def test_what_was_told_to_stop_counts_as_given_back_for_a_while() -> None:
    sessions = {"a": took("r", 0, 300), "b": took("r", 0, 290)}
    limited = ration()
    assert stopped(over(sessions, now=0.0, limited=limited)) == {"a": (Resource.DISK, False)}
    assert over(sessions, now=GRACE / 2, limited=limited) == []


def test_who_does_not_stop_is_ended() -> None:
    sessions = {"a": took("r", 600)}
    limited = ration()
    assert stopped(over(sessions, now=0.0, limited=limited)) == {"a": (Resource.MEMORY, False)}
    assert stopped(over(sessions, now=GRACE, limited=limited)) == {"a": (Resource.MEMORY, True)}


def test_another_statement_is_cancelled_not_ended() -> None:
    limited = ration()
    over({"a": took("r", 600)}, now=0.0, limited=limited)
    assert stopped(over({"a": took("r", 600, doing=2)}, now=GRACE, limited=limited)) == {"a": (Resource.MEMORY, False)}


def test_a_session_without_a_statement_is_ended() -> None:
    """A cursor that is held has files although nothing runs."""
    assert stopped(over({"a": took("r", 0, 600, busy=False)})) == {"a": (Resource.DISK, True)}


def test_a_full_disk_stops_the_largest_of_anybody() -> None:
    sessions = {"a": took("r", 0, 100), "b": took("s", 0, 120), "c": took("s", 400, 0)}
    assert stopped(over(sessions, QUOTA.reserve - 1)) == {"b": (Resource.SPACE, False)}
    assert over(sessions, QUOTA.reserve) == []
    assert over({"c": took("s", 400)}, 0) == [], "nobody here has filled it"


# what servers have grown by


def orders(
    sessions: Mapping[str, Taken], grown: Mapping[Hashable, int], free: int = PLENTY
) -> tuple[dict[str, bool], set[Hashable]]:
    """Whose statement is cancelled or who is ended, and of which roles the servers are made anew."""
    found = ration().over(sessions, {role: size * MB for role, size in grown.items()}, free, 0.0)
    return {stop.session: stop.end for stop in found.stops}, {renewal.role for renewal in found.renewals}


def test_growth_within_the_limits_is_let_be() -> None:
    assert orders({"a": took("r", 0, 100)}, {"r": 400, "s": 500}) == ({}, set())


def test_a_role_whose_server_has_grown_too_much_gets_a_new_one() -> None:
    """Nobody of it is told to stop, since everybody of it is ended; nobody else notices."""
    sessions = {"a": took("r"), "b": took("r", 600, 450), "c": took("s", 0, 400)}
    assert orders(sessions, {"r": 501, "s": 90}) == ({}, {"r"})


def test_growth_and_files_of_sessions_are_one_sum_and_the_largest_gives_way() -> None:
    assert orders({"a": took("r", 0, 300)}, {"r": 250}) == ({"a": False}, set())
    assert orders({"a": took("r", 0, 250)}, {"r": 300}) == ({}, {"r"})


def test_of_all_together_the_role_that_takes_most_gives_back_what_its_server_has_grown_by() -> None:
    """Also when nobody of that role is there any more."""
    sessions = {"a": took("s", 0, 350)}
    assert orders(sessions, {"r": 450, "t": 300}) == ({}, {"r"})
    assert orders(sessions, {"r": 350, "s": 140, "t": 300}) == ({"a": False}, set())


def test_a_full_disk_is_given_back_by_the_role_that_has_filled_it() -> None:
    """Its sessions have no files of their own. Who sorts 5 MB beside it has not filled the disk."""
    sessions = {**{str(i): took("bloats") for i in range(4)}, "sorts": took("s", 0, 5)}
    assert orders(sessions, {"bloats": 200, "s": 1}, free=0) == ({}, {"bloats"})
    assert orders({"sorts": sessions["sorts"]}, {"bloats": 200}, free=0) == ({}, {"bloats"}), "its sessions are gone"
    assert orders(sessions, {"bloats": 3}, free=0) == ({"sorts": False}, set()), "every server has a few new files"


def test_many_that_each_take_little_are_told_to_stop_as_well() -> None:
    small = {str(i): took("r", 0, 3) for i in range(200)}
    stops, anew = orders(small, {})
    assert (len(stops), anew) == (200 - 500 // 3, set())
    stops, anew = orders({**small, "sorts": took("s", 0, 5)}, {}, free=0)
    assert not anew
    assert "sorts" not in stops


def test_what_is_being_given_back_counts_as_free() -> None:
    """Or every look would stop one more, until the first has given back."""
    sessions = {"a": took("r", 0, 200), "b": took("s", 0, 150)}
    limited = ration()
    assert stopped(over(sessions, 0, 0.0, limited)) == {"a": (Resource.SPACE, False)}
    assert over(sessions, 0, 0.1, limited) == [], "200 MB come back"
    assert stopped(over(sessions, 0, GRACE, limited)) == {"a": (Resource.SPACE, True)}, "they did not"


@pytest.mark.parametrize("share", [0.000_001, 0.01, 1.0])
def test_a_server_is_not_made_anew_for_what_it_grows_by_itself(share: float) -> None:
    """However small the role's part of the disk is, and its sessions do not pay for it either."""
    tiny = Ration[str](replace(QUOTA, share=share), 2)
    session = {"a": replace(took("r"), disk=1)}
    found = tiny.over({}, {"r": NEGLIGIBLE - 1}, PLENTY, 0.0)
    assert (found.stops, found.renewals) == ([], [])
    found = tiny.over(session, {"r": NEGLIGIBLE - 1}, PLENTY, 0.0)
    assert (len(found.stops), found.renewals) == (int(int(QUOTA.disk * share) < 1), [])
    assert tiny.over({}, {"r": NEGLIGIBLE - 1}, 0, 0.0).renewals == []


def memory(taken: Taken) -> int:
    return taken.memory


def disk(taken: Taken) -> int:
    return taken.disk


def test_any_sessions_end_within_the_limits() -> None:
    """Whoever is told to stop, no sum of the others is over a limit, but for what nobody's end would help."""
    random.seed(7)
    for _ in range(300):
        sessions = {
            str(i): took(random.choice("rst"), random.randrange(400), random.randrange(400), busy=random.random() < 0.8)
            for i in range(random.randrange(12))
        }
        grown = {role: random.randrange(500) * MB for role in random.sample("rstu", random.randrange(5))}
        found = ration().over(sessions, grown, PLENTY, 0.0)
        stops, anew = {stop.session for stop in found.stops}, {renewal.role for renewal in found.renewals}
        assert all(sessions[name].role not in anew for name in stops), "it is ended anyway"
        kept = {role: size for role, size in grown.items() if size >= NEGLIGIBLE}
        for amount, own, least in ((memory, {}, NEGLIGIBLE), (disk, kept, 0)):
            before = Counter[Hashable](own)
            for taken in sessions.values():
                before[taken.role] += amount(taken)
            left = Counter[Hashable]({role: size for role, size in own.items() if role not in anew})
            for name, taken in sessions.items():
                if name not in stops and taken.role not in anew and amount(taken) >= least:
                    left[taken.role] += amount(taken)
            assert left.total() <= QUOTA.memory
            assert max(left.values(), default=0) <= QUOTA.role_memory
            resource = Resource.DISK if amount is disk else Resource.MEMORY
            blamed = {sessions[stop.session].role for stop in found.stops if stop.resource is resource} | (anew if own else set())
            for role in blamed:
                others = max((size for other, size in left.items() if other != role), default=0)
                assert before[role] > min(QUOTA.role_memory, others), "who took more was let be"


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
