"""How much noise, and how high a threshold: every privacy number that a plan fixes before any data is touched.

Knows: sensitivities, epsilon, delta. Must not know: data, SQL, samplers. Everything is exact rationals; what is
irrational is bounded (`privacy.real_bounds`) and rounded to the side that can only add noise.

Neighbours differ by all rows of one unit (PRIVACY.md section 1). A unit reaches at most `l0` groups and changes a
basis by at most `linf` grid units in each.

Sources: Ghosh, Roughgarden, Sundararajan 2012 (geometric mechanism); Canonne, Kamath, Steinke 2020, "The discrete
Gaussian for differential privacy" (CKS); Balle & Wang 2018, "Improving the Gaussian mechanism"; Desfontaines 2020,
thesis, chapter 4 (thresholds on units); Swanberg, Desfontaines, Haney 2023, "DP-SIPS" (shifted thresholds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from dpproxy.errors import PROGRAM_LIMIT_EXCEEDED, NoRoom
from dpproxy.policy.model import ATTO, MICRO
from dpproxy.privacy.loss import STEPPED, hockey_stick
from dpproxy.privacy.real_bounds import (
    exp_bounds,
    ln_bounds,
    normal_tail_bounds,
    round_down,
    round_up,
    sqrt_bounds,
)

MechanismName = Literal["laplace", "gaussian"]

Moved = tuple[int, int]
"""A column's groups of a unit and the most it changes each by, in grid units: l0, linf."""

MAX_SCALE = 2**54
"""64 scales of noise still fit beside a saturated value in 64 bits: beyond, answers would be noise alone."""

MIN_SCALE = Fraction(1, 2**40)
"""Below, noise is zero with certainty for every practical purpose (e**(-2**40)); samplers need a bound."""


def _checked(scale: Fraction) -> Fraction:
    if scale > MAX_SCALE:
        raise NoRoom(
            PROGRAM_LIMIT_EXCEEDED,
            "the noise of an aggregate would exceed 64 bits",
            hint="Ask for a higher epsilon, or for a tighter `range` or coarser `resolution` in the policy.",
            times=math.ceil(scale / MAX_SCALE),
        )
    return max(scale, MIN_SCALE)


def laplace_scale(l0: int, linf: int, epsilon_micro: int) -> Fraction:
    """The scale of discrete Laplace noise (in grid units) that makes a basis `epsilon`-DP.

    l0 * linf / epsilon (Dwork & Roth 2014, theorem 3.6; discrete: Ghosh et al. 2012), rounded up to 40 significant
    bits so that every sampler, also one that takes a double, draws at exactly this scale. linf = 0 means that no
    unit can change the basis: the least scale there is.
    Raises Refusal above MAX_SCALE, ValueError for amounts that are not positive.
    """
    if l0 < 1 or linf < 0 or epsilon_micro < 1:
        raise ValueError("l0 and epsilon must be positive, linf not negative")
    if linf == 0:
        return MIN_SCALE
    return _checked(round_up(Fraction(l0 * linf * MICRO, epsilon_micro)))


def gaussian_sigma(l0: int, linf: int, rho: Fraction, more: Fraction = Fraction(0)) -> Fraction:
    """Sigma of discrete Gaussian noise (in grid units) that makes a basis rho-zCDP.

    rho = l2**2 / (2 sigma**2) with l2 = sqrt(l0) * linf (CKS theorem 14), so sigma = linf * sqrt(l0 / (2 rho)),
    rounded up to 40 significant bits. `more` is added to its square (`normal_rho_for`). Raises as `laplace_scale`.
    """
    if l0 < 1 or linf < 0 or rho <= 0:
        raise ValueError("l0 and rho must be positive, linf not negative")
    if linf == 0:
        return MIN_SCALE
    return _checked(round_up(sqrt_bounds(Fraction(l0 * linf * linf) / (2 * rho) + more)[1]))


