"""Every reading of a loss is an upper bound, and a tight one: against brute force, exact arithmetic, dp-accounting."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.special import log_ndtr

from dpproxy.amounts import MICRO
from dpproxy.privacy.loss import (
    NANO,
    ORDERS,
    PICO,
    RESERVES,
    UNREACHABLE,
    ZERO,
    Loss,
    discrete_laplace_rdp,
    gaussian_cost,
    hockey_stick,
    pure_rdp,
)

mp.dps = 40
EPSILONS = [1, 50, 1_000, 20_000, 100_000, 700_000, 1_000_000, 5_000_000, 40_000_000]


def brute_laplace_rdp(alpha: float, ratio: float, shift: int) -> float:
    """By summing 40-digit probabilities over the integers."""
    q, a = mp.e ** (-mpf(ratio) / shift), mpf(alpha)
    far = int(60 * shift / ratio) + 3 * shift
    inside = mp.fsum(q ** (a * abs(k) + (1 - a) * abs(k - shift)) for k in range(-far, far))
    return float(mp.log(inside * (1 - q) / (1 + q)) / (a - 1))


@pytest.mark.parametrize("ratio", [0.1, 0.5, 3.0])
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_discrete_laplace_rdp_is_exact(ratio: float, shift: int) -> None:
    for alpha in (1.25, 2.0, 8.0, 64.0):
        assert discrete_laplace_rdp(alpha, ratio, shift) == pytest.approx(brute_laplace_rdp(alpha, ratio, shift), rel=1e-10)


def test_laplace_rdp_of_continuous_noise_does_not_cover_discrete_noise() -> None:
    """Why the formula of Mironov 2017, proposition 6 is not used, and that fine grids come down to it."""
    for alpha in (1.5, 4.0, 32.0):
        r = 0.3
        continuous = math.log(
            alpha / (2 * alpha - 1) * math.exp((alpha - 1) * r) + (alpha - 1) / (2 * alpha - 1) * math.exp(-alpha * r)
        ) / (alpha - 1)
        assert discrete_laplace_rdp(alpha, r, 1) > continuous * 1.01
        assert discrete_laplace_rdp(alpha, r, 10**7) == pytest.approx(continuous, rel=1e-6)


@pytest.mark.parametrize("shift", [2, 9])
def test_smaller_shifts_cost_no_more(shift: int) -> None:
    scale = 10.0
    for alpha in ORDERS:
        costs = [discrete_laplace_rdp(alpha, t / scale, t) for t in range(1, shift + 1)]
        assert costs == sorted(costs)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_rdp_bounds_randomised_response_within_rounding(epsilon: int) -> None:
    e = mpf(epsilon) / MICRO
    p = 1 / (1 + mp.e**-e)
    for alpha, rdp in zip(ORDERS, pure_rdp(epsilon), strict=True):
        a = mpf(alpha)
        exact = mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1) * NANO
        assert exact <= rdp <= min(exact * (1 + mpf(10) ** -11) + 1.01, epsilon * 1000)


@pytest.mark.parametrize("sigma", [3.0, 25.0])
def test_gaussian_rdp_agrees_with_dp_accounting(sigma: float) -> None:
    accountant = rdp_privacy_accountant.RdpAccountant(list(ORDERS))
    accountant.compose(dp_event.GaussianDpEvent(sigma))
    for mine, theirs in zip(Loss.gaussian(1, 1, Fraction(sigma), 10**6, 10**9).rdp, accountant._rdp, strict=True):
        assert theirs * NANO <= mine + 1e-3 <= theirs * NANO + 1.1


def test_laplace_rdp_on_a_fine_grid_agrees_with_dp_accounting() -> None:
    accountant = rdp_privacy_accountant.RdpAccountant(list(ORDERS))
    accountant.compose(dp_event.LaplaceDpEvent(10.0))
    for mine, theirs in zip(Loss.laplace_vector(1, Fraction(1, 10), 10**8).rdp, accountant._rdp, strict=True):
        assert theirs * NANO * (1 - 1e-6) <= mine <= theirs * NANO * (1 + 1e-6) + 1.1


def test_bounded_range_bounds_its_worst_pairs() -> None:
    """The exponential mechanism's worst cases are two-point: losses t and t - epsilon (Dong, Durfee, Rogers 2020)."""
    for epsilon in (0.05, 0.5, 2.0):
        rdp = Loss.bounded_range(int(epsilon * MICRO)).rdp
        for t in np.linspace(0.01, 0.99, 41) * epsilon:
            q = -math.expm1(t - epsilon) / (-math.expm1(-epsilon))
            p = q * math.exp(-t)  # P(loss = t - epsilon reversed): p e^t + (1 - p) e^(t - epsilon) = 1
            a, b = p * math.exp(t), (1 - p) * math.exp(t - epsilon)
            assert a + b == pytest.approx(1)
            for alpha, bound in zip(ORDERS, rdp, strict=True):
                if alpha > 64:
                    continue
                exact = math.log(a**alpha * p ** (1 - alpha) + b**alpha * (1 - p) ** (1 - alpha)) / (alpha - 1)
                assert exact * NANO <= bound + 1e-3


