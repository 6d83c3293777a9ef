"""Randomisers of devices: the law of each, by enumerating all the chance that the code draws."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import opendp.prelude as dp
import pytest
from mpmath import mp

from dpproxy.collect import encode
from dpproxy.collect.encode import Unreportable, randomised, reportable
from dpproxy.local.claims import (
    Binary,
    Claim,
    CountMean,
    Direct,
    Duchi,
    Hadamard,
    Hashed,
    Laplace,
    Levels,
    Plane,
    Sequence,
    Unary,
)
from dpproxy.local.planes import meets, size

ONE = Fraction(1)
EPSILONS = [Fraction(1, 4), ONE, Fraction(3)]


class Branches:
    """Chance that takes every branch in turn, with its probability."""

    def __init__(self, path: tuple[int, ...]) -> None:
        self.path, self.depth, self.probability = path, 0, ONE
        self.wider: list[tuple[int, ...]] = []

    def branch(self, probabilities: Callable[[int], Fraction], n: int) -> int:
        if self.depth == len(self.path):
            self.wider += [(*self.path, i) for i in range(1, n)]
            self.path += (0,)
        choice = self.path[self.depth]
        self.depth += 1
        self.probability *= probabilities(choice)
        return choice

    def coin(self, p: Fraction) -> bool:
        assert 0 < p < 1
        return self.branch(lambda i: p if i == 0 else 1 - p, 2) == 0

    def below(self, n: int) -> int:
        return self.branch(lambda _: Fraction(1, n), n)


def law(claim: Claim, value: Any) -> Mapping[Any, Fraction]:
    """The exact probability of each report of a value."""
    reports: dict[Any, Fraction] = defaultdict(Fraction)
    paths: list[tuple[int, ...]] = [()]
    while paths:
        chance = Branches(paths.pop())
        report = randomised(claim, value, chance=chance)
        assert claim.space.form == "value" or claim.space.holds(report)
        reports[report] += chance.probability
        paths += chance.wider
    assert sum(reports.values()) == 1
    return reports


def cases() -> Iterator[tuple[Claim, list[Any]]]:
    """Claims, and values of which each two are compared."""
    numbers = [Fraction(-1), Fraction(-1, 3), Fraction(1, 7), Fraction(1)]
    texts = [f"text {i}" for i in range(7)]
    for e in EPSILONS:
        yield Binary.within(e), [False, True]
        for d in (2, 3, 7, 12):
            yield Direct.within(e, d), list(range(d))
        for d, by in product((2, 5, 8), ("sue", "oue")):
            yield Unary.within(e, d, by), list(range(d))
        for base, dimension in ((2, 2), (2, 3), (3, 3), (2, 4), (5, 2), (5, 3)):
            points = size(base, dimension)
            yield Plane.within(e, points, base, dimension), list(range(points))
        yield Hashed.within(e, 2, "s", 4), texts
        yield CountMean.within(e, 2, 8, "s"), texts
        yield Hadamard.within(e, 3, 8, "s"), texts
        yield Levels.within(e, Fraction(-1), ONE, 4), numbers
        yield Sequence.within(e, "ab", 4, 1, 4, "s"), ["a", "b", "ab", "aba", "abab"]
    for yes, no in ((3, 1), (1, 3), (4, 2), (1, 0)):
        yield Binary(Fraction(yes + 1, 6), Fraction(no + 1, 6)), [False, True]


@pytest.mark.parametrize(("claim", "values"), [pytest.param(*case, id=f"{i}-{case[0].name}") for i, case in enumerate(cases())])
def test_no_two_values_are_told_apart_beyond_epsilon(claim: Claim, values: list[Any]) -> None:
    """The largest ratio over all reports and pairs, as exact fractions: within e^epsilon, and nearly all of it."""
    laws = [law(claim, value) for value in values]
    reports = set().union(*laws)
    assert all(set(one) == reports for one in laws)
    worst = max(max(one[r] for one in laws) / min(one[r] for one in laws) for r in reports)
    with mp.workdps(60):
        assert mp.log(mp.mpf(worst.numerator) / worst.denominator) <= mp.mpf(claim.epsilon.numerator) / claim.epsilon.denominator
    assert worst >= Fraction(999, 1000) * Fraction(math.exp(claim.epsilon))


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_probabilities_of_a_claim_are_those_of_its_reports(epsilon: Fraction) -> None:
    """p for a value's own reports, q for those of each other value, exactly."""
    listed: list[tuple[Claim, Callable[[Any, int], bool]]] = [
        (Direct.within(epsilon, 5), lambda report, v: report == v),
        (Unary.within(epsilon, 5), lambda report, v: bool(int(report[2:], 16) >> v & 1)),
        (Unary.within(epsilon, 5, "sue"), lambda report, v: bool(int(report[2:], 16) >> v & 1)),
        (Plane.within(epsilon, 13, 3, 3), lambda report, v: meets(report, v, 3, 3)),
        (Plane.within(epsilon, 15, 2, 4), lambda report, v: meets(report, v, 2, 4)),
    ]
    for claim, supports in listed:
        assert claim.candidates is not None
        for value in range(claim.candidates):
            reports = law(claim, value)
            for other in range(claim.candidates):
                chance = sum(p for report, p in reports.items() if supports(report, other))
                assert chance == (claim.p if other == value else claim.q)


