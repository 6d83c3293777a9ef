"""How far out noise falls with a given probability, certified: its tails and its intervals.

Knows: mechanisms, scales, probabilities. Must not know: data, SQL, samplers. Everything is exact rationals; what is irrational
is bounded (`privacy.real_bounds`), so that a point returned here is never too near: a threshold that uses it is high enough, an
interval that uses it is wide enough.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpproxy.privacy.noise_scale import MechanismName
from dpproxy.privacy.real_bounds import exp_bounds, ln_bounds, normal_tail_bounds


def tail_point(mechanism: MechanismName, scale: Fraction, p: Fraction) -> int:
    """Return the smallest t >= 1 certified to satisfy P(X >= t) <= p, X the mechanism's noise at `scale`; 0 < p < 1/2.

    Laplace: P(X >= t) = q**t / (1 + q) with q = exp(-1/scale), so t = scale * -ln(p (1 + q)) rounded up.
    Gaussian: see `_gaussian_tail_point`. Raises ValueError for p out of range.
    """
    if not 0 < p < Fraction(1, 2):
        raise ValueError("p must be between 0 and 1/2")
    if mechanism == "gaussian":
        return _gaussian_tail_point(scale, p)
    q_low = exp_bounds(-1 / scale)[0]
    return max(1, math.ceil(-scale * ln_bounds(p * (1 + q_low))[0]))


_DIRECT_SIGMA = 12
"""Up to here discrete Gaussian tails are summed term by term; above, the integral is within 1 % of the tail."""


def _gaussian_tail_point(sigma: Fraction, p: Fraction) -> int:
    """Discrete Gaussian, f(x) = exp(-x**2 / (2 sigma**2)), P(X = x) = f(x) / Z.

    Small sigma: by summation. Else: where f is convex (x >= sigma), f(x) <= the integral of f over [x - 1/2,
    x + 1/2], so the sum from t is at most sigma sqrt(2 pi) Q((t - 1/2) / sigma) with Q the normal tail; where it is
    not, the difference is at most 1/8 of the integral of |f''|, that is at most 1/(4 sigma) < Z / (8 sigma**2); and
    Z >= sigma sqrt(2 pi) (Poisson summation). So P(X >= t) <= Q((t - 1/2) / sigma) [+ 1/(8 sigma**2) below sigma].
    """
    if sigma <= _DIRECT_SIGMA:
        return _summed_tail_point(sigma, p)
    low, high = 1, 1
    while _normal_bound(sigma, high) > p:
        low, high = high + 1, 2 * high + math.ceil(sigma)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _normal_bound(sigma, middle) > p else (low, middle)
    return low


def _normal_bound(sigma: Fraction, t: int) -> Fraction:
    """An upper bound of P(X >= t) for sigma > _DIRECT_SIGMA."""
    z = (t - Fraction(1, 2)) / sigma
    if z < Fraction(1, 4):
        return Fraction(1)
    z = Fraction(math.floor(z * 2**60), 2**60)
    bound = normal_tail_bounds(z)[1]
    return bound if t - Fraction(1, 2) >= sigma else bound + 1 / (8 * sigma * sigma)


def _summed_tail_point(sigma: Fraction, p: Fraction) -> int:
    """By upper bounds of f(x) for every x up to the point after which f falls below p * 10**-12."""
    upper, x = [exp_bounds(Fraction(0))[1]], 0
    while upper[-1] > p / 10**12:
        x += 1
        upper.append(exp_bounds(Fraction(-x * x) / (2 * sigma * sigma))[1])
    # f(x+1)/f(x) <= r for all later x, so what is left is a geometric sum
    ratio = exp_bounds(-Fraction(2 * x + 1) / (2 * sigma * sigma))[1]
    tail = upper[x] * ratio / (1 - ratio)
    z_low = (1 + 2 * sum(upper[1:], Fraction(0))) * (1 - Fraction(1, 10**30))  # the bounds are tighter than that
    while x >= 1 and (tail + upper[x]) / z_low <= p:
        tail += upper[x]
        x -= 1
    return max(1, x + 1)


@lru_cache(maxsize=4096)
def interval(mechanism: MechanismName, scale: Fraction, confidence: Fraction) -> int:
    """Return the smallest half-width h, in grid units, certified to hold the noise X with probability `confidence` in (0, 1).

    The released value is within h of the bounded true one with that probability (noise only; not truncation). Raises ValueError
    for a confidence out of range."""
    if not 0 < confidence < 1:
        raise ValueError("confidence must be between 0 and 1")
    return tail_point(mechanism, scale, (1 - confidence) / 2) - 1
