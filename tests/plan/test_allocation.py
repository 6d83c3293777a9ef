"""Dividing a budget: parts add up, the largest error is (nearly) the least there is."""

from __future__ import annotations

import itertools
import math

import pytest

from dpproxy.plan.allocation import allocate, better, deviations

CASES = [
    [[1.0]],
    [[1.0, 0.0], [0.0, 1.0]],
    [[1.0, 0.0], [0.0, 10.0]],
    [[1.0, 1.0]],
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]],
    [[5.0, 0.1, 0.0], [0.2, 3.0, 1.0]],
    [[0.0, 0.0], [0.0, 0.0]],
    [[1.0, 0.0]],
]


def error(weights: list[list[float]], shares: list[float], power: int) -> float:
    return max(math.sqrt(sum(w * w / s**power for w, s in zip(row, shares, strict=True))) for row in weights)


@pytest.mark.parametrize("weights", CASES)
@pytest.mark.parametrize(("mechanism", "power"), [("laplace", 2), ("gaussian", 1)])
def test_near_the_best_of_all_divisions(weights: list[list[float]], mechanism: str, power: int) -> None:
    """Against a grid of every division in hundredths."""
    whole, columns = 10**6, len(weights[0])
    found = allocate(weights, whole, mechanism)
    assert sum(found.parts) == whole
    assert min(found.parts) >= 1
    shares = [p / whole for p in found.parts]
    assert found.error == pytest.approx(error(weights, shares, power))
    grid = (s for s in itertools.product(range(1, 101), repeat=columns) if sum(s) == 100)
    assert found.error <= 1.02 * min(error(weights, [x / 100 for x in s], power) for s in grid) + 1e-9


def test_better_than_even() -> None:
    """A count and a sum a hundred times as uncertain: an even split would be half as good."""
    weights = [[1.0, 0.0], [0.0, 100.0]]
    assert allocate(weights, 10**6).error < 0.52 * error(weights, [0.5, 0.5], 2)


@pytest.mark.parametrize("whole", [3, 4, 5, 17, 1001])
def test_small_wholes_still_add_up(whole: int) -> None:
    for weights in ([[1000.0, 1.0, 1.0]], [[1.0, 0.0, 0.0], [0.0, 900.0, 0.0]], [[1.0, 1.0, 1.0]]):
        parts = allocate(weights, whole).parts
        assert sum(parts) == whole
        assert min(parts) >= 1


def test_what_cannot_be_divided() -> None:
    for weights, whole in [([[1.0, 1.0]], 1), ([], 10), ([[]], 10), ([[1.0], [1.0, 2.0]], 10)]:
        with pytest.raises(ValueError, match="at least one"):
            allocate(weights, whole)


def test_the_same_plan_gets_the_same_division() -> None:
    assert allocate([[1.0, 2.0], [3.0, 1.0]], 12345) == allocate([[1, 2], [3, 1]], 12345)


def test_auto_takes_the_smaller_error() -> None:
    """Gaussian noise grows with the root of the groups a unit reaches, Laplace noise with their number."""
    one = [[1.0]]
    assert better(one, 1, 10**6, 10**12) == "laplace"
    assert better(one, 100, 10**6, 10**12) == "gaussian"
    assert better(one, 100, 10**6, 0) == "laplace"  # no delta, no Gaussian
    many = [[1.0 if i == j else 0.0 for i in range(30)] for j in range(30)]
    assert better(many, 1, 10**6, 10**12) == "gaussian"  # rho is divided, epsilon would be too
    for l0 in (1, 10, 100):
        laplace, gaussian = deviations(one, l0, 10**6, 10**12)
        assert (gaussian < laplace) == (better(one, l0, 10**6, 10**12) == "gaussian")
        assert laplace == pytest.approx(math.sqrt(2) * l0)
