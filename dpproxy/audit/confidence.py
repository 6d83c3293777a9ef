"""How sure a count of events makes us of its probability, and two counts of an epsilon. No dependency: the beta function by hand.

Knows: numbers of events, arithmetic. Must not know: what the events are. Clopper & Pearson 1934: exact for every sample size, one
side at a time, so that a bound is wrong with probability `alpha` at most. From a lower bound p of P(event on D) and an upper
bound q of P(event on D'), (epsilon, delta)-differential privacy needs p <= e**epsilon q + delta, so epsilon is at least ln((p
- delta) / q).
"""

from __future__ import annotations

import math

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
