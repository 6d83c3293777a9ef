"""How delta is divided: the same delta, by what the first statement costs, and by counting what may run."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.amounts import ATTO, MICRO
from dpproxy.privacy.accountant import Limit, filter_of, tuned
from dpproxy.privacy.loss import Loss
from tests.privacy.spending import TYPICAL, admitted, queries


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
