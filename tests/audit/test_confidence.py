"""Bounds of probabilities and of epsilon against scipy, where it is there, and against what is known by hand."""

from __future__ import annotations

import math

import pytest

from dpproxy.audit.confidence import advantage_bound, beta, detectable, epsilon_bound, lower, upper


def test_the_beta_function() -> None:
    assert beta(0.3, 1, 1) == pytest.approx(0.3)
    assert beta(0.25, 2, 1) == pytest.approx(0.0625)
    stats = pytest.importorskip("scipy.stats")
    for x in (1e-6, 0.01, 0.3, 0.5, 0.99):
        for a, b in ((0.5, 3), (1, 1000), (400, 600), (5001, 5000)):
            assert beta(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), abs=1e-10)


@pytest.mark.parametrize(("events", "of"), [(0, 10), (1, 10), (10, 10), (480, 1000), (4, 20_000)])
def test_clopper_and_pearson(events: int, of: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    alpha = 0.001
    low = 0.0 if events == 0 else stats.beta.ppf(alpha, events, of - events + 1)
    high = 1.0 if events == of else stats.beta.ppf(1 - alpha, events + 1, of - events)
    assert lower(events, of, alpha) == pytest.approx(low, abs=1e-9)
    assert upper(events, of, alpha) == pytest.approx(high, abs=1e-9)


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
