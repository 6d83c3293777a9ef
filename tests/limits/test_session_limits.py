"""Clocks without sockets: who is late, and what becomes of him."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dpproxy.limits.session_limits import CANCEL_GRACE, Progress, SessionLimits, State, Watch


@dataclass(eq=False)
class Session:
    progress: Progress
    done: list[str] = field(default_factory=list)

    def cancel(self, reason: str) -> None:
        self.done.append(reason)

    def fatal(self, sqlstate: str, text: str) -> None:
        self.done.append(sqlstate)


def watched(state: State, **limits: float) -> tuple[Session, Watch[Session]]:
    return Session((state, 0, 0)), Watch[Session](SessionLimits(**limits))  # type: ignore[arg-type]


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
    assert Watch[Session](SessionLimits(statement=0.4)).tick == pytest.approx(0.1)
