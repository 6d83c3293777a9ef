"""Sources of noise: saturation, scales, and what they say of their own loss."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpproxy.mechanisms.noise import LIMIT, MechanismError, Noise, exact_loss
from dpproxy.mechanisms.noise_sources import DefaultNoise, OpenDPNoise, OwnNoise, system_entropy
from dpproxy.privacy.noise_scale import MAX_SCALE, MIN_SCALE

SOURCES: list[Noise] = [OpenDPNoise(), OwnNoise(system_entropy), DefaultNoise()]
EXTREMES = np.array([2**63 - 1, -(2**63), 2**62, -(2**62), 2**31, 0], dtype=np.int64)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("repeat", [1, 400])  # the latter is enough cells for our sampler
def test_extremes_saturate_and_never_raise(source: Noise, mechanism: str, repeat: int) -> None:
    values = np.tile(EXTREMES, repeat)
    noisy = getattr(source, mechanism)(Fraction(10), values)
    assert noisy.dtype == np.int64
    assert np.abs(noisy - np.clip(values, -LIMIT, LIMIT)).max() < 1000


@pytest.mark.parametrize("source", SOURCES)
def test_values_of_their_own_are_left_alone(source: Noise) -> None:
    values = EXTREMES.copy()
    source.laplace(Fraction(10), values)
    assert (values == EXTREMES).all()
    assert source.laplace(Fraction(10), np.zeros(0, dtype=np.int64)).size == 0


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-3), MIN_SCALE / 2, MAX_SCALE * Fraction(2)])
def test_no_scale_means_no_answer(source: Noise, scale: Fraction) -> None:
    for draw in (source.laplace, source.gaussian):
        with pytest.raises(MechanismError):
            draw(scale, np.zeros(3, dtype=np.int64))


@pytest.mark.parametrize("scale", [MIN_SCALE, Fraction(1, 3), Fraction(10), Fraction(2**50 + 1, 7), Fraction(MAX_SCALE)])
def test_the_library_states_the_same_loss(scale: Fraction) -> None:
    for l0, linf in [(1, 1), (5, 3), (1000, 10**9), (1, 2**62)]:
        for mechanism in ("laplace", "gaussian"):
            stated = OpenDPNoise().loss(mechanism, scale, l0, linf)
            formula = exact_loss(mechanism, scale, l0, linf)
            assert formula * (1 - Fraction(1, 2**45)) <= stated <= formula * (1 + Fraction(1, 2**45))


def test_noise_is_fresh() -> None:
    for source in SOURCES:
        one, two = (source.laplace(Fraction(2**40), np.zeros(5, dtype=np.int64)) for _ in range(2))
        assert (one != two).all()