def log_hockey_stick(x: np.ndarray, v: float) -> np.ndarray:
    s = math.sqrt(v)
    a, b = log_ndtr((v / 2 - x) / s), x + log_ndtr((-v / 2 - x) / s)
    with np.errstate(divide="ignore", invalid="ignore"):
        return a + np.log1p(-np.exp(np.minimum(b - a, 0)))


@pytest.mark.parametrize("reserve", RESERVES[::3])
@pytest.mark.parametrize("part", [0.03, 0.3, 1.0, 3.0])
def test_gaussian_cost_dominates_at_every_epsilon_and_no_less_would(reserve: int, part: float) -> None:
    """RR o G(r) <= G(r + v) over the whole line; with 1 % less v it fails: the lemma of the module, by numbers."""
    r = reserve / PICO
    epsilon = Fraction(max(50, int(part * math.sqrt(r) * MICRO)), MICRO)
    v, e = gaussian_cost(epsilon, reserve) / PICO, float(epsilon)
    x = np.linspace(0, 8 * math.sqrt(r) + 3 * e, 20_001)
    p = 1 / (1 + math.exp(-e))
    merged = np.logaddexp(math.log(p) + log_hockey_stick(x - e, r), math.log1p(-p) + log_hockey_stick(x + e, r))
    floats = 1e-11  # of the difference of two logarithms near -1e1
    assert np.nanmin(log_hockey_stick(x, r + v) - merged) >= -floats
    if part >= 0.3:
        assert np.nanmin(log_hockey_stick(x, r + 0.99 * v) - merged) < -floats


@pytest.mark.parametrize("reserve", RESERVES)
def test_gaussian_cost_is_rounded_up_from_the_exact_one(reserve: int) -> None:
    r = mpf(reserve) / PICO

    def stick(x: mpf) -> mpf:
        return mp.ncdf(mp.sqrt(r) / 2 - x / mp.sqrt(r)) - mp.e**x * mp.ncdf(-mp.sqrt(r) / 2 - x / mp.sqrt(r))

    for epsilon in (1, 300, 40_000, 900_000):
        e = mpf(epsilon) / MICRO
        p = 1 / (1 + mp.e**-e)
        total = p * stick(-e) + (1 - p) * stick(e)
        exact = (8 * mp.erfinv(total) ** 2 - r) * PICO
        assert exact <= gaussian_cost(Fraction(epsilon, MICRO), reserve) <= exact * (1 + mpf(10) ** -9) + 3


def test_discrete_gaussian_beside_a_reserve_is_dominated() -> None:
    sigma, shift, reserve = 4.0, 3, RESERVES.index(300_000_000_000)
    loss = Loss.gaussian(1, shift, Fraction(4), 10**7, 10**9)
    r, v = RESERVES[reserve] / PICO, loss.gdp[reserve] / PICO
    assert v == pytest.approx(shift**2 / sigma**2)
    k = np.arange(-80, 84)
    weight = np.exp(-(k**2) / (2 * sigma**2))
    losses = (shift**2 - 2 * k * shift) / (2 * sigma**2)
    for x in np.linspace(0, 6, 61):
        merged = float(np.dot(weight / weight.sum(), [hockey_stick(x - y, r) for y in losses]))
        assert merged <= hockey_stick(x, r + v) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(("sigma", "shift"), [(Fraction(7, 4), 1), (Fraction(2), 1), (Fraction(3), 4), (Fraction(5), 1)])
def test_a_coarse_discrete_gaussian_is_dominated_at_every_reserve(sigma: Fraction, shift: int) -> None:
    """By continuous noise of sigma**2 - 5/2, without any reserve: both directions, all x."""
    loss = Loss.gaussian(1, shift, sigma, 10**7, 10**9)
    v = shift * shift / (float(sigma) ** 2 - 2.5)
    assert max(loss.gdp) <= math.ceil(v * PICO * (1 + 1e-12)) < UNREACHABLE
    k = np.arange(-200, 201 + shift)
    p, q = (np.exp(-((k - s) ** 2) / (2 * float(sigma) ** 2)) for s in (0, shift))
    p, q = p / p.sum(), q / q.sum()
    for x in np.linspace(-4, 8, 241):
        bound = hockey_stick(float(x), max(loss.gdp) / PICO) * (1 + 1e-9) + 1e-15
        assert max(np.maximum(a - math.exp(x) * b, 0).sum() for a, b in ((p, q), (q, p))) <= bound


