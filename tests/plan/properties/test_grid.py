"""The grid of a measured value: it holds the bounds, keeps to the declared resolution while there is room, and no more steps than asked."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_expressions import call, column, ref

from dpproxy.plan.properties.grid import AUTO_GRID_STEPS, grid_of, on_grid

numbers = st.fractions(min_value=-(10**9), max_value=10**9, max_denominator=1000)


@given(numbers, numbers, st.none() | st.integers(-6, 3), st.integers(10**3, 10**12))
def test_bounds_are_within_whole_steps(a: Fraction, b: Fraction, digits: int | None, steps: int) -> None:
    lo, hi = sorted((a, b))
    declared = None if digits is None else Fraction(10) ** digits
    low, high, grid = on_grid(lo, hi, declared, steps)
    assert low * grid <= lo < (low + 1) * grid
    assert (high - 1) * grid < hi <= high * grid
    assert max(abs(lo), abs(hi)) <= steps * grid
    if declared is not None:
        assert (grid / declared).denominator == 1
        assert grid == declared or max(abs(lo), abs(hi)) / (grid / 10) > steps, "no coarser than need be"


@given(numbers, numbers)
def test_a_chosen_grid_cuts_the_range_into_about_a_million(a: Fraction, b: Fraction) -> None:
    lo, hi = sorted((a, b))
    if hi > lo:
        _, _, grid = on_grid(lo, hi, None, 10**30)
        assert AUTO_GRID_STEPS <= (hi - lo) / grid <= AUTO_GRID_STEPS * 10


@pytest.mark.parametrize(
    ("lo", "hi", "grid", "found"),
    [(0, 100, Fraction(1, 100), (0, 10000)), (-7, 5, Fraction(2), (-4, 3)), (3, 3, Fraction(1), (3, 3))],
)
def test_some(lo: int, hi: int, grid: Fraction, found: tuple[int, int]) -> None:
    assert on_grid(Fraction(lo), Fraction(hi), grid, 10**9) == (*found, grid)


def test_of_an_expression() -> None:
    x, y = column(1, "int4", 0, 10, grid=Fraction(1)), column(2, "int4", -5, 5, grid=Fraction(1))
    assert grid_of(call("+", ref(x), ref(y), type_="int4"), 10**6) == (-5, 15, Fraction(1))
