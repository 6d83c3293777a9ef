"""Limits and losses of every kind, for tests of who may spend how much."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from dpproxy.amounts import MICRO
from dpproxy.privacy.accountant import BALANCED, ONLY_THRESHOLDS, Limit, Shares, admits, tuned
from dpproxy.privacy.loss import ZERO, Loss

TYPICAL = Limit(10 * MICRO, 10**12)  # (10, 1e-6)

shares = st.sampled_from(
    [
        BALANCED,
        ONLY_THRESHOLDS,
        Shares(12, 80),
        Shares(12, 2, 80, 9),
        Shares(60, 1, 34, 31),
        Shares(0, 0, 100, 3, 0),
        Shares(12, 30, conversions=50),
    ]
)
limits = st.builds(Limit, st.integers(1000, 400 * MICRO), st.integers(0, 10**14), st.just("never"), shares)
queries = st.one_of(
    st.integers(0, 3 * MICRO).map(Loss.pure),
    st.tuples(st.integers(0, MICRO), st.integers(0, 10**12)).map(lambda t: Loss(*t)),
    st.builds(Loss.laplace_vector, st.integers(1, 20), st.fractions(Fraction(0), Fraction(1), max_denominator=500)),
    st.builds(Loss.bounded_range, st.integers(1, MICRO), st.integers(1, 5)),
    st.just(Loss.gaussian(3, 2, Fraction(40), 10**6, 10**9)),
)


def times(loss: Loss, n: int) -> Loss:
    total = ZERO
    for _ in range(n):
        total = total + loss
    return total


def admitted(query: Loss, limit: Limit) -> int:
    """How many equal queries a filter admits, one after the other, in a window that begins with them."""
    limit = tuned(limit, query)
    spent, n = ZERO, 0
    while admits(spent, query, limit):
        spent, n = spent + query, n + 1
    return n
