"""Scales, conversions, thresholds and intervals against formulas computed another way (floats, sums over the pmf)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp import rdp_privacy_accountant
from scipy import stats

from dpproxy.amounts import ATTO
from dpproxy.errors import Refusal
from dpproxy.privacy.loss import STEPPED
from dpproxy.privacy.noise_scale import (
    MAX_SCALE,
    MIN_SCALE,
    gaussian_covered,
    gaussian_sigma,
    gaussian_sigmas,
    laplace_scale,
    normal_rho_for,
    rho_for,
)


def test_laplace_scale() -> None:
    assert laplace_scale(1, 1, 100_000) == 10
    assert laplace_scale(5, 3, 300_000) == 50
    for l0, linf, epsilon in [(1, 1, 300_000), (7, 12345, 999_999), (1000, 10**9, 999), (1, 1, 10**15)]:
        scale, exact = laplace_scale(l0, linf, epsilon), Fraction(l0 * linf * 10**6, epsilon)
        assert exact <= scale <= exact * (1 + Fraction(1, 2**39))
        assert Fraction(float(scale)) == scale  # a double holds it


def test_scales_have_ends() -> None:
    assert laplace_scale(1, 0, 100_000) == MIN_SCALE == gaussian_sigma(1, 0, Fraction(1))
    assert laplace_scale(1, 1, 10**20) == MIN_SCALE
    assert laplace_scale(1, MAX_SCALE, 10**6) == MAX_SCALE
    for too_much in (lambda: laplace_scale(1, MAX_SCALE, 10**5), lambda: gaussian_sigma(2, 2**62, Fraction(1))):
        with pytest.raises(Refusal):
            too_much()


@pytest.mark.parametrize("amounts", [(0, 1, 1), (1, -1, 1), (1, 1, 0), (1, 1, -5)])
def test_amounts_are_positive(amounts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="positive"):
        laplace_scale(*amounts)
    with pytest.raises(ValueError, match="positive"):
        gaussian_sigma(amounts[0], amounts[1], Fraction(amounts[2]))


def test_gaussian_sigma() -> None:
    for l0, linf, rho in [(1, 1, Fraction(1, 2)), (7, 3, Fraction(1, 100)), (10**6, 10**6, Fraction(3, 7))]:
        sigma = gaussian_sigma(l0, linf, rho)
        assert Fraction(l0 * linf * linf) / (2 * sigma * sigma) <= rho
        assert float(sigma) == pytest.approx(linf * math.sqrt(l0 / (2 * rho)), rel=1e-11)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-15])
def test_rho_is_within_and_near_the_best(epsilon: float, delta: float) -> None:
    """By dp-accounting's RDP accountant (another implementation of the same conversion, in floats)."""
    rho = rho_for(round(epsilon * 10**6), round(delta * ATTO))
    orders = [1 + 10 ** (k / 40) for k in range(-120, 240)]

    def spent(rho: float) -> float:
        accountant = rdp_privacy_accountant.RdpAccountant(orders)
        accountant.compose(dp_event.GaussianDpEvent(1 / math.sqrt(2 * rho)))
        return accountant.get_epsilon(delta)

    assert spent(float(rho)) == pytest.approx(epsilon, rel=2e-3)
    assert float(rho) > (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2
    # nor more than exact Gaussian noise could have (Balle & Wang 2018)
    mu = math.sqrt(2 * float(rho))
    exact = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    assert exact <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1), (-1, 1), (1, 0), (1, ATTO)])
def test_rho_needs_both(epsilon: int, delta: int) -> None:
    for rho in (rho_for, normal_rho_for):
        with pytest.raises(ValueError, match="between"):
            rho(epsilon, delta)


@pytest.mark.parametrize("epsilon", [0.001, 0.01, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-15])
def test_normal_rho_is_that_of_continuous_noise(epsilon: float, delta: float) -> None:
    """By dp-accounting's exact curve of Gaussian noise (another implementation, in floats)."""
    rho = float(normal_rho_for(round(epsilon * 10**6), round(delta * ATTO)))
    assert rho > float(rho_for(round(epsilon * 10**6), round(delta * ATTO)))

    def spent(rho: float) -> float:
        return GaussianPrivacyLoss(1 / math.sqrt(2 * rho)).get_delta_for_epsilon(epsilon)

    assert spent(rho) <= delta * (1 + 1e-6)
    assert spent(rho * 1.001) > delta


def test_normal_rho_of_what_is_no_privacy_is_not_sought() -> None:
    assert normal_rho_for(10**12, 10**12) == 0
    assert gaussian_sigmas([(1, 1)], [1], 10**12, 10**12) == [gaussian_sigma(1, 1, rho_for(10**12, 10**12))]


