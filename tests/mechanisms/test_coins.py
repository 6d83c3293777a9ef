"""Coins and integers from bits: the exact probability of every toss, and what given bits decide."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp
from scipy import stats

from dpproxy.mechanisms import coins

SEED = np.random.default_rng(23).bytes


@pytest.mark.parametrize("x", [Fraction(1, 10**9), Fraction(1), Fraction(100, 3), Fraction(2) ** 40])
def test_bits_of_a_coin(x: Fraction) -> None:
    """Longer expansions extend shorter ones, and the value is e**-x or its odds."""
    for odds in (False, True):
        coin = coins.Coin(x, odds)
        long = coin.bits(200)
        assert all(coin.bits(n) == long >> 200 - n for n in (1, 32, 64, 131))
        e = math.exp(-float(x))
        assert long / 2**200 == pytest.approx(e / (1 + e) if odds else e, rel=1e-12)


def test_ties_are_settled_by_further_bits() -> None:
    """Entropy that agrees with p for 64 bits, then is just below, equal, or above in the third word."""
    coin = coins.Coin(Fraction(1))
    words = [coin.bits(32 * k) % 2**32 for k in (1, 2, 3, 4)]
    for third, fourth, heads in [(words[2] - 1, 0, True), (words[2] + 1, 0, False), (words[2], words[3] - 1, True)]:
        feed = iter([*words[:2], third, fourth])
        entropy = lambda n: b"".join(next(feed).to_bytes(4, "little") for _ in range(n // 4))  # noqa: B023, E731
        assert coins.flip(coin, 1, entropy).tolist() == [heads]


def test_below_is_uniform() -> None:
    for bound in (1, 2, 3, 7, 1000):
        drawn = coins.below(np.full(20_000, bound), SEED)
        assert drawn.min() >= 0
        assert drawn.max() < bound
        if 1 < bound <= 7:
            assert stats.chisquare(np.bincount(drawn, minlength=bound)).pvalue > 1e-4
    assert (coins.below(np.array([2**62] * 100), SEED) > 2**40).all()


@pytest.mark.parametrize(
    "coin", [coins.Coin(Fraction(3, 7)), coins.Coin(Fraction(3, 7), odds=True), coins.Coin(Fraction(2), factor=Fraction(5, 3))]
)
def test_the_first_word_is_the_probability(coin: coins.Coin) -> None:
    """By mpmath: floor(p * 2**32) heads of 2**32 words, and no other."""
    mp.dps = 40
    e = mp.exp(-mp.mpf(coin.x.numerator) / coin.x.denominator)
    p = e / (1 + e) if coin.odds else e * coin.factor.numerator / coin.factor.denominator
    assert coins.first_word(coin) == int(mp.floor(p * 2**32))


def test_loaded_tosses(kit: SimpleNamespace) -> None:
    """A word below p is heads, one above is tails; of many tosses each has the word of its place."""
    coin = coins.Coin(Fraction(1))
    limit = coin.bits(32)
    tape = kit.Tape(kit.words(limit - 1), kit.words(limit + 1), kit.words(0, limit + 1, limit - 1, 2**32 - 1))
    assert coins.toss(coin, tape) is True
    assert coins.toss(coin, tape) is False
    assert coins.flip(coin, 4, tape).tolist() == [True, False, True, False]
    assert tape.spent


def test_a_generator_that_always_ties_is_found_out() -> None:
    coin = coins.Coin(Fraction(1))
    feed = iter(range(1, 100))
    with pytest.raises(RuntimeError, match="broken"):
        coins.toss(coin, lambda _: (coin.bits(32 * next(feed)) % 2**32).to_bytes(4, "little"))


def test_loaded_integers(kit: SimpleNamespace) -> None:
    """Bits beyond the next power of two are masked; what is not below its bound is drawn again, alone."""
    tape = kit.Tape(kit.longs(8 + 2, -1, 6), kit.longs(4))
    assert coins.below(np.array([3, 1, 5, 7], dtype=np.int64)[[0, 2, 3]], tape).tolist() == [2, 4, 6]
    assert tape.spent
    assert coins.below(np.array([1, 1], dtype=np.int64), kit.Tape()).tolist() == [0, 0]
