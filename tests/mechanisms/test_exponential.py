"""The exponential mechanism on grids: which point is best, its exact law, and its epsilon by enumeration."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpproxy.amounts import ATTO
from dpproxy.mechanisms import exponential
from dpproxy.mechanisms.noise import Exact, MechanismError
from dpproxy.mechanisms.noise_sources import OwnNoise
from dpproxy.mechanisms.release import release
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Measurement, Selection, Threshold
from dpproxy.privacy.noise_tail import top_threshold
from dpproxy.privacy.selection_ranks import end_rank, extreme_rank
from dpproxy.sql.template import Template

FRACTIONS = [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1)]
SEED = np.random.default_rng(11).bytes


def counts(*groups: list[int]) -> exponential.Counts:
    """Each group as the list of its contributions' grid points."""
    pairs = [(g, p) for g, points in enumerate(groups) for p in points]
    group, point = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    return exponential.counts(group, point, np.ones(len(pairs), dtype=np.int64), len(groups))


def by_point(runs: exponential.Runs, group: int, size: int, offset: int = 0) -> list[int]:
    """The gap of every grid point, and of one beyond the grid where there is an offset; fails unless the group's runs cover
    these once, in order."""
    first = -1 if offset < 0 else 0
    gaps: list[int | None] = [None] * (size + bool(offset))
    starts = runs.start[runs.group == group]
    assert (np.diff(starts) > 0).all()
    for g, start, length, gap in zip(runs.group, runs.start, runs.length, runs.gap, strict=True):
        for point in range(start - first, start - first + length) if g == group else ():
            assert gaps[point] is None
            gaps[point] = int(gap)
    assert None not in gaps
    assert min(gaps) == 0
    return gaps


def databases(size: int, most: int) -> list[list[int]]:
    return [list(d) for n in range(most + 1) for d in itertools.combinations_with_replacement(range(size), n)]


def test_the_best_point_is_the_discrete_percentile() -> None:
    """PERCENTILE_DISC: the first value whose cumulative share reaches the fraction; MIN and MAX with rank 1."""
    for data in databases(5, 5):
        for fraction in FRACTIONS:
            gaps = by_point(exponential.quantile_runs(counts(data), 5, fraction, 1), 0, 5)
            if not data:
                assert gaps == [0] * 5
                continue
            rank = max(1, math.ceil(fraction * len(data)))
            assert [p for p, gap in enumerate(gaps) if gap == 0] == [sorted(data)[rank - 1]]


@pytest.mark.parametrize("offset", [-3, -1, 1, 2])
def test_the_best_point_beside_a_percentile(offset: int) -> None:
    """So many ranks beside it: beyond the first or the last contribution it is the candidate beyond the grid."""
    for data in databases(4, 5):
        for fraction in FRACTIONS[1:-1]:
            runs = exponential.quantile_runs(counts([0, 0, 3], data, [1]), 4, fraction, 1, offset)
            gaps, rank = by_point(runs, 1, 4, offset), math.ceil(fraction * len(data) + offset)
            best = [p - (offset < 0) for p, gap in enumerate(gaps) if gap == 0]
            within = 1 <= rank <= len(data)
            assert best == [sorted(data)[rank - 1] if within else -1 if rank < 1 else 4]


def test_the_best_point_of_the_mode_is_the_most_frequent() -> None:
    for data in databases(4, 5):
        gaps, seen = by_point(exponential.mode_runs(counts(data), 4), 0, 4), Counter(data)
        assert gaps == [max(seen.values(), default=0) - seen[p] for p in range(4)]


def test_ranks_of_extremes() -> None:
    data = counts([10, 20, 30, 40, 50])
    assert by_point(exponential.quantile_runs(data, 60, Fraction(0), 2), 0, 60)[20] == 0
    assert by_point(exponential.quantile_runs(data, 60, Fraction(1), 2), 0, 60)[40] == 0
    assert by_point(exponential.quantile_runs(data, 60, Fraction(0), 2), 0, 60)[5] == 2
    assert extreme_rank(10**6, 1, Fraction(10**6)) == 1
    assert extreme_rank(10**6, 10, Fraction(1)) == math.ceil((math.log(10**6) + 3) * 20)


