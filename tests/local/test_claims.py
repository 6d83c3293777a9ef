"""Claims: what follows from their probabilities, their files, and which of them is chosen."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dpproxy.local import choice
from dpproxy.local.claims import (
    Binary,
    Claim,
    ClaimError,
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
    claim_of,
    digest,
)

ONE, RANGE = Fraction(1), (Fraction(-1), Fraction(1))
EPSILONS = [Fraction(1, 100), Fraction(1, 3), Fraction(1, 2), ONE, Fraction(5, 2), Fraction(4), Fraction(16), Fraction(30)]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def all_claims(epsilon: Fraction) -> list[Claim]:
    return [
        Binary.within(epsilon),
        Direct.within(epsilon, 100),
        Unary.within(epsilon, 100),
        Unary.within(epsilon, 100, "sue"),
        Plane.within(epsilon, 100, 11, 3),
        Hashed.within(epsilon, 16, "s"),
        CountMean.within(epsilon, 16, 64, "s"),
        Hadamard.within(epsilon, 16, 64, "s"),
        Levels.within(epsilon, *RANGE, 5),
        Laplace.within(epsilon, *RANGE),
        Duchi.within(epsilon, *RANGE),
        Sequence.within(epsilon, LETTERS, 10, 2048, 1024, "s"),
    ]


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_a_claim_within_an_epsilon_keeps_to_it_and_uses_it(epsilon: Fraction) -> None:
    for claim in all_claims(epsilon):
        assert Fraction(999, 1000) * epsilon < claim.epsilon <= epsilon, claim


def test_a_document_says_all_of_a_claim() -> None:
    """And is JSON, so that its digest pins the claim."""
    seen = set()
    for claim in all_claims(ONE) + all_claims(ONE / 2):
        document = claim.document()
        assert claim_of(json.loads(json.dumps(document))) == claim
        assert document["by"] == claim.name
        seen.add(digest(document))
    assert len(seen) == 2 * len(all_claims(ONE))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"by": "prr"},
        {"by": ["rr"]},
        {"by": "rr", "if_yes": "3/4"},
        {"by": "rr", "if_yes": "3/4", "if_no": "1/4", "noise": "0"},
        {"by": "rr", "if_yes": 0.75, "if_no": "1/4"},
        {"by": "rr", "if_yes": "1e999999999", "if_no": "1/4"},
        {"by": "rr", "if_yes": "3/0", "if_no": "1/4"},
        {"by": "rr", "if_yes": "5/4", "if_no": "1/4"},
        {"by": "krr", "candidates": True, "keep": "1/2"},
        {"by": "krr", "candidates": 10**9, "keep": "1/2"},
        {"by": "pgr", "candidates": 5, "base": 10**30, "dimension": 3, "inside": "1/2"},
        {"by": "hcms", "functions": 2**20, "width": 2**20, "seed": "s", "keep": "3/4"},
    ],
    ids=str,
)
def test_another_document_is_refused_in_a_sentence(document: dict[str, Any]) -> None:
    with pytest.raises(ClaimError, match=r"^[a-z`].*[^.]$"):
        claim_of(document)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Binary(ONE / 2, ONE / 2), "tells nothing"),
        (lambda: Binary(ONE, ONE / 2), "`if_yes` is a probability"),
        (lambda: Direct(4, ONE / 4), "tells nothing"),
        (lambda: Unary("oue", 4, ONE / 3, ONE / 2), "`own` is greater"),
        (lambda: Plane.within(ONE, 100, 9, 3), "prime"),
        (lambda: Plane.within(ONE, 100, 3, 3), "from 2 to 13"),
        (lambda: Hadamard.within(ONE, 16, 60, "s"), "power of two"),
        (lambda: Hadamard(16, 64, "s", ONE / 2), "`keep` is greater"),
        (lambda: Levels.within(ONE, ONE, ONE, 2), "range's lower end"),
        (lambda: Sequence.within(ONE, LETTERS, 9, 16, 64, "s"), "even"),
        (lambda: Sequence.within(ONE, "aa", 8, 16, 64, "s"), "different"),
        (lambda: Sequence.within(ONE, LETTERS, 32, 2**17, 2**10, "s"), "number of all cells"),
        (lambda: Direct.within(Fraction(0), 4), "above 0"),
        (lambda: Direct.within(Fraction(31), 4), "at most 30"),
        (lambda: choice.automatic(1, ONE), "two values"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ClaimError, match=words):
        make()


def test_laws_of_the_survey_coin() -> None:
    """P(yes) = f/2 + 1/4: twice the share of yes, less one half."""
    coin = Binary(Fraction(3, 4), Fraction(1, 4))
    assert (coin.epsilon, float(coin.epsilon)) == (Fraction(1098612289, 10**9), pytest.approx(math.log(3), abs=1e-9))
    assert coin.law.estimate(600, 1000) == 700
    assert coin.no.estimate(400, 1000) == 300
    assert coin.law.influence == Fraction(3, 2)
    assert coin.law.variance(Fraction(0), 1000) == coin.law.variance(Fraction(1000), 1000) == 750


@pytest.mark.parametrize("candidates", [2, 4, 10, 30, 100, 300, 1000, 2600, 10_000])
@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1, 2, 3, 4, 5, 6])
def test_automatic_is_near_the_optimum(candidates: int, epsilon: float) -> None:
    """Subset selection (Ye, Barg 2018), over all sizes of the subset."""
    e, d = math.exp(epsilon), candidates
    best = math.inf
    for w in range(1, d // 2 + 1):
        p = e * w / (e * w + d - w)
        q = p * (w - 1) / (d - 1) + (1 - p) * w / (d - 1)
        best = min(best, choice.unlisted_error(p, q))
    claim = choice.automatic(candidates, Fraction(epsilon))
    ratio = math.sqrt(float(claim.law.per_report) / best)
    limit = 1.05 if (d, epsilon) in ((100, 3), (300, 4)) else 1.02 if d >= 100 and epsilon <= 4 else 1.06
    assert 0.999 < ratio <= limit


@pytest.mark.parametrize(
    ("candidates", "epsilon", "name", "geometry"),
    [
        (10, 1, "pgr", (3, 3)),
        (100, 4, "krr", None),
        (2600, 4, "pgr", (53, 3)),
        (100_000, 4, "pgr", (53, 4)),
        (10**7, 4, "flh", None),
    ],
)
def test_what_is_chosen(candidates: int, epsilon: int, name: str, geometry: tuple[int, int] | None) -> None:
    claim = choice.automatic(candidates, Fraction(epsilon))
    assert claim.name == name
    assert not isinstance(claim, Plane) or (claim.base, claim.dimension) == geometry


def piecewise(e: float, x: float) -> float:
    """The variance of the piecewise mechanism of Wang et al. 2019 at x of [-1, 1]."""
    root = math.sqrt(e)
    return x * x / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1, 2, 3, 4, 5, 6, 7, 8])
def test_levels_are_never_worse_than_what_is_published(epsilon: float) -> None:
    """In the worst case over all numbers: than one bit, than the piecewise mechanism, than Laplace noise."""
    e = math.exp(epsilon)
    worst = choice.worst_level_error(e, choice.levels(Fraction(epsilon)))
    assert worst <= 1.000001 * min(((e + 1) / (e - 1)) ** 2, piecewise(e, 1), 8 / epsilon**2)
    assert worst <= min(choice.worst_level_error(e, count) for count in range(2, 60)) + 1e-12


def test_the_worst_level_error_is_a_maximum() -> None:
    """By exact moments of a claim, at each number of a grid."""
    epsilon = Fraction(2)
    claim = Levels.within(epsilon, *RANGE, 3)
    p, q, numbers = claim.p, claim.q, claim.numbers
    errors = []
    for x in (Fraction(i, 64) for i in range(-64, 65)):
        i = min(int((x + 1) / (numbers[1] - numbers[0])), len(numbers) - 2)
        up = (x - numbers[i]) / (numbers[i + 1] - numbers[i])
        second = sum(v * v * (q + (p - q) * (up if j == i + 1 else 1 - up if j == i else 0)) for j, v in enumerate(numbers))
        errors.append(second / (p - q) ** 2 - x * x)
    assert float(max(errors)) == pytest.approx(choice.worst_level_error(math.exp(2), 3), rel=1e-3)


def test_a_claim_is_hashed_by_its_probabilities() -> None:
    """The smallest step of a probability is another claim with another digest."""
    claim = Direct.within(ONE, 4)
    other = replace(claim, keep=claim.keep - Fraction(1, 2**64))
    assert digest(claim.document()) != digest(other.document())
