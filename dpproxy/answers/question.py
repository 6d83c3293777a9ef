"""What a session asks the room `answers`: a plan, who asks, and the two things only the session can do for its answer.

Knows: plans, datasets. Must not know: protocols, how answers are made. Only the facade can evaluate what a plan's inputs need,
and only it can tell whether the statement would fail: both are functions that the session hands in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.statement_end import Ending
from dpproxy.plan.model import Plan
from dpproxy.sql.settings import ReuseMode
from dpproxy.sql.statements import Signal

Literals = list[bytes | None]
"""Arrays of the outer query as array literals; None for those that are not released yet."""
Evaluate = Callable[[Sequence[int], Literals], Awaitable[list[str | None]]]
"""Takes indexes of `Plan.inputs` and the arrays so far; returns the inputs' values as text, evaluated by the facade."""
Rehearse = Callable[[], Awaitable[None]]
"""Tries the statement without its numbers. Raises what the facade would raise, or `Needless`."""


class Needless(Exception):
    """The statement will do nothing, as CREATE TABLE IF NOT EXISTS does of a table that exists: it needs no answer."""


Reach = Callable[[Signal, int], Awaitable[bool]]
"""Ends what a session of the asker's role does, or the session, by a number that clients know it by; whether there is one."""


async def unreachable(signal: Signal, number: int) -> bool:
    """Reach nobody: the asker has no sessions."""
    return False


async def unrehearsed() -> None:
    """Try nothing: the statement goes to no facade."""


@dataclass(frozen=True)
class Question:
    """A question is one statement to be answered. `statement` is the hash that names it in logs and ledger; `kind` is
    `Statement.kind`.

    `session` is its number in the log. `ending` says when it is to end; `limit`: seconds in which what is charged has to be
    measured, 0 is no limit.
    """

    dataset: Dataset
    asker: Asker
    plan: Plan
    statement: str
    evaluate: Evaluate
    ending: Ending
    mode: ReuseMode = "exact"
    rehearse: Rehearse = unrehearsed
    limit: float = 0.0
    kind: str = "select"
    reach: Reach = unreachable
    session: int = 0
