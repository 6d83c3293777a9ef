"""Bounds of real numbers: against tables and other libraries, and on their side."""

from __future__ import annotations

from fractions import Fraction

import pytest
from scipy import stats

from dpproxy.privacy.real_bounds import exp_bounds, floor_log2, ln_bounds, normal_tail_bounds, round_down, round_up, sqrt_bounds


def test_bounds_hold_what_they_bound() -> None:
    """Against values to 40 places (from tables), and each other: exp(ln x) = x, sqrt(x)**2 = x."""
    e = Fraction("2.7182818284590452353602874713526624977572")
    ln2 = Fraction("0.6931471805599453094172321214581765680755")
    for (low, high), value in [(exp_bounds(Fraction(1)), e), (ln_bounds(Fraction(2)), ln2)]:
        assert low - Fraction(1, 10**39) <= value <= high + Fraction(1, 10**39)
        assert 0 < high - low < Fraction(1, 10**38)
    for x in (Fraction(1, 10**30), Fraction(3, 7), Fraction(5), Fraction(10**20, 3)):
        low, high = ln_bounds(x)
        assert exp_bounds(low)[0] < x < exp_bounds(high)[1]
        root_low, root_high = sqrt_bounds(x)
        assert root_low**2 < x < root_high**2
    assert exp_bounds(Fraction(0)) == (1, 1)
    assert exp_bounds(Fraction(-(10**9)))[0] == 0
    assert 0 < exp_bounds(Fraction(-(10**9)))[1] < Fraction(1, 10**40_000)


@pytest.mark.parametrize("z", [0.25, 0.5, 1.0, 2.0, 4.75, 10.0, 20.0])
def test_normal_tail(z: float) -> None:
    low, high = normal_tail_bounds(Fraction(z))
    assert float(low) <= stats.norm.sf(z) * (1 + 1e-12)
    assert float(high) >= stats.norm.sf(z) * (1 - 1e-12)
    assert high / low - 1 < (0.04 if z < 0.5 else 0.001)


def test_rounding_keeps_the_side() -> None:
    for x in (Fraction(1, 3), Fraction(10**30, 7), Fraction(1, 10**30), Fraction(8), Fraction(2**40 - 1)):
        assert round_down(x) <= x <= round_up(x) < x * (1 + Fraction(1, 2**38))
        assert 2 ** floor_log2(x) <= x < 2 ** (floor_log2(x) + 1)
    assert round_up(Fraction(8)) == round_down(Fraction(8)) == 8
