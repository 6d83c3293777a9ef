"""Estimates over reports of devices, held against devices whose true values are known here.

Devices are simulated by the exact probabilities of their claim, with seeds that are fixed. Each case states what a statement would
ask: a truth, and the estimate that must hold it within its interval as often as is told, without bias, with the variance told.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.decoding.decoders import places
from dpproxy.local import planes
from dpproxy.local.claims import Binary, Claim, CountMean, Direct, Hadamard, Levels, Plane, Unary
from dpproxy.local.hashes import number as number_of
from dpproxy.mechanisms.noise import Exact, Int64, MechanismError
from dpproxy.mechanisms.reports import estimates
from dpproxy.privacy.measurement import Key
from dpproxy.privacy.readings import NO_ESTIMATE, SPREAD, Ends, Estimate, Listed, Reading, ReportCell, Verdict, Weights
from dpproxy.sql.template import Template

QUERY = (Template("duckdb", ("SELECT",)),)
COIN = Binary(Fraction(3, 4), Fraction(1, 4))
KRR = Direct.within(Fraction(2), 5)
PGR = Plane.within(Fraction(2), 5, 3, 2) if planes.size(3, 2) >= 5 else Plane.within(Fraction(2), 5, 3, 3)
LEVELS = Levels.within(Fraction(2), Fraction(0), Fraction(4), 5)
SKETCH = Hadamard.within(Fraction(4), 16, 64, "tests")
OUE, SUE = Unary.within(Fraction(2), 5), Unary.within(Fraction(1), 5, "sue")
MEAN = CountMean.within(Fraction(4), 16, 64, "tests")
FIVE = ("a", "b", "c", "d", "e")


def drawn(claim: Claim, truth: Int64, chance: np.random.Generator) -> Int64:
    """Reports of devices whose true values are candidates by number."""
    match claim:
        case Binary(if_yes=yes, if_no=no):
            return (chance.random(truth.size) < np.where(truth == 1, float(yes), float(no))).astype(np.int64)
        case Direct() | Levels():
            d = claim.candidates
            other = (truth + chance.integers(1, d, truth.size)) % d
            return np.where(chance.random(truth.size) < float(claim.p), truth, other)
        case Plane(base=base, dimension=dimension):
            near = np.array([[planes.meets(u, v, base, dimension) for u in range(claim.points)] for v in range(claim.candidates)])
            inside = [np.flatnonzero(row) for row in near]
            outside = [np.flatnonzero(~row) for row in near]
            stays = chance.random(truth.size) < float(claim.inside)
            picks = chance.random(truth.size)
            chosen = [(inside if s else outside)[v] for v, s in zip(truth, stays, strict=True)]
            return np.array([points[int(pick * points.size)] for points, pick in zip(chosen, picks, strict=True)])
        case Hadamard():
            mine = places(claim, np.array([number_of(text) for text in FIVE]), 0, claim.functions)
            functions, columns = chance.integers(0, claim.functions, truth.size), chance.integers(0, claim.width, truth.size)
            own = mine[functions, truth] - functions * claim.width
            even = np.array([int(a & b).bit_count() % 2 == 0 for a, b in zip(own, columns, strict=True)])
            right = chance.random(truth.size) < float(claim.keep)
            return (functions * claim.width + columns) * 2 + (even == right)
        case _:
            raise AssertionError(claim)


def vectors(claim: Claim, truth: Int64, chance: np.random.Generator) -> Int64:
    """How many devices set each bit, and behind all bits how many drew each hash function."""
    size, width = claim.space.size, claim.space.width
    if isinstance(claim, Unary):
        cells, own, other = truth, float(claim.own), float(claim.other)
    else:
        assert isinstance(claim, CountMean)
        mine = places(claim, np.array([number_of(text) for text in FIVE]), 0, claim.functions)
        cells, own, other = mine[chance.integers(0, claim.functions, truth.size), truth], float(claim.keep), 1 - float(claim.keep)
    true = np.bincount(cells, minlength=size)
    drew = true.reshape(-1, width).sum(axis=1)
    return np.append(chance.binomial(true, own) + chance.binomial(np.repeat(drew, width) - true, other), drew)


def cell(claim: Claim, *, grouped: bool = False, values: tuple[str, ...] = FIVE) -> ReportCell:
    texts = ("false", "true") if isinstance(claim, Binary) else values
    return ReportCell("x", "text", ((1, claim),), texts, grouped)


def reading(cells: tuple[ReportCell, ...], *estimated: Estimate, at_least: int = 10, keys: int = 0) -> Reading:
    """A reading as the kernel has judged it, with an interval and a deviation for each estimate."""
    ends = tuple(Ends(i, Fraction(1, 80)) for i in range(len(estimated)))
    named = tuple(Key(f"k{i}", "text") for i in range(keys))
    return Reading(QUERY, named, cells, estimated, at_least, ends, tuple(range(len(estimated))), Verdict(QUERY))


def counted(*weights: Weights | None, consistent: bool = False, total: int = 0) -> Estimate:
    return Estimate("count(*)", total, 0, total, weights, consistent)


def table(cells: tuple[ReportCell, ...], reports: tuple[Int64, ...], totals: tuple[Int64, ...] = ()) -> Exact:
    """What an engine returns: reports as they are stored, each with what they add up to."""
    size = reports[0].size if reports else totals[0].size
    columns: dict[str, pa.Array] = {}
    for i, (one, values) in enumerate(zip(cells, reports, strict=True)):
        form = one.claims[0][1].space.form
        stored = values.astype(bool) if form == "boolean" else [one.values[v] for v in values] if form == "value" else values
        columns[f"r{i}"] = pa.array(stored)
    for i, total in enumerate((np.ones(size, np.int64), *totals)):
        columns[f"a{i}"] = pa.array(total, pa.int64())
    return Exact((pa.table(columns),))


def stored_vectors(counts: Int64) -> Exact:
    return Exact((pa.table({"r0": np.arange(counts.size), "a0": counts}),))


def number(value: int) -> Listed:
    """The weights 0, 1, 2, ... of five levels."""
    return Listed(tuple((text, i * value) for i, text in enumerate(FIVE)), 0)


@dataclass(frozen=True)
class Case:
    """`asked` is estimated of devices; `truth` computes it of their true values and their plain number."""

    claims: tuple[Claim, ...]
    asked: Estimate
    truth: Callable[[tuple[Int64, ...], Int64], float]
    size: int = 2000


BUT_C = Listed((("c", 0),), 1)
YES, SOME = Listed((("true", 1),), 0), Listed((("a", 1), ("c", 1)), 0)
CASES = {
    "coin": Case((COIN,), counted(YES), lambda v, _: (v[0] == 1).sum()),
    "few coins": Case((COIN,), counted(YES), lambda v, _: (v[0] == 1).sum(), 40),
    "krr, one value": Case((KRR,), counted(Listed((("c", 1),), 0)), lambda v, _: (v[0] == 2).sum()),
    "krr, all but one": Case((KRR,), counted(Listed((("c", 0),), 1)), lambda v, _: (v[0] != 2).sum()),
    "krr, a sum": Case((KRR,), counted(number(1)), lambda v, _: v[0].sum()),
    "pgr, two values": Case((PGR,), counted(SOME), lambda v, _: np.isin(v[0], (0, 2)).sum()),
    "pgr, all but one": Case((PGR,), counted(BUT_C), lambda v, _: (v[0] != 2).sum()),
    "pgr, all but two": Case((PGR,), counted(Listed((("a", 0), ("d", 0)), 1)), lambda v, _: (~np.isin(v[0], (0, 3))).sum()),
    "pgr, a sum of many alike": Case((PGR,), counted(Listed((("b", -2),), 7)), lambda v, _: np.where(v[0] == 1, -2, 7).sum()),
    "a plain number of all but one": Case((PGR,), Estimate("sum(n)", 1, 0, 2, (BUT_C,)), lambda v, n: n[v[0] != 2].sum()),
    "a sketch, all but one": Case((SKETCH,), counted(BUT_C), lambda v, _: (v[0] != 2).sum()),
    "pgr, a sum": Case((PGR,), counted(number(3)), lambda v, _: 3 * v[0].sum()),
    "a sketch, one value": Case((SKETCH,), counted(Listed((("c", 1),), 0)), lambda v, _: (v[0] == 2).sum()),
    "a sketch, two values": Case((SKETCH,), counted(SOME), lambda v, _: np.isin(v[0], (0, 2)).sum()),
    "levels": Case((LEVELS,), counted(number(1)), lambda v, _: v[0].sum()),
    "a plain number": Case((COIN,), Estimate("sum(n)", 1, 0, 2, (YES,)), lambda v, n: n[v[0] == 1].sum()),
    "two coins": Case((COIN, COIN), counted(YES, YES), lambda v, _: ((v[0] == 1) & (v[1] == 1)).sum()),
    "a coin and a sum": Case((COIN, LEVELS), counted(YES, number(1)), lambda v, _: v[1][v[0] == 1].sum()),
    "oue, one value": Case((OUE,), counted(Listed((("c", 1),), 0)), lambda v, _: (v[0] == 2).sum()),
    "oue, few devices": Case((OUE,), counted(Listed((("c", 1),), 0)), lambda v, _: (v[0] == 2).sum(), 60),
    "oue, some values": Case((OUE,), counted(SOME), lambda v, _: np.isin(v[0], (0, 2)).sum()),
    "sue, all but one": Case((SUE,), counted(BUT_C), lambda v, _: (v[0] != 2).sum()),
    "sue, a sum": Case((SUE,), counted(number(3)), lambda v, _: 3 * v[0].sum()),
    "a sketch of vectors": Case((MEAN,), counted(Listed((("c", 1),), 0)), lambda v, _: (v[0] == 2).sum()),
    "a sketch of vectors, all but one": Case((MEAN,), counted(BUT_C), lambda v, _: (v[0] != 2).sum()),
    "no weight on one": Case((COIN, KRR), counted(None, SOME), lambda v, _: np.isin(v[1], (0, 2)).sum()),
}


@pytest.mark.parametrize("name", CASES)
def test_estimates_are_unbiased_and_held_by_their_intervals(name: str) -> None:
    """Of 200 draws: the mean within 4.5 standard errors, the spread about as told, the truth held in 97 of 100 where 98.75 is told."""
    case, chance, times = CASES[name], np.random.default_rng(41), 200
    values = tuple(chance.integers(0, c.candidates or 5, case.size) for c in case.claims)
    plain = chance.integers(0, 9, case.size)
    true, cells = float(case.truth(values, plain)), tuple(cell(c) for c in case.claims)
    asked = reading(cells, case.asked)
    found = []
    for _ in range(times):
        if case.claims[0].space.form == "bits":
            stored = stored_vectors(vectors(case.claims[0], values[0], chance))
        else:
            stored = table(
                cells, tuple(drawn(c, v, chance) for c, v in zip(case.claims, values, strict=True)), (plain, plain * plain)
            )
        released, told = estimates(asked, stored)
        found.append([float(column[0]) for column in released.values])
        assert told.reports == case.size
    value, below, above, deviation = np.array(found).T
    deviation = deviation / SPREAD
    fixed = isinstance(case.claims[0], Hadamard | CountMean)  # hash functions are: what they add is the same in each draw
    assert fixed or abs(value.mean() - true) < 4.5 * value.std() / times**0.5
    held = ((value - below <= true) & (true <= value + above)).mean()
    assert held >= 0.97
    assert value.std() < 1.2 * deviation.mean()
    if not fixed and not isinstance(case.claims[-1], Levels):  # of rounded numbers the variance is told from above
        assert deviation.mean() < 1.2 * value.std()


def test_vectors_are_counted_and_not_their_bits() -> None:
    """By group, with no value asked for; cells that no vector has are left out, and groups are hidden by their reports."""
    one, chance = cell(MEAN), np.random.default_rng(6)
    counts = [vectors(MEAN, np.zeros(size, np.int64), chance) for size in (300, 9)]
    r0 = np.append(np.tile(np.arange(counts[0].size), 2), counts[0].size)
    k0 = ["north"] * counts[0].size + ["south"] * (counts[0].size + 1)
    exact = Exact((pa.table({"k0": k0, "r0": r0, "a0": np.concatenate([*counts, [7]])}),))
    released, told = estimates(reading((one,), counted(None), keys=1), exact)
    assert released.values[0].tolist() == [300]
    assert (told.reports, told.outside, told.few) == (309, 7, 1)


@pytest.mark.parametrize("of", ["laplace", "duchi"])
def test_numbers_with_noise_are_added_up(of: str) -> None:
    """In steps of a thousandth, of 2,000 devices, 400 times: variance within a tenth of what is told, 98 of 100 are held."""
    chance, size, times, scale = np.random.default_rng(8), 2000, 400, 2.0
    noise: Fraction | str = "share" if of == "duchi" else 2 * Fraction(2000) ** 2
    asked = reading((), Estimate("sum(x)", 1, 0, 0, (), noise=noise))  # type: ignore[arg-type]
    numbers = np.full(size, 0.3)
    found = []
    for _ in range(times):
        if of == "duchi":
            each = (chance.random(size) < numbers).astype(np.int64)
        else:
            each = np.floor((numbers + chance.laplace(0, scale, size)) * 1000).astype(np.int64)
        released, _ = estimates(asked, table((), (), (each,)))
        found.append([float(column[0]) for column in released.values])
    value, below, above, deviation = np.array(found).T
    true = size * 0.3 * (1 if of == "duchi" else 1000)
    assert abs(value.mean() - true) < 4.5 * value.std() / times**0.5 + size / 2
    assert ((value - below <= true) & (true <= value + above)).mean() >= 0.97
    assert value.std() == pytest.approx((deviation / SPREAD).mean(), rel=0.1)


@pytest.mark.parametrize("times", [100, 1], ids=["many", "few"])
@pytest.mark.parametrize("claim", [Plane.within(Fraction(4), 2600, 53, 3), Direct.within(Fraction(4), 100), SKETCH, COIN])
def test_all_but_one_is_as_far_off_as_the_one(claim: Claim, times: int) -> None:
    """Added up of all others, the first of these would be off by fifty times as much, and its ends by more than all reports."""
    names = tuple(f"v{i}" for i in range(claim.candidates or 9))
    one = cell(claim, values=names)
    name = "true" if isinstance(claim, Binary) else "v1"
    chosen, others = Listed(((name, 1),), 0), Listed(((name, 0),), 1)
    each = np.random.default_rng(5).integers(0, claim.space.size, 50 * times)
    released, told = estimates(reading((one,), counted(chosen), counted(others)), table((one,), (each,)))
    value, rest, below, above, rest_below, rest_above, deviation, rest_deviation = (int(column[0]) for column in released.values)
    assert value + rest == told.reports == each.size
    assert (rest_below, rest_above, rest_deviation) == (above, below, deviation)
    assert value - below >= 0
    assert value + above <= each.size


@pytest.mark.parametrize("claim", [COIN, KRR, PGR, LEVELS])
def test_counts_of_all_candidates_add_up(claim: Claim) -> None:
    """None is below 0, and the intervals are those of the estimates as they were drawn."""
    chance, one = np.random.default_rng(1), cell(claim, grouped=True)
    truth = np.zeros(500, np.int64)
    exact = table((one,), (drawn(claim, truth, chance),))
    moved, _ = estimates(reading((one,), counted("own", consistent=True)), exact)
    raw, _ = estimates(reading((one,), counted("own")), exact)
    assert moved.rows == len(one.values) if isinstance(one.values, tuple) else False
    assert moved.keys[0].to_pylist() == list(one.values)
    assert moved.values[0].sum() == 500
    assert moved.values[0].min() >= 0
    for near, side in (
        (moved.values[0] - moved.values[1], raw.values[0] - raw.values[1]),
        (moved.values[0] + moved.values[2], raw.values[0] + raw.values[2]),
    ):
        assert near.tolist() == side.tolist()


def test_candidates_that_nobody_asks_for_are_not_shown() -> None:
    one = replace(cell(KRR, grouped=True), shown=SOME)
    released, _ = estimates(reading((one,), counted("own")), table((one,), (np.repeat(np.arange(5), 30),)))
    assert released.keys[0].to_pylist() == ["a", "c"]
    assert released.rows == len(released.values[0]) == 2


def test_two_keys_are_all_their_pairs() -> None:
    cells = (cell(COIN, grouped=True), cell(KRR, grouped=True))
    truth = (np.repeat([0, 1], 50), np.tile(np.arange(5), 20))
    released, _ = estimates(reading(cells, counted("own", "own")), table(cells, truth))
    assert [key.to_pylist()[:6] for key in released.keys] == [["false"] * 5 + ["true"], [*FIVE, "a"]]
    assert released.rows == 10


def test_small_groups_are_not_shown_and_are_told() -> None:
    columns = {
        "k0": pa.array(["north", "north", "west", None]),
        "r0": pa.array([True, False, True, True]),
        "a0": pa.array([60, 60, 9, 30], pa.int64()),
        "a1": pa.array([60, 60, 9, 3], pa.int64()),
    }
    asked = reading((cell(COIN),), counted(None), replace(counted(YES), total=1, among=1, squares=1), at_least=10, keys=1)
    released, told = estimates(asked, Exact((pa.table(columns),)))
    assert dict(zip(released.keys[0].to_pylist(), released.values[0].tolist(), strict=True)) == {"north": 120, None: 30}
    assert [key.to_pylist() for key in told.hidden] == [["west"]]
    by_key = dict(zip(released.keys[0].to_pylist(), released.values[1].tolist(), strict=True))
    assert by_key[None] == NO_ESTIMATE
    assert by_key["north"] == 60


def test_reports_that_no_device_could_have_sent_are_left_out_and_told() -> None:
    columns = {"r0": pa.array(["a", "b", "zzz", None]), "a0": pa.array([50, 40, 7, 2], pa.int64())}
    released, told = estimates(reading((cell(KRR),), counted(None)), Exact((pa.table(columns),)))
    assert released.values[0].tolist() == [90]
    assert (told.reports, told.outside) == (90, 9)


def test_versions_of_a_claim_are_estimated_apart() -> None:
    """Taken for the newer one, the older reports would be off by far more than the interval."""
    chance, size, held = np.random.default_rng(3), 5_000, []
    older, newer = Direct.within(Fraction(1), 5), Direct.within(Fraction(4), 5)
    truth = np.where(chance.random(size) < 0.7, 0, chance.integers(0, 5, size))
    true = 2 * np.bincount(truth, minlength=5)
    one = replace(cell(older, grouped=True), claims=((1, older), (2, newer)))
    for _ in range(100):
        reports = [drawn(older, truth, chance), drawn(newer, truth, chance)]
        columns = {
            "v": pa.array([1] * size + [2] * size, pa.int64()),
            "r0": pa.array([FIVE[r] for r in np.concatenate(reports)]),
            "a0": pa.array([1] * 2 * size, pa.int64()),
        }
        released, _ = estimates(reading((one,), counted("own")), Exact((pa.table(columns),)))
        value, below, above = released.values[:3]
        held.append((value - below <= true) & (true <= value + above))
    assert np.mean(held) >= 0.97
    mistaken = replace(one, claims=((1, newer),))
    wrong, _ = estimates(reading((mistaken,), counted("own")), Exact((pa.table(columns),)))
    assert abs(wrong.values[0] - true).max() > 5 * above.max()


def test_nothing_is_opened_without_the_verdict_of_the_kernel() -> None:
    one = cell(COIN)
    exact = table((one,), (np.zeros(100, np.int64),))
    for unjudged in (None, Verdict((Template("duckdb", ("SELECT other",)),))):
        with pytest.raises(MechanismError, match="judged"):
            estimates(replace(reading((one,), counted(YES)), verdict=unjudged), exact)


def test_two_doors_and_one_judge() -> None:
    """Who opens an `Exact`, and who makes a verdict: by name, so that a third is seen."""
    root = Path(__file__).parents[2] / "dpproxy"
    opened, made = set(), set()
    for path in root.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                name = f"{path.stem}.{function.name}"
                if path.parent.name == "mechanisms":
                    opened |= {name for call in calls if isinstance(call, ast.Attribute) and call.attr == "_open"}
                made |= {name for call in calls if isinstance(call, ast.Name) and call.id == "Verdict"}
    assert opened == {"release.release", "key_rounds.found_first", "reports.estimates"}
    assert made >= {"reports.judged"}
    assert {name for name in made if name.startswith(("reports", "plan", "pipeline"))} == {"reports.judged"}
