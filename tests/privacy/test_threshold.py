"""Thresholds: by enumeration of what a lone group does, by the textbook, and how low they may be."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from dpproxy.amounts import ATTO
from dpproxy.privacy.noise_scale import laplace_scale
from dpproxy.privacy.noise_tail import top_threshold, truncated_threshold, units_threshold
from tests.privacy.tails import gaussian_tail, laplace_tail


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1), Fraction(10), Fraction(123456, 1000)])
@pytest.mark.parametrize("l0", [1, 5])
@pytest.mark.parametrize("delta", [ATTO // 100, ATTO // 10**6, ATTO // 10**9])
def test_threshold_by_enumeration(scale: Fraction, l0: int, delta: int) -> None:
    """tau holds the delta of a lone group, and tau - 1 would not: for both mechanisms, with min_units as a shift."""
    wanted = delta / ATTO / l0
    for mechanism, tail in (("laplace", laplace_tail), ("gaussian", gaussian_tail)):
        tau = units_threshold(scale, l0, delta, 10, mechanism)
        assert tail(float(scale), tau - 10) <= wanted * (1 + 1e-9)
        slack = 1.01 if mechanism == "gaussian" else 1 + 1e-9  # large sigma: the bound is within 1 % of the tail
        assert tau == 11 or tail(float(scale), tau - 11) * slack > wanted
        assert units_threshold(scale, l0, delta, 1, mechanism) == tau - 9


def test_threshold_by_the_textbook() -> None:
    """1 + ln(l0 / (2 delta)) * l0 / epsilon for continuous noise (Wilson et al. 2020), to the step of the grid."""
    for l0, epsilon, delta in [(1, 0.1, 1e-6), (10, 1.0, 1e-9), (100, 0.5, 1e-12)]:
        tau = units_threshold(laplace_scale(l0, 1, round(epsilon * 10**6)), l0, round(delta * ATTO), 1)
        assert abs(tau - (1 + l0 / epsilon * math.log(l0 / (2 * delta)))) <= 1.5


def test_threshold_of_certainty_is_still_a_threshold() -> None:
    assert units_threshold(Fraction(10), 1, ATTO, 5) > 5
    for amounts in [(0, 1, 1), (1, 0, 1), (1, 1, 0)]:
        with pytest.raises(ValueError, match="positive"):
            units_threshold(Fraction(1), *amounts)


def truncated_law(n: int, scale: float, reach: int) -> dict[int | None, float]:
    """What a group of n units shows: its noisy units when above `reach`, else nothing (None). By definition."""
    if n == 0:
        return {None: 1.0}
    weights = {x: math.exp(-abs(x) / scale) for x in range(-reach, reach + 1)}
    total, law = math.fsum(weights.values()), {None: 0.0}
    for x, w in weights.items():
        shown = n + x if n + x > reach else None
        law[shown] = law.get(shown, 0.0) + w / total
    return law


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(10), Fraction(321, 10)])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_truncated_threshold_by_enumeration(scale: Fraction, delta: float) -> None:
    """(1/scale, delta)-DP for every n and n + 1, both ways, over all sets of outcomes; and not with reach - 1."""
    tau, reach = truncated_threshold(scale, 1, round(delta * ATTO), 1)
    assert tau == 1 + reach

    def worst(reach: int) -> float:
        e = math.exp(1 / float(scale)) * (1 + 1e-12)
        laws = [truncated_law(n, float(scale), reach) for n in range(2 * reach + 4)]
        return max(
            math.fsum(max(0.0, p - e * other.get(shown, 0.0)) for shown, p in one.items())
            for low, high in itertools.pairwise(laws)
            for one, other in ((low, high), (high, low))
        )

    assert worst(reach) <= delta * (1 + 1e-6)
    assert reach == 1 or worst(reach - 1) > delta


def test_truncated_threshold_is_the_lowest() -> None:
    """Against the best possible probability of release, pi(n + 1) = min(e**eps pi(n) + delta, 1 - e**-eps (1 - pi(n) -
    delta), 1) (Desfontaines et al. 2022, theorem 1): half is reached at the same n but for rounding."""
    for scale, delta in [(10, 1e-6), (100, 1e-6), (1, 1e-8)]:
        epsilon, pi, n = 1 / scale, 0.0, 0
        while pi < 0.5:
            pi, n = min(math.exp(epsilon) * pi + delta, 1 - math.exp(-epsilon) * (1 - pi - delta), 1), n + 1
        tau, _ = truncated_threshold(Fraction(scale), 1, round(delta * ATTO), 1)
        assert n <= tau <= n + 1
        assert tau <= units_threshold(Fraction(scale), 1, round(delta * ATTO), 1)
    assert truncated_threshold(Fraction(10), 1, ATTO // 10**6, 1)[0] == 110
    assert truncated_threshold(Fraction(100), 1, ATTO // 10**6, 1)[0] == 853
    assert units_threshold(Fraction(100), 1, ATTO // 10**6, 1) == 1314


def test_truncated_threshold_of_many_groups_and_least_units() -> None:
    assert truncated_threshold(Fraction(10), 5, ATTO // 10**6, 1) == truncated_threshold(Fraction(10), 1, ATTO // 10**6 // 5, 1)
    tau, reach = truncated_threshold(Fraction(10), 5, ATTO // 10**6, 20)
    assert tau == 20 + reach
    with pytest.raises(ValueError, match="positive"):
        truncated_threshold(Fraction(1), 0, 1, 1)


def test_top_threshold_by_the_union_bound() -> None:
    """A lone group of the highest score it can have, of l0 such, in k choices: delta holds it, one less would not."""
    for k, l0, per_unit, epsilon, delta, least in [(1, 1, 1, 10**6, 10**12, 1), (5, 3, 2, 50_000, 10**9, 10), (3, 1, 7, 1, 1, 2)]:
        tau = top_threshold(k, l0, per_unit, epsilon, delta, least)
        eta = epsilon / 10**6 / per_unit

        def chance(at: int, eta: float = eta, k: int = k, l0: int = l0, s: int = least * per_unit) -> float:
            return k * l0 * math.exp(-eta * (at - s))

        assert chance(tau) <= delta / ATTO * (1 + 1e-9)
        assert chance(tau - 1) > delta / ATTO * (1 - 1e-9)
    with pytest.raises(ValueError, match="positive"):
        top_threshold(0, 1, 1, 1, 1, 1)
