"""Ranks that selections aim at, and how many draws share an epsilon: by the law of the exponential mechanism in floats."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dpproxy.privacy.selection_ranks import draws, end_rank, extreme_rank


@pytest.mark.parametrize(("size", "per_unit", "epsilon"), [(10, 1, 0.1), (10**6, 3, 1.0), (10**9, 1, 2.5)])
def test_extremes_are_within_the_data_but_one_time_in_twenty(size: int, per_unit: int, epsilon: float) -> None:
    """All points outside miss the rank by as much as it is: together they weigh e**-3 of the right one; a rank less would not do."""
    rank = extreme_rank(size, per_unit, Fraction(str(epsilon)))
    weight = size * math.exp(-epsilon / (2 * per_unit) * rank)
    assert weight <= math.exp(-3) * (1 + 1e-9)
    assert size * math.exp(-epsilon / (2 * per_unit) * (rank - 1)) > math.exp(-3)
    assert math.exp(-3) < 1 / 20


@pytest.mark.parametrize("fraction", [Fraction(1, 2), Fraction(1, 4), Fraction(99, 100)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1)])
def test_ends_miss_no_more_often_than_stated(fraction: Fraction, epsilon: Fraction) -> None:
    """The exponential mechanism's union bound over the grid, with scores in parts of ranks."""
    size, per_unit, failure = 1000, 2, Fraction(1, 40)
    rank = end_rank(size, fraction, per_unit, epsilon, failure)
    step = max(fraction.numerator, fraction.denominator - fraction.numerator)
    eta = float(epsilon) / (2 * per_unit * step)

    def bound(at: int) -> float:
        return size * math.exp(-eta * (fraction.denominator * at + 1))

    assert bound(rank) <= float(failure) * (1 + 1e-9)
    assert rank == 1 or bound(rank - 1) > float(failure)


def levels(wanted: int) -> int:
    """How deep halving goes: the middle one first, then those on either side."""
    return 0 if not wanted else 1 + max(levels(wanted // 2), levels(wanted - wanted // 2 - 1))


def test_draws_are_the_levels_of_halving() -> None:
    for number in range(3, 40):
        assert draws([Fraction(k, number + 1) for k in range(1, number + 1)]) == levels(number)
    assert [draws(f) for f in ([], [Fraction(1, 2)], [Fraction(1, 2), Fraction(1, 3)])] == [1, 1, 2]
    assert draws([Fraction(0), Fraction(1)]) == 2
    assert draws([Fraction(0), Fraction(0), Fraction(1, 2)]) == 2
