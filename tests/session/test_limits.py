"""Clocks and counters without sockets: who is late, who guesses, and who must not suffer for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dpproxy.session.limits import (
    CANCEL_GRACE,
    FREE_FAILURES,
    FREE_FAILURES_OF_ADDRESS,
    LONGEST_PAUSE,
    PATIENCE,
    REMEMBERED,
    Limits,
    Progress,
    State,
    Throttle,
    Watch,
    network,
)


@dataclass(eq=False)
class Session:
    progress: Progress
    done: list[str] = field(default_factory=list)

    def cancel(self, reason: str) -> None:
        self.done.append(reason)

    def fatal(self, sqlstate: str, text: str) -> None:
        self.done.append(sqlstate)


def watched(state: State, **limits: float) -> tuple[Session, Watch[Session]]:
    return Session((state, 0, 0)), Watch[Session](Limits(**limits))  # type: ignore[arg-type]


@pytest.mark.parametrize(("state", "limit", "code"), [("IDLE", "idle", "57P05"), ("TRANSACTION", "transaction", "25P03")])
def test_idle_sessions_end(state: str, limit: str, code: str) -> None:
    session, watch = watched(State[state], **{limit: 10.0})
    for now in (0.0, 5.0, 9.9):
        watch.look([session], now)
    assert session.done == []
    watch.look([session], 10.0)
    assert session.done == [code]


def test_statements_are_cancelled_once_then_ended() -> None:
    session, watch = watched(State.STATEMENT, statement=10.0)
    for now in range(int(10 + CANCEL_GRACE)):
        watch.look([session], float(now))
    assert session.done == ["statement timeout"]
    watch.look([session], 10.0 + CANCEL_GRACE)
    assert session.done == ["statement timeout", "57P01"]


@pytest.mark.parametrize("step", [(State.STATEMENT, 1, 0), (State.STATEMENT, 0, 1), (State.IDLE, 0, 0)])
def test_progress_starts_the_clock_again(step: Progress) -> None:
    session, watch = watched(State.STATEMENT, statement=10.0, idle=10.0)
    watch.look([session], 0.0)
    session.progress = step
    watch.look([session], 9.0)
    watch.look([session], 18.0)
    assert session.done == []
    watch.look([session], 19.0)
    assert len(session.done) == 1


def test_no_limit_and_no_memory_of_the_gone() -> None:
    session, watch = watched(State.IDLE, idle=0.0)
    watch.look([session], 0.0)
    watch.look([session], 1e9)
    assert session.done == []
    watch.look([], 1e9)
    assert watch._seen == {}
    assert Watch[Session](Limits(statement=0.4)).tick == pytest.approx(0.1)


def delays(throttle: Throttle, count: int, address: str = "10.0.0.1", user: str = "ada", now: float = 0.0) -> list[float | None]:
    return [throttle.delay(address, user, now) for _ in range(count)]


def fail(throttle: Throttle, count: int, address: str = "10.0.0.1", user: str = "ada", now: float = 0.0) -> None:
    for _ in range(count):
        throttle.failed(address, user, now)


def test_the_first_failures_are_free() -> None:
    throttle = Throttle()
    fail(throttle, FREE_FAILURES - 1)
    assert delays(throttle, 3) == [0.0, 0.0, 0.0]
    fail(throttle, 1)
    assert throttle.delay("10.0.0.1", "ada", 0.0) == 0.5
    assert throttle.delay("10.0.0.2", "ada", 0.0) == 0.0, "another address is not to blame"
    assert throttle.delay("10.0.0.1", "eve", 0.0) == 0.0, "nor another user"


def test_attempts_at_once_wait_in_turn() -> None:
    throttle = Throttle()
    fail(throttle, FREE_FAILURES + 3)
    waits = delays(throttle, 20)
    given = [w for w in waits if w is not None]
    assert given == [4.0 * (i + 1) for i in range(len(given))]
    assert given[-1] <= PATIENCE
    assert None in waits
    assert throttle.delay("10.0.0.1", "ada", 1000.0) == 0.0, "forgiven"


def test_pauses_stop_growing() -> None:
    throttle = Throttle()
    fail(throttle, 5000)
    assert throttle.delay("10.0.0.1", "ada", 0.0) == LONGEST_PAUSE


def test_one_known_password_does_not_pay_for_guesses() -> None:
    throttle = Throttle()
    for i in range(FREE_FAILURES_OF_ADDRESS):
        throttle.failed("10.0.0.1", f"user{i}", 0.0)
        throttle.succeeded("10.0.0.1", "mine")
    assert throttle.delay("10.0.0.1", "next", 0.0) == 0.5


def test_success_is_forgiveness() -> None:
    throttle = Throttle()
    fail(throttle, FREE_FAILURES)
    throttle.succeeded("10.0.0.1", "ada")
    assert throttle.delay("10.0.0.1", "ada", 0.0) == 0.0


def test_memory_is_bounded() -> None:
    throttle = Throttle()
    for i in range(REMEMBERED):
        throttle.failed(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", "ada", 0.0)
    assert len(throttle._records) <= REMEMBERED


def test_networks() -> None:
    assert network("2001:db8::1") == network("2001:db8::ffff:1")
    assert network("2001:db8::1") != network("2001:db8:0:1::1")
    assert network("::ffff:10.0.0.1") == network("10.0.0.1")
    assert network("fe80::1%eth0") == network("fe80::2%eth0")
    assert network("") == ""
