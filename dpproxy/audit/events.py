"""Which event tells two neighbours apart best, looked for in one half of the answers, tested in the other.

Knows: answers as codes and numbers. Must not know: where they are from. An answer is a code (the error, the columns, which
rows are there: whatever is no number) and numbers by their place. Events are a code, a row that is there, a number above a
quantile, a number that is exactly some value, and a score that weighs all numbers (a linear classifier, after DP-Sniper:
Bichsel et al. 2021). Searching and testing in the same answers would find what is not there (Ding et al. 2018, StatDP, does
as here).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

# How sure a count of events makes us of its probability, and two counts of an epsilon. No dependency: the beta function by
# hand.
#
# Knows: numbers of events, arithmetic. Must not know: what the events are. Clopper & Pearson 1934: exact for every sample size,
# one side at a time, so that a bound is wrong with probability `alpha` at most. From a lower bound p of P(event on D) and an
# upper bound q of P(event on D'), (epsilon, delta)-differential privacy needs p <= e**epsilon q + delta, so epsilon is at least
# ln((p - delta) / q).


_ROUNDS = 200  # of a bisection: more than a double has bits
_TERMS = 500
_TINY = 1e-300


def lower(events: int, of: int, alpha: float) -> float:
    """Return a number that the event's probability is at least, but with probability `alpha`."""
    return 0.0 if events == 0 else _quantile(alpha, events, of - events + 1)


def upper(events: int, of: int, alpha: float) -> float:
    """Return a number that the event's probability is at most, but with probability `alpha`."""
    return 1.0 if events == of else _quantile(1 - alpha, events + 1, of - events)


def epsilon_bound(one: int, ones: int, other: int, others: int, delta: float, alpha: float) -> float:
    """Return what epsilon is at least when an event was seen `one` times of `ones` on one database, `other` of `others` on its
    neighbour; wrong with probability `alpha` at most. 0 where they tell nothing."""
    p, q = lower(one, ones, alpha / 2), upper(other, others, alpha / 2)
    return math.log((p - delta) / q) if p - delta > q > 0 else 0.0


def detectable(claimed: float, answers: int, delta: float, alpha: float) -> float:
    """Return the smallest epsilon that this many answers on either database would show to be above `claimed`, in the mean: for
    noise whose loss is reached at half of all answers, as Laplace's is. Infinite where no loss would be seen."""

    def seen(true: float) -> float:
        half, rare = round(answers / 2), round(answers * math.exp(-true) / 2)
        return epsilon_bound(half, answers, rare, answers, delta, alpha)

    low, high = claimed, 50.0
    if seen(high) <= claimed:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if seen(middle) > claimed else (middle, high)
    return high


def advantage_bound(epsilon: float, delta: float) -> float:
    """Return the most by which anybody can tell two neighbours apart from answers that cost (epsilon, delta) together: P(says
    "there" | there) - P(says "there" | not there) (Kairouz, Oh, Viswanath 2015, the trade-off of hypothesis tests at equal
    odds)."""
    return 1.0 if epsilon > 700 else (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)


def beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _far(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 / _far(1 + term * d), _far(1 + term / c)
            found *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return found


def _far(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _quantile(part: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = part."""
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if beta(middle, a, b) < part else (low, middle)
    return (low + high) / 2


QUANTILES, ATOMS = 21, 12
SMOOTH = 4.0
"""Added to counts in the search: a rare event of five answers is not the best one."""
MOST_PLACES = 60
"""Numbers of an answer that are looked at one by one."""


@dataclass(frozen=True)
class Outcome:
    """One answer: what is no number, and the numbers by their place."""

    code: Hashable
    numbers: Mapping[Hashable, float]


Test = Callable[[Outcome], bool]
T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """What is looked for in an answer, and how often it was there: `one` of `ones` on D, `other` of `others` on D'."""

    name: str
    one: int
    ones: int
    other: int
    others: int


@dataclass(frozen=True)
class Evidence:
    """What answers prove: epsilon is at least `epsilon`, by this event (None: nothing tells the two apart)."""

    epsilon: float
    event: Event | None


def halved(given: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """Return answers to look for something in, and others to try it on."""
    middle = len(given) // 2
    return given[:middle], given[middle:]


def evidence(one: Sequence[Outcome], other: Sequence[Outcome], delta: float, alpha: float) -> Evidence:
    """Return a lower bound of epsilon that is wrong with probability `alpha` at most."""
    (seen_one, test_one), (seen_other, test_other) = halved(one), halved(other)
    best: tuple[float, str, Test] | None = None
    for name, test in _events(seen_one, seen_other):
        p, q = (_part(given, test) for given in (seen_one, seen_other))
        promise = max(_promise(p, q, delta), _promise(q, p, delta), _promise(1 - p, 1 - q, delta), _promise(1 - q, 1 - p, delta))
        if best is None or promise > best[0]:
            best = promise, name, test
    if best is None or not test_one or not test_other:
        return Evidence(0.0, None)
    _, name, test = best
    a, b = (sum(map(test, given)) for given in (test_one, test_other))
    n, m = len(test_one), len(test_other)
    ways = [
        epsilon_bound(a, n, b, m, delta, alpha / 4),
        epsilon_bound(b, m, a, n, delta, alpha / 4),
        epsilon_bound(n - a, n, m - b, m, delta, alpha / 4),
        epsilon_bound(m - b, m, n - a, n, delta, alpha / 4),
    ]
    return Evidence(max(ways), Event(name, a, n, b, m))


def _part(given: Sequence[Outcome], test: Test) -> float:
    return (sum(map(test, given)) + SMOOTH / 2) / (len(given) + SMOOTH)


def _promise(p: float, q: float, delta: float) -> float:
    return math.log((p - delta) / q) * math.sqrt(min(p, 0.5)) if p - delta > q else 0.0


def _events(one: Sequence[Outcome], other: Sequence[Outcome]) -> Iterator[tuple[str, Test]]:
    both = [*one, *other]
    for code, _ in Counter(o.code for o in both).most_common(ATOMS):
        yield f"the answer is {str(code)[:80]}", _has_code(code)
    places = Counter(place for o in both for place in o.numbers)
    for place, times in places.most_common(MOST_PLACES):
        if times < len(both):
            yield f"there is {place}", _is_there(place)
        yield from _of_place(place, [o.numbers[place] for o in both if place in o.numbers])
    shared = [p for p, times in places.items() if times == len(both)][:MOST_PLACES]
    score = discriminant(shared, one, other) if len(shared) > 1 else None
    if score is not None:
        for edge in np.quantile([score(o) for o in both], np.linspace(0.02, 0.98, QUANTILES)).tolist():
            yield f"the score of all numbers is at least {edge:.4g}", _scored(score, edge)


def _of_place(place: Hashable, values: Sequence[float]) -> Iterator[tuple[str, Test]]:
    for edge in dict.fromkeys(np.quantile(values, np.linspace(0.02, 0.98, QUANTILES), method="nearest").tolist()):
        yield f"{place} is at least {edge:g}", _at_least(place, edge)
    for value, times in Counter(values).most_common(ATOMS):
        if times > 1:
            yield f"{place} is {value:g}", _equals(place, value)


def _has_code(code: Hashable) -> Test:
    return lambda o: o.code == code


def _is_there(place: Hashable) -> Test:
    return lambda o: place in o.numbers


def _at_least(place: Hashable, edge: float) -> Test:
    return lambda o: o.numbers.get(place, -math.inf) >= edge


def _equals(place: Hashable, value: float) -> Test:
    return lambda o: o.numbers.get(place) == value


def _scored(score: Callable[[Outcome], float], edge: float) -> Test:
    return lambda o: score(o) >= edge


def discriminant(
    places: Sequence[Hashable], one: Sequence[Outcome], other: Sequence[Outcome]
) -> Callable[[Outcome], float] | None:
    """Return Fisher's linear discriminant of the numbers that every answer has; None where it has too few answers for them."""
    if not places or min(len(one), len(other)) < 2 * len(places) + 2:
        return None
    first, second = (np.array([[o.numbers[p] for p in places] for o in given], dtype=np.float64) for given in (one, other))
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return None
    spread = np.atleast_2d(np.cov(first, rowvar=False) + np.cov(second, rowvar=False))
    spread += np.eye(len(places)) * (1e-9 + 1e-6 * np.trace(spread) / len(places))
    weights = np.linalg.solve(spread, first.mean(axis=0) - second.mean(axis=0))
    return lambda o: float(sum(w * o.numbers.get(p, 0.0) for w, p in zip(weights, places, strict=True)))