def law(runs: exponential.Runs, eta: Fraction, group: int, size: int, offset: int = 0) -> list[float]:
    """The exact probability of every grid point by definition."""
    weights = [math.exp(-float(eta) * gap) for gap in by_point(runs, group, size, offset)]
    return [w / math.fsum(weights) for w in weights]


@pytest.mark.parametrize(
    ("fraction", "offset"), [*((f, 0) for f in [*FRACTIONS, None]), *((f, o) for f in FRACTIONS[1:-1] for o in (-2, 1))]
)
@pytest.mark.parametrize("per_unit", [1, 2])
def test_epsilon_by_enumeration(fraction: Fraction | None, offset: int, per_unit: int) -> None:
    """Every database of at most 4 contributions on 4 points, every unit added: the loss lies in an interval of length
    epsilon around 0 (`Loss.bounded_range`), and with twice the eta it would not."""
    size, epsilon = 4, Fraction(1)
    rank = 2  # of extremes: any constant is sound

    def losses(eta: Fraction, one: list[int], two: list[int]) -> tuple[float, float]:
        runs = [
            exponential.mode_runs(counts(d), size)
            if fraction is None
            else exponential.quantile_runs(counts(d), size, fraction, rank, offset)
            for d in (one, two)
        ]
        pairs = zip(*(law(r, eta, 0, size, offset) for r in runs), strict=True)
        logs = [math.log(p / q) for p, q in pairs]
        return min(logs), max(logs)

    if fraction is None:
        eta = epsilon / per_unit
    else:
        eta = epsilon / (2 * per_unit * exponential.score_step(fraction))
    worst = 0.0
    for data in databases(size, 4):
        for unit in databases(size, per_unit)[1:]:
            low, high = losses(eta, data, data + unit)
            assert high - low <= float(epsilon) * (1 + 1e-9)
            assert low <= 1e-12
            assert high >= -1e-12
            worst = max(worst, high - low)
    assert worst > float(epsilon) * 0.5 + 1e-9  # twice the eta would exceed epsilon


def test_eta_of_the_mechanisms(monkeypatch: pytest.MonkeyPatch) -> None:
    """`quantile` and `mode` use the eta that the enumeration above has shown to be right, and no more."""
    seen: list[Fraction] = []
    monkeypatch.setattr(exponential, "choose", lambda runs, eta, entropy: seen.append(eta) or runs.start)
    for fraction, step in [(Fraction(0), 1), (Fraction(1, 2), 1), (Fraction(9, 10), 9), (Fraction(1, 4), 3)]:
        exponential.quantile(counts([1]), 4, fraction, 5, Fraction(1, 10), SEED)
        assert seen.pop() == Fraction(1, 10) / (2 * 5 * step)
    exponential.mode(counts([1]), 4, 5, Fraction(1, 10), SEED)
    assert seen.pop() == Fraction(1, 50)


