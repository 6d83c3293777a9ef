"""Our exact sampler against the exact probabilities, against the library, and against a slow oracle.

The law of the sampler is also computed, not sampled: from the probabilities of its coins. Entropy is seeded where
the law is tested, so these tests do not fail by chance.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from dpproxy.mechanisms import coins, noise_sources, sampler
from dpproxy.privacy.noise_scale import MAX_SCALE, MIN_SCALE


def seeded(seed: int) -> coins.Entropy:
    return np.random.default_rng(seed).bytes


SCALES = [Fraction(1, 3), Fraction(1), Fraction(27, 10), Fraction(40)]
COUNT = 200_000


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_has_the_right_scale_and_no_other(kit: SimpleNamespace, scale: Fraction) -> None:
    samples = sampler.laplace(scale, COUNT, seeded(1))
    reach = int(40 * scale) + 5
    assert kit.p_value(samples, lambda x: kit.laplace_pmf(float(scale), x), reach) > 1e-4
    for wrong in (1.3, 1 / 1.3):
        assert kit.p_value(samples, lambda x, w=wrong: kit.laplace_pmf(float(scale) * w, x), reach) < 1e-9


@pytest.mark.parametrize("sigma", [*SCALES, Fraction(161, 10)])  # few sizes up to about 11, fixed point from there
def test_gaussian_has_the_right_scale_and_no_other(kit: SimpleNamespace, sigma: Fraction) -> None:
    samples = sampler.gaussian(sigma, COUNT, seeded(2))
    reach = int(12 * sigma) + 5
    assert kit.p_value(samples, lambda x: kit.gaussian_pmf(float(sigma), x), reach) > 1e-4
    for wrong in (1.3, 1 / 1.3):
        assert kit.p_value(samples, lambda x, w=wrong: kit.gaussian_pmf(float(sigma) * w, x), reach) < 1e-9


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_library_has_the_right_scale_and_no_other(kit: SimpleNamespace, mechanism: str) -> None:
    """The library cannot be seeded: the bar is 10**-9."""
    scale, zeros = Fraction(27, 10), np.zeros(50_000, dtype=np.int64)
    samples = getattr(noise_sources.OpenDPNoise(), mechanism)(scale, zeros)
    pmf = getattr(kit, f"{mechanism}_pmf")
    assert kit.p_value(samples, lambda x: pmf(float(scale), x), 100) > 1e-9
    for wrong in (1.3, 1 / 1.3):
        assert kit.p_value(samples, lambda x, w=wrong: pmf(float(scale) * w, x), 100) < 1e-9


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_oracle_agrees(kit: SimpleNamespace, mechanism: str) -> None:
    """The exact probabilities of these tests are those of the published algorithm."""
    rng, scale = random.Random(3), Fraction(27, 10)
    samples = [getattr(kit, f"oracle_{mechanism}")(scale, rng) for _ in range(20_000)]
    assert kit.p_value(samples, lambda x: getattr(kit, f"{mechanism}_pmf")(2.7, x), 100) > 1e-4


def test_the_law_of_the_digits_is_geometric() -> None:
    """By computation: the product of the digits' odds is (1 - q) q**g to 15 places, for every g below 2**7."""
    scale, top = Fraction(5, 2), 7
    odds = [Fraction(coins.Coin(2**i / scale, odds=True).bits(80), 2**80) for i in range(top)]
    q = math.exp(-1 / float(scale))
    for g in range(2**top):
        product = math.prod(p if g >> i & 1 else 1 - p for i, p in enumerate(odds))
        assert float(product) == pytest.approx((1 - q) * q**g / (1 - q ** (2**top)), rel=1e-13)


def test_ones_and_zeros_never_reach_past_the_range() -> None:
    """The most extreme entropy: noise stays below 2**62 in size."""
    for byte in (b"\x00", b"\xff"):
        for scale in (Fraction(1), Fraction(MAX_SCALE)):
            assert np.abs(sampler.laplace(scale, 4, lambda n, b=byte: b * n)).max() < 2**62
    with pytest.raises(RuntimeError, match="broken"):
        sampler.laplace(MIN_SCALE, 1, lambda n: b"\x00" * n)  # a tie that never ends
    one = b"\x00" * 8 + b"\xff" * 8  # of two values: the first geometric variables at their top, the second zero
    top = sampler.laplace(Fraction(2) ** 50, 2, lambda n: (one * (n // 8))[:n])
    assert 2**57 < top.min() <= top.max() < 2**62


@pytest.mark.parametrize("bits", [Fraction(12), Fraction(100, 3), Fraction(2) ** 23, Fraction(3**30), Fraction(2**54)])
def test_fixed_point_is_a_close_lower_bound(bits: Fraction) -> None:
    sigma, rng = bits, random.Random(5)
    log_t = math.floor(math.log2(2 * sigma * sigma)) // 2
    t = 1 << log_t
    assert Fraction(1, 2) <= sigma * sigma / t**2 < 2
    sizes = np.array([*(rng.randrange(40 * t) for _ in range(2000)), 0, 1, int(sigma), 32 * t, 32 * t + 1])
    lower, near = sampler.lower_bound(sizes, sigma, log_t)
    for size, low, close in zip(sizes.tolist(), lower.tolist(), near.tolist(), strict=True):
        gap = (size - sigma * sigma / t) ** 2 / (2 * sigma * sigma) - Fraction(low, 2**24)
        assert gap >= 0
        assert low < 2**34
        assert not close or gap < Fraction(1, 2**12)
        assert close == (Fraction(size, t) < 32 + Fraction(1, 2**24))


def test_large_scales_keep_their_shape() -> None:
    """Tails of scale 2**40, where no chi-square over single values is possible."""
    scale = Fraction(2) ** 40
    laplace = np.abs(sampler.laplace(scale, COUNT, seeded(6))) / float(scale)
    gaussian = np.abs(sampler.gaussian(scale, COUNT, seeded(7))) / float(scale)
    for point in (0.1, 0.5, 1.0, 2.0, 3.0):
        for values, tail in ((laplace, math.exp(-point)), (gaussian, math.erfc(point / math.sqrt(2)))):
            deviation = math.sqrt(tail * (1 - tail) / COUNT)
            assert abs((values > point).mean() - tail) < 5 * deviation


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), MIN_SCALE / 2, Fraction(MAX_SCALE + 1)])
def test_scales_out_of_range_are_refused(scale: Fraction) -> None:
    for draw in (sampler.laplace, sampler.gaussian):
        with pytest.raises(ValueError, match="scale"):
            draw(scale, 1, seeded(1))


def test_how_much_entropy_laplace_takes_does_not_depend_on_the_noise() -> None:
    """Hence neither does time: the count is the same for different seeds."""

    def taken(seed: int) -> int:
        source, total = np.random.default_rng(seed), [0]

        def entropy(n: int) -> bytes:
            total[0] += n
            return source.bytes(n)

        sampler.laplace(Fraction(10), 1000, entropy)
        return total[0]

    assert len({taken(seed) for seed in range(20)}) == 1


@pytest.mark.slow
def test_a_million_values_take_no_loop() -> None:
    """Nobody put a Python loop in: that takes some hundred times as long as counting does."""

    def took(work: Callable[[], object]) -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    counting = took(lambda: sum(i % 7 for i in range(10**6)))
    assert took(lambda: sampler.laplace(Fraction(1000), 10**6, seeded(8))) < 200 * counting
    assert took(lambda: sampler.gaussian(Fraction(1000), 10**6, seeded(9))) < 200 * counting
