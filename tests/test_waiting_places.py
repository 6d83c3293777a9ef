"""Who gives way when places are short, against the rule told slowly; and that a flood leaves other networks alone."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dpproxy.waiting_places import LOOPBACK, WaitingPlaces, network


class Slow:
    """The rule as its docstring says it, by sorting: who waits, by when they were last heard of."""

    def __init__(self, places: int, of_one: int) -> None:
        self.places, self.of_one = places, of_one
        self.heard: dict[int, int] = {}
        self.whose: dict[int, str] = {}
        self.now = 0

    def note(self, who: int) -> None:
        if who in self.whose:
            self.now += 1
            self.heard[who] = self.now

    def may_go(self, newcomer: int) -> set[int]:
        """Whoever the rule may choose: the oldest of each network that has most."""
        sizes = Counter(self.whose.values())
        if sizes[self.whose[newcomer]] > self.of_one:
            largest = {self.whose[newcomer]}
        elif len(self.whose) > self.places:
            largest = {name for name, size in sizes.items() if size == max(sizes.values())}
        else:
            return set()
        return {min((w for w in self.whose if self.whose[w] == name), key=self.heard.__getitem__) for name in largest}

    def leave(self, who: int) -> None:
        self.whose.pop(who, None)


steps = st.tuples(st.sampled_from(["enter", "enter", "heard", "leave"]), st.integers(0, 30), st.sampled_from("abcd"))


@given(st.integers(1, 8), st.integers(1, 8), st.lists(steps, max_size=80))
def test_any_steps_choose_whom_the_rule_chooses(places: int, of_one: int, taken: list[tuple[str, int, str]]) -> None:
    fast, slow = WaitingPlaces[int](places, of_one), Slow(places, of_one)
    for step, who, name in taken:
        if step == "enter" and who not in slow.whose:
            slow.whose[who] = name
            slow.note(who)
            expected = slow.may_go(who)
            gone = fast.enter(who, name)
            assert (gone in expected) if expected else gone is None
            if gone is not None:
                slow.leave(gone)
        elif step == "heard":
            slow.note(who)
            fast.heard(who)
        elif step == "leave":
            slow.leave(who)
            fast.leave(who)
        assert set(fast) == set(slow.whose)
        assert len(fast) == len(slow.whose) <= places


def test_a_flood_from_one_network_costs_the_others_nothing() -> None:
    """However many come, and whatever steps they make: who is slow elsewhere keeps the place."""
    places = WaitingPlaces[str](100, 50)
    for slow in range(20):
        places.enter(f"slow {slow}", f"10.0.0.{slow}")
    gone = []
    for i in range(10_000):
        gone.append(places.enter(f"flood {i}", "10.9.9.9"))
        places.heard(f"flood {i - 10}")
    assert all(each is None or each.startswith("flood") for each in gone)
    assert len(places) == 70


def test_a_flood_from_many_networks_leaves_who_goes_on() -> None:
    """Each of them has one connection, as has the login: what is heard of stays, what is silent goes."""
    places = WaitingPlaces[str](100, 50)
    places.enter("login", "10.0.0.1")
    for i in range(10_000):
        assert places.enter(f"flood {i}", f"2001:db8::{i}") != "login"
        if i % 90 == 0:
            places.heard("login")


def test_who_shares_the_floods_network_has_its_places_to_make_a_step() -> None:
    places = WaitingPlaces[str](100, 50)
    for i in range(1_000):
        places.enter(f"flood {i}", "shared")
    places.enter("login", "shared")
    for step in range(5):
        gone = [places.enter(f"more {step} {i}", "shared") for i in range(49)]
        assert "login" not in gone
        places.heard("login")
    gone = [places.enter(f"last {i}", "shared") for i in range(50)]
    assert gone.index("login") == 49, "who does nothing has to go in the end"


def test_networks() -> None:
    assert network("2001:db8::1") == network("2001:db8::ffff:1")
    assert network("2001:db8::1") != network("2001:db8:0:1::1")
    assert network("::ffff:10.0.0.1") == network("10.0.0.1")
    assert network("fe80::1%eth0") == network("fe80::2%eth0")
    assert network("") == ""
    assert {network(each) for each in ("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1")} == {LOOPBACK}
