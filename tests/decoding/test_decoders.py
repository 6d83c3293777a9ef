"""Decoders of reports: what devices sent is counted as the law says, without bias, with the variance of the formula."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpproxy.collect.encode import randomised
from dpproxy.decoding import decoders
from dpproxy.decoding.decoders import Decodable, DecodingError, Int64, decode, law, supporting, tally
from dpproxy.local import planes
from dpproxy.local.claims import Binary, CountMean, Direct, Hadamard, Hashed, Levels, Plane, Unary
from dpproxy.local.hashes import number, polynomial
from dpproxy.local.laws import Law

Dice = np.random.Generator
RANGE = (Fraction(-1), Fraction(1))
E1, E2, E4 = Fraction(1), Fraction(2), Fraction(4)


# Devices by the lot: the counts of reports that so many devices send, drawn directly


def uniform_or(dice: Dice, own: Int64, share: float) -> Int64:
    """`share` of each row's devices report their own cell, the others one of the row's cells, uniformly."""
    kept = dice.binomial(own, share)
    return kept + dice.multinomial((own - kept).sum(axis=-1), np.full(own.shape[-1], 1 / own.shape[-1]))


def in_cells(dice: Dice, claim: Hashed | CountMean | Hadamard, true: Int64) -> Int64:
    """How many devices drew each hash function and have each of its cells."""
    drawn = dice.multinomial(true, np.full(claim.functions, 1 / claim.functions))  # a row a value
    cells = np.zeros(claim.functions * claim.width, np.int64)
    np.add.at(cells, decoders.places(claim, np.arange(true.size), 0, claim.functions).T, drawn)
    return cells.reshape(claim.functions, claim.width)


@cache
def plane(v: int, base: int, dimension: int) -> list[int]:
    return [planes.inside(v, i, base, dimension) for i in range(planes.size(base, dimension - 1))]


def on_planes(dice: Dice, claim: Plane, true: Int64) -> Int64:
    """A share of each value's devices report a point of its plane, the others any point."""
    spread = (1 - float(claim.inside)) / (claim.points - claim.plane)
    kept = dice.binomial(true, 1 - claim.points * spread)
    cells = dice.multinomial(true.sum() - kept.sum(), np.full(claim.points, 1 / claim.points))
    for v, devices in enumerate(kept):
        cells[plane(v, claim.base, claim.dimension)] += dice.multinomial(devices, np.full(claim.plane, 1 / claim.plane))
    return cells


def columns(dice: Dice, claim: Hadamard, own: Int64) -> Int64:
    """Each device draws a column and turns its bit or not."""
    rows, cells = np.nonzero(own)
    devices = own[rows, cells]
    j, h = np.repeat(rows, devices), np.repeat(cells, devices)
    column = dice.integers(0, claim.width, h.size)
    plus = (np.bitwise_count(column & h) % 2 == 0) ^ (dice.random(h.size) >= float(claim.keep))
    return np.bincount((j * claim.width + column) * 2 + plus, minlength=claim.space.size)


def sent(dice: Dice, claim: Decodable, true: Int64) -> Int64:
    """The cells of all devices' reports; `true[v]` devices have value v."""
    n, p, q = int(true.sum()), float(claim.p), float(claim.q)
    match claim:
        case Binary():
            yes = dice.binomial(true[1], p) + dice.binomial(true[0], q)
            return np.array([n - yes, yes])
        case Direct() | Levels():
            return uniform_or(dice, true, p - q)
        case Unary():
            return np.append(dice.binomial(true, p) + dice.binomial(n - true, q), n)
        case Plane():
            return on_planes(dice, claim, true)
        case Hashed():
            return uniform_or(dice, in_cells(dice, claim, true), p - float(claim.direct.other)).reshape(-1)
        case CountMean():
            own = in_cells(dice, claim, true)
            devices = own.sum(axis=1)
            return np.append(dice.binomial(own, p) + dice.binomial(devices[:, None] - own, q), devices)
        case Hadamard():
            return columns(dice, claim, in_cells(dice, claim, true))


