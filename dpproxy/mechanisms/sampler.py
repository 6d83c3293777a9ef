"""Exact discrete Laplace and Gaussian noise, vectorised.

Knows: integers, coins. Must not know: data, plans, where random bits come from. Used for answers of thousands of values, where
the library's samplers are slow; tests hold it against the exact probabilities and against the library.

Everything is built from one primitive, a coin whose probability is a real number (`coins.Coin`): no floating point is involved.

Discrete Laplace is the difference of two geometric variables (P(G = g) ~ q**g, q = exp(-1/scale)), and the binary
digits of such a variable are independent coins with odds q**(2**i). No rejection: how many random bits are drawn
depends on the scale and the count alone, so time says nothing about the noise (cf. Jin et al. 2022).
Discrete Gaussian is Canonne, Kamath, Steinke 2020, algorithm 3, over that: proposals from discrete Laplace, accepted
with probability exp(-x); an accepted value does not depend on how many were rejected before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpproxy.mechanisms.coins import WORD, Bools, Coin, Entropy, first_word, flip, settle, words
from dpproxy.mechanisms.noise import Int64
from dpproxy.privacy.noise_scale import MAX_SCALE, MIN_SCALE
from dpproxy.privacy.real_bounds import floor_log2

TOGETHER = 2**17
"""Tosses that are made at once: for small answers all digits' together, since each call costs as much as hundreds of them."""


