"""How much work planning one statement may be: steps, counted where work is done, and an end to them.

Knows: nothing of statements. Must not know: clocks, or a plan would depend on how busy the machine is. Caps on what is written
(`sql.guard`, `expansion`, `outer`) refuse what is foreseen; this is for what is not: each cap by itself lets through a statement
of much of everything. A step stands for ten
to thirty microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal

MOST = 80_000
"""Of one statement. A dashboard's takes hundreds to thousands."""

T = TypeVar("T")


@dataclass
class Steps:
    """What has been done for one statement."""

    taken: int = 0


_now: ContextVar[Steps | None] = ContextVar("dpproxy_steps", default=None)  # of the statement that this thread plans


def step(number: int = 1) -> None:
    """Work is being done. Raises Refusal 54001 where it is too much for one statement; outside of planning nothing is counted."""
    steps = _now.get()
    if steps is None:
        return
    steps.taken += number
    if steps.taken > MOST:
        raise Refusal(STATEMENT_TOO_COMPLEX, "statement is too complex to be planned", hint="Ask for less at a time.")


def counted(work: Callable[[], T]) -> tuple[T, int]:
    """What `work` gives, and the steps it took. Raises Refusal where there were too many."""
    steps = Steps()
    token = _now.set(steps)
    try:
        return work(), steps.taken
    finally:
        _now.reset(token)