def zipf(n: int, d: int) -> Int64:
    """True counts: n devices, the value of rank r as frequent as 1 / r; the last tenth of values nobody has."""
    weights = 1 / np.arange(1, d + 1)
    weights[-max(1, d // 10) :] = 0
    counts = np.floor(n * weights / weights.sum()).astype(np.int64)
    counts[0] += n - counts.sum()
    return counts


CLAIMS: dict[str, tuple[int, Callable[[int], Decodable]]] = {
    "rr": (2, lambda _: Binary(Fraction(3, 4), Fraction(1, 4))),
    "rr turned": (2, lambda _: Binary(Fraction(1, 8), Fraction(2, 3))),
    "krr": (100, lambda _: Direct.within(E2, 100)),
    "levels": (17, lambda _: Levels.within(E4, *RANGE, 17)),
    "sue": (100, lambda _: Unary.within(E2, 100, "sue")),
    "oue": (100, lambda _: Unary.within(E2, 100)),
    "pgr": (100, lambda _: Plane.within(E2, 100, 11, 3)),
    "pgr of two": (100, lambda _: Plane.within(E1, 100, 2, 7)),
    "flh": (100, lambda i: Hashed.within(E2, 128, f"s{i}")),
    "cms": (100, lambda i: CountMean.within(E4, 64, 128, f"s{i}")),
    "cms of one": (20, lambda i: CountMean.within(E2, 1, 16, f"s{i}")),
    "hcms": (100, lambda i: Hadamard.within(E4, 64, 128, f"s{i}")),
}
"""Values, and the claim of a repetition: seeds differ, since the formula's variance is over hash functions, too."""

FEW = ("rr", "rr turned", "cms of one")
"""Cases whose candidates say the same, so that they need more repetitions."""


def unbiased(name: str, n: int, repetitions: int) -> None:
    """Bias in standard errors, and the variance by the formula's, in the mean over candidates."""
    d, make = CLAIMS[name]
    dice, true = np.random.default_rng(41), zipf(n, d)
    errors = np.empty((repetitions, d))
    for i in range(repetitions):
        claim = make(i)
        cells = sent(dice, claim, true)
        tallied = tally(claim, np.arange(cells.size), cells)
        assert tallied.reports == n
        counts = supporting(tallied, np.arange(d))
        errors[i] = [float(law(claim, v).estimate(int(c), n)) - f for v, (c, f) in enumerate(zip(counts, true, strict=True))]
    squares = Fraction(int((true**2).sum()))
    theory = np.array([float(law(claim, v).variance(Fraction(int(f)), n, squares)) for v, f in enumerate(true)])
    assert np.abs(errors.mean(axis=0) / np.sqrt(theory / repetitions)).max() < 4.5
    ratio = float((errors.var(axis=0, ddof=1) / theory).mean())
    spread = math.sqrt(2 / repetitions / (1 if name in FEW else d))  # one function's collisions are those of all values at once
    assert abs(ratio - 1) < (0.05 if repetitions >= 300 else max(0.05, 4 * spread)), ratio


@pytest.mark.parametrize("name", CLAIMS)
def test_estimates_are_unbiased_with_the_variance_of_the_law(name: str) -> None:
    unbiased(name, 20_000, 100)


@pytest.mark.long
@pytest.mark.parametrize("name", CLAIMS)
def test_estimates_of_many_reports(name: str) -> None:
    """100,000 reports, 300 times; where candidates say the same, 10,000 times, since they are no mean of many."""
    unbiased(name, 100_000, 10_000 if name in FEW else 300)


# One device after the other, by the code that devices run


class Seeded:
    """Chance of a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def coin(self, p: Fraction) -> bool:
        return self.dice.random() < p

    def below(self, n: int) -> int:
        return self.dice.randrange(n)


def seen_by_device(claim: Decodable, value: int) -> Any:
    """The value of a number, as a device sees it."""
    match claim:
        case Binary():
            return bool(value)
        case Levels():
            return claim.numbers[value]
        case Hashed() | CountMean() | Hadamard():
            return f"text {value}"
        case _:
            return value


@pytest.mark.parametrize("name", [name for name in CLAIMS if name != "cms of one"])
def test_decoders_read_what_devices_send(name: str) -> None:
    """Of 3,000 devices of which a third have each of three values; each report by the device's own code, in cells."""
    d, make = CLAIMS[name]
    claim, chance = make(0), Seeded(3)
    shares = {d - 1: 1000, 0: 1500 if d == 2 else 1000} | ({1: 500} if d == 2 else {d // 2: 1000})
    cells = []
    for value, devices in shares.items():
        for _ in range(devices):
            report = randomised(claim, seen_by_device(claim, value), chance=chance)
            cells += [report] if claim.space.form == "value" else claim.space.cells(report)
    hashed = isinstance(claim, Hashed | CountMean | Hadamard)
    candidates = np.array([number(f"text {v}") if hashed else v for v in range(d)])
    tallied = tally(claim, np.array(cells), np.ones(len(cells), np.int64))
    counts, n = supporting(tallied, candidates), sum(shares.values())
    assert tallied.reports == n
    for v in range(d):
        error = law(claim, v).estimate(int(counts[v]), n) - shares.get(v, 0)
        assert abs(error) < 4.5 * math.sqrt(law(claim, v).variance(Fraction(shares.get(v, 0)), n, Fraction(n * n))), v


# Parts of decoders against what they mean


@pytest.mark.parametrize(("base", "dimension"), [(2, 3), (3, 3), (5, 3), (2, 6), (3, 4), (7, 2)])
def test_hyperplanes_by_points_and_by_waves(base: int, dimension: int) -> None:
    points = planes.size(base, dimension)
    claim, cells = Plane.within(E1, points, base, dimension), np.random.default_rng(1).integers(0, 10**9, points)
    meant = [sum(int(cells[u]) for u in plane(v, base, dimension)) for v in range(points)]
    assert decode(claim, np.arange(points), cells, np.arange(points)).tolist() == meant
    assert [sorted(row) for row in decoders.points_of(base, dimension, np.arange(points)).tolist()] == [
        sorted(plane(v, base, dimension)) for v in range(points)
    ]
    assert decoders._by_transform(claim, cells, np.arange(points)).tolist() == meant


def test_large_geometries_are_decoded_by_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """And some candidates of them by points: both say the same."""
    claim = Plane.within(E4, 1000, 11, 4)
    cells = np.random.default_rng(2).integers(0, 1000, claim.points)
    one_by_one = [int(decode(claim, np.arange(claim.points), cells, np.array([v]))[0]) for v in range(0, 1000, 50)]
    for limit in ("KEPT", "LINES"):
        monkeypatch.setattr(decoders, limit, 0)
        assert decode(claim, np.arange(claim.points), cells, np.arange(0, 1000, 50)).tolist() == one_by_one


@pytest.mark.parametrize("width", [2, 64, 55])
def test_cells_of_candidates_are_those_of_devices(width: int) -> None:
    """Three thousand pairs of integer and function, those at the ends of the field included."""
    claim, last = Hashed.within(E2, 30, "s", width), 2**31 - 2
    integers = np.append(np.random.default_rng(3).integers(0, last, 97), [0, 1, last])
    cells = decoders.places(claim, integers, 0, 30)
    for j in range(30):
        assert cells[j].tolist() == [j * width + polynomial("s", j, width)(x) for x in integers.tolist()]
    assert (decoders.places(claim, integers, 7, 9) == cells[7:9]).all()


def test_the_transform_is_hadamard_s() -> None:
    pairs = np.random.default_rng(4).integers(0, 50, (3, 16, 2))
    rows = np.array([[(-1) ** (column & h).bit_count() for column in range(16)] for h in range(16)])
    claim = Hadamard.within(E1, 3, 16, "s")
    assert (decoders.transformed(claim, pairs.reshape(-1)) == (pairs[..., 1] - pairs[..., 0]) @ rows).all()


@pytest.mark.parametrize("name", ["flh", "cms", "hcms"])
def test_squares_are_estimated_from_the_sketch(name: str) -> None:
    """Over 60 hash seeds: the mean within 3 % of F2, which candidates have no part in."""
    d, make = CLAIMS[name]
    dice, true = np.random.default_rng(5), zipf(50_000, d)
    sketched = []
    for i in range(60):
        claim = make(i)
        cells = sent(dice, claim, true)
        sketched.append(tally(claim, np.arange(cells.size), cells).squares)
    assert np.mean(sketched) == pytest.approx(float((true**2).sum()), rel=0.03)


def test_what_shares_no_cells_has_no_squares() -> None:
    assert tally(Direct.within(E1, 3), np.array([0, 2]), np.array([5, 6])).squares == 0


def test_reports_outside_their_space_are_no_reports() -> None:
    """They are counted apart; the same report may come in several parts."""
    tallied = tally(Direct.within(E1, 3), np.array([2, -1, 3, 2, 2**60]), np.array([5, 7, 11, 1, 2]))
    assert (tallied.cells.tolist(), tallied.reports, tallied.outside) == ([0, 0, 6], 6, 20)
    assert tally(Unary.within(E1, 3), np.array([0, 3, 4]), np.array([5, 6, 7])).reports == 6
    empty = tally(CountMean.within(E1, 2, 4, "s"), np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert (empty.reports, empty.squares, supporting(empty, np.array([5])).tolist()) == (0, 0.0, [0])


@pytest.mark.parametrize("candidate", [-1, 3])
def test_candidates_outside_the_values_are_a_fault(candidate: int) -> None:
    with pytest.raises(DecodingError, match="candidate"):
        decode(Direct.within(E1, 3), np.array([0]), np.array([1]), np.array([candidate]))


def test_all_candidates_or_one_at_a_time() -> None:
    """Sketches decode any subset of candidates alike, whether their cells are kept or not."""
    for name in ("flh", "cms", "hcms"):
        claim = CLAIMS[name][1](0)
        cells = sent(np.random.default_rng(6), claim, zipf(5000, 100))
        reports, candidates = np.arange(cells.size), np.arange(100)
        every = decode(claim, reports, cells, candidates)
        assert [int(decode(claim, reports, cells, np.array([v]))[0]) for v in range(0, 100, 9)] == every[::9].tolist()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoders, "KEPT", 0)
            assert (decode(claim, reports, cells, candidates) == every).all()


Weights = tuple[Fraction, Fraction, Fraction, Fraction]


@dataclass(frozen=True)
class JointLaw:
    """The law of two columns that were randomised independently: each report of both has the product of two weights.

    Coefficients are those of four counts: reports that support both values, the first, the second, and all reports. The
    variance is the sum of squared weights less the estimate.
    """

    one: Law
    other: Law

    @property
    def estimate(self) -> Weights:
        """The coefficients of the estimate of how many devices have both values."""
        return self._spread(*self._weights())

    @property
    def squares(self) -> Weights:
        """The coefficients of the sum of squared weights."""
        return self._spread(*(weight**2 for weight in self._weights()))

    def _weights(self) -> Weights:
        """The weights of a report that supports both, the first alone, the second alone, neither."""
        one, other = ((law.slope + law.offset, law.offset) for law in (self.one, self.other))
        return one[0] * other[0], one[0] * other[1], one[1] * other[0], one[1] * other[1]

    @staticmethod
    def _spread(both: Fraction, first: Fraction, second: Fraction, neither: Fraction) -> Weights:
        """Weights of disjoint kinds of reports as coefficients of counts that overlap."""
        return both - first - second + neither, first - neither, second - neither, neither


def test_two_columns_that_were_randomised_apart() -> None:
    """2 x 2 coins, 4 x 5 direct ones: no bias, and the sum of squared weights less the estimate is the variance."""
    dice, n = np.random.default_rng(7), 20_000
    for one, other in ((Binary.within(E1), Binary(Fraction(3, 4), Fraction(1, 4))), (Direct.within(E2, 4), Direct.within(E2, 5))):
        d1, d2 = one.candidates, other.candidates
        true = dice.multinomial(n, np.full(d1 * d2, 1 / (d1 * d2))).reshape(d1, d2)
        joint = JointLaw(law(one, 1), law(other, 1))
        errors, told_variance = [], []
        for _ in range(300):
            first = np.stack([sent(dice, one, column) for column in true.T], axis=1)
            both = np.stack([sent(dice, other, row) for row in first])
            counts = (int(both[1, 1]), int(both[1].sum()), int(both[:, 1].sum()), n)
            estimate = float(sum(a * c for a, c in zip(joint.estimate, counts, strict=True)))
            errors.append(estimate - true[1, 1])
            told_variance.append(float(sum(a * c for a, c in zip(joint.squares, counts, strict=True))) - estimate)
        assert abs(np.mean(errors)) < 4.5 * np.std(errors) / math.sqrt(300)
        assert np.mean(told_variance) == pytest.approx(np.var(errors), rel=4.5 * math.sqrt(2 / 300))


def test_means_of_levels() -> None:
    """Of numbers anywhere in the range: unbiased, and the told variance is not below the true one."""
    claim, chance, dice = Levels.within(E2, Fraction(10), Fraction(50), 3), Seeded(8), random.Random(8)
    numbers = [dice.uniform(10, 50) for _ in range(2000)]
    errors, told_variance = [], []
    for _ in range(20):
        levels = np.array([randomised(claim, x, chance=chance) for x in numbers])
        errors.append(float(claim.centre) + float(claim.slope) * levels.mean() - np.mean(numbers))
        told_variance.append(float(claim.slope) ** 2 * levels.var() / len(numbers))
    assert abs(np.mean(errors)) < 4.5 * math.sqrt(np.mean(told_variance) / 20)
    assert np.std(errors) < 1.6 * math.sqrt(np.mean(told_variance))