def test_noise_coarser_than_that_is_left_to_the_other_readings() -> None:
    assert Loss.gaussian(1, 1, Fraction(1), 10**7, 10**9).gdp == (UNREACHABLE,) * len(RESERVES)
    assert Loss.gaussian(1, 1, Fraction(158, 100), 10**7, 10**9).gdp[0] == UNREACHABLE


losses = st.builds(
    Loss.laplace_vector,
    st.integers(1, 50),
    st.fractions(Fraction(0), Fraction(2), max_denominator=1000),
    st.integers(1, 10**6),
)


@given(losses, losses)
@settings(max_examples=50, deadline=None)
def test_composition_adds_every_reading(a: Loss, b: Loss) -> None:
    both = a + b
    assert both == b + a
    assert both.epsilon == a.epsilon + b.epsilon
    assert both.rdp == tuple(x + y for x, y in zip(a.rdp, b.rdp, strict=True))
    assert both.gdp == tuple(x + y for x, y in zip(a.gdp, b.gdp, strict=True))
    assert a + ZERO == a
    assert Loss.from_json(json.loads(json.dumps(both.to_json()))) == both


@pytest.mark.parametrize("scale", [0.4, 3.0, 60.0])
def test_a_shift_costs_no_less_in_proportion_when_it_is_larger(scale: float) -> None:
    """So a vector of few rows in many groups costs no more than one of as many rows in few groups (`specs.Bounding.norm`)."""
    for alpha in ORDERS:
        each = [discrete_laplace_rdp(alpha, t / scale, t) / t for t in range(1, 60)]
        assert all(b >= a * (1 - 1e-9) for a, b in pairwise(each))


@pytest.mark.parametrize("reserve", RESERVES)
def test_a_larger_epsilon_costs_no_less_variance_in_proportion(reserve: int) -> None:
    ratios = [Fraction(f).limit_denominator(10**9) for f in np.geomspace(1e-3, 20, 120)]
    each = [gaussian_cost(r, reserve) / r for r in ratios]
    rounding = [1 / r for r in ratios]  # a pico-nat^2, in proportion
    assert all(b >= a * Fraction(10**9 - 1, 10**9) - e for (a, b), e in zip(pairwise(each), rounding, strict=False))


@given(st.lists(st.integers(1, 7), min_size=1, max_size=30), st.integers(1, 60))
@settings(max_examples=50, deadline=None)
def test_few_rows_in_many_groups(rows: list[int], scale: int) -> None:
    """Any vector of at most 7 a group and 7 n in all costs at most n groups of 7 (rounding of each coordinate aside)."""
    whole = Loss.laplace_vector(-(-sum(rows) // 7), Fraction(7, scale), 7)
    parts = sum((Loss.laplace_vector(1, Fraction(r, scale), r) for r in rows), ZERO)
    assert all(a <= b + len(rows) for a, b in zip(parts.rdp, whole.rdp, strict=True))
    assert all(a <= b * (1 + 1e-9) + len(rows) for a, b in zip(parts.gdp, whole.gdp, strict=True))


@given(st.integers(1, 40), st.integers(1, 200), st.integers(1, 10**4))
@settings(max_examples=50, deadline=None)
def test_a_vector_costs_at_most_what_its_whole_epsilon_would(l0: int, linf: int, scale: int) -> None:
    vector = Loss.laplace_vector(l0, Fraction(linf, scale), linf)
    whole = Loss.pure(vector.epsilon)
    assert vector.epsilon == math.ceil(Fraction(l0 * linf * MICRO, scale))
    rounding = l0  # each coordinate is rounded up by itself
    assert all(a <= b + rounding for a, b in zip(vector.rdp, whole.rdp, strict=True))


def test_what_is_not_given_is_the_worst_case() -> None:
    assert Loss(100_000, 5) == Loss.pure(100_000) + Loss.delta_only(5)
    assert Loss.laplace(100_000) == Loss.laplace_vector(1, Fraction(1, 10))
    assert not ZERO
    assert Loss.delta_only(1)


@pytest.mark.parametrize("bad", [(-1,), (0, -1), (0, 0, (1,)), (0, 0, (), (1,)), (0, 1, (), (), 2)])
def test_losses_that_are_none(bad: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="loss"):
        Loss(*bad)  # type: ignore[arg-type]