@pytest.mark.parametrize("number", [Fraction(-5), Fraction(-1), Fraction(1, 3), 0.1, 1, 7])
def test_reports_of_a_number_mean_it(number: float | Fraction) -> None:
    """The mean of the levels reported, debiased, is the number held within the range: exactly, floats included."""
    claim = Levels.within(ONE, Fraction(-1), ONE, 4)
    mean = sum(p * claim.numbers[level] for level, p in law(claim, number).items())
    assert mean / (claim.p - claim.q) == min(max(Fraction(number), Fraction(-1)), ONE)


def test_epsilon_by_another_library() -> None:
    """OpenDP's maps for one coin and for vectors of bits."""
    dp.enable_features("contrib")
    for epsilon in EPSILONS:
        coin = Binary.within(epsilon)
        assert dp.m.make_randomized_response_bool(float(coin.if_yes)).map(1) == pytest.approx(float(coin.epsilon), rel=1e-9)
        bits = Unary.within(epsilon, 8, "sue")
        space = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
        response = dp.m.make_randomized_response_bitvec(*space, 2 * float(bits.other))
        assert response.map(1) == pytest.approx(float(bits.epsilon), rel=1e-9)


@pytest.mark.parametrize(
    ("claim", "good", "bad"),
    [
        (Binary.within(ONE), [True], [1, "yes", 0.5]),
        (Direct.within(ONE, 3), [0, 2, "a", "c"], [3, -1, True, "d", "e", 1.0]),
        (Plane.within(ONE, 3, 2, 3), [0, 2, "a"], [3, "d"]),
        (Hadamard.within(ONE, 2, 4, "s"), ["", "any", "\U0001f600"], [3, True, "\ud800"]),
        (Levels.within(ONE, Fraction(0), ONE, 3), [0, 0.5, 9.5, Fraction(1, 3), math.inf], [math.nan, "0", True]),
        (Sequence.within(ONE, "abc", 4, 2, 4, "s"), ["a", "abca"], ["", "abcab", "abd", 4]),
        (Laplace.within(ONE, Fraction(0), ONE), [], [0.5]),
        (Duchi.within(ONE, Fraction(0), ONE), [], [0.5]),
    ],
)
def test_what_a_mechanism_reports(claim: Claim, good: list[Any], bad: list[Any]) -> None:
    values = ["a", "b", "c", "d"]
    for value in good:
        assert reportable(claim, value, values)
        assert claim.space.holds(randomised(claim, value, values), values)
    for value in bad:
        assert not reportable(claim, value, values)
        with pytest.raises(Unreportable) as raised:
            randomised(claim, value, values)
        assert str(value) not in str(raised.value).split()


def test_direct_reports_of_texts_are_texts() -> None:
    reports = {randomised(Direct.within(ONE, 3), "a", ["a", "b", "c"]) for _ in range(400)}
    assert reports == {"a", "b", "c"}


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(3, 7), Fraction(5 * 2**40 + 1, 2**64)])
def test_chance_of_the_system(p: Fraction) -> None:
    """Within six standard deviations, of coins and of whole numbers."""
    n, chance = 20_000, encode.SYSTEM
    heads = sum(chance.coin(p) for _ in range(n))
    assert abs(heads - n * p) <= 6 * math.sqrt(n * p * (1 - p)) + 1
    assert {chance.below(3) for _ in range(100)} == {0, 1, 2}
