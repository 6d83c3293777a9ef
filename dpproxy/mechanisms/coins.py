"""Chance without floating point: coins of any probability and integers below a bound, from random bits.

Knows: integers, rationals, a source of bits. Must not know: data, plans, where bits come from: every function here is given its
`Entropy`, and has no default for it (`noise_sources` is the one file that reaches a generator).

A coin's probability p is a real number: exp(-x), its odds e/(1+e), or a multiple of it. The next 32 random bits are compared with
the first 32 bits of p; only a tie (2**-32) needs the next 32 bits of both, and so on, with bounds of p as tight as it takes. So
the coin is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpproxy.mechanisms.noise import Int64
from dpproxy.privacy.real_bounds import exp_bounds, floor_log2

Bools = npt.NDArray[np.bool_]

Entropy = Callable[[int], bytes]
"""A source of random bits: `entropy(n)` gives n bytes, uniform and independent of all that it gave before."""

WORD = 32
"""Bits of a coin that are compared at once."""

BROKEN = 512
"""Bits that may tie before the generator is held to be broken."""


@dataclass(frozen=True)
class Coin:
    """Heads with probability factor * e, e = exp(-x), or e / (1 + e) when `odds`; x > 0 rational, so p never is.

    `factor` > 0 is for acceptance of proposals: factor * e <= 1, and x may be 0 there.
    """

    x: Fraction
    odds: bool = False
    factor: Fraction = Fraction(1)

    def bits(self, count: int) -> int:
        """Return floor(p * 2**count), by bounds of p tightened until they agree."""
        if self.x * 144 // 100 > count + max(0, floor_log2(self.factor) + 1):  # log2 e > 1.44
            return 0
        digits = count // 3 + 10
        while True:
            low, high = ((e / (1 + e) if self.odds else e * self.factor) * 2**count for e in exp_bounds(-self.x, digits))
            if low // 1 == high // 1:
                return int(low // 1)
            digits *= 2


@lru_cache(maxsize=8192)
def first_word(coin: Coin) -> int:
    """Return the first 32 bits of the coin's probability."""
    return coin.bits(WORD)


def words(count: int, entropy: Entropy) -> npt.NDArray[np.uint32]:
    """Draw `count` words of 32 bits."""
    return np.frombuffer(entropy(4 * count), dtype=np.uint32)


def settle(coin: Coin, drawn: int, bits: int, entropy: Entropy) -> bool:
    """Decide whether a uniform number in [0, 1) whose first `bits` bits are `drawn` is below p.

    Raises RuntimeError after 512 equal bits: no generator does that.
    """
    while drawn == (limit := coin.bits(bits)):
        if bits >= BROKEN:
            raise RuntimeError("the random generator is broken")
        drawn = drawn << WORD | int.from_bytes(entropy(WORD // 8), "little")
        bits += WORD
    return drawn < limit


def toss(coin: Coin, entropy: Entropy) -> bool:
    """Toss a coin that is used once."""
    return settle(coin, int.from_bytes(entropy(WORD // 8), "little"), WORD, entropy)


def flip(coin: Coin, count: int, entropy: Entropy) -> Bools:
    """Toss a coin `count` times; True is heads."""
    word = first_word(coin)
    drawn = words(count, entropy)
    heads = drawn < word
    for i in np.flatnonzero(drawn == word):
        heads[i] = settle(coin, word, WORD, entropy)
    return heads


def below(bounds: Int64, entropy: Entropy) -> Int64:
    """Draw a uniform integer in [0, bound) for each bound of 1 to 2**62, by rejection from the next power of two."""
    out = np.zeros(bounds.size, dtype=np.int64)
    mask = bounds - 1
    for step in (1, 2, 4, 8, 16, 32):
        mask = mask | mask >> step
    pending = np.flatnonzero(bounds > 1)
    while pending.size:
        drawn = np.frombuffer(entropy(8 * pending.size), dtype=np.int64) & mask[pending]
        fits = drawn < bounds[pending]
        out[pending[fits]] = drawn[fits]
        pending = pending[~fits]
    return out
