"""How well somebody guesses which of two databases answered, from several answers, beside what their charges allow.

Knows: answers as outcomes, charges. Must not know: where answers are from. The guess is trained on one half of the answers
and tried on the other. Its advantage is P(says D | D) - P(says D | D'), and (epsilon, delta) together allow at most
(e**epsilon - 1 + 2 delta) / (e**epsilon + 1), whatever the guesser knows (Kairouz, Oh, Viswanath 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from dpproxy.audit.confidence import advantage_bound, lower
from dpproxy.audit.events import Outcome, discriminant, halved

ALPHA = 1e-3
"""That a success is told larger than it is."""
FEWEST = 8
"""Tries of a guess: fewer say nothing."""


@dataclass(frozen=True)
class Point:
    """Is one amount that was spent, the advantage that was seen, what is sure of it, and what is allowed."""

    epsilon: float
    advantage: float
    sure: float
    allowed: float
    tries: int


@dataclass(frozen=True)
class Attack:
    """Is one attack: what it tried, how it went for what it spent, and in a sentence. `counts`: whether it may refute the
    promise; what is known not to be promised, as time is not without `timing.quantum`, is told and does not."""

    name: str
    tried: str
    points: tuple[Point, ...]
    said: str = ""
    counts: bool = True

    @property
    def refuted(self) -> bool:
        return self.counts and any(p.sure > p.allowed for p in self.points)


def point(right: int, of: int, wrong: int, others: int, epsilon: float, delta: float) -> Point:
    """Return a point from how often "D" was said of D, and of D'."""
    sure = lower(right, of, ALPHA / 2) + lower(others - wrong, others, ALPHA / 2) - 1
    seen = right / max(of, 1) - wrong / max(others, 1)
    return Point(epsilon, seen, max(sure, 0.0), advantage_bound(epsilon, delta), min(of, others))


def averaged(
    one: Sequence[Outcome], other: Sequence[Outcome], epsilon: float, delta: float, times: Sequence[int]
) -> tuple[Point, ...]:
    """Guess by the mean over so many answers of a linear score of all numbers. `epsilon`, `delta`: of one answer."""
    (train_one, test_one), (train_other, test_other) = halved(one), halved(other)
    score = _score(train_one, train_other)
    if score is None:
        return ()
    scores = [np.array([score(o) for o in given]) for given in (train_one, train_other, test_one, test_other)]
    edge = (scores[0].mean() + scores[1].mean()) / 2
    found = []
    for k in times:
        means = [s[: len(s) // k * k].reshape(-1, k).mean(axis=1) for s in scores[2:]]
        if min(map(len, means)) >= FEWEST:
            right, wrong = (int((m >= edge).sum()) for m in means)
            found.append(point(right, len(means[0]), wrong, len(means[1]), k * epsilon, k * delta))
    return tuple(found)


def _score(one: Sequence[Outcome], other: Sequence[Outcome]) -> Callable[[Outcome], float] | None:
    both = [*one, *other]
    places = [p for p in (both[0].numbers if both else ()) if all(p in o.numbers for o in both)]
    return discriminant(places[: max(1, min(len(one), len(other)) // 8)], one, other)


def together(parts: Sequence[Sequence[Outcome]]) -> list[Outcome]:
    """Return answers to several statements as one: the first answers of each, the second ones, and so on."""
    found = []
    for answers in zip(*parts, strict=False):
        numbers: dict[Hashable, float] = {}
        for i, outcome in enumerate(answers):
            numbers |= {(i, place): value for place, value in outcome.numbers.items()}
        found.append(Outcome(tuple(o.code for o in answers), numbers))
    return found


def shown_keys(one: Sequence[Outcome], other: Sequence[Outcome], epsilon: float, delta: float) -> Point | None:
    """Guess by whether a row is there: the row that is there most unequally often in one half, tried on the other."""
    (a, b), (c, d) = (halved([{str(p) for p in o.numbers} for o in given]) for given in (one, other))
    rows = sorted(set().union(*a, *c))
    if not b or not d:
        return None
    if not rows:
        return point(0, len(b), 0, len(d), epsilon, delta)

    def part(given: Sequence[set[str]], row: str) -> float:
        return sum(row in shown for shown in given) / max(len(given), 1)

    best = max(rows, key=lambda row: abs(part(a, row) - part(c, row)))
    here, there = sum(best in shown for shown in b), sum(best in shown for shown in d)
    if part(a, best) < part(c, best):
        here, there = len(b) - here, len(d) - there
    return point(here, len(b), there, len(d), epsilon, delta)
