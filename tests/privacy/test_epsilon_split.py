"""Dividing a budget: parts add up, the largest error is (nearly) the least there is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import pytest

from dpproxy.privacy import epsilon_split
from dpproxy.privacy.epsilon_split import Allocation, Weights

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


def sparse(weights: list[list[float]], gaussian: Sequence[int] = ()) -> Weights:
    return Weights.of(len(weights[0]), [dict(enumerate(row)) for row in weights], gaussian)


def allocate(weights: list[list[float]], whole: int, gaussian: Sequence[int] = ()) -> Allocation:
    return epsilon_split.allocate(sparse(weights, gaussian), whole)


def error(weights: list[list[float]], shares: list[float], gaussian: Sequence[int] = ()) -> float:
    """The largest: of Gaussian columns rho is divided, which is the square of the epsilon that all of them have."""
    vector = sum(shares[c] for c in gaussian)
    per = [s / vector * vector**2 if c in gaussian else s**2 for c, s in enumerate(shares)]
    return max(math.sqrt(sum(w * w / p for w, p in zip(row, per, strict=True))) for row in weights)


def kinds(columns: int) -> Iterator[tuple[int, ...]]:
    """Every choice of columns of Gaussian noise."""
    for count in range(columns + 1):
        yield from itertools.combinations(range(columns), count)


def starved(weights: list[list[float]], shares: list[float], gaussian: Sequence[int]) -> bool:
    """Whether a column of use has less than a quarter of an equal share."""
    used = [any(row[c] for row in weights) for c in range(len(shares))]
    vector = sum(shares[c] for c in gaussian)
    wholes = [(shares[c], used[c]) for c in range(len(shares)) if c not in gaussian]
    wholes += [(vector, any(used[c] for c in gaussian))] if gaussian else []
    inside = [(shares[c] / vector, used[c]) for c in gaussian]
    return any(needed and s < 0.99 / 4 / len(of) for of in (wholes, inside) for s, needed in of)


@pytest.mark.parametrize("weights", CASES)
def test_near_the_best_of_all_divisions(weights: list[list[float]]) -> None:
    """Against a grid of every division in fiftieths that starves no column."""
    whole, columns = 10**6, len(weights[0])
    for gaussian in kinds(columns):
        found = allocate(weights, whole, gaussian)
        assert sum(found.parts) == whole
        assert min(found.parts) >= 1
        shares = [p / whole for p in found.parts]
        assert found.error == pytest.approx(error(weights, shares, gaussian))
        grid = ([x / 50 for x in s] for s in itertools.product(range(1, 51), repeat=columns) if sum(s) == 50)
        fair = [s for s in grid if not starved(weights, s, gaussian)]
        assert found.error <= 1.02 * min(error(weights, s, gaussian) for s in fair) + 1e-9


@pytest.mark.parametrize("gaussian", [(), (0, 1, 2, 3), (0, 1), (3,)])
def test_no_column_of_use_is_starved(gaussian: tuple[int, ...]) -> None:
    """One output that errs a thousand times as much as others does not take all there is."""
    weights = [[1000.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1e-6, 0.0], [0.0, 0.0, 0.0, 1.0]]
    shares = [p / 10**6 for p in allocate(weights, 10**6, gaussian).parts]
    assert not starved(weights, shares, gaussian)
    assert min(shares) < 1 / 4, "it has no more than it need have"
    useless = [[*row, 0.0] for row in weights]
    assert allocate(useless, 10**6, gaussian).parts[-1] < 10**6 // 100


def test_one_vector_is_the_gain_of_the_issue() -> None:
    """Of n equal measurements each has 1/n of rho, where each had rho of 1/n of epsilon: root n times the noise, not n times."""
    for n in (2, 3, 10):
        each = [[1.0 if i == j else 0.0 for i in range(n)] for j in range(n)]
        one, apart = allocate(each, 10**6, range(n)).error, allocate(each, 10**6).error
        assert one == pytest.approx(math.sqrt(n), rel=1e-3)
        assert apart == pytest.approx(n, rel=1e-3)


def test_better_than_even() -> None:
    """A count and a sum a hundred times as uncertain: an even split would be little more than half as good."""
    weights = [[1.0, 0.0], [0.0, 100.0]]
    assert allocate(weights, 10**6).error < 0.58 * error(weights, [0.5, 0.5])


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
    for rows, gaussian in (([{0: 1.0}, {1: 2.0}], ()), ([{0: 1.0}], (1,))):
        with pytest.raises(ValueError, match="of the columns there are"):
            Weights.of(1, rows, gaussian)


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


@pytest.mark.parametrize("gaussian", [False, True])
def test_work_grows_as_what_is_asked(gaussian: bool) -> None:
    """Averages that share no column: twice as many take about twice the looks at weights, and there is a most of these however
    many averages there are."""

    def looks(averages: int) -> int:
        rows = tuple(((2 * i, Counted(1 + i % 7)), (2 * i + 1, Counted(3 + i % 11))) for i in range(averages))
        Counted.looks = 0
        chosen = frozenset(range(2 * averages)) if gaussian else frozenset[int]()
        epsilon_split.allocate(Weights(2 * averages, rows, chosen), 10**6)
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


@pytest.mark.parametrize(
    ("weights", "small", "gain", "price"),
    [
        ([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], 1, 1.38, 2.91),
        ([[2.0 * (i == j) for j in range(4)] for i in range(4)], 3, 3.25, 4.02),
    ],
)
def test_what_a_wrong_guess_of_sizes_costs(weights: list[list[float]], small: int, gain: float, price: float) -> None:
    """One output a hundredth of what was guessed: decision 0006 rests on these figures. The worst of all that are tried."""

    def errors(given: Allocation, rows: list[list[float]]) -> list[float]:
        return [math.sqrt(sum((w / part) ** 2 for w, part in zip(row, given.parts, strict=True))) for row in rows]

    guessed, found = allocate(weights, 10**6), []
    for times in (1, 3, 10, 100):
        true = [[w * (times if i == small else 1) for w in row] for i, row in enumerate(weights)]
        blind, knowing = errors(guessed, true), errors(allocate(true, 10**6), true)
        found.append((max(blind) / max(knowing), max(k / b for k, b in zip(knowing, blind, strict=True))))
    assert max(g for g, _ in found) == pytest.approx(gain, abs=0.01)
    assert max(p for _, p in found) == pytest.approx(price, abs=0.01)
