"""What Gaussian columns of several measurements cost together, against the exact divergence of the product of their noises."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpproxy.amounts import ATTO, MICRO
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.measurement import Basis, Measurement, Vector
from dpproxy.privacy.noise_scale import Moved, gaussian_sigmas
from dpproxy.privacy.vector_loss import gaussian_columns, loss_together, part_epsilon

Floats = NDArray[np.float64]

VECTORS = [
    [(1, 1), (1, 1)],
    [(1, 1), (1, 3)],
    [(2, 1), (1, 2)],
    [(1, 1), (1, 1), (1, 2)],
]
"""l0 and linf of each column: at most three coordinates that one unit moves."""

BUDGETS = [(MICRO, 10**-3), (MICRO // 2, 10**-2), (3 * MICRO, 10**-4)]


def vector_of(epsilon: int, delta: float) -> Vector:
    return Vector(epsilon, round(delta * ATTO))


def sigmas_of(moved: Sequence[Moved], vector: Vector) -> list[Fraction]:
    return gaussian_sigmas(moved, [1] * len(moved), vector.epsilon, vector.delta)


def noise(sigma: float) -> tuple[Floats, Floats]:
    """Points and probabilities of discrete Gaussian noise."""
    reach = int(9 * sigma) + 9
    at = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-at * at / (2 * sigma * sigma))
    return at, weights / weights.sum()


def divergence(coordinates: Sequence[tuple[int, float]], epsilon: float) -> float:
    """The delta at epsilon between noise on coordinates and the same, each shifted: the sum over all points of the product."""
    loss, chance = np.zeros(1), np.ones(1)
    for shift, sigma in coordinates:
        at, weights = noise(sigma)
        own = ((at - shift) ** 2 - at**2) / (2 * sigma * sigma)  # log P(x) / Q(x)
        loss, chance = np.add.outer(loss, own).ravel(), np.multiply.outer(chance, weights).ravel()
    return float(np.sum(chance * np.maximum(0.0, 1 - np.exp(epsilon - loss))))


def coordinates(moved: Sequence[Moved], sigmas: Sequence[Fraction]) -> list[tuple[int, float]]:
    return [(linf, float(s)) for (l0, linf), s in zip(moved, sigmas, strict=True) for _ in range(l0)]


@pytest.mark.parametrize("moved", VECTORS)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_vector_is_within_its_charge(moved: list[Moved], epsilon: int, delta: float) -> None:
    vector = vector_of(epsilon, delta)
    sigmas = sigmas_of(moved, vector)
    exact = divergence(coordinates(moved, sigmas), epsilon / MICRO)
    assert delta / 100 < exact <= delta, "and little is wasted"
    assert part_epsilon(list(zip(moved, sigmas, strict=True)), vector) == epsilon


@pytest.mark.parametrize("moved", VECTORS)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_some_of_it_is_within_its_own_price(moved: list[Moved], epsilon: int, delta: float) -> None:
    vector = vector_of(epsilon, delta)
    columns = list(zip(moved, sigmas_of(moved, vector), strict=True))
    for count in range(1, len(columns)):
        for some in itertools.combinations(columns, count):
            price = part_epsilon(some, vector)
            assert price is not None
            assert price < epsilon
            own = coordinates([m for m, _ in some], [s for _, s in some])
            assert divergence(own, price / MICRO) <= delta


def test_a_part_costs_more_than_its_share() -> None:
    """Half of a vector at half of its epsilon would be a lie: the planted bug that prices are computed for."""
    moved, vector = [(1, 1), (1, 1)], vector_of(MICRO, 1e-3)
    one, _ = sigmas_of(moved, vector)
    assert divergence([(1, float(one))], 0.5) > 2e-3
    price = part_epsilon([((1, 1), one)], vector)
    assert price is not None
    assert MICRO * 0.6 < price < MICRO * 0.8


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_shifts_chosen_by_what_came_before(epsilon: int, delta: float) -> None:
    """Staged: which way, and whether, a unit changes the second column depends on the first one's released value, as bad as
    can be."""
    vector = vector_of(epsilon, delta)
    first, second = (float(s) for s in sigmas_of([(1, 1), (1, 1)], vector))
    (x, px), (y, py), e = noise(first), noise(second), epsilon / MICRO
    loss = ((x - 1) ** 2 - x**2) / (2 * first**2)
    worst = 0.0
    for a, p in zip(loss, px, strict=True):
        kinds = (a + ((y - shift) ** 2 - y**2) / (2 * second**2) for shift in (-1, 0, 1))
        worst += p * max(float(np.sum(py * np.maximum(0.0, 1 - np.exp(e - both)))) for both in kinds)
    assert worst <= delta


# --- measurements


def measured(moved: Sequence[Moved], sigmas: Sequence[Fraction], vector: Vector, more: Loss = ZERO) -> Measurement:
    """Of columns with a norm (l0 = 1), priced alone."""
    price = part_epsilon(list(zip(moved, sigmas, strict=True)), vector) or 0
    bases = []
    for i, ((l0, linf), sigma) in enumerate(zip(moved, sigmas, strict=True)):
        assert l0 == 1
        label = (price, vector.delta) if i == 0 else (0, 0)
        bases.append(Basis("c", linf, Fraction(1), "gaussian", sigma, Loss.gaussian(1, linf, sigma, *label), 2))
    loss = sum((b.loss for b in bases), more)
    return Measurement((), (), tuple(bases), 1, True, None, loss, None, vector=vector)


VECTOR = vector_of(MICRO, 1e-6)
MOVED: list[Moved] = [(1, 10), (1, 10), (1, 20)]
SIGMAS = sigmas_of(MOVED, VECTOR)
FAILURE = Loss.delta_only(5)
APART = [measured([m], [s], VECTOR, FAILURE) for m, s in zip(MOVED, SIGMAS, strict=True)]


def test_together_they_cost_what_the_statement_does() -> None:
    whole = loss_together(APART)
    assert (whole.epsilon, whole.conversion, whole.failure) == (MICRO, VECTOR.delta, 15)
    total = sum((m.loss for m in APART), ZERO)
    assert (whole.rdp, whole.gdp) == (total.rdp, total.gdp), "these readings add up whatever is charged at once"
    assert total.epsilon > 1.6 * MICRO
    assert gaussian_columns(APART[2]) == [((1, 20), SIGMAS[2])]


def test_alone_each_costs_its_own_price() -> None:
    for m in APART:
        assert loss_together([m]) == m.loss
        assert 0.5 * MICRO < m.loss.epsilon < 0.7 * MICRO
        assert m.loss.conversion == VECTOR.delta


def test_more_costs_more() -> None:
    for some in itertools.combinations(APART, 2):
        both = loss_together(some)
        assert max(m.loss.epsilon for m in some) < both.epsilon < MICRO
        assert both.epsilon < sum(m.loss.epsilon for m in some)
        assert both.conversion == VECTOR.delta


def test_what_is_not_gaussian_adds_up() -> None:
    plain = Measurement((), (), (), 1, True, None, Loss.pure(1000), None)
    assert loss_together([]) == ZERO
    assert loss_together([plain, plain]) == plain.loss + plain.loss
    assert loss_together([*APART, plain]) == loss_together(APART) + plain.loss


def test_different_vectors_are_not_one() -> None:
    other = measured([(1, 10)], [SIGMAS[0]], vector_of(2 * MICRO, 1e-6))
    assert loss_together([APART[0], other]) == APART[0].loss + other.loss


def test_noise_that_is_not_the_vectors_is_priced_apart() -> None:
    """Half of the noise that the vector was made with: (epsilon, delta) of the vector does not cover it."""
    thin = [measured([m], [s / 2], VECTOR) for m, s in zip(MOVED, SIGMAS, strict=True)]
    assert part_epsilon([c for m in thin for c in gaussian_columns(m)], VECTOR) is None
    assert loss_together(thin) == sum((m.loss for m in thin), ZERO)
