"""Counters without sockets: who guesses passwords, and who must not suffer for it."""

from __future__ import annotations

import pytest

from dpproxy.limits import throttle as throttles
from dpproxy.limits.throttle import CELLS, GUESSES, KNOWN, PATIENCE, STRANGERS_GUESSES, Throttle


def guess(throttle: Throttle, count: int, address: str = "10.0.0.1", user: str = "ada", now: float = 0.0) -> int:
    """Wrong passwords: how many of them are heard at once."""
    return [throttle.begin(address, user, now) for _ in range(count)].count(0.0)


def test_made_up_names_and_other_addresses_cost_a_user_nothing() -> None:
    """A load balancer is one address for everybody, and so is the unix socket."""
    throttle = Throttle()
    for i in range(20_000):
        guess(throttle, 1, user=f"user{i}")
    guess(throttle, 5_000, user="eve")
    guess(throttle, 2_000, address="10.0.0.2")
    assert throttle.begin("10.0.0.1", "ada", 0.0) == 0.0


def test_what_can_be_guessed_in_a_day() -> None:
    """Whoever tries all the time, at one address: the figures of the docstring."""
    throttle = Throttle()
    heard = guess(throttle, 5_000)
    assert heard == GUESSES
    for second in range(1, 86_400):
        tries = [throttle.begin("10.0.0.1", "ada", float(second)) for _ in range(3)]
        heard += sum(wait is not None for wait in tries)
    assert heard <= 87_400


def test_what_can_be_guessed_from_everywhere() -> None:
    throttle = Throttle()
    throttle.begin("10.9.9.9", "ada", 0.0)
    throttle.succeeded("10.9.9.9", "ada")
    heard = sum(guess(throttle, 100, address=f"10.0.{i // 256}.{i % 256}") for i in range(200))
    assert heard == STRANGERS_GUESSES
    assert throttle.begin("10.9.9.9", "ada", 0.0) == 0.0, "from where it logs in, it still does"
    assert throttle.begin("10.1.1.1", "eve", 0.0) == 0.0


def test_nobody_waits_long() -> None:
    throttle = Throttle()
    waits = [throttle.begin("10.0.0.1", "ada", 0.0) for _ in range(3 * GUESSES)]
    assert all(wait is None or 0 <= wait <= PATIENCE for wait in waits)
    assert None in waits
    assert throttle.begin("10.0.0.1", "ada", 10.0) == 0.0, "guesses come back"


def test_right_passwords_cost_nothing() -> None:
    throttle = Throttle()
    for _ in range(2 * STRANGERS_GUESSES):
        assert throttle.begin("10.0.0.1", "ada", 0.0) == 0.0
        throttle.succeeded("10.0.0.1", "ada")
    assert guess(throttle, 2 * GUESSES) == GUESSES, "and pay for no guesses"


def test_memory_is_bounded() -> None:
    throttle = Throttle()
    for i in range(KNOWN + 10):
        throttle.begin("", f"user{i}", 0.0)
        throttle.succeeded("", f"user{i}")
    assert len(throttle._known) == KNOWN
    assert len(throttle._pairs._full) == CELLS


def test_who_logged_in_longest_ago_is_a_stranger_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more people than are remembered: strangers' wrong passwords make them wait, and nobody else."""
    monkeypatch.setattr(throttles, "KNOWN", 2)
    throttle = Throttle()
    for user in ("ada", "bob", "ada", "cy"):
        throttle.begin("10.9.9.9", user, 0.0)
        throttle.succeeded("10.9.9.9", user)
    for user in ("ada", "bob", "cy"):
        for i in range(200):
            guess(throttle, 100, address=f"10.0.{i // 256}.{i % 256}", user=user)
    assert [throttle.begin("10.9.9.9", user, 0.0) for user in ("ada", "cy")] == [0.0, 0.0]
    assert throttle.begin("10.9.9.9", "bob", 0.0) != 0.0
