"""How groups share in the steps of size: like the step below, but for groups that are unlike it."""

from __future__ import annotations

import numpy as np
import pytest

from dpproxy.mechanisms.step_columns import Float64, Profile, profiles

NOISE = 40.0


def guessed(true: Float64, seed: int, laplace: bool = False) -> list[Profile]:
    rng = np.random.default_rng(seed)
    drawn = rng.laplace(0, NOISE / np.sqrt(2), true.shape) if laplace else rng.normal(0, NOISE, true.shape)
    return profiles(true + drawn, NOISE, laplace)


def test_the_first_step_is_as_it_is() -> None:
    given = np.array([[5.0, -3.0, 800.0], [0.0, 0.0, 0.0]])
    assert guessed(given, 1)[0].value.shape == (3,)
    assert profiles(given, NOISE, False)[0].value.tolist() == [5.0, -3.0, 800.0]


@pytest.mark.parametrize("laplace", [False, True])
def test_groups_alike_share_what_is_known_of_all(laplace: bool) -> None:
    """Each is 200 of noise 40 in the third step; guessed, it is off by a quarter of that, and in the second step by two fifths: of
    noise alone groups are not taken to vary."""
    sizes = np.linspace(1, 3, 20)
    true = np.array([3000 * sizes, 1000 * sizes, 100 * sizes])
    found = [guessed(true, seed, laplace) for seed in range(60)]
    for step, most in ((1, 0.42), (2, 0.28)):
        off = np.array([one[step].value - true[step] for one in found])
        assert np.sqrt((off**2).mean()) < most * NOISE
        assert abs(off.mean()) < NOISE / 20


@pytest.mark.parametrize("laplace", [False, True])
def test_a_favourite_of_the_heaviest_says_nothing_of_others(laplace: bool) -> None:
    """In the second step one group of twenty has more than all others; in the third these are hidden by noise."""
    true = np.full((4, 20), 1.0) * np.array([20_000, 500, 120, 20])[:, None]
    true[1:, 7] = [9_000, 6_000, 3_000]
    shown = np.array([[p.value for p in guessed(true, seed, laplace)] for seed in range(60)])
    others = np.delete(shown - true, 7, axis=2)
    assert np.abs(others.mean(axis=(0, 2))).max() < NOISE / 4
    assert np.sqrt((others[:, 3] ** 2).mean()) < NOISE / 2
    assert np.abs(shown[:, :, 7].mean(axis=0) / true[:, 7] - 1).max() < 0.02


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("groups", [1, 20, 300])
def test_of_nothing_hardly_any_group_is_taken_for_its_own(laplace: bool, groups: int) -> None:
    """What that adds by mistake is small beside the noise of the first step, although the last weighs 2,048 times as much."""
    true = np.zeros((12, groups))
    true[0] = 30_000
    found = [guessed(true, seed, laplace) for seed in range(60 if groups < 300 else 12)]
    harm = [sum(4.0**j * (p.own**2).mean() for j, p in enumerate(one)) for one in found]
    assert np.mean(harm) < NOISE**2 / 4
    assert np.mean([p.evidence > 3 for one in found for p in one[1:]]) < 0.01


def test_everybody_is_in_an_upper_step() -> None:
    """Where nothing is known from below, each group is its own."""
    true = np.zeros((4, 6))
    true[3] = [500, 900, 4000, 0, 70, 2000]
    found = [guessed(true, seed)[3] for seed in range(40)]
    assert min(p.evidence for p in found) > 18
    off = np.array([p.value for p in found]) - true[3]
    assert np.sqrt((off**2).mean()) < 1.1 * NOISE


def test_spread_says_how_far_off_the_guess_is() -> None:
    sizes = np.linspace(1, 3, 20)
    true = np.array([3000 * sizes, 1000 * sizes * (1 + 0.2 * (np.arange(20) % 2))])
    found = [guessed(true, seed)[1] for seed in range(60)]
    off = np.array([(p.value - true[1]) ** 2 / p.spread for p in found])
    assert 0.8 < off.mean() < 1.2


def test_no_group_and_no_noise_worth_speaking_of() -> None:
    assert [p.value.size for p in profiles(np.zeros((3, 0)), NOISE, False)] == [0, 0, 0]
    exact = np.array([[1000.0, 0.0], [0.0, 500.0], [0.0, 0.0]])
    assert np.allclose([p.value for p in profiles(exact, 1e-9, False)], exact)


def test_many_groups_are_searched_by_the_largest() -> None:
    rng = np.random.default_rng(2)
    sizes = rng.pareto(1, 5000) + 1
    true = np.array([300 * sizes, 30 * sizes])
    off = guessed(true, 3)[1].value - true[1]
    assert np.sqrt((off**2).mean()) < NOISE / 2
