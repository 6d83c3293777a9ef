"""Bounds of probabilities and of epsilon, held against sums of binomial terms and what is known by hand."""

from __future__ import annotations

import math

import pytest

from dpproxy.audit.events import advantage_bound, beta, detectable, epsilon_bound, lower, upper


def _at_least(events: int, of: int, p: float) -> float:
    """P(a binomial variable is at least `events`), summed term by term."""
    return math.fsum(math.comb(of, k) * p**k * (1 - p) ** (of - k) for k in range(events, of + 1))


def test_the_beta_function() -> None:
    assert beta(0.3, 1, 1) == pytest.approx(0.3)
    assert beta(0.25, 0.5, 0.5) == pytest.approx(2 / math.pi * math.asin(0.5)), "the law of arcsines"
    for x in (0.01, 0.3, 0.5, 0.99):
        for events, of in ((1, 3), (2, 40), (30, 60), (200, 400)):
            assert beta(x, events, of - events + 1) == pytest.approx(_at_least(events, of, x), abs=1e-10)


@pytest.mark.parametrize(("events", "of"), [(0, 10), (1, 10), (10, 10), (180, 400)])
def test_clopper_and_pearson(events: int, of: int) -> None:
    """At the bound, what was seen is as unlikely as alpha says."""
    alpha = 0.001
    low, high = lower(events, of, alpha), upper(events, of, alpha)
    assert low == 0 if events == 0 else _at_least(events, of, low) == pytest.approx(alpha, rel=1e-6)
    assert high == 1 if events == of else 1 - _at_least(events + 1, of, high) == pytest.approx(alpha, rel=1e-6)


def test_an_epsilon_from_two_counts() -> None:
    assert epsilon_bound(0, 100, 0, 100, 0.0, 0.01) == 0
    assert epsilon_bound(500, 1000, 500, 1000, 0.0, 0.01) == 0
    assert 1.5 < epsilon_bound(50_000, 100_000, 6_767, 100_000, 0.0, 0.001) < 2, "e**-2 / 2 of them"
    assert epsilon_bound(60, 1000, 0, 1000, 0.2, 0.01) == 0, "delta explains it"


def test_what_would_have_been_seen() -> None:
    few, many = (detectable(1.0, n, 0.0, 1e-3) for n in (500, 50_000))
    assert 1.0 < many < 1.1 < few < 2
    assert math.isinf(detectable(5.0, 20, 0.0, 1e-3))


def test_the_advantage_that_an_epsilon_allows() -> None:
    assert advantage_bound(0, 0) == 0
    assert advantage_bound(0, 0.1) == pytest.approx(0.1)
    assert advantage_bound(1, 0) == pytest.approx((math.e - 1) / (math.e + 1))
    assert advantage_bound(1e6, 0) == 1
