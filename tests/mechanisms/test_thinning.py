"""What is left of a large grid's counts chooses the same points with the same chances."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest

from dpproxy.mechanisms import exponential, quantiles
from dpproxy.mechanisms.noise import Int64
from dpproxy.privacy.selection_ranks import extreme_rank

SIZE = 10**6
NEVER = 256 * math.log(2)


def gaps(point: Int64, count: Int64, fraction: Fraction, epsilon: Fraction, per_unit: int, offset: int) -> tuple[Int64, Fraction]:
    """Of every grid point by itself, and eta, by enumeration."""
    zeros = np.zeros_like(point)
    data = exponential.counts(zeros, point, count, 1)
    runs = exponential.quantile_runs(data, SIZE, fraction, extreme_rank(SIZE, per_unit, epsilon), offset)
    return np.repeat(runs.gap, runs.length), epsilon / (2 * per_unit * exponential.score_step(fraction))


@pytest.mark.parametrize(
    ("fraction", "offset"),
    [(Fraction(f), o) for f, o in [(0, 0), (1, 0), ("1/2", 0), ("1/20", 0), ("999/1000", 0), ("1/2", -2000), ("999/1000", 3000)]],
)
@pytest.mark.parametrize("shape", ["even", "one value", "two heaps", "few"])
def test_points_that_can_be_chosen_keep_their_chances(fraction: Fraction, offset: int, shape: str) -> None:
    """The others have, all together, less than 2**-256 of the best, before and after."""
    rng = np.random.default_rng(3)
    point = {
        "even": np.arange(0, SIZE, 50),
        "one value": np.array([17, 400_000, 999_999]),
        "two heaps": np.r_[np.arange(1000), np.arange(SIZE - 5000, SIZE)],
        "few": np.sort(rng.choice(SIZE, 40, replace=False)),
    }[shape].astype(np.int64)
    count = rng.integers(1, 5, point.size)
    if shape == "one value":
        count = np.array([100, 20_000, 300])
    epsilon, per_unit = Fraction(40), 2
    near = quantiles.windows(int(count.sum()), SIZE, [fraction], per_unit, epsilon, offset)
    order = rng.permutation(point.size)
    fewer, counts = quantiles.merged(point[order], count[order], SIZE, near)
    assert counts.sum() == count.sum()
    before, eta = gaps(point, count, fraction, epsilon, per_unit, offset)
    after, _ = gaps(fewer, counts, fraction, epsilon, per_unit, offset)
    changed = np.flatnonzero(before != after)
    assert shape != "even" or (fewer.size < point.size / 2 and changed.size > SIZE / 2)
    if changed.size:
        assert changed.size * math.exp(-float(eta * int(before[changed].min())) + NEVER) < 1
        assert changed.size * math.exp(-float(eta * int(after[changed].min())) + NEVER) < 1


def test_a_window_too_narrow_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiles, "NEVER", 40)
    with pytest.raises(AssertionError):
        test_points_that_can_be_chosen_keep_their_chances(Fraction(1, 2), 0, "even")


def test_several_quantiles_stay_in_their_windows() -> None:
    """The joint mechanism aims each level between cuts that were chosen before: all it chooses is kept as it was."""
    rng, fractions = np.random.default_rng(1), [Fraction(i, 8) for i in range(1, 8)]
    point = np.unique(rng.integers(0, SIZE, 100_000))
    count = np.ones_like(point)
    near = quantiles.windows(point.size, SIZE, fractions, 1, Fraction(20))
    fewer, counts = quantiles.merged(point, count, SIZE, near)
    assert fewer.size < point.size / 3
    kept = set(fewer.tolist())
    data = exponential.counts(np.zeros_like(fewer), fewer, counts, 1)
    for _ in range(20):
        for fraction, chosen in zip(
            fractions, quantiles.quantiles(data, SIZE, fractions, 1, Fraction(20), rng.bytes), strict=True
        ):
            at = int(np.searchsorted(point, chosen[0]))
            assert abs(at - fraction * point.size) < 40
            assert int(point[min(at, point.size - 1)]) in kept


def test_only_large_groups_are_touched() -> None:
    rng = np.random.default_rng(2)
    large = np.unique(rng.integers(0, 10**9, quantiles.LARGE * 3))
    group = np.r_[np.full(large.size, 1), [0, 0, 2]].astype(np.int64)
    point = np.r_[large, [5, 7, 9]].astype(np.int64)
    count = np.ones_like(point)
    found = quantiles.thinned((group, point, count), 3, 10**9, [Fraction(1, 2)], 1, Fraction(1))
    assert sorted(zip(*(c[found[0] != 1].tolist() for c in found), strict=True)) == [(0, 5, 1), (0, 7, 1), (2, 9, 1)]
    assert 0 < (found[0] == 1).sum() < 10_000
    assert found[2].sum() == count.sum()
    small = (group[-3:], point[-3:], count[-3:])
    assert quantiles.thinned(small, 3, 10**9, [Fraction(1, 2)], 1, Fraction(1)) is small


@pytest.mark.slow
def test_three_million_values_take_about_as_long_as_sorting_them() -> None:
    point = np.random.default_rng(4).permutation(10**9 // 300)[: 3 * 10**6] * 300
    rows = (np.zeros_like(point), point, np.ones_like(point))
    began = time.process_time()
    np.sort(point)
    sorting, began = time.process_time() - began, time.process_time()
    found = quantiles.thinned(rows, 1, 10**9, [Fraction(1, 2)], 10, Fraction(1, 10))
    assert time.process_time() - began < 20 * sorting
    assert found[0].size < 10**6
