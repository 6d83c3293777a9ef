"""How much noise hides one unit: the scales of Laplace and of Gaussian noise, from what a unit can change.

Knows: sensitivities, epsilon, delta. Must not know: data, SQL, samplers. Scales are exact rationals; what is irrational is
bounded (`privacy.real_bounds`) and rounded to the side that can only add noise.

Neighbours differ by all rows of one unit. A unit reaches at most `l0` groups and changes a basis by at most `linf` grid units
in each.

Sources: Ghosh, Roughgarden, Sundararajan 2012 (geometric mechanism); Canonne, Kamath, Steinke 2020, "The discrete Gaussian for
differential privacy" (CKS); Balle & Wang 2018, "Improving the Gaussian mechanism".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from dpproxy.amounts import ATTO, MICRO
from dpproxy.errors import PROGRAM_LIMIT_EXCEEDED, NoRoom
from dpproxy.privacy.loss import STEPPED, hockey_stick
from dpproxy.privacy.real_bounds import exp_bounds, ln_bounds, normal_tail_bounds, round_down, round_up, sqrt_bounds

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
    """Return the scale of discrete Laplace noise, in grid units, that makes a basis `epsilon`-DP.

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
    """Return the sigma of discrete Gaussian noise, in grid units, that makes a basis rho-zCDP.

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
    """Return the largest rho found such that rho-zCDP implies (epsilon, delta)-DP, rounded down to 40 significant bits.

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
    """Return the largest rho found such that continuous Gaussian noise of variance l2**2 / (2 rho) is (epsilon, delta)-DP; 0
    where none is proven. It is 5 to 10 % less noise than by `rho_for`, and discrete noise of `STEPPED` more variance is as good.

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
    """Return the larger of `rho_for` and `normal_rho_for`, to compare noise before any is chosen. Raises ValueError as they
    do."""
    return max(rho_for(epsilon_micro, delta_atto), normal_rho_for(epsilon_micro, delta_atto))


def gaussian_sigmas(moved: Sequence[Moved], parts: Sequence[int], epsilon_micro: int, delta_atto: int) -> list[Fraction]:
    """Return the sigmas, in grid units, of columns that are one Gaussian mechanism of (epsilon, delta), its rho divided in
    proportion to `parts`: by the exact curve of normal noise, or by zCDP where steps are too coarse for that. Raises as
    `rho_for` and `gaussian_sigma`."""
    by_zcdp = rho_for(epsilon_micro, delta_atto)
    found = [gaussian_sigma(*m, by_zcdp * part / sum(parts)) for m, part in zip(moved, parts, strict=True)]
    normal = normal_rho_for(epsilon_micro, delta_atto)
    if not normal:
        return found
    less = [gaussian_sigma(*m, normal * part / sum(parts), STEPPED) for m, part in zip(moved, parts, strict=True)]
    return less if all(a <= b for a, b in zip(less, found, strict=True)) else found


def gaussian_covered(moved: Sequence[Moved], sigmas: Sequence[Fraction], epsilon_micro: int, delta_atto: int) -> bool:
    """Say whether Gaussian noise of these sigmas is (epsilon, delta)-DP for a unit that changes columns so: by zCDP, or by the
    curve of normal noise. Raises ValueError as `rho_for`."""
    squares = [Fraction(l0 * linf * linf, 2) for l0, linf in moved]
    by_zcdp = sum((square / (s * s) for square, s in zip(squares, sigmas, strict=True)), Fraction(0))
    if by_zcdp <= rho_for(epsilon_micro, delta_atto):
        return True
    if any(s * s <= STEPPED for s in sigmas):
        return False
    normal = sum((square / (s * s - STEPPED) for square, s in zip(squares, sigmas, strict=True)), Fraction(0))
    return normal <= normal_rho_for(epsilon_micro, delta_atto)