@lru_cache(maxsize=1024)
def rho_for(epsilon_micro: int, delta_atto: int) -> Fraction:
    """The largest rho found such that rho-zCDP implies (epsilon, delta)-DP, rounded down to 40 significant bits.

    CKS proposition 12 with zCDP's RDP curve alpha * rho: for any alpha > 1, delta <= exp((alpha - 1)(alpha rho -
    epsilon)) / (alpha - 1) * (1 - 1/alpha)**alpha. Solved for rho at one alpha it reads
    rho(alpha) = (epsilon + (ln delta + ln(alpha - 1) - alpha ln(1 - 1/alpha)) / (alpha - 1)) / alpha.
    Any alpha is sound; the best is sought in floating point, and rho is then bounded from below at a rational near
    it, so floats decide tightness only. Raises ValueError when no rho > 0 exists or amounts are not positive.
    """
    if epsilon_micro < 1 or not 0 < delta_atto < ATTO:
        raise ValueError("epsilon must be positive and delta between 0 and 1")
    epsilon, delta = Fraction(epsilon_micro, MICRO), Fraction(delta_atto, ATTO)
    rho = _rho_at(_best_alpha(float(epsilon), float(delta)), epsilon, delta)
    if rho <= 0:
        raise ValueError("no rho is small enough for this epsilon and delta")
    return round_down(rho)


