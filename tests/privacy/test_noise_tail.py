"""Tails and intervals of noise: by summing probabilities, and at large scales by the normal law."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpproxy.privacy.noise_tail import interval, tail_point
from tests.privacy.tails import gaussian_tail, laplace_tail


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(3), Fraction(12), Fraction(13), Fraction(300)])
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000)])
def test_interval_by_enumeration(scale: Fraction, confidence: Fraction) -> None:
    for mechanism, tail in (("laplace", laplace_tail), ("gaussian", gaussian_tail)):
        half = interval(mechanism, scale, confidence)
        outside = float(1 - confidence)
        assert 2 * tail(float(scale), half + 1) <= outside * (1 + 1e-9)
        assert half == 0 or 2 * tail(float(scale), half) * (1.01 if mechanism == "gaussian" else 1.000001) > outside


def test_interval_of_huge_sigma_is_the_normal_one() -> None:
    assert interval("gaussian", Fraction(10**12), Fraction(95, 100)) == pytest.approx(1.959963985e12, rel=1e-9)


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1, 2), Fraction(-1), Fraction(2)])
def test_tails_are_below_half(p: Fraction) -> None:
    with pytest.raises(ValueError, match="between"):
        tail_point("laplace", Fraction(1), p)


def test_tail_points_are_the_first() -> None:
    for scale in (Fraction(1, 3), Fraction(5), Fraction(40)):
        for p in (Fraction(1, 10), Fraction(1, 10**6)):
            t = tail_point("laplace", scale, p)
            assert laplace_tail(float(scale), t) <= float(p) * (1 + 1e-9)
            assert t == 1 or laplace_tail(float(scale), t - 1) > float(p) * (1 - 1e-9)