def _geometric(scale: Fraction, count: int, entropy: Entropy) -> Int64:
    """P(G = g) = (1 - q) q**g with q = exp(-1/scale), digit by digit.

    The digits from `top` on form a geometric variable too, with q**(2**top) < exp(-32): counted by tosses, and held
    at 3 (beyond has probability below e**-128; saturating is post-processing).
    """
    top = max(0, floor_log2(scale) + 6)
    total = np.zeros(count, dtype=np.int64)
    each = max(1, TOGETHER // max(count, 1))
    for first in range(0, top, each):
        last = min(first + each, top)
        heads = _flip_digits(_binary_digits(scale, top)[first:last], count, entropy)
        total |= (np.left_shift.outer(np.int64(1), np.arange(first, last))[:, None] * heads).sum(axis=0)
    carry = Coin(2**top / scale)
    alive = np.flatnonzero(flip(carry, count, entropy))
    for _ in range(3):
        if not alive.size:
            break
        total[alive] += 1 << top
        alive = alive[flip(carry, alive.size, entropy)]
    return total


@lru_cache(maxsize=512)
def _binary_digits(scale: Fraction, top: int) -> tuple[Coin, ...]:
    """The coins of the digits 0..top-1 of a geometric variable."""
    return tuple(Coin(2**i / scale, odds=True) for i in range(top))


def _flip_digits(coins: Sequence[Coin], count: int, entropy: Entropy) -> Bools:
    """`count` tosses of each coin, a row a coin."""
    limits = np.array([first_word(coin) for coin in coins], dtype=np.uint32)[:, None]
    drawn = words(len(coins) * count, entropy).reshape(len(coins), count)
    heads = drawn < limits
    for i, j in np.argwhere(drawn == limits).tolist():
        heads[i, j] = settle(coins[i], int(limits[i, 0]), WORD, entropy)
    return heads


def _check(scale: Fraction) -> None:
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise ValueError("scale out of range")


def laplace(scale: Fraction, count: int, entropy: Entropy) -> Int64:
    """Draw `count` values of P(X = x) = (1 - q) / (1 + q) q**|x|, q = exp(-1/scale). |X| < 2**62.

    Raises ValueError unless MIN_SCALE <= scale <= MAX_SCALE.
    """
    _check(scale)
    both = _geometric(scale, 2 * count, entropy)
    return both[:count] - both[count:]


def gaussian(sigma: Fraction, count: int, entropy: Entropy) -> Int64:
    """Draw `count` values of P(X = x) ~ exp(-x**2 / (2 sigma**2)). |X| < 2**62.

    CKS algorithm 3 with t a power of two near sigma (any t is right; near sigma about 3 of 4 are accepted).
    Raises ValueError unless MIN_SCALE <= sigma <= MAX_SCALE.
    """
    _check(sigma)
    log_t = max(0, floor_log2(sigma * sigma * 2) // 2)
    accept = _accept_each if log_t <= _FEW_LOG else _accept_fixed
    out = np.empty(count, dtype=np.int64)
    done = 0
    while done < count:
        proposal = laplace(Fraction(1 << log_t), (count - done) * 3 // 2 + 16, entropy)
        accepted = proposal[accept(np.abs(proposal), sigma, log_t, entropy)][: count - done]
        out[done : done + accepted.size] = accepted
        done += accepted.size
    return out


_FEW_LOG = 3
"""Up to sigma about 2**3 proposals have few distinct sizes: one exact coin each."""


def _rejection(size: int, sigma: Fraction, log_t: int) -> Fraction:
    """The x of CKS algorithm 3: a proposal of this size is accepted with probability exp(-x)."""
    return (size - sigma * sigma / (1 << log_t)) ** 2 / (2 * sigma * sigma)


def _accept_each(sizes: Int64, sigma: Fraction, log_t: int, entropy: Entropy) -> Bools:
    accepted = np.ones(sizes.size, dtype=np.bool_)
    for size in np.unique(sizes).tolist():
        x = _rejection(size, sigma, log_t)
        where = sizes == size
        if x > 0:
            accepted[where] = flip(Coin(x), int(where.sum()), entropy)
    return accepted


_POINT = 24
"""Binary places of the fixed-point lower bound of x."""


def lower_bound(sizes: Int64, sigma: Fraction, log_t: int) -> tuple[Int64, Bools]:
    """Return (lower, near): lower * 2**-24 <= x of `_rejection`; where near, x - lower * 2**-24 < 2**-12 and lower < 2**34.

    With a = size / t and s = (sigma / t)**2, x = (a - s)**2 / (2 s), and 1/2 <= s < 2 by the choice of t. In units u =
    2**-24 let T be |a - s|; `distance` is in [T - 3, T] for both roundings. Near is a <= 2**5: then T <= 2**29 and x <
    2**10, so lower is below x by at most 6 * 2**29 / (2 s 2**24) u (distance) + 2**10 u (divisor) + u (rounding), in
    sum less than 2**-12. Beyond (probability e**-32) lower is 0.
    """
    s = sigma * sigma / (1 << 2 * log_t)
    shift = _POINT - log_t
    a = sizes << shift if shift >= 0 else sizes >> -shift
    near = a <= 1 << (_POINT + 5)
    distance = np.where(near, np.maximum(np.abs(a - int(s * (1 << _POINT))) - 2, 0), 0)
    return distance * distance // (int(2 * s * (1 << _POINT)) + 1), near


_DIGITS = ((0, 8), (8, 8), (16, 8), (24, 10))
"""Places and bits of the digits of a lower bound, which is below 2**34."""


@lru_cache(maxsize=8)
def _digit_words(place: int, bits: int) -> npt.NDArray[np.uint64]:
    """The first 32 bits of exp(-d * 2**(place - 24)) for each digit d; of the first, 1, more than any 32 bits."""
    words = [1 << WORD, *(Coin(Fraction(d << place, 1 << _POINT)).bits(WORD) for d in range(1, 1 << bits))]
    return np.array(words, dtype=np.uint64)


def _flip_digit(digits: Int64, place: int, bits: int, entropy: Entropy) -> Bools:
    """For each digit d a toss of a coin of probability exp(-d * 2**(place - 24))."""
    limits = _digit_words(place, bits)[digits]
    drawn = words(digits.size, entropy)
    heads = drawn < limits
    for i in np.flatnonzero(drawn == limits).tolist():
        heads[i] = settle(Coin(Fraction(int(digits[i]) << place, 1 << _POINT)), int(drawn[i]), WORD, entropy)
    return heads


def _accept_fixed(sizes: Int64, sigma: Fraction, log_t: int, entropy: Entropy) -> Bools:
    """exp(-x) as exp(-lower) * exp(-(x - lower)): one coin a digit of lower, then an exact one.

    The latter's probability is above 1 - 2**-12 where near, so that only 1 in 4096 has to be computed.
    """
    lower, near = lower_bound(sizes, sigma, log_t)
    accepted = np.ones(sizes.size, dtype=np.bool_)
    for place, bits in _DIGITS:
        accepted &= _flip_digit(lower >> place & (1 << bits) - 1, place, bits, entropy)
    drawn = words(sizes.size, entropy)
    for i in np.flatnonzero(accepted & (~near | (drawn >= (1 << WORD) - (1 << WORD - 12)))).tolist():
        rest = _rejection(int(sizes[i]), sigma, log_t) - Fraction(int(lower[i]), 1 << _POINT)
        accepted[i] = rest == 0 or settle(Coin(rest), int(drawn[i]), WORD, entropy)
    return accepted
