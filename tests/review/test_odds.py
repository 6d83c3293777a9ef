"""Budgets in words."""

from __future__ import annotations

import math

import pytest

from dpproxy.amounts import ATTO, MICRO
from dpproxy.review.doubts import belief, delta, epsilon, odds


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0.1, "1.1 to 1"),
        (1, "2.7 to 1"),
        (5, "150 to 1"),
        (10, "22,000 to 1"),
        (30, "11,000,000,000,000 to 1"),
        (31, "certainty"),
    ],
)
def test_odds(amount: float, words: str) -> None:
    assert odds(int(amount * MICRO)) == words


def test_odds_are_the_exponential() -> None:
    """A second way: two digits of e^epsilon."""
    for micro in range(2_400_000, 30 * MICRO, 1_234_567):
        said = float(odds(micro).removesuffix(" to 1").replace(",", ""))
        assert said == pytest.approx(math.exp(micro / MICRO), rel=0.05)


def test_amounts() -> None:
    assert (epsilon(100_000), epsilon(10 * MICRO), delta(ATTO // 10**6)) == ("0.1", "10", "0.000001")


@pytest.mark.parametrize(
    ("amount", "words"),
    [(1, "may give 2.7 to 1"), (10, "may give 22,000 to 1 (practically certain)"), (40, "may be certain")],
)
def test_what_somebody_may_believe(amount: int, words: str) -> None:
    assert belief(amount * MICRO) == words
