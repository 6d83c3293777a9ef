"""How far off noise may be: deviations, kurtosis and half-widths from the probabilities of the noise."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from scipy import stats

from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis
from dpproxy.privacy.noise_error import GROWTH, deviation, each, excess, half_width, normal_point, step_growth, told_half


def basis(mechanism: str, scale: Fraction, fine: int = 1, steps: int = 1) -> Basis:
    return Basis("n", 1, Fraction(1), mechanism, scale, Loss(0), fine=fine, steps=steps)  # type: ignore[arg-type]


def law(mechanism: str, scale: float) -> dict[int, float]:
    reach = int(60 * scale) + 60
    weight = (lambda x: math.exp(-abs(x) / scale)) if mechanism == "laplace" else (lambda x: math.exp(-x * x / 2 / scale**2))
    weights = {x: weight(x) for x in range(-reach, reach + 1)}
    whole = math.fsum(weights.values())
    return {x: w / whole for x, w in weights.items()}


def moment(probabilities: dict[int, float], power: int) -> float:
    return math.fsum(p * x**power for x, p in probabilities.items())


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [Fraction(3, 2), Fraction(10), Fraction(200)])
@pytest.mark.parametrize("cells", [1, 9])
def test_the_deviation_is_the_second_moment(mechanism: str, scale: Fraction, cells: int) -> None:
    wanted = math.sqrt(cells * moment(law(mechanism, float(scale)), 2))
    assert deviation(basis(mechanism, scale), cells) == pytest.approx(wanted, rel=1e-6)
    assert deviation(basis(mechanism, scale, fine=8), cells) == pytest.approx(wanted / 8, rel=1e-6)


@pytest.mark.parametrize(("mechanism", "wanted"), [("laplace", 3.0), ("gaussian", 0.0)])
def test_the_excess_is_the_fourth_moment(mechanism: str, wanted: float) -> None:
    known = law(mechanism, 50.0)
    kurtosis = moment(known, 4) / moment(known, 2) ** 2 - 3
    assert kurtosis == pytest.approx(wanted, abs=0.01)
    assert [excess(basis(mechanism, Fraction(50)), n) for n in (1, 10)] == pytest.approx([wanted, wanted / 10])


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(95, 100)])
def test_half_widths_hold_their_share(mechanism: str, confidence: Fraction) -> None:
    """Of one cell: just enough. In parts of a unit: the same noise, and the rounding of it."""
    scale = Fraction(40)
    known, half = law(mechanism, float(scale)), half_width(basis(mechanism, scale), confidence)

    def inside(width: int) -> float:
        return math.fsum(p for x, p in known.items() if abs(x) <= width)

    assert inside(half) >= float(confidence)
    assert inside(half - 2) < float(confidence)
    fine = half_width(basis(mechanism, scale * 16, fine=16), confidence)
    assert half <= fine <= half + 2


def test_half_widths_of_sums_are_those_of_the_sum() -> None:
    """Nine Laplace cells: the law of their sum by convolution."""
    one, known = law("laplace", 4.0), {0: 1.0}
    cells, confidence = 9, Fraction(95, 100)
    for _ in range(cells):
        longer: dict[int, float] = {}
        for (x, p), (y, q) in itertools.product(known.items(), one.items()):
            if p * q > 1e-13:
                longer[x + y] = longer.get(x + y, 0.0) + p * q
        known = longer
    half = half_width(basis("laplace", Fraction(4)), confidence, cells)
    assert math.fsum(p for x, p in known.items() if abs(x) <= half) == pytest.approx(0.95, abs=0.006)


def test_normal_points() -> None:
    for confidence in (Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000)):
        assert 1 - 2 * stats.norm.sf(normal_point(confidence)) == pytest.approx(float(confidence), rel=1e-9)


@pytest.mark.parametrize("last", [0, 1, 5])
def test_growth_of_steps(last: int) -> None:
    """Step j is worth 2**j units, so that its noise is 2**j times as large: variances add up. The SQL says the same."""
    wanted = math.sqrt(sum((2**j) ** 2 for j in range(last + 1)))
    assert step_growth(last) == pytest.approx(wanted)
    assert eval(GROWTH.format(last).replace("::float8", ""), {"sqrt": math.sqrt, "power": pow}) == pytest.approx(wanted)


def test_steps_leave_most_of_the_failure_to_themselves() -> None:
    one, several = basis("gaussian", Fraction(100)), basis("gaussian", Fraction(100), steps=4)
    assert told_half(one, Fraction(95, 100)) == half_width(one, Fraction(95, 100))
    assert told_half(several, Fraction(95, 100)) == half_width(one, Fraction(9625, 10_000))


@pytest.mark.parametrize(("cells", "least"), [(1, 0.98), (3, 0.96), (5, 0.93), (9, 0.89), (10, 0.99), (100, 0.99)])
def test_nine_in_ten_cells_of_an_answer_hold(cells: int, least: float) -> None:
    """By the binomial law, of cells whose noise is independent."""
    missed = stats.binom(cells, float(1 - each(Fraction(95, 100))))
    assert least <= missed.cdf(cells // 10) < least + 0.02