def discrete_delta(shifts: tuple[int, ...], sigma: float, epsilon: float) -> float:
    """Of discrete Gaussian noise on as many coordinates, moved so: by adding up (P - e**epsilon Q)_+ over all outcomes."""
    reach = math.ceil(12 * sigma)
    points = np.arange(-reach, reach + 1)
    log = -(points.astype(float) ** 2) / (2 * sigma * sigma)
    log -= math.log(np.exp(log).sum())
    p, loss = np.ones(1), np.zeros(1)
    for shift in shifts:
        moved = -((points - shift).astype(float) ** 2 - points.astype(float) ** 2) / (2 * sigma * sigma)  # ln Q / P
        p, loss = np.multiply.outer(p, np.exp(log)).ravel(), np.add.outer(loss, -moved).ravel()
    return float((p * np.maximum(-np.expm1(epsilon - loss), 0)).sum())


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("shifts", [(1,), (2,), (7,), (40,), (1, 1), (3, 2), (1, 7), (1, 1, 1)])
def test_sigma_of_whole_numbers_by_enumeration(epsilon: float, delta: float, shifts: tuple[int, ...]) -> None:
    """Every outcome of the discrete noise that is drawn: its delta is within what is charged, and near it where its steps are
    fine. Shifts of the same length cost alike, whatever their coordinates."""
    square = sum(s * s for s in shifts)
    (sigma,) = gaussian_sigmas([(square, 1)], [1], round(epsilon * 10**6), round(delta * ATTO))
    if len(shifts) == 3 and sigma > 12:
        pytest.skip("too many outcomes")
    assert discrete_delta(shifts, float(sigma), epsilon) <= delta
    if square >= 1600:
        assert discrete_delta(shifts, float(sigma) * 0.99, epsilon) > delta


def test_normal_noise_made_whole_is_discrete_gaussian_noise() -> None:
    """The reason why the discrete noise may be that of the continuous curve, by integration: N(0, s), then whole numbers k with
    probability in proportion to exp(-(k - y)**2 / (2 r)) about it, has the law of variance s + r."""
    r, s = float(STEPPED), 7.5
    k = np.arange(-60, 61)
    y = np.arange(-60, 60, 1 / 64) + 1 / 128
    weights = np.exp(-((k[:, None] - y[None, :]) ** 2) / (2 * r))
    density = np.exp(-(y**2) / (2 * s)) / math.sqrt(2 * math.pi * s) / 64
    law = (weights / weights.sum(axis=0) * density).sum(axis=1)
    wanted = np.exp(-(k.astype(float) ** 2) / (2 * (s + r)))
    assert np.abs(law / (wanted / wanted.sum()) - 1)[20:-20].max() < 1e-9
    assert weights.sum(axis=0)[960:-960] == pytest.approx(math.sqrt(2 * math.pi * r), rel=1e-12)


def test_what_is_covered_is_what_was_made() -> None:
    """Also of several columns, whose losses add up; a hair less noise is not."""
    for epsilon, delta in [(10**6, 10**12), (10**4, 10**9), (10**5, 10**14)]:
        for moved in ([(1, 1)], [(3, 7), (1, 10**6)], [(1, 1), (20, 1), (5, 12345)]):
            sigmas = gaussian_sigmas(moved, list(range(1, len(moved) + 1)), epsilon, delta)
            assert gaussian_covered(moved, sigmas, epsilon, delta)
            less = [s * Fraction(10**6 - 1, 10**6) for s in sigmas]
            assert not gaussian_covered(moved, less, epsilon, delta)
            assert not gaussian_covered([(l0 + 1, linf) for l0, linf in moved], sigmas, epsilon, delta)
            assert not gaussian_covered(moved, sigmas, epsilon - epsilon // 1000, delta)
            assert not gaussian_covered(moved, sigmas, epsilon, delta - delta // 100)


def test_noise_of_a_few_steps_is_by_zcdp() -> None:
    """Where sigma is below two whole numbers, making it whole would cost more than the exact curve gains."""
    epsilon, delta = 10**7, 10**12
    assert gaussian_sigmas([(1, 1)], [1], epsilon, delta) == [gaussian_sigma(1, 1, rho_for(epsilon, delta))]
    (fine,) = gaussian_sigmas([(1, 1000)], [1], epsilon, delta)
    assert fine < gaussian_sigma(1, 1000, rho_for(epsilon, delta))
    for few in (Fraction(1, 10), Fraction(1), Fraction(3, 2)):
        assert not gaussian_covered([(1, 1)], [few], 10**6, delta)