def _rho_at(alpha: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """A lower bound of rho(alpha) of `rho_for`."""
    log = ln_bounds(delta)[0] + ln_bounds(alpha - 1)[0] - alpha * ln_bounds(1 - 1 / alpha)[1]
    return (epsilon + log / (alpha - 1)) / alpha


def _best_alpha(epsilon: float, delta: float) -> Fraction:
    """Near the alpha that maximises rho(alpha): ternary search over ln(alpha - 1); rho has one peak there."""

    def rho(log_gap: float) -> float:
        gap = math.exp(log_gap)
        log = math.log(delta) + log_gap + (1 + gap) * math.log1p(1 / gap)
        return (epsilon + log / gap) / (1 + gap)

    low, high = -20.0, 60.0  # alpha - 1 from 2e-9 to 1e26: beyond any epsilon and delta in use
    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (a, high) if rho(a) < rho(b) else (low, b)
    return 1 + round_down(Fraction(math.exp((low + high) / 2)))


SLACK = Fraction(1, 10**11)

MOST_EPSILON = 500
"""Beyond, where nobody's privacy is at stake, e**epsilon is no longer a double."""


@lru_cache(maxsize=1024)
def normal_rho_for(epsilon_micro: int, delta_atto: int) -> Fraction:
    """The largest rho found such that continuous Gaussian noise of variance l2**2 / (2 rho) is (epsilon, delta)-DP; 0 where none
    is proven. It is 5 to 10 % less noise than by `rho_for`, and discrete noise of `STEPPED` more variance is as good.

    Continuous: delta = Q(epsilon / m - m / 2) - e**epsilon Q(epsilon / m + m / 2) with m = l2 / sigma, Q the normal tail (Balle &
    Wang 2018, theorem 8), which rises with m. Floats seek m; what is returned was bounded in rationals.

    Discrete: let sigma**2 = s + r, r = 5/2. Add N(0, s) to whole numbers x, then draw each coordinate k with probability in
    proportion to exp(-(k - y)**2 / (2 r)) about the result y. Drawing so is post-processing; what it is in proportion to adds up
    to sqrt(2 pi r) (1 +- h) for every y, h = 3 e**(-2 pi**2 r) < 2e-21 (Poisson summation). So k has the density of N(x, s + r)
    at k but for a factor 1 +- h, and that is the law of discrete Gaussian noise but for another (cf. Peikert 2010, theorem 3.1).
    For up to 10**9 coordinates that a unit changes, all factors together are within e**(+-5e-12): (epsilon, delta) becomes
    (epsilon + 1e-11, delta (1 + 1e-11)), which `SLACK` pays for. Raises ValueError for amounts that are not positive.
    """
    if epsilon_micro < 1 or not 0 < delta_atto < ATTO:
        raise ValueError("epsilon must be positive and delta between 0 and 1")
    epsilon, delta = Fraction(epsilon_micro, MICRO) - SLACK, Fraction(delta_atto, ATTO) * (1 - SLACK)
    if epsilon > MOST_EPSILON:
        return Fraction(0)
    low, high = -30.0, 5.0  # of ln m
    for _ in range(100):
        middle = (low + high) / 2
        within = hockey_stick(float(epsilon), math.exp(2 * middle)) <= float(delta)
        low, high = (middle, high) if within else (low, middle)
    for less in (Fraction(1, 10**10), Fraction(1, 10**7), Fraction(1, 10**4)):
        m = round_down(Fraction(math.exp(low)) * (1 - less))
        if _normal_delta(m, epsilon) <= delta:
            return round_down(m * m / 2)
    return Fraction(0)


def _normal_delta(m: Fraction, epsilon: Fraction) -> Fraction:
    """An upper bound of the delta of continuous Gaussian noise, 1 where tails are not known well."""
    unit = 2**80
    near, far = math.floor((epsilon / m - m / 2) * unit), math.ceil((epsilon / m + m / 2) * unit)
    if near < unit:
        return Fraction(1)
    return normal_tail_bounds(Fraction(near, unit))[1] - exp_bounds(epsilon)[0] * normal_tail_bounds(Fraction(far, unit))[0]


def gaussian_rho(epsilon_micro: int, delta_atto: int) -> Fraction:
    """The larger of the two, for comparing noise that has been chosen nowhere yet. Raises ValueError where there is none."""
    return max(rho_for(epsilon_micro, delta_atto), normal_rho_for(epsilon_micro, delta_atto))


def gaussian_sigmas(moved: Sequence[Moved], parts: Sequence[int], epsilon_micro: int, delta_atto: int) -> list[Fraction]:
    """Sigmas of columns that are one Gaussian mechanism of (epsilon, delta), its rho divided in proportion to `parts`: by the
    exact curve of normal noise, or by zCDP where steps are too coarse for that. Raises as `rho_for` and `gaussian_sigma`."""
    by_zcdp = rho_for(epsilon_micro, delta_atto)
    found = [gaussian_sigma(*m, by_zcdp * part / sum(parts)) for m, part in zip(moved, parts, strict=True)]
    normal = normal_rho_for(epsilon_micro, delta_atto)
    if not normal:
        return found
    less = [gaussian_sigma(*m, normal * part / sum(parts), STEPPED) for m, part in zip(moved, parts, strict=True)]
    return less if all(a <= b for a, b in zip(less, found, strict=True)) else found


def gaussian_covered(moved: Sequence[Moved], sigmas: Sequence[Fraction], epsilon_micro: int, delta_atto: int) -> bool:
    """Whether Gaussian noise of these sigmas is (epsilon, delta)-DP for a unit that changes columns so: by zCDP, or by the curve
    of normal noise. Raises ValueError as `rho_for`."""
    squares = [Fraction(l0 * linf * linf, 2) for l0, linf in moved]
    by_zcdp = sum((square / (s * s) for square, s in zip(squares, sigmas, strict=True)), Fraction(0))
    if by_zcdp <= rho_for(epsilon_micro, delta_atto):
        return True
    if any(s * s <= STEPPED for s in sigmas):
        return False
    normal = sum((square / (s * s - STEPPED) for square, s in zip(squares, sigmas, strict=True)), Fraction(0))
    return normal <= normal_rho_for(epsilon_micro, delta_atto)


def tail_point(mechanism: MechanismName, scale: Fraction, p: Fraction) -> int:
    """The smallest t >= 1 certified to satisfy P(X >= t) <= p, X the mechanism's noise at `scale`; 0 < p < 1/2.

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
def threshold(scale: Fraction, l0: int, delta_atto: int, min_units: int, mechanism: MechanismName = "laplace") -> int:
    """The smallest tau such that releasing groups whose noisy number of units is at least tau costs `delta`.

    The backend drops groups of fewer than `min_units` units. Let D' be D without one unit. Groups that exist in D
    alone have exactly min_units units there, that unit among them, and there are j <= l0 of them. Each is released
    with probability p = P(min_units + X >= tau) <= delta / l0, so one of them is with probability at most delta.
    Let S be any set of answers, C the same mechanism on D restricted to the groups common to both: C is within
    epsilon of D' (the unit changes at most l0 - j of them). P(D in S) <= delta + P(C in S) <= delta + e**eps P(D' in
    S). Conversely noises are independent, so P(D in S) >= (1 - delta) P(C in S), and P(D' in S) - e**eps P(D in S)
    <= P(D' in S) - (1 - delta) P(D' in S) <= delta. (Desfontaines 2020 section 4.4 for min_units = 1; the shift by
    min_units - 1 as in Swanberg et al. 2023.)

    Where units are weighed (`specs.Shape.norm`: a unit's weights over all its groups have norm 1, each is at most 1), a new
    group weighs at most `min_units`, and "the unit changes at most l0 - j of them" is "by less than its norm".

    `scale` is of the noise on the basis of distinct units. Raises ValueError for amounts that are not positive.
    """
    if l0 < 1 or delta_atto < 1 or min_units < 1:
        raise ValueError("l0, delta and min_units must be positive")
    p = min(Fraction(delta_atto, ATTO * l0), Fraction(1, 4))
    return min_units + tail_point(mechanism, scale, p)


@lru_cache(maxsize=4096)
def truncated_threshold(scale: Fraction, l0: int, delta_atto: int, min_units: int) -> tuple[int, int]:
    """(tau, reach): as `threshold`, lower, when the Laplace noise X on the units is drawn within +-reach.

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
def interval(mechanism: MechanismName, scale: Fraction, confidence: Fraction) -> int:
    """The smallest half-width h, in grid units, certified to satisfy P(|X| <= h) >= confidence, for 0 < confidence < 1.

    The released value is within h of the bounded true one with that probability (noise only; not truncation).
    """
    if not 0 < confidence < 1:
        raise ValueError("confidence must be between 0 and 1")
    return tail_point(mechanism, scale, (1 - confidence) / 2) - 1


@lru_cache(maxsize=4096)
def extreme_rank(size: int, per_unit: int, epsilon: Fraction) -> int:
    """Which order statistic MIN and MAX are: the t-th lowest contribution, t = ceil((ln size + 3) * 2 k / epsilon).

    All points below the lowest contribution miss rank t by t, so that together they weigh size * exp(-epsilon t /
    (2 k)) <= e**-3 of the right one: fewer than 1 answer in 20 lies outside the data. Smaller t would not be seen.
    """
    wanted = (ln_bounds(Fraction(size))[1] + 3) * 2 * per_unit / epsilon
    return max(1, math.ceil(wanted))


@lru_cache(maxsize=4096)
def end_rank(size: int, fraction: Fraction, per_unit: int, epsilon: Fraction, failure: Fraction) -> int:
    """How many ranks beside a quantile an end of its interval aims, so that it is on the wrong side with probability `failure`
    at most, whatever the data.

    The fraction is a / d, scores are in d-ths of ranks (`select.quantile_runs`), eta is that of one draw. Some candidate has the
    rank that is aimed at, or lies beyond the grid; all on the other side of the quantile miss it by d * rank + 1 at least. There
    are at most `size` of these, so that together they weigh size * exp(-eta (d * rank + 1)) of the right one at most.
    """
    a, d = fraction.numerator, fraction.denominator
    misses = ln_bounds(size / failure)[1] * 2 * per_unit * max(a, d - a) / epsilon
    return max(1, math.ceil((misses - 1) / d))


def draws(fractions: Sequence[Fraction]) -> int:
    """How many draws of equal epsilon the quantiles of one column cost: MIN and MAX one each; of others, where they are three
    or more, one for each level of halving (`mechanisms.quantiles`); MODE, without fractions, one."""
    inner = len(set(fractions) - {0, 1})
    return max(1, len(set(fractions) & {0, 1}) + (inner if inner < 3 else inner.bit_length()))


@lru_cache(maxsize=4096)
def top_threshold(k: int, l0: int, per_unit: int, epsilon_micro: int, delta_atto: int, min_units: int) -> int:
    """The score of "no further one" beside undeclared keys, for k choices of `epsilon_micro` each.

    A choice is the exponential mechanism with eta = epsilon / per_unit on scores that a unit raises by at most per_unit
    and never lowers. Groups of fewer than min_units units are dropped, so that groups in D and not in D' (one unit
    less) have exactly min_units units and a score of at most s = min_units * per_unit; there are at most l0. One of
    them is chosen with probability at most l0 exp(-eta (tau - s)) each time, in k times at most delta = k l0
    exp(-eta (tau - s)). Given that none is, the choices are those among the groups common to both, k mechanisms of
    epsilon each; and all l0 absent, every sequence of choices keeps at least 1 - delta of its probability, so that both
    directions hold as in `threshold`. (The idea is Durfee & Rogers 2019, with a threshold that is a constant.)
    """
    if min(k, l0, per_unit, epsilon_micro, delta_atto, min_units) < 1:
        raise ValueError("amounts must be positive")
    log = ln_bounds(Fraction(ATTO * k * l0, min(delta_atto, ATTO // 2)))[1]
    return min_units * per_unit + math.ceil(log * per_unit * MICRO / epsilon_micro)