@pytest.mark.parametrize("failure", [Fraction(1, 40), Fraction(1, 5)])
@pytest.mark.parametrize("fraction", FRACTIONS[1:-1])
def test_ends_are_on_their_side_of_the_quantile(fraction: Fraction, failure: Fraction) -> None:
    """By the exact law, for data of all shapes: the chance of the wrong side is at most `failure`, and of some data not far
    below it; with half as many ranks it would be above."""
    size, epsilon, per_unit = 50, Fraction(1, 2), 2
    rank = end_rank(size, fraction, per_unit, epsilon, failure)
    eta = epsilon / (2 * per_unit * exponential.score_step(fraction))
    shapes = [
        [7],
        [0],
        [49],
        [3, 40],
        list(range(50)) * 20,
        [25] * 1000,
        [0] * 500 + [49] * 500,
        [10] * rank + [11] * 9 * rank,
        [],
    ]
    shapes += [[5] * n for n in (rank // 2, rank, 3 * rank)] + [[44] * n for n in (rank // 2, rank, 3 * rank)]

    def wrong(data: list[int], offset: int) -> float:
        found = law(exponential.quantile_runs(counts(data), size, fraction, 1, offset), eta, 0, size, offset)
        true = sorted(data)[max(1, math.ceil(fraction * len(data))) - 1]
        points = [min(max(p - (offset < 0), 0), size - 1) for p in range(size + 1)]
        return math.fsum(p for at, p in zip(points, found, strict=True) if (at > true if offset < 0 else at < true))

    worst = {sign: [max(wrong(d, sign * r) for d in shapes if d) for r in (rank, rank // 2)] for sign in (-1, 1)}
    assert all(whole <= float(failure) for whole, _ in worst.values())
    assert max(half for _, half in worst.values()) > float(failure)
    assert max(whole for whole, _ in worst.values()) > float(failure) / 10


def test_an_end_is_never_beyond_the_grid() -> None:
    few = counts(*[[3]] * 200)
    low = exponential.quantile(few, 10, Fraction(1, 2), 1, Fraction(1, 10), SEED, -500)
    high = exponential.quantile(few, 10, Fraction(1, 2), 1, Fraction(1, 10), SEED, 500)
    assert set(low.tolist()) == {0}
    assert set(high.tolist()) == {9}
    for wrong in ({"fraction": Fraction(0), "offset": -3}, {"fraction": Fraction(1, 2), "offset": 2**41}):
        with pytest.raises(ValueError, match="offset"):
            exponential.quantile(few, 10, per_unit=1, epsilon=Fraction(1), entropy=SEED, **wrong)


@pytest.mark.parametrize("eta", [Fraction(1, 10**6), Fraction(1, 7), Fraction(3), Fraction(10**5)])
def test_the_law_of_proposal_and_acceptance(eta: Fraction) -> None:
    """By computation: weight * acceptance is length * exp(-eta * gap), for every run, to 12 places."""
    rng = np.random.default_rng(3)
    data = counts([], *(rng.integers(0, 2**36, 40).tolist() for _ in range(5)), [7] * 1000 + [8] * 999, [0], [2**36 - 1])
    for fraction in FRACTIONS:
        runs = exponential.quantile_runs(data, 2**36, fraction, 3)
        made = exponential.proposals(runs, eta)
        assert made.weight.min() > 0
        assert made.weight.max() <= 2**40
        for i in range(runs.group.size):
            coin = exponential.acceptance(runs, eta, made, i)
            p = Fraction(1) if coin is None else Fraction(coin.bits(120), 2**120)
            assert 0 <= p <= 1
            wanted = float(runs.length[i]) * math.exp(-min(float(eta) * int(runs.gap[i]), 700))
            if float(eta) * int(runs.gap[i]) < 40:
                have = float(int(made.weight[i]) * p / Fraction(2) ** int(made.shift[runs.group[i]]))
                assert have == pytest.approx(wanted, rel=1e-12)
            else:
                assert p < Fraction(1, 10**6) or made.weight[i] < 2**10


def test_acceptance_is_likely() -> None:
    """Expected proposals stay below 2 whatever the shape: weights are at most twice what they should be."""
    rng = np.random.default_rng(4)
    data = counts(rng.normal(500, 80, 5000).astype(int).tolist())
    for eta in (Fraction(1, 1000), Fraction(1, 10), Fraction(5)):
        runs = exponential.quantile_runs(data, 10**6, Fraction(1, 2), 1)
        made = exponential.proposals(runs, eta)
        coins = [exponential.acceptance(runs, eta, made, i) for i in range(runs.group.size)]
        likely = [1.0 if c is None else c.bits(60) / 2**60 for c in coins]
        assert np.average(likely, weights=made.weight) > 0.5


@pytest.mark.parametrize("fraction", [Fraction(1, 4), Fraction(1, 2), Fraction(0), None])
def test_samples_follow_the_law(fraction: Fraction | None) -> None:
    """4,000 groups of the same data at once, against the probabilities by definition."""
    size, copies, data = 12, 4000, [3, 3, 4, 8, 8, 8, 10]
    many = counts(*[data] * copies)
    epsilon = Fraction(2)
    if fraction is None:
        chosen = exponential.mode(many, size, 1, epsilon, SEED)
        expected = law(exponential.mode_runs(counts(data), size), epsilon, 0, size)
    else:
        chosen = exponential.quantile(many, size, fraction, 1, epsilon, SEED)
        runs = exponential.quantile_runs(counts(data), size, fraction, extreme_rank(size, 1, epsilon))
        expected = law(runs, epsilon / (2 * exponential.score_step(fraction)), 0, size)
    seen = np.bincount(chosen, minlength=size)
    assert stats.chisquare(seen, np.array(expected) * copies).pvalue > 1e-4
    tilted = np.array(expected) ** 1.3
    assert stats.chisquare(seen, tilted / tilted.sum() * copies).pvalue < 1e-4


def test_groups_do_not_mix() -> None:
    data = counts([1] * 500, [], [7] * 500, [3] * 500)
    chosen = exponential.quantile(data, 10, Fraction(1, 2), 1, Fraction(100), SEED)
    assert chosen[[0, 2, 3]].tolist() == [1, 7, 3]
    assert 0 <= chosen[1] < 10
    assert exponential.mode(counts(), 10, 1, Fraction(1), SEED).size == 0
    assert exponential.quantile(counts(), 10, Fraction(1, 2), 1, Fraction(1), SEED).size == 0


def test_rows_are_merged_and_held() -> None:
    made = exponential.counts(np.array([1, 0, 1, 1, 0]), np.array([5, 2, 5, 4, 3]), np.array([1, 2, 3, 2**62, 0]), groups=3)
    assert made.group.tolist() == [0, 1, 1]
    assert made.point.tolist() == [2, 4, 5]
    assert made.count.tolist() == [2, exponential.MAX_COUNT, 4]
    # sums beyond the limit do not overflow, also against the largest denominator
    huge = exponential.counts(np.zeros(50, dtype=np.int64), np.arange(50), np.full(50, 2**62), 1)
    fraction = Fraction(exponential.MAX_DENOMINATOR - 1, exponential.MAX_DENOMINATOR)
    assert min(by_point(exponential.quantile_runs(huge, 50, fraction, 1), 0, 50)) == 0


@pytest.mark.parametrize(
    ("size", "fraction"), [(0, Fraction(1, 2)), (2**41, Fraction(1, 2)), (4, Fraction(3, 2)), (4, Fraction(1, 2**21))]
)
def test_what_is_out_of_range_is_refused(size: int, fraction: Fraction) -> None:
    with pytest.raises(ValueError, match="range"):
        exponential.quantile(counts([1]), size, fraction, 1, Fraction(1), SEED)


def sequences(scores: dict[str, int], k: int, eta: float, absent: int | None) -> dict[tuple[str, ...], float]:
    """The exact law of `top` by definition: every list of keys, "" for the end."""
    law: dict[tuple[str, ...], float] = {}

    def extend(done: tuple[str, ...], p: float) -> None:
        rest = {key: s for key, s in scores.items() if key not in done}
        if absent is not None:
            rest[""] = absent
        if len(done) == k or not rest or (done and done[-1] == ""):
            law[done] = law.get(done, 0.0) + p
            return
        weights = {key: math.exp(eta * (s - max(rest.values()))) for key, s in rest.items()}
        for key, w in weights.items():
            extend((*done, key), p * w / math.fsum(weights.values()))

    extend((), 1.0)
    return law


@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_of_undeclared_keys_by_enumeration(k: int) -> None:
    """A unit in two groups, at least 2 units a group: (k epsilon, delta)-DP both ways, over all sets of lists."""
    epsilon, delta, min_units = 0.5, 1e-3, 2
    absent = top_threshold(k, 2, 1, 500_000, ATTO // 1000, min_units)
    bound = math.exp(k * epsilon) * (1 + 1e-12)
    worst = 0.0
    for others in itertools.product([0, 1, 2, 9, absent - 1, absent + 3], repeat=3):
        for unit in ((1, 1, 0), (1, 0, 1), (1, 0, 0)):
            with_unit = [a + b for a, b in zip(others, unit, strict=True)]
            laws = [
                sequences({f"key {i}": s for i, s in enumerate(d) if s >= min_units}, k, epsilon, absent)
                for d in (others, with_unit)
            ]
            for one, two in (laws, laws[::-1]):
                worst = max(worst, math.fsum(max(0.0, p - bound * two.get(o, 0.0)) for o, p in one.items()))
    assert delta / 20 < worst <= delta


@pytest.mark.parametrize("absent", [None, 9])
def test_top_follows_its_law(absent: int | None) -> None:
    scores, eta, copies = [7, 10, 3, 9], Fraction(1, 2), 2500
    law = sequences({str(i): s for i, s in enumerate(scores)}, 2, float(eta), absent)
    named = Counter(tuple(map(str, exponential.top(np.array(scores), 2, eta, absent, SEED))) for _ in range(copies))
    merged: Counter[tuple[str, ...]] = Counter()
    for names, p in law.items():
        merged[tuple(n for n in names if n)] += p
    assert set(named) <= set(merged)
    order = sorted(merged)
    seen, expected = [named[o] for o in order], [merged[o] * copies for o in order]
    assert stats.chisquare(seen, expected).pvalue > 1e-4


def test_top_of_a_clear_case() -> None:
    scores = np.array([5, 10**6, 3 * 10**6, 2 * 10**6])
    assert exponential.top(scores, 3, Fraction(1), None, SEED).tolist() == [2, 3, 1]
    assert exponential.top(scores, 9, Fraction(1), 5 * 10**5, SEED).tolist() == [2, 3, 1]
    assert exponential.top(scores, 9, Fraction(1), None, SEED).size == 4
    assert exponential.top(scores[:0], 3, Fraction(1), None, SEED).size == 0
    assert exponential.top(scores[:0], 3, Fraction(1), 5, SEED).size == 0


def test_many_runs_in_a_group_still_add_up() -> None:
    """Weights get fewer bits, and nothing overflows."""
    n = 2**22 + 5
    flat = exponential.Runs(np.zeros(n, dtype=np.int64), np.arange(n), np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64), 1)
    made = exponential.proposals(flat, Fraction(1))
    assert 0 < sum(int(x) for x in made.weight[:10]) * n // 10 < 2**62
    assert 0 <= int(exponential.choose(flat, Fraction(1), SEED)[0]) < n


# ---- through the door


def planned(kit: SimpleNamespace, epsilon: int, fractions: tuple[Fraction, ...], **changes: object) -> Measurement:
    """Two keys, undeclared, units as the one basis, quantiles of a grid of 100 points."""
    units = kit.laplace_basis(1, l0=2)
    threshold = Threshold(0, 60, 2, 10**12)
    kind = "quantile" if fractions else "mode"
    loss = Loss.bounded_range(epsilon // max(1, len(fractions)), 2 * max(1, len(fractions)))
    selection = Selection("q", kind, 1, 100, fractions, 1, epsilon, loss)
    parts = units.loss + loss + Loss.delta_only(10**12)
    given = {"selections": (selection,), "loss": parts, **changes}
    query = Template("duckdb", ("SELECT",))
    keys = kit.measurement(units, keys=2).keys
    return Measurement((query, query), keys, (units,), 2, False, threshold, **given, canonical=None)


def tables() -> tuple[pa.Table, pa.Table]:
    groups = pa.table({"k0": ["a", "a", None, "b"], "k1": [1, None, 1, 2], "b0": [1000, 1000, 1000, 3]})
    rows = [("b", 2, 5, 9), (None, 1, 33, 900), ("a", None, 22, 900), ("a", 1, 11, 500), ("a", 1, 11, 400), ("z", 9, 1, 1)]
    columns = dict(zip(("k0", "k1", "bucket", "n"), map(list, zip(*rows, strict=True)), strict=True))
    return groups, pa.table(columns)


def test_selections_go_with_their_groups(kit: SimpleNamespace) -> None:
    """Rows in any order, NULL keys, split counts, groups below the threshold and unknown ones."""
    m = planned(kit, 10**9, (Fraction(1, 2), Fraction(1)))
    released = release(m, Exact(tables()), OwnNoise(SEED))
    assert released.keys[0].to_pylist() == ["a", "a", None]
    assert [v.tolist() for v in released.values[1:]] == [[11, 22, 33], [11, 22, 33]]
    mode = release(planned(kit, 10**9, ()), Exact(tables()), OwnNoise(SEED))
    assert mode.values[1].tolist() == [11, 22, 33]


def test_a_group_without_contributions_still_gets_a_value(kit: SimpleNamespace) -> None:
    groups, rows = tables()
    released = release(planned(kit, 10**6, (Fraction(1, 2),)), Exact((groups, rows.slice(0, 1))), OwnNoise(SEED))
    assert released.rows == 3
    assert all(0 <= x < 100 for x in released.values[1])


def test_no_groups_at_all(kit: SimpleNamespace) -> None:
    released = release(planned(kit, 10**6, (Fraction(1, 2),)), Exact(tuple(t.slice(0, 0) for t in tables())), OwnNoise(SEED))
    assert released.rows == 0
    assert released.values[1].size == 0


@pytest.mark.parametrize(
    "rows",
    [
        {"k0": ["a"], "k1": [1], "bucket": [100], "n": [1]},
        {"k0": ["a"], "k1": [1], "bucket": [-1], "n": [1]},
        {"k0": ["a"], "k1": [1], "bucket": [1], "n": [-1]},
        {"k0": ["a"], "k1": [1], "bucket": [1.5], "n": [1]},
        {"k0": ["a"], "k1": ["1"], "bucket": [1], "n": [1]},
        {"k0": ["a"], "k1": [1], "n": [1], "bucket": [1]},
        {"k0": ["a"], "bucket": [1], "n": [1]},
    ],
)
def test_rows_unlike_the_plan_are_refused(kit: SimpleNamespace, rows: dict[str, list[object]]) -> None:
    with pytest.raises(MechanismError):
        release(planned(kit, 10**6, (Fraction(1, 2),)), Exact((tables()[0], pa.table(rows))), OwnNoise(SEED))


def test_a_group_returned_twice_is_refused(kit: SimpleNamespace) -> None:
    groups, rows = tables()
    with pytest.raises(MechanismError):
        release(planned(kit, 10**6, (Fraction(1, 2),)), Exact((pa.concat_tables([groups, groups]), rows)), OwnNoise(SEED))


def test_undercharged_selections_are_refused(kit: SimpleNamespace) -> None:
    right = planned(kit, 10**6, (Fraction(1, 2), Fraction(1)))
    selection, rest = right.selections[0], right.bases[0].loss + Loss.delta_only(10**12)
    for loss in (Loss.bounded_range(5 * 10**5, 3), Loss.pure(2 * 10**6 - 1), Loss(0)):
        cheap = Selection("q", "quantile", 1, 100, selection.fractions, 1, 10**6, loss)
        with pytest.raises(MechanismError, match="charge"):
            release(planned(kit, 10**6, selection.fractions, selections=(cheap,), loss=rest + loss), Exact(()), OwnNoise(SEED))
    with pytest.raises(MechanismError, match="cost"):
        release(planned(kit, 10**6, selection.fractions, loss=rest), Exact(()), OwnNoise(SEED))
    for odd in (
        Selection("q", "quantile", 0, 100, selection.fractions, 1, 10**6, selection.loss),
        Selection("q", "quantile", 1, 100, (), 1, 10**6, selection.loss),
        Selection("q", "quantile", 1, 100, selection.fractions, 0, 10**6, selection.loss),
        Selection("q", "quantile", 1, 100, (Fraction(0),), 1, 10**6, selection.loss, -5),
        Selection("q", "quantile", 1, 100, (Fraction(1, 4), Fraction(1, 2)), 1, 10**6, selection.loss, -5),
    ):
        with pytest.raises(MechanismError, match="selection"):
            release(planned(kit, 10**6, selection.fractions, selections=(odd,)), Exact(()), OwnNoise(SEED))
