"""Weights of outputs: the relative error that a column's noise makes, as a nominal group shows it when it is moved."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.plan.measure import output_weights as weights

ends = st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000)).map(lambda x: (min(x), max(x))).filter(lambda x: x[0] < x[1])


@given(ends)
def test_the_typical_value_is_the_mean_magnitude(bounds: tuple[int, int]) -> None:
    lo, hi = bounds
    spread = lo + (np.arange(20_000) + 0.5) / 20_000 * (hi - lo)
    least = max(abs(lo), abs(hi)) / 100
    assert float(weights.typical(lo, hi)) == pytest.approx(max(float(np.mean(np.abs(spread))), least, 0.01), rel=1e-3)


@given(ends)
def test_a_sum_errs_by_its_largest_value(bounds: tuple[int, int]) -> None:
    """One unit moves a sum of n values by its largest, of n times the typical one: in units of 1/n."""
    lo, hi = bounds
    n = 1000
    error = max(abs(lo), abs(hi)) / (n * float(weights.typical(lo, hi)))
    assert weights.total(lo, hi) == pytest.approx(error * n)


@given(ends)
def test_a_mean_errs_by_its_count_and_its_sum(bounds: tuple[int, int]) -> None:
    """mean = middle + sum / count: by how much it moves when either does by what one unit may add."""
    lo, hi = bounds
    n, half, usual = 1e6, (hi - lo) / 2, float(weights.typical(lo, hi))
    total = n * half / 2  # a quarter of the width off the middle

    def relative(count: float, centred: float) -> float:
        return abs(centred / count - total / n) / usual * n

    assert weights.mean(lo, hi) == pytest.approx((relative(n + 1, total), relative(n, total + half)), rel=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 5, 100])
def test_rows_of_a_nominal_unit(rows: int) -> None:
    """It has each number of rows up to the bound as often as any other."""
    assert weights.row_factor(rows) == pytest.approx(rows / (sum(range(1, rows + 1)) / rows))


@pytest.mark.parametrize(
    ("lo", "hi", "found"),
    [(0, 10, 5), (-10, 0, 5), (-10, 10, 5), (10, 20, 15), (-1, 3, Fraction(10, 8)), (0, 0, Fraction(1, 100))],
)
def test_some(lo: int, hi: int, found: Fraction) -> None:
    assert weights.typical(lo, hi) == found


def test_a_variance_errs_as_its_derivatives_say() -> None:
    """var = squares / n - (sum / n)^2 over half-width 1: mean 1/4, variance 1/3, columns moved by their own sensitivity."""
    mean, variance, n = 0.25, 1 / 3, 1e6
    total, squares = mean * n, (variance + mean * mean) * n

    def value(count: float, s: float, q: float) -> float:
        return q / count - (s / count) ** 2

    moved = (value(n + 1, total, squares), value(n, total + 1, squares), value(n, total, squares + 1))
    errors = [abs(m - variance) / variance * n for m in moved]
    assert pytest.approx(errors, rel=0.75) == weights.VARIANCE, "within a factor of two of what is weighed"
    assert [2 * x for x in weights.DEVIATION] == pytest.approx(list(weights.VARIANCE)), "a root errs half as much"
    assert math.isclose(weights.SQUARES * 2, weights.VARIANCE[2])
