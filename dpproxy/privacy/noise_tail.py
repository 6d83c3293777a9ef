"""How far out noise falls with a given probability, certified: its tails and its intervals.

Knows: mechanisms, scales, probabilities. Must not know: data, SQL, samplers. Everything is exact rationals; what is irrational
is bounded (`privacy.real_bounds`), so that a point returned here is never too near: a threshold that uses it is high enough, an
interval that uses it is wide enough.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpproxy.amounts import ATTO, MICRO
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


# From how many units on a group may be shown: thresholds that hide whether a group is there because of one unit.
#
# Knows: scales of noise, `l0`, delta. Must not know: data, SQL, samplers. Everything is exact rationals; what is irrational is
# bounded (`privacy.real_bounds`) and rounded to the side that can only raise a threshold.
#
# Groups that nobody declared tell by being there that somebody is in them. A group that only one unit makes is shown with
# probability delta at most, over all `l0` groups of that unit together; delta is charged.
#
# Sources: Desfontaines 2020, thesis, chapter 4 (thresholds on units); Swanberg, Desfontaines, Haney 2023, "DP-SIPS" (shifted
# thresholds); Desfontaines, Voss, Gipson, Mandayam 2022, "Differentially private partition selection" (truncated noise); Durfee
# & Rogers 2019 (choosing from unknown groups).


@lru_cache(maxsize=4096)
def units_threshold(scale: Fraction, l0: int, delta_atto: int, min_units: int, mechanism: MechanismName = "laplace") -> int:
    """Return the smallest tau, in units, such that releasing groups whose noisy number of units is at least tau costs `delta`.

    The backend drops groups of fewer than `min_units` units. Let D' be D without one unit. Groups that exist in D
    alone have exactly min_units units there, that unit among them, and there are j <= l0 of them. Each is released
    with probability p = P(min_units + X >= tau) <= delta / l0, so one of them is with probability at most delta.
    Let S be any set of answers, C the same mechanism on D restricted to the groups common to both: C is within
    epsilon of D' (the unit changes at most l0 - j of them). P(D in S) <= delta + P(C in S) <= delta + e**eps P(D' in
    S). Conversely noises are independent, so P(D in S) >= (1 - delta) P(C in S), and P(D' in S) - e**eps P(D in S)
    <= P(D' in S) - (1 - delta) P(D' in S) <= delta. (Desfontaines 2020 section 4.4 for min_units = 1; the shift by
    min_units - 1 as in Swanberg et al. 2023.)

    Where units are weighed (`specs.Bounding.norm`: a unit's weights over all its groups have norm 1, each is at most 1), a new
    group weighs at most `min_units`, and "the unit changes at most l0 - j of them" is "by less than its norm".

    `scale` is of the noise on the basis of distinct units. Raises ValueError for amounts that are not positive.
    """
    if l0 < 1 or delta_atto < 1 or min_units < 1:
        raise ValueError("l0, delta and min_units must be positive")
    p = min(Fraction(delta_atto, ATTO * l0), Fraction(1, 4))
    return min_units + tail_point(mechanism, scale, p)


@lru_cache(maxsize=4096)
def truncated_threshold(scale: Fraction, l0: int, delta_atto: int, min_units: int) -> tuple[int, int]:
    """Return (tau, reach), in units: as `units_threshold`, lower, when the Laplace noise X on the units is drawn within +-reach.

    Per group, with q = exp(-1/scale), epsilon = 1/scale and delta' = delta / l0: P(X = x) = c q**|x| for |x| <= k, c =
    (1 - q)/(1 + q - 2 q**(k+1)); a group of n units is released, as n + X, when n + X > k. That is (epsilon,
    delta')-DP when P(X = k) <= delta'. Take n and n + 1. A released v has both probabilities or is the end of one
    support: v = n + 1 + k, only from n + 1, or v = n - k > k, only from n; each has probability c q**k. Not released:
    P(X <= k - n) = P(X = -k) + P(-k < X <= k - n) <= delta' + e**epsilon P(X <= k - n - 1), and this uses the lower end,
    which is then no released v. P(X = k) <= delta' is q**-k >= (1 - q + 2 delta' q) / (delta' (1 + q)). (Desfontaines,
    Voss, Gipson, Mandayam 2022, "Differentially private partition selection", theorem 3: it reaches the best
    possible probability of release for every n, up to rounding k.) Groups of fewer than min_units units are dropped,
    which is the same on n - (min_units - 1), of sensitivity 1 too. Over l0 groups both amounts add up.

    `reach` is k and tau = min_units + k. At epsilon' = 0.1 and delta' = 1e-6: 110 units instead of 133; at 0.01,
    853 instead of 1314. Raises ValueError for amounts that are not positive.
    """
    if l0 < 1 or delta_atto < 1 or min_units < 1:
        raise ValueError("l0, delta and min_units must be positive")
    delta = min(Fraction(delta_atto, ATTO * l0), Fraction(1, 4))
    q = exp_bounds(-1 / scale)[0]  # the lower bound: the quotient falls as q grows
    reach = max(1, math.ceil(scale * ln_bounds((1 - q + 2 * delta * q) / (delta * (1 + q)))[1]))
    return min_units + reach, reach


@lru_cache(maxsize=4096)
def top_threshold(k: int, l0: int, per_unit: int, epsilon_micro: int, delta_atto: int, min_units: int) -> int:
    """Return the score of "no further one" among undeclared keys, for k choices of `epsilon_micro` each.

    A choice is the exponential mechanism with eta = epsilon / per_unit on scores that a unit raises by at most per_unit
    and never lowers. Groups of fewer than min_units units are dropped, so that groups in D and not in D' (one unit
    less) have exactly min_units units and a score of at most s = min_units * per_unit; there are at most l0. One of
    them is chosen with probability at most l0 exp(-eta (tau - s)) each time, in k times at most delta = k l0
    exp(-eta (tau - s)). Given that none is, the choices are those among the groups common to both, k mechanisms of
    epsilon each; and all l0 absent, every sequence of choices keeps at least 1 - delta of its probability, so that both
    directions hold as in `units_threshold`. (The idea is Durfee & Rogers 2019, with a threshold that is a constant.)
    """
    if min(k, l0, per_unit, epsilon_micro, delta_atto, min_units) < 1:
        raise ValueError("amounts must be positive")
    log = ln_bounds(Fraction(ATTO * k * l0, min(delta_atto, ATTO // 2)))[1]
    return min_units * per_unit + math.ceil(log * per_unit * MICRO / epsilon_micro)
