"""Columns of several steps of size: what is put together of them, how far up, and how far off it is."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from dpproxy.mechanisms import charge_check, step_columns
from dpproxy.mechanisms.noise import Exact, Int64, MechanismError
from dpproxy.mechanisms.noise_sources import OpenDPNoise, OwnNoise
from dpproxy.mechanisms.release import release
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis, Key, Measurement
from dpproxy.privacy.noise_error import deviation, step_growth, told_half
from dpproxy.privacy.noise_scale import gaussian_sigma, laplace_scale, rho_for
from dpproxy.sql.template import Template

ROWS, COUNT = 10, 6
SEED = np.random.default_rng(17).bytes
Name = Literal["laplace", "gaussian"]


class Still(OpenDPNoise):
    """Noise that adds nothing."""

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return values

    gaussian = laplace


def basis(mechanism: Name = "gaussian", signed: bool = False) -> Basis:
    if mechanism == "gaussian":
        sigma = gaussian_sigma(1, ROWS, rho_for(500_000, 10**11))
        return Basis(
            "n", ROWS, Fraction(1), mechanism, sigma, Loss.gaussian(1, ROWS, sigma, 500_000, 10**11), 2, 1, COUNT, signed
        )
    scale = laplace_scale(1, ROWS, 500_000)
    return Basis("n", ROWS, Fraction(1), mechanism, scale, Loss.laplace_vector(1, ROWS / scale, ROWS), 1, 1, COUNT, signed)


def measured(one: Basis) -> Measurement:
    return Measurement((Template("duckdb", ("x",)),), (Key("k", "text"),), (one,), 1000, True, None, one.loss, None)


def exact(columns: npt.NDArray[np.int64]) -> Exact:
    names = [f"key {i}" for i in range(columns.shape[1])]
    return Exact((pa.table({"k0": names} | {f"b0s{j}": pa.array(c, pa.int64()) for j, c in enumerate(columns)}),))


def put(noisy: list[Int64], deviation: float, laplace: bool, signed: bool) -> step_columns.Together:
    return step_columns.together(step_columns.Steps(noisy, deviation, laplace, signed, len(noisy)))


def columns(*rows: list[int]) -> npt.NDArray[np.int64]:
    return np.array([*rows, *([[0] * len(rows[0])] * (COUNT - len(rows)))], dtype=np.int64)


def test_without_noise_the_steps_are_added_up() -> None:
    given = columns([50_000, 70_000], [30_000, 42_000], [20_000, 28_000])
    released = release(measured(basis()), exact(given), Still())
    assert [v.tolist() for v in released.values] == [[190_000, 266_000], [190_000, 266_000], [2, 2], [0, 0]]


class Dice(Still):
    """Noise that moves each value by as much."""

    def __init__(self, by: int) -> None:
        super().__init__()
        self._by = by

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return values + self._by

    gaussian = laplace


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("by", [-(10**6), 10**6])
def test_shifted_dice_for_steps(by: int, mechanism: Name, signed: bool) -> None:
    """What is shown is put together of columns each of which the dice have moved: no step passes by the noise."""
    one, given = basis(mechanism, signed), columns([50, 70], [30, 42], [20, 28])
    released = release(measured(one), exact(given), Dice(by))
    moved = put([c + by for c in given], deviation(one) * one.fine, mechanism == "laplace", signed)
    last = [moved.last] * 2
    assert [v.tolist() for v in released.values] == [moved.value.tolist(), moved.raw.tolist(), last, moved.later.tolist()]
    assert last == [COUNT - 1] * 2 or (by < 0 and not signed), "dice as far as that are seen in the last step"


def test_without_noise_groups_unlike_are_off_by_less_than_it() -> None:
    given = columns([50_000, 70_000], [30_000, 40_000], [20_000, 9_000])
    released = release(measured(basis()), exact(given), Still())
    assert [v.tolist() for v in released.values[1:]] == [[190_000, 186_000], [2, 2], [0, 0]]
    assert np.abs(released.values[0] - released.values[1]).max() < float(basis().scale) * step_growth(2)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("steps", [1, COUNT])
@pytest.mark.parametrize("groups", [0, 1])
def test_no_group_and_one_step(groups: int, steps: int, signed: bool) -> None:
    found = put([np.zeros(groups, dtype=np.int64)] * steps, 10.0, False, signed)
    assert (found.value.tolist(), found.raw.tolist(), found.last) == ([0] * groups, [0] * groups, 0)


def test_nobody_beyond_the_first_step() -> None:
    released = release(measured(basis()), exact(columns([50_000, 70_000])), Still())
    assert [v.tolist() for v in released.values] == [[50_000, 70_000], [50_000, 70_000], [0, 0], [0, 0]]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("groups", [1, 20, 400])
@pytest.mark.parametrize("signed", [False, True])
def test_steps_of_nothing_are_rarely_taken(mechanism: Name, groups: int, signed: bool) -> None:
    """And hardly ever far ones: the harm expected of them is small beside the noise there is."""
    one, lasts = basis(mechanism, signed), []
    given = exact(columns([100_000] * groups))
    for _ in range(400 if groups < 400 else 60):
        lasts.append(int(release(measured(one), given, OwnNoise(SEED)).values[2][0]))
    assert np.mean(np.array(lasts) > 0) < 0.07
    assert np.mean(np.array(lasts) > 1) < 0.02
    assert np.mean([step_growth(last) ** 2 for last in lasts]) < 2.5


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("signed", [False, True])
def test_one_step_far_up_is_found(mechanism: Name, signed: bool) -> None:
    given = columns([1000] * 20, [0] * 20, [0] * 20, [0] * 20, [800] * 20)
    released = release(measured(basis(mechanism, signed)), exact(given), OwnNoise(SEED))
    assert set(released.values[2].tolist()) == {4}
    assert np.median(np.abs(released.values[0] / 13_800 - 1)) < 0.5  # a step's noise is a tenth of it


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("upper", [0, 60, 150, 600, 3000])
def test_intervals_about_the_raw_value(mechanism: Name, upper: int) -> None:
    """Of 1,000 cells 93 to 97 % are within, whatever there is in the upper steps (Laplace noise of several steps is nearer to
    normal than its interval takes it to be: up to 98 %)."""
    one, inside = basis(mechanism), []
    given = columns([5000] * 10, [upper] * 10, [upper // 2] * 10)
    half = told_half(one, Fraction(95, 100))
    for _ in range(100):
        released = release(measured(one), exact(given), OwnNoise(SEED))
        last = int(released.values[2][0])
        bounded = sum(given[j] * 2**j for j in range(last + 1))
        inside += list(np.abs(released.values[1] - bounded) <= math.ceil(half * step_growth(last)))
    assert 0.93 <= np.mean(inside) <= (0.985 if mechanism == "laplace" else 0.98)


@pytest.mark.parametrize("releases", [200, pytest.param(4000, marks=pytest.mark.long)])
@pytest.mark.parametrize("laplace", [False, True])
def test_steps_that_are_hardly_seen_leave_intervals_as_they_are_told(laplace: bool, releases: int) -> None:
    """A step is taken where its noise was high: by many releases of steps of all sizes near what shows them, in one group."""
    rng, chance = np.random.default_rng(8), math.sqrt(0.05 * 0.95 / releases)  # standard deviation of a share
    one = basis("laplace" if laplace else "gaussian")
    sigma = float(one.scale) * (math.sqrt(2) if laplace else 1)
    half, held = told_half(one, Fraction(95, 100)), []
    for first in (0.0, 1.0, 2.0, 3.0):
        for falling in (0.25, 0.5, 0.75):
            truth = np.array([100.0, *(first * falling**j for j in range(COUNT - 1))]) * sigma
            noise = (
                rng.laplace(0, sigma / math.sqrt(2), (releases, COUNT)) if laplace else rng.normal(0, sigma, (releases, COUNT))
            )
            found = [put([np.rint(x[None]).astype(np.int64) for x in truth + row], sigma, laplace, False) for row in noise]
            bounded = np.array([(truth * 2.0 ** np.arange(COUNT))[: f.last + 1].sum() for f in found])
            off = np.abs(np.array([int(f.raw[0]) for f in found]) - bounded)
            held.append(np.mean(off <= half * np.array([step_growth(f.last) for f in found])))
    assert 0.94 - 3 * chance <= min(held) <= max(held) <= 0.965 + 3 * chance
    assert 0.94 <= np.mean(held) <= 0.965


def test_groups_alike_are_smoothed_and_one_that_is_not_is_left() -> None:
    """Shares as below where noise hides them; not where the noise cannot be all."""
    rng = np.random.default_rng(5)
    sigma = float(basis().scale)
    given = np.array([[30_000.0] * 20, [2_000.0] * 20, [1_000.0] * 20])
    given[2][7] = 30_000
    errors, raw = [], []
    for _ in range(200):
        noisy = [np.rint(row + rng.normal(0, sigma, 20)).astype(np.int64) for row in given]
        found = put(noisy, sigma, False, False)
        whole = sum(row * 2**j for j, row in enumerate(given))
        errors.append(found.value - whole)
        raw.append(found.raw - whole)
    assert found.last == 2
    spread = np.std(np.array(raw))
    assert spread == pytest.approx(sigma * step_growth(2), rel=0.05)
    assert np.abs(np.mean(np.array(raw))) < spread / 10
    assert np.abs(np.mean(np.array(errors)[:, 7])) < spread * 0.8  # its share in the other steps is taken to be larger, too
    others = np.delete(np.array(errors), 7, axis=1)
    assert np.sqrt(np.mean(others**2)) < max(spread, np.abs(np.mean(others)) * 1.2)


def errors_of(given: npt.NDArray[np.float64], sigma: float, releases: int = 200) -> npt.NDArray[np.float64]:
    """Of what is shown, in deviations of the first step's noise; and of the same unsmoothed."""
    rng, off = np.random.default_rng(6), []
    whole = sum(row * 2**j for j, row in enumerate(given))
    for _ in range(releases):
        found = put([np.rint(row + rng.normal(0, sigma, row.size)).astype(np.int64) for row in given], sigma, False, False)
        off.append([found.value - whole, found.raw - whole])
    return np.array(off) / sigma


