"""Intervals of estimates from reports hold what they say, and consistent counts add up."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpproxy.decoding import bounds as intervals
from dpproxy.decoding import decoders
from dpproxy.decoding.bounds import bounds, consistent, deviations, estimates
from dpproxy.local.claims import Binary, Direct, Hadamard, Hashed, Law, Plane

Z = 2.4977
"""The normal quantile of one side at the product's 98.75 % a cell."""

LAWS: dict[str, Law] = {
    "coin": Binary(Fraction(3, 4), Fraction(1, 4)).law,
    "coin, no": Binary(Fraction(3, 4), Fraction(1, 4)).no,
    "coin, turned": Binary(Fraction(1, 8), Fraction(3, 4)).law,
    "nearly sure": Binary(Fraction(999, 1000), Fraction(1, 2)).law,
    "krr": Direct.within(Fraction(4), 100).law,
    "pgr": Plane.within(Fraction(4), 2600, 53, 3).law,
}


def coverage(law: Law, n: int, f: int, lower: np.ndarray, upper: np.ndarray) -> float:
    """The exact probability that the interval holds f, by the distribution of C."""
    p, q = float(law.p), float(law.q)
    masses = np.convolve(stats.binom.pmf(np.arange(f + 1), f, p), stats.binom.pmf(np.arange(n - f + 1), n - f, q))
    return float(masses[(lower <= f) & (f <= upper)].sum())


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [1, 10, 30, 100, 1000])
def test_intervals_hold_the_truth(name: str, n: int) -> None:
    """The worst probability over true counts: at least 98 % throughout."""
    law = LAWS[name]
    lower, upper = bounds(law, np.arange(n + 1), n, 0, Z)
    assert ((lower >= 0) & (lower <= upper) & (upper <= n)).all()
    counts = [*range(0, n + 1, max(1, n // 50)), n]
    assert min(coverage(law, n, f, lower, upper) for f in counts) >= 0.98


@pytest.mark.parametrize(("n", "least"), [(10, 0.95), (30, 0.95), (100, 0.97), (1000, 0.98)])
@pytest.mark.parametrize("epsilon", [1, 4])
def test_sketches_of_few_reports_hold_the_truth(epsilon: int, n: int, least: float) -> None:
    """Where all other devices have values of their own, C is a sum of two binomial counts, so that the law is exact."""
    law = Hashed.within(Fraction(epsilon), 128, "s").law
    for f in (0, 1, 2, 3, n // 10, n // 2, n - 1, n):
        lower, upper = bounds(law, np.arange(n + 1), n, n - f + f * f, Z)
        assert coverage(law, n, f, lower, upper) >= least, f


def test_a_normal_interval_of_few_reports_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The case that exact tails are for: 100 values, 10 reports."""
    monkeypatch.setattr(intervals, "EXACT", 0)
    law = LAWS["krr"]
    lower, upper = bounds(law, np.arange(11), 10, 0, Z)
    assert min(coverage(law, 10, f, lower, upper) for f in range(11)) < 0.95


def test_exact_tails() -> None:
    """Beside the distribution function of SciPy, where one part of the sum is empty."""
    for n, p, most in ((50, 0.3, 12), (7, 0.9, 7), (10**6, 1e-5, 3)):
        assert intervals._cumulative(n, p, 0, 0.5, most) == pytest.approx(stats.binom.cdf(most, n, p), rel=1e-9)
        assert intervals._cumulative(0, 0.5, n, p, most) == pytest.approx(stats.binom.cdf(most, n, p), rel=1e-9)
    assert intervals._cumulative(5, 0.5, 5, 0.5, -1) == 0


def sketched(seed: int, n: int = 100_000, d: int = 200) -> tuple[Hadamard, np.ndarray, decoders.Tally]:
    """Sixteen functions of 64 cells, as few as collisions are the larger part of the error."""
    dice = np.random.default_rng(seed)
    claim = Hadamard.within(Fraction(4), 16, 64, f"s{seed}")
    value = np.minimum(dice.zipf(1.5, n), d) - 1
    cells = decoders.places(claim, np.arange(d), 0, 16) % 64
    j, column = dice.integers(0, 16, n), dice.integers(0, 64, n)
    plus = (np.bitwise_count(column & cells[j, value]) % 2 == 0) ^ (dice.random(n) >= float(claim.keep))
    tally = decoders.tally(claim, (j * 64 + column) * 2 + plus, np.ones(n, np.int64))
    return claim, np.bincount(value, minlength=d), tally


@pytest.mark.parametrize(("collisions", "least", "most"), [(True, 0.97, 1), (False, 0, 0.8)])
def test_sketches_tell_their_collisions(collisions: bool, least: float, most: float) -> None:
    """Hash functions are fixed: an interval without their part holds the truth in less than 80 of 100 cases."""
    hits = []
    for seed in range(20):
        claim, true, tally = sketched(seed)
        law = claim.law if collisions else replace(claim.law, collision=Fraction(1, 10**12))
        lower, upper = bounds(law, decoders.supporting(tally, np.arange(true.size)), tally.reports, tally.squares, Z)
        hits.append(((lower <= true) & (true <= upper)).mean())
    assert least <= np.mean(hits) <= most


def test_deviations_are_the_law_s() -> None:
    claim = Hadamard.within(Fraction(4), 16, 64, "s")
    told = deviations(claim.law, np.array([0, 5000]), 10_000, 3e7)
    holders = np.clip(estimates(claim.law, np.array([0, 5000]), 10_000), 0, 10_000)
    meant = [float(claim.law.variance(Fraction(f), 10_000, Fraction(3 * 10**7))) ** 0.5 for f in holders]
    assert told == pytest.approx(meant)


@pytest.mark.parametrize("seed", range(5))
def test_consistent_counts_add_up_and_are_nearer(seed: int) -> None:
    """Not one negative, the sum exactly the reports, and no further off than the raw estimates."""
    dice, n = np.random.default_rng(seed), 100_000
    true = dice.multinomial(n, dice.dirichlet(np.full(500, 0.1)))
    raw = true + dice.normal(0, 300, 500)
    counts = consistent(raw, n)
    assert (int(counts.min()) >= 0, int(counts.sum())) == (True, n)
    assert ((counts - true) ** 2).sum() < ((np.maximum(raw, 0) - true) ** 2).sum() < ((raw - true) ** 2).sum()


@pytest.mark.parametrize(
    ("raw", "reports", "counts"),
    [
        ([], 0, []),
        ([5.0], 3, [3]),
        ([-4.0, -9.0], 0, [0, 0]),
        ([-4.0, -9.0], 7, [6, 1]),
        ([1 / 3, 1 / 3, 1 / 3], 1, [1, 0, 0]),
        ([10.0, 10.0, -50.0], 15, [8, 7, 0]),
        ([1e9, 0.0], 10**9, [10**9, 0]),
    ],
)
def test_cases_of_consistent_counts(raw: list[float], reports: int, counts: list[int]) -> None:
    """Ties of remainders go to the first."""
    assert consistent(np.array(raw), reports).tolist() == counts
