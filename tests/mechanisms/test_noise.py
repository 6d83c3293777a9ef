"""What the door asks of noise: saturation, the loss by formula, noise within reach."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from dpproxy.mechanisms.noise import LIMIT, ROUNDS, Int64, MechanismError, exact_loss, saturate, truncated
from dpproxy.mechanisms.noise_sources import OwnNoise


class Scripted:
    """Laplace noise from a list, in order; `asked` says for how many cells each time."""

    def __init__(self, *noise: int) -> None:
        self.noise, self.asked = list(noise), []

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        self.asked.append(values.size)
        drawn, self.noise = self.noise[: values.size], self.noise[values.size :]
        return values + np.array(drawn, dtype=np.int64)


def test_what_is_out_of_reach_is_drawn_again_alone() -> None:
    source = Scripted(3, -4, 9, 5, -5, 1, -2)
    values = np.array([10, 20, 30, 2**63 - 1], dtype=np.int64)
    assert truncated(source, Fraction(7), values, 4).tolist() == [13, 16, 28, LIMIT + 1]
    assert source.asked == [4, 2, 1]


def test_a_source_that_never_falls_within_is_a_fault(kit: SimpleNamespace) -> None:
    values = np.zeros(1, dtype=np.int64)
    assert truncated(kit.Dice(-5), Fraction(1), values, 5).tolist() == [-5]
    with pytest.raises(MechanismError, match="reach"):
        truncated(kit.Dice(6), Fraction(1), values, 5)
    late = Scripted(*[6] * ROUNDS, 5)
    with pytest.raises(MechanismError, match="reach"):
        truncated(late, Fraction(1), values, 5)


def test_the_law_within_reach_is_the_conditional_one(kit: SimpleNamespace) -> None:
    """Each value within reach keeps its ratio to the others: chi-square against the pmf divided by what is inside."""
    reach, scale = 3, 2.0
    drawn = truncated(OwnNoise(kit.seeded(5)), Fraction(2), np.zeros(50_000, dtype=np.int64), reach)
    inside = sum(kit.laplace_pmf(scale, x) for x in range(-reach, reach + 1))
    assert kit.p_value(drawn, lambda x: kit.laplace_pmf(scale, x) / inside, reach) > 1e-4
    assert kit.p_value(drawn, lambda x: kit.laplace_pmf(scale * 1.3, x) / inside, reach) < 1e-9


def test_values_saturate() -> None:
    assert saturate(np.array([2**63 - 1, -(2**63), 5])).tolist() == [2**62, -(2**62), 5]


@pytest.mark.parametrize(("l0", "linf"), [(1, 1), (3, 7)])
def test_the_loss_by_the_definition(l0: int, linf: int) -> None:
    """Epsilon: the sum of the shifts over the scale. Rho: half the squared distance over the variance."""
    shifts, scale = [linf] * l0, Fraction(9, 2)
    assert exact_loss("laplace", scale, l0, linf) == sum(Fraction(s) / scale for s in shifts)
    assert exact_loss("gaussian", scale, l0, linf) == sum(Fraction(s * s) / scale**2 for s in shifts) / 2