def test_shares_are_what_all_steps_say_of_a_group() -> None:
    """Most rows are of people beyond the first step, of which alone a group's share would be known to a third."""
    sizes = np.linspace(1, 3, 20)
    given = np.array([300 * sizes, 2000 * sizes, 2000 * sizes, 300 * sizes])
    shown, raw = errors_of(given, 100.0).transpose(1, 0, 2)
    assert np.std(raw) == pytest.approx(step_growth(3), rel=0.05)
    assert np.std(shown) < 0.75 * np.std(raw)
    assert np.abs(np.mean(shown, axis=0)).max() < 0.2 * np.std(raw)


def test_groups_that_vary_in_a_step_keep_what_is_their_own() -> None:
    """Each by less than would be seen in it alone; all together by more than noise."""
    sizes, sign = np.linspace(1, 3, 20), np.where(np.arange(20) % 2, 1, -1)
    given = np.array([8000 * sizes, 3000 * sizes, 1500 * sizes * (1 + 0.12 * sign)])
    shown, raw = errors_of(given, 100.0).transpose(1, 0, 2)
    hidden = np.abs(4 * 1500 * sizes * 0.12) / 100
    assert (np.abs(np.mean(shown, axis=0)) < 0.6 * hidden + 1).all()
    assert np.sqrt(np.mean(shown**2)) < 1.05 * np.std(raw)


