"""`SET dpproxy.accuracy = '2%'`: which epsilon a statement needs for the error its analyst wants.

Knows: a target, the typical error of a first, cheap answer. Must not know: exact values, connections. The error of a column is
its noise over its value: the noise is as large as epsilon is small, the value is read off the first answer. Both answers
are charged; the next epsilon follows from what was released, so that it tells nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from dpproxy.answers.answering import Answer
from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, Refusal
from dpproxy.ledger.ledger import amounts
from dpproxy.plan.model import Plan
from dpproxy.plan.report.explain import epsilon_text
from dpproxy.privacy.loss import ZERO, Loss

T = TypeVar("T")

FIRST = 50
"""The first answer costs this part of the most a query may cost: next to nothing, and enough for groups of some size."""

STEP = 5
"""By so much it is raised while the answer is noise alone."""


def check(plan: Plan) -> None:
    """Raises Refusal for what has no error that could be aimed at."""
    if not plan.aimable:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "dpproxy.accuracy is available for statements of counts, sums and averages alone",
            hint="RESET dpproxy.accuracy, and SET dpproxy.epsilon instead.",
        )


def first(most: int) -> int:
    """Return micro-epsilon of the first answer."""
    return max(most // FIRST, 1)


def following(epsilon: int, error: float, wanted: float, most: int, text: str, spent: int = 0) -> int | None:
    """Return micro-epsilon of the next answer; None when this one is exact enough. `spent`: on all so far, this one among them:
    together they cost no more than one query may. Raises Refusal beyond that."""
    if error <= wanted:
        return None
    needed, left = math.ceil(epsilon * error / wanted) if error < 1 else epsilon * STEP, most - spent
    if error >= 1 and left > epsilon:
        return min(needed, left)
    if needed > left:
        least = "more than" if error >= 1 else "about"
        raise Refusal(
            INVALID_PARAMETER_VALUE,
            f"accuracy {text} needs {least} epsilon {epsilon_text(needed if error < 1 else left)}; {_most(most, left)}",
            hint="Ask for a lower accuracy, or for fewer and larger groups.",
        )
    return needed


def _most(most: int, left: int) -> str:
    whole = f"a query may cost {epsilon_text(most)}"
    return whole if left == most else f"{whole}, and {epsilon_text(left)} is left of that"


Attempt = Callable[[int], Awaitable[tuple[Answer, float, T]]]
"""Takes micro-epsilon; returns the answer at that price, the largest typical error of its aggregates, what it was planned as."""


async def search(text: str, wanted: float, most: int, attempt: Attempt[T]) -> tuple[Answer, T]:
    """Return the first answer that is as exact as `wanted`, and what it was planned as.

    `text` is the setting as the client wrote it, `most` the micro-epsilon a query may cost. Raises Refusal, and what `attempt`
    raises.
    """
    epsilon, last, spent = first(most), False, ZERO
    while True:
        before = spent
        try:
            answer, error, made = await attempt(epsilon)
            spent = spent + answer.charged
            further = None if last else following(epsilon, error, wanted, most, text, spent.epsilon)
        except Refusal as refusal:
            raise told(refusal, spent) from None
        if further is None:
            said = f"; {amounts(before.epsilon, before.delta)} before, to find what accuracy {text} needs" if before else ""
            said += f"; accuracy {text} is of the noise alone: what bounds cut is not in it"
            return replace(answer, notice=answer.notice and answer.notice + said), made
        epsilon, last = further, error < 1


def told(refusal: Refusal, spent: Loss) -> Refusal:
    """Return the refusal with what was charged before it, in its message: many clients show no detail. What an accuracy needs is
    read off a first answer, which is charged and kept: at its price it is free from now on."""
    if not spent:
        return refusal
    said = f"{amounts(spent.epsilon, spent.delta)} was charged to find that out"
    return replace(refusal, message=f"{refusal.message}; {said}")
