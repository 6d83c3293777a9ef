"""Sessions end by time and with their token; wrong tokens are few, by address and of all."""

from __future__ import annotations

import pytest

from dpproxy.console.tokens import IDLE, LONGEST, SESSIONS, SHARED, WITHIN, WRONG, WRONG_OF_ALL, Entrance, TooManyGuesses, digest


class World:
    def __init__(self) -> None:
        self.now, self.token, self.others = 1000.0, "first token", {"eve": digest("eve's token")}
        self.entrance = Entrance(lambda: {SHARED: digest(self.token), **self.others}, lambda: self.now)

    def admitted(self) -> str:
        name = self.entrance.admit("here", self.token)
        assert name is not None
        return name


def test_a_session_ends_by_time() -> None:
    world = World()
    unused, used = world.admitted(), world.admitted()
    began = world.now
    while world.now - began <= LONGEST - IDLE:
        world.now += IDLE - 1
        assert world.entrance.session(used) is not None
    assert world.entrance.session(unused) is None
    world.now = began + LONGEST + 1
    assert world.entrance.session(used) is None


def test_a_session_ends_with_its_token_and_by_leaving() -> None:
    world = World()
    name, left = world.admitted(), world.admitted()
    world.entrance.leave(left)
    assert world.entrance.session(left) is None
    assert world.entrance.session(name) is not None
    world.token = "another token"
    assert world.entrance.session(name) is None
    assert world.entrance.admit("here", "first token") is None


def test_a_session_is_of_the_operator_whose_token_was_shown() -> None:
    world = World()
    shared, eves = world.admitted(), world.entrance.admit("here", "eve's token")
    found = [world.entrance.session(name) for name in (shared, eves or "")]
    assert [session and session.operator for session in found] == [SHARED, "eve"]
    world.others = {"eve": digest("another"), "bob": digest("eve's token")}
    assert world.entrance.session(eves or "") is None, "the token is bob's now, the session was eve's"
    assert world.entrance.session(shared) is not None


def test_sessions_are_few() -> None:
    world = World()
    names = [world.admitted() for _ in range(SESSIONS + 1)]
    assert [world.entrance.session(name) is None for name in names] == [True] + [False] * SESSIONS


def test_guesses_of_an_address_come_back() -> None:
    world = World()
    for _ in range(WRONG):
        assert world.entrance.admit("here", "guess") is None
    with pytest.raises(TooManyGuesses):
        world.entrance.admit("here", world.token)
    assert world.entrance.admit("there", world.token)
    world.now += WITHIN + 1
    assert world.admitted()


def test_guesses_of_all_addresses_are_counted() -> None:
    world = World()
    for number in range(WRONG_OF_ALL):
        assert world.entrance.admit(f"address {number}", "guess") is None
    with pytest.raises(TooManyGuesses):
        world.entrance.admit("one more", world.token)


def test_forms_are_their_owners() -> None:
    world = World()
    one, other = (world.entrance.session(world.admitted()) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.sent(one.form)
    assert not one.sent(other.form)
    assert not one.sent("ä")
    visitor = world.entrance.visitor()
    assert world.entrance.sent_by(visitor, world.entrance.login_form(visitor))
    assert not world.entrance.sent_by(visitor, world.entrance.login_form("another"))
    assert not world.entrance.sent_by("", world.entrance.login_form(""))
