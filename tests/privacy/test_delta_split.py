"""How delta is divided: the same delta, by what the first statement costs, and by counting what may run."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.policy.model import ATTO
from dpproxy.privacy.accountant import (
    BALANCED,
    ONLY_THRESHOLDS,
    Limit,
    Shares,
    admits,
    filter_of,
)
from dpproxy.privacy.delta_split import tuned
from dpproxy.privacy.loss import (
    MICRO,
    ZERO,
    Loss,
)

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


@given(queries.filter(bool), st.integers(0, 10**14))
@settings(max_examples=60, deadline=None)
def test_tuning_divides_the_same_delta(first: Loss, delta: int) -> None:
    limit = Limit(10 * MICRO, delta)
    mine = tuned(limit, first)
    assert (mine.epsilon, mine.delta, mine.window) == (limit.epsilon, limit.delta, limit.window)
    f = filter_of(mine)
    assert (f.failures + f.conversions) / ATTO + f.delta_gaussian + sum(f.deltas) <= delta / ATTO * (1 + 1e-12)


def test_tuning_gives_thresholds_what_they_need() -> None:
    """Undeclared groups at a thousandth of delta each: what is left beside epsilon decides, not a fixed quarter."""
    query = Loss.pure(MICRO // 10) + Loss.delta_only(TYPICAL.delta // 1000)
    assert admitted(query, TYPICAL) > 300


@pytest.mark.parametrize("epsilon", [Fraction(1, 20), Fraction(1, 5)])
def test_tuning_chooses_the_certificate_that_serves(epsilon: Fraction) -> None:
    small = tuned(TYPICAL, Loss.pure(int(epsilon * MICRO))).shares
    assert (small.gaussian > small.lead) == (epsilon < Fraction(1, 10))
