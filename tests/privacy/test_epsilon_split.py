"""Dividing a budget: parts add up, the largest error is (nearly) the least there is."""

from __future__ import annotations

import itertools
import math

import pytest

from dpproxy.privacy import epsilon_split
from dpproxy.privacy.epsilon_split import (
    Allocation,
    Weights,
    better,
    deviations,
)
from dpproxy.privacy.noise_scale import MechanismName

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


def sparse(weights: list[list[float]]) -> Weights:
    return Weights.of(len(weights[0]), [dict(enumerate(row)) for row in weights])


def allocate(weights: list[list[float]], whole: int, mechanism: MechanismName = "laplace") -> Allocation:
    return epsilon_split.allocate(sparse(weights), whole, mechanism)


def error(weights: list[list[float]], shares: list[float], power: int) -> float:
    return max(math.sqrt(sum(w * w / s**power for w, s in zip(row, shares, strict=True))) for row in weights)


@pytest.mark.parametrize("weights", CASES)
@pytest.mark.parametrize(("mechanism", "power"), [("laplace", 2), ("gaussian", 1)])
def test_near_the_best_of_all_divisions(weights: list[list[float]], mechanism: MechanismName, power: int) -> None:
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
    with pytest.raises(ValueError, match="at least one for each"):
        allocate([[1.0, 1.0]], 1)
    with pytest.raises(ValueError, match="at least one"):
        allocate([[]], 10)
    with pytest.raises(ValueError, match="at least one output"):
        Weights.of(1, [])
    with pytest.raises(ValueError, match="of the columns there are"):
        Weights.of(1, [{0: 1.0}, {1: 2.0}])


def test_only_what_is_above_nothing_is_kept() -> None:
    """Dividing takes time in proportion to this, not to columns times outputs."""
    many = sparse([[1.0 if i == j else 0.0 for i in range(300)] for j in range(300)])
    assert many.size == 300


class Counted(float):
    """A weight that counts how often it is multiplied or raised."""

    looks = 0

    def __mul__(self, other: float) -> float:
        Counted.looks += 1
        return float(self) * other

    def __pow__(self, other: float) -> float:  # type: ignore[override]
        Counted.looks += 1
        return float(float(self) ** other)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_work_grows_as_what_is_asked(mechanism: MechanismName) -> None:
    """Averages that share no column: twice as many take about twice the looks at weights, and there is a most of these however
    many averages there are."""

    def looks(averages: int) -> int:
        rows = tuple(((2 * i, Counted(1 + i % 7)), (2 * i + 1, Counted(3 + i % 11))) for i in range(averages))
        Counted.looks = 0
        epsilon_split.allocate(Weights(2 * averages, rows), 10**6, mechanism)
        return Counted.looks

    few, twice = looks(20), looks(40)
    assert few > 0
    assert twice < 4 * few  # rounds until the errors are near each other differ a little
    assert looks(5000) <= 4 * (epsilon_split.WORK + 2 * 10_000)


def test_fewer_rounds_of_very_many() -> None:
    assert epsilon_split.rounds(sparse([[1.0] * 20] * 20)) == epsilon_split.ROUNDS
    assert epsilon_split.rounds(Weights(1, (((0, 1.0),) * (2 * epsilon_split.WORK),))) == 1


def test_the_same_plan_gets_the_same_division() -> None:
    assert allocate([[1.0, 2.0], [3.0, 1.0]], 12345) == allocate([[1, 2], [3, 1]], 12345)


def test_auto_takes_the_smaller_error() -> None:
    """Gaussian noise grows with the root of the groups a unit reaches, Laplace noise with their number."""
    one = [[1.0]]
    assert better(sparse(one), 1, 10**6, 10**12) == "laplace"
    assert better(sparse(one), 100, 10**6, 10**12) == "gaussian"
    assert better(sparse(one), 100, 10**6, 0) == "laplace"  # no delta, no Gaussian
    many = [[1.0 if i == j else 0.0 for i in range(30)] for j in range(30)]
    assert better(sparse(many), 1, 10**6, 10**12) == "gaussian"  # rho is divided, epsilon would be too
    for l0 in (1, 10, 100):
        laplace, gaussian = deviations(sparse(one), l0, 10**6, 10**12)
        assert (gaussian < laplace) == (better(sparse(one), l0, 10**6, 10**12) == "gaussian")
        assert laplace == pytest.approx(math.sqrt(2) * l0)
