"""Several quantiles from one budget: their law, their epsilon by enumeration, and what it is worth."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpproxy.mechanisms import exponential
from dpproxy.mechanisms import quantiles as several
from dpproxy.mechanisms.quantiles import Segment, halves, level, middle, quantiles, spread
from dpproxy.privacy.selection_ranks import draws

QUARTERS = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
SEED = np.random.default_rng(13).bytes


def counts(*groups: list[int]) -> exponential.Counts:
    pairs = [(g, p) for g, points in enumerate(groups) for p in points]
    group, point = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    return exponential.counts(group, point, np.ones(len(pairs), dtype=np.int64), len(groups))


Law = dict[tuple[int, ...], float]


def law(data: list[int], size: int, fractions: list[Fraction], per_unit: int, epsilon: Fraction) -> Law:
    """The exact probability of every answer: level by level, by the definition of each draw."""
    whole = np.array([size], dtype=np.int64)
    order = tuple(sorted(range(len(fractions)), key=fractions.__getitem__))
    start = Segment(order, Fraction(0), Fraction(1), np.zeros_like(whole), whole, whole - 1)

    def answers(open_: list[Segment]) -> dict[tuple[tuple[int, int], ...], float]:
        if not open_:
            return {(): 1.0}
        segment, *rest = open_
        runs, eta = level(counts(data), size, fractions, segment, per_unit, epsilon)
        points = [(p, g) for s, n, g in zip(runs.start, runs.length, runs.gap, strict=True) for p in range(s, s + n)]
        weights = {int(p): math.exp(-float(eta) * int(gap)) for p, gap in points}
        found: dict[tuple[tuple[int, int], ...], float] = {}
        for point, weight in weights.items():
            following = [*rest, *halves(segment, fractions, np.array([point], dtype=np.int64))]
            for others, p in answers(following).items():
                found[((middle(segment), point), *others)] = p * weight / math.fsum(weights.values())
        return found

    return {tuple(point for _, point in sorted(answer)): p for answer, p in answers([start]).items()}


def databases(size: int, most: int) -> list[list[int]]:
    return [list(d) for n in range(most + 1) for d in itertools.combinations_with_replacement(range(size), n)]


@pytest.mark.parametrize("per_unit", [1, 2])
def test_epsilon_by_enumeration(per_unit: int) -> None:
    """Two levels: every database of few contributions, every unit added, every answer: within 2 epsilon, both ways."""
    size, epsilon, worst = 4, Fraction(1), 0.0
    assert draws(QUARTERS) == 2
    laws = {tuple(d): law(d, size, QUARTERS, per_unit, epsilon) for d in databases(size, 3 + per_unit)}
    for data in databases(size, 3):
        for unit in databases(size, per_unit)[1:]:
            one, two = laws[tuple(data)], laws[tuple(sorted(data + unit))]
            assert set(one) == set(two)
            logs = [math.log(p / two[answer]) for answer, p in one.items()]
            worst = max(worst, max(logs), -min(logs))
            for range_ in ranges(one, two):
                assert range_ <= float(epsilon) * (1 + 1e-9)
    assert float(epsilon) * 0.5 < worst <= 2 * float(epsilon) * (1 + 1e-9)


def ranges(one: Law, two: Law) -> Iterator[float]:
    """The length of the interval of losses: of the median, and of the other two given the median."""
    medians = [{m: math.fsum(p for a, p in law.items() if a[1] == m) for m in {a[1] for a in law}} for law in (one, two)]
    losses = [math.log(medians[0][m] / medians[1][m]) for m in medians[0]]
    yield max(losses) - min(losses)
    for m in medians[0]:
        given = [math.log(p / medians[0][m] * medians[1][m] / two[a]) for a, p in one.items() if a[1] == m]
        yield max(given) - min(given)


def test_answers_follow_their_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "PARTS", 1)
    data, copies, epsilon = [0, 0, 1, 3, 3, 3, 4], 3000, Fraction(4)
    expected = law(data, 5, QUARTERS, 1, epsilon)
    assert math.fsum(expected.values()) == pytest.approx(1)
    answers = zip(*quantiles(counts(*[data] * copies), 5, QUARTERS, 1, epsilon, SEED), strict=True)
    seen = Counter(tuple(map(int, answer)) for answer in answers)
    likely = [answer for answer, p in expected.items() if p * copies >= 5]
    observed = [seen[a] for a in likely] + [copies - sum(seen[a] for a in likely)]
    wanted = [expected[a] * copies for a in likely] + [copies * (1 - math.fsum(expected[a] for a in likely))]
    assert stats.chisquare(observed, wanted, sum_check=False).pvalue > 1e-4


def test_one_contribution_more_is_one_more_in_one_cell() -> None:
    cells = {0: np.zeros(128, dtype=np.int64)}
    for n in range(1, 3 * 16 * 64):
        spread_out = spread(exponential.Counts(*(np.array([x], dtype=np.int64) for x in (0, 1, n)), 1), 64)
        cells[n] = np.zeros(128, dtype=np.int64)
        cells[n][spread_out.point] = spread_out.count
        assert cells[n].sum() == n
        assert not cells[n][:64].any()
        moved = cells[n] - cells[n - 1]
        assert (moved.min(), moved.sum()) == (0, 1)
    full = cells[2 * 16 * 64][64:]
    assert full.min() == full.max() == 32
    half = cells[8 * 16][64:]  # eight blocks: an eighth of the cells, evenly
    assert np.flatnonzero(half).tolist() == list(range(0, 64, 8))


def test_no_noise_gives_the_discrete_percentiles() -> None:
    rng = np.random.default_rng(3)
    groups = [rng.integers(0, 1000, 5000).tolist(), rng.integers(500, 520, 4000).tolist()]
    fractions = [Fraction(k, 10) for k in range(1, 10)]
    found = quantiles(counts(*groups), 1000, fractions, 1, Fraction(1000), SEED)
    for group, points in enumerate(groups):
        for i, fraction in enumerate(fractions):
            rank = round(float(fraction) * len(points))
            near = sorted(points)[max(rank - 80, 0) : rank + 80]  # of cells of blocks, not of single rows
            assert near[0] <= found[i][group] <= near[-1]
        values = [int(v[group]) for v in found]
        assert values == sorted(values)


def test_values_that_many_share_are_cut_in_the_middle() -> None:
    data = counts([7] * 6000 + list(range(100, 4100)))
    found = quantiles(data, 5000, [Fraction(k, 10) for k in (2, 4, 5, 7, 9)], 1, Fraction(20), SEED)
    assert [int(v[0]) for v in found[:3]] == [7, 7, 7]
    assert [int(v[0]) for v in found[3:]] == pytest.approx([1100, 3100], abs=150)


def test_the_groups_are_their_own() -> None:
    found = quantiles(counts([5] * 500, [], [90] * 500), 100, QUARTERS, 1, Fraction(10), SEED)
    assert [[int(v[g]) for v in found] for g in (0, 2)] == [[5, 5, 5], [90, 90, 90]]
    assert all(0 <= v[1] < 100 for v in found)


def test_nine_quantiles_are_better_together() -> None:
    """At one epsilon for all of them: the median of their errors in ranks is well below that of separate draws."""
    rng = np.random.default_rng(5)
    points = np.sort(rng.integers(0, 100_000, 3000))
    copies, epsilon = 60, Fraction(1, 2)
    data = counts(*[points.tolist()] * copies)
    fractions = [Fraction(k, 10) for k in range(1, 10)]
    assert draws(fractions) == 4
    together = quantiles(data, 100_000, fractions, 1, epsilon / 4, SEED)
    apart = [exponential.quantile(data, 100_000, f, 1, epsilon / 9, SEED) for f in fractions]

    def error(found: list[np.ndarray]) -> float:  # type: ignore[type-arg]
        ranks = [np.abs(np.searchsorted(points, v) - float(f) * points.size) for v, f in zip(found, fractions, strict=True)]
        return float(np.median(np.concatenate(ranks)))

    assert error(together) < 0.7 * error(apart)


@pytest.mark.parametrize("fractions", [[Fraction(0), Fraction(1, 2)], [Fraction(1, 2)] * 2, [Fraction(1)]])
def test_what_is_refused(fractions: list[Fraction]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        quantiles(counts([1]), 10, fractions, 1, Fraction(1), SEED)


def test_how_many_draws() -> None:
    assert [draws([Fraction(k, n + 1) for k in range(1, n + 1)]) for n in (1, 2, 3, 4, 7, 8, 15)] == [1, 2, 2, 3, 3, 4, 4]
    assert draws([Fraction(0), Fraction(1), *QUARTERS]) == 4
    assert draws([]) == 1
    assert draws([Fraction(1, 2)] * 5) == 1