def test_many_groups_draw_for_fewer_steps() -> None:
    """What is beyond the last one drawn is in it, and adds to it by no more than it did where it was."""
    given = [np.full(100_000, 2**j, dtype=np.int64) for j in range(12)]
    found = step_columns.folded(given)
    assert [int(c[0]) for c in found] == [1, sum(2**j for j in range(1, 12))]
    few = [c[:100] for c in given]
    assert step_columns.folded(few) is few
    huge = [np.full(100_000, 2**62, dtype=np.int64)] * 12
    assert 0 < step_columns.folded(huge)[-1][0] < 2**62


def test_huge_values_stay_within_64_bits() -> None:
    top = [np.array([2**62, -(2**62)], dtype=np.int64)] * 12
    found = put(top, 1.0, False, True)
    assert found.last == 11
    assert found.raw[0] > 2**62 > 0 > found.raw[1]


def test_the_steps_of_a_basis_share_a_sensitivity_over_all_groups() -> None:
    with pytest.raises(MechanismError):
        charge_check.check(measured(replace(basis(), norm=0)), OpenDPNoise())


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("groups", [1, 3, 50])
def test_certain_is_one_in_thousands(signed: bool, laplace: bool, groups: int) -> None:
    rng = np.random.default_rng(11)
    draw = rng.laplace(0, math.sqrt(0.5), (20_000, groups)) if laplace else rng.normal(0, 1, (20_000, groups))
    found = np.array([step_columns._energy(row, laplace) for row in draw]) if signed else step_columns._sums(draw, laplace)
    assert np.mean(found >= step_columns.CERTAIN) <= 3 / 20_000
    assert np.mean(found >= step_columns.SEEN) <= 0.04


def test_ratio_of_neighbours_over_all_steps_by_enumeration() -> None:
    """Two groups in two steps, every outcome of the noise: one unit more, in one step by `linf` in both groups together, moves the
    chance of every vector of noisy columns by at most e**epsilon, and of some by that; what is put together of them cannot more."""
    linf, epsilon = 3, 0.8
    scale = float(laplace_scale(1, linf, 800_000))
    reach = np.arange(-12, 13)
    log = -np.abs(np.subtract.outer(np.arange(linf + 1), reach)) / scale  # of a cell of that exact value, by outcome
    cells = [(a, b) for a in range(linf + 1) for b in range(linf + 1 - a)]
    without = np.add.outer(np.add.outer(log[0], log[0]), np.add.outer(log[0], log[0]))
    worst = 0.0
    for a, b in cells:
        for step in (0, 1):
            moved, still = np.add.outer(log[a], log[b]), np.add.outer(log[0], log[0])
            ratio = (np.add.outer(moved, still) if step == 0 else np.add.outer(still, moved)) - without
            worst = max(worst, float(np.abs(ratio).max()))
    assert worst == pytest.approx(epsilon, rel=1e-9)
    both = np.add.outer(np.add.outer(log[linf], log[0]), np.add.outer(log[linf], log[0])) - without
    assert float(np.abs(both).max()) == pytest.approx(2 * epsilon, rel=1e-9)  # a unit in two steps would cost twice
