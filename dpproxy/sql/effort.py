"""How much work planning one statement may be: steps, counted where work is done, and an end to them.

Knows: nothing of statements. Must not know: clocks, or a plan would depend on how busy the machine is. Caps on what is written
(`sql.guard`, `cte_expansion`, `outer`) refuse what is foreseen; this is for what is not: each cap by itself lets through a
statement of much of everything. A step stands for ten to thirty microseconds. At each step planning also ends when nobody
wants it any more (`Stop`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal

MOST = 80_000
"""Steps of one statement. A dashboard's takes hundreds to thousands."""

T = TypeVar("T")


class Stop:
    """Whether somebody, in another thread, wants planning to end."""

    asked = False

    def ask(self) -> None:
        self.asked = True


class Stopped(Exception):
    """Planning ended since it was asked to. Not a Refusal: nothing is wrong with the statement."""


class Postponed(Exception):
    """Planning ended since it takes more than there is time for here: it is begun anew elsewhere. Not a Refusal, as above."""


class TooManySteps(Exception):
    """Planning ended since it took too many steps. Not a Refusal until nothing of it is left (`counted`): what tries another way
    after a refusal must not try one after this."""


@dataclass
class Steps:
    """Counts what has been done for one statement, and knows who may want no more. `here`: steps after which it is postponed."""

    stop: Stop
    here: int
    taken: int = 0


_stop: ContextVar[Stop] = ContextVar("dpproxy_stop")  # of what this thread plans
_here: ContextVar[int] = ContextVar("dpproxy_steps_here", default=MOST)  # steps that this thread has time for
_now: ContextVar[Steps | None] = ContextVar("dpproxy_steps", default=None)  # of the statement that this thread plans


def step(number: int = 1) -> None:
    """Count a step of work. Raises TooManySteps where a statement takes too many, Postponed where it takes more than
    there is time for here, Stopped where it is not wanted any more; outside of planning nothing is counted."""
    steps = _now.get()
    if steps is None:
        return
    steps.taken += number
    if steps.stop.asked:
        raise Stopped
    if steps.taken > MOST:
        raise TooManySteps
    if steps.taken > steps.here:
        raise Postponed


def counted(work: Callable[[], T]) -> tuple[T, int]:
    """Return what `work` gives, and the steps it took. Raises Refusal 54001 where there were too many, Postponed,
    Stopped."""
    steps = Steps(_stop.get(Stop()), _here.get())
    token = _now.set(steps)
    try:
        return work(), steps.taken
    except TooManySteps:
        raise Refusal(STATEMENT_TOO_COMPLEX, "statement is too complex to be planned", hint="Ask for less at a time.") from None
    finally:
        _now.reset(token)


def stoppable(stop: Stop, work: Callable[[], T]) -> T:
    """Return what `work` gives, unless `stop` is asked for meanwhile. Raises Stopped."""
    token = _stop.set(stop)
    try:
        return work()
    finally:
        _stop.reset(token)


def at_once(most: int, work: Callable[[], T]) -> T:
    """Return what `work` gives, if it counts at most so many steps. Raises Postponed."""
    token = _here.set(most)
    try:
        return work()
    finally:
        _here.reset(token)
