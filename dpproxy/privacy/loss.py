"""Privacy loss as a frozen, additive value: what one measurement, statement, role or dataset has spent.

Knows: integers, and the formulas that turn a mechanism into integers. Must not know: ledgers, windows, limits, SQL.
`+` is composition. A loss is read in three ways at once, each an upper bound by itself; `privacy.accountant` says when
a reading admits a further query. To add a mechanism, add a constructor that bounds all three.

1. *Basic*: (epsilon, delta); amounts add up (Dwork & Roth 2014, theorem 3.16).
2. *Renyi*: RDP at the fixed `ORDERS` (Mironov 2017), beside the delta of thresholds.
3. *Gaussian*: at each reserve r of `RESERVES`, the least variance v for which the mechanism M, followed by Gaussian
   noise's loss of variance r, is dominated by Gaussian noise's loss of variance r + v:  M o G(r) <= G(r + v).
   G(v) is the trade-off of N(0, 1) against N(sqrt v, 1); `<=` is Blackwell's order (Dong, Roth, Su 2022).

The discrete Laplace mechanism is *not* covered by the RDP of continuous Laplace noise (Mironov 2017, proposition 6):
at sensitivity 1 it is randomised response, whose loss is +-epsilon and never between. `discrete_laplace_rdp` is exact.

Why reading 3 holds for every epsilon-DP mechanism (`gaussian_cost`). Randomised response RR dominates them (Kairouz,
Oh, Viswanath 2015), so let M = RR. Under sqrt(PQ), losses have densities; let A be that of G(r + v) less that of
RR o G(r): A(l) = e^(-v/8) phi_{r+v}(l) - (phi_r(l - eps) + phi_r(l + eps)) / (2 cosh(eps/2)), up to the factor
e^(-r/8). The difference of the hockey-stick divergences at x is 2 e^(x/2) W(x), W(x) = integral of sinh((l - x)/2)_+
A(l) dl. A is even and both sides have mass one, so that W(-x) - W(x) = sinh(x/2) * integral of cosh(l/2) A(l) dl = 0:
W is even. And W'' - W/4 = A/2. The logarithm of the ratio of A's two terms is, but for a constant, a l^2 - log
cosh(b l), convex in l^2; hence on [0, oo) A is +, then -, then + (parts may be missing). On the last part W >= 0, its
integrand being so. On the first, W'(0) = 0 and W'' >= W/4 give W >= W(0). On the middle W'' <= W/4 forbids a negative
minimum. So W >= 0 everywhere as soon as W(0) >= 0: domination holds when the *total variation* of RR o G(r) is at
most that of G(r + v). (If A starts with -, W(0) >= 0 and the end bound the middle alike.)

Floats: each formula is a sum of a few exact operations, relative error below 1e-14; `_up` adds a margin far above
that before it rounds up, so floats decide tightness and never soundness. Tests compare with exact arithmetic.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import add, sub
from statistics import NormalDist
from typing import Any, Final

from dpproxy.amounts import MICRO

# Many whole numbers in one integer, which adds and subtracts them all at once.
#
# Knows: bits. Must not know: what the numbers mean. Each number has a lane of 128 bits, of which it may fill 127: the highest
# one guards the next lane. Two lanes of 127 bits add up to less than 2^128, so no sum runs over into its neighbour, and one
# that does not fit shows in its guard. A difference borrows from a guard that was set for it, so that one below zero shows
# there too. Where numbers do not fit there is None, and whoever asked adds them one by one: no sum is ever another than that of
# the numbers.

LANE: Final = 16
"""Bytes: a loss has numbers of up to 10**30 (`privacy.loss.UNREACHABLE`), and 10**8 of those add up to less than 2**127."""

MOST: Final = 64
"""Lanes in one integer: more than a loss has numbers."""

_TOP: Final = 1 << 8 * LANE - 1
_GUARDS: Final = sum(_TOP << 8 * LANE * i for i in range(MOST))
_TIMES: Final = 20
_LARGE: Final = sum(((1 << _TIMES + 1) - 1) << 8 * LANE * (i + 1) - _TIMES - 1 for i in range(MOST))


def packed(numbers: Sequence[int]) -> int | None:
    """Return the numbers as one, the first in the lowest lane; None where they do not fit."""
    if len(numbers) > MOST or not all(0 <= number < _TOP for number in numbers):
        return None
    return int.from_bytes(b"".join(number.to_bytes(LANE, "little") for number in numbers), "little")


def unpacked(lanes: int, count: int) -> tuple[int, ...]:
    """Return the numbers that were packed."""
    halves = struct.unpack(f"<{2 * count}Q", lanes.to_bytes(LANE * count, "little"))
    low, high = halves[::2], halves[1::2]
    return tuple(a | b << 64 for a, b in zip(low, high, strict=True)) if any(high) else low


def plus(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return None
    found = one + other
    return None if found & _GUARDS else found


def minus(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return None
    found = (one | _GUARDS) - other
    return found ^ _GUARDS if found & _GUARDS == _GUARDS else None


def times(one: int | None, count: int) -> int | None:
    """Return each number so many times. None also where some product might not fit: a number of up to 106 bits, fewer than 2^20
    times, does."""
    if one is None or not 0 < count < 1 << _TIMES or one & _LARGE:
        return None
    return one * count


NANO = 10**9
PICO = 10**12

ORDERS: tuple[float, ...] = (
    *(1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 10.0),
    *(12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0, 40.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 512.0, 1024.0),
)
"""From epsilon of hundreds (low orders) to thousandths (high ones); neighbours cost under 1 % of each other's best."""

RESERVES: tuple[int, ...] = tuple(m * 10**k for k in range(7, 14) for m in (1, 3))[:-1]
"""Variances r in pico-nats^2, 1e-5 to 10, in half decades. A limit uses the one near 1/30 of its own variance."""

UNREACHABLE = 10**30
"""The cost of what a reading does not cover: more than any limit, and still an integer that adds."""

_NORMAL = NormalDist()


def _up(x: float, unit: int) -> int:
    """x >= 0 in `unit`s, rounded up, after a margin above the error of floats in these formulas."""
    return math.ceil(x * unit * (1 + 1e-12) + 1e-3) if x * unit < UNREACHABLE else UNREACHABLE


@dataclass(frozen=True)
class Loss:
    """A loss bounds what was learned. `epsilon` (micro) and `delta` (atto) under basic composition; `rdp` in nano-nats at
    `ORDERS`; `gdp` in pico-nats^2 at `RESERVES`. All are upper bounds, rounded up.

    `conversion` is the part of `delta` that the basic reading alone needs, because Gaussian noise has no pure epsilon; the
    rest of `delta` (thresholds) counts in every reading. `rdp` and `gdp` left out mean: nothing better is known than (epsilon,
    delta), which is then read as randomised response but for delta (Kairouz, Oh, Viswanath 2015).
    """

    epsilon: int
    delta: int = 0
    rdp: tuple[int, ...] = field(default_factory=tuple)
    gdp: tuple[int, ...] = field(default_factory=tuple)
    conversion: int = 0

    def __post_init__(self) -> None:
        if self.epsilon < 0 or not 0 <= self.conversion <= self.delta:
            raise ValueError("a loss is not negative")
        if not self.rdp:
            object.__setattr__(self, "rdp", pure_rdp(self.epsilon))
        if not self.gdp:
            object.__setattr__(self, "gdp", pure_gdp(self.epsilon))
        if len(self.rdp) != len(ORDERS) or len(self.gdp) != len(RESERVES):
            raise ValueError("a loss has one entry for each order and reserve")

    def __add__(self, other: Loss) -> Loss:
        """Composition, also of adaptively chosen mechanisms."""
        sums = (self.epsilon + other.epsilon, self.delta + other.delta, self.conversion + other.conversion)
        lanes = plus(self._lanes, other._lanes)
        if lanes is not None:
            return _whole(*sums, lanes)
        return Loss(*sums[:2], tuple(map(add, self.rdp, other.rdp)), tuple(map(add, self.gdp, other.gdp)), sums[2])

    def times(self, count: int) -> Loss:
        """Return the sum of so many losses like this one."""
        if count == 1:
            return self
        numbers = (self.epsilon * count, self.delta * count, self.conversion * count)
        lanes = times(self._lanes, count)
        if lanes is not None:
            return _whole(*numbers, lanes)
        return Loss(*numbers[:2], tuple(count * n for n in self.rdp), tuple(count * n for n in self.gdp), numbers[2])

    def since(self, earlier: Loss) -> Loss:
        """Return what was added after `earlier`, when this sum went on from there. Exact: losses are integers."""
        if not earlier:
            return self
        left = (self.epsilon - earlier.epsilon, self.delta - earlier.delta, self.conversion - earlier.conversion)
        lanes = minus(self._lanes, earlier._lanes)
        if lanes is not None and left[0] >= 0 and 0 <= left[2] <= left[1]:
            return _whole(*left, lanes)
        return Loss(*left[:2], tuple(map(sub, self.rdp, earlier.rdp)), tuple(map(sub, self.gdp, earlier.gdp)), left[2])

    @cached_property
    def _lanes(self) -> int | None:
        """`rdp` and `gdp` as one integer, which adds fifty numbers at once (`privacy.loss`); None where they do not fit."""
        return packed((*self.rdp, *self.gdp))

    def __getattr__(self, name: str) -> tuple[int, ...]:
        """Take `rdp` and `gdp` of a sum apart when they are asked for, which they seldom are."""
        if name not in ("rdp", "gdp"):
            raise AttributeError(name)
        numbers = unpacked(self.__dict__["_lanes"], len(ORDERS) + len(RESERVES))
        self.__dict__.update(rdp=numbers[: len(ORDERS)], gdp=numbers[len(ORDERS) :])
        found: tuple[int, ...] = self.__dict__[name]
        return found

    def __bool__(self) -> bool:
        """Return False for no loss at all."""
        lanes = self._lanes
        return bool(self.epsilon or self.delta or (any(self.rdp) or any(self.gdp) if lanes is None else lanes))

    def __hash__(self) -> int:
        """Hash once: a loss of fifty numbers is looked up several times for each charge."""
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = hash((self.epsilon, self.delta, self.rdp, self.gdp, self.conversion))
            object.__setattr__(self, "_hash", found)
        return found

    @property
    def failure(self) -> int:
        """Return the delta (atto) that counts in every reading."""
        return self.delta - self.conversion

    @classmethod
    def pure(cls, epsilon_micro: int) -> Loss:
        """Bound the loss of any epsilon-DP mechanism: randomised response dominates it (Kairouz, Oh, Viswanath 2015)."""
        return cls(epsilon_micro)

    laplace = pure  # knowing only the ratio of sensitivity to scale: exact for discrete Laplace at sensitivity 1

    @classmethod
    def laplace_vector(cls, l0: int, ratio: Fraction, linf: int = 1) -> Loss:
        """Bound the loss of discrete Laplace noise on integers: a unit moves at most `l0` coordinates by at most `linf` each.

        `ratio` is linf / scale. epsilon = l0 * ratio; RDP and variance add over coordinates, which is far less than
        those of one l0 * ratio - DP mechanism. Shifts below linf cost no more: the noise is log-concave, so
        likelihood ratio tests are one-sided and their power grows with the shift. Leave `linf` at 1 if unknown.

        Nor do more coordinates, when all shifts together add up to l0 * linf: what a shift by d costs, over d, does not
        fall with d. RDP of discrete Laplace noise is 0 at d = 0 and convex, the logarithm of A e^((a-1)d/s) + B e^(-ad/s)
        over a - 1; epsilon is linear; for variances it is tested.
        """
        return _laplace_vector(l0, ratio, linf)

    @classmethod
    def gaussian(cls, l0: int, linf: int, sigma: Fraction, epsilon_micro: int, delta_atto: int) -> Loss:
        """Bound the loss of discrete Gaussian noise; (epsilon, delta) is a proven basic reading
        (`privacy.noise_scale.gaussian_covered`).

        rho = l0 linf^2 / (2 sigma^2), RDP alpha * rho (Canonne, Kamath, Steinke 2020, theorem 14). See `_ripple_free`.
        """
        return _gaussian(l0, linf, sigma, epsilon_micro, delta_atto)

    @classmethod
    def bounded_range(cls, epsilon_micro: int, times: int = 1) -> Loss:
        """Bound the loss of the exponential mechanism (also as report-noisy-max with Gumbel noise), drawn `times` times.

        Its loss lies in an interval of length epsilon, so it is epsilon^2/8-zCDP (Cesar & Rogers 2021, lemma 3.4;
        Dong, Durfee, Rogers 2020); not true of permute-and-flip or noisy max with Laplace or exponential noise.
        """
        one = pure_rdp(epsilon_micro)
        eighth = Fraction(epsilon_micro * epsilon_micro, 8 * MICRO * MICRO)
        rdp = tuple(min(math.ceil(Fraction(a) * eighth * NANO), p) for a, p in zip(ORDERS, one, strict=True))
        gdp = tuple(times * v for v in pure_gdp(epsilon_micro))
        return cls(times * epsilon_micro, 0, tuple(times * r for r in rdp), gdp)

    @classmethod
    def delta_only(cls, atto: int) -> Loss:
        """Return the loss of a threshold on undeclared keys: nothing but a probability of failure, in atto."""
        return cls(0, atto)

    def to_json(self) -> dict[str, Any]:
        """Return the loss as the ledger keeps it: integers and lists of integers only."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "conversion": self.conversion,
            "rdp": list(self.rdp),
            "gdp": list(self.gdp),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Loss:
        """Read a loss that the ledger kept. Raises KeyError, TypeError or ValueError for anything `to_json` does not write."""
        rdp, gdp = tuple(map(int, data["rdp"])), tuple(map(int, data["gdp"]))
        if not rdp or not gdp:
            raise ValueError("a stored loss is complete")
        return cls(int(data["epsilon"]), int(data["delta"]), rdp, gdp, int(data["conversion"]))


def _whole(epsilon: int, delta: int, conversion: int, lanes: int) -> Loss:
    """Make the sum of two losses: what each loss is checked for holds of sums, and the ledger makes six of them for a charge."""
    made = object.__new__(Loss)
    made.__dict__.update(epsilon=epsilon, delta=delta, conversion=conversion, _lanes=lanes)
    return made


def discrete_laplace_rdp(alpha: float, ratio: float, shift: int) -> float:
    """Compute the exact Renyi divergence of order alpha, in nats, between discrete Laplace noise and its shift by `shift` >= 1.

    With scale b = shift / ratio and q = e^(-1/b), P(X = k) = (1 - q)/(1 + q) q^|k|. The sum of P(k)^alpha
    P(k - shift)^(1 - alpha) has three geometric parts: k <= 0, 0 < k < shift, k >= shift. At shift 1 it is randomised
    response; as shift grows it falls to Mironov 2017, proposition 6.
    """
    b = shift / ratio
    both = -math.log1p(math.exp(-1 / b))
    logs = [(alpha - 1) * ratio + both, -alpha * ratio + both]
    if shift > 1:
        g = (2 * alpha - 1) / b
        middle = math.log(-math.expm1(-g * (shift - 1))) - math.log(-math.expm1(-g)) - g
        logs.append(math.log(math.tanh(1 / (2 * b))) + (alpha - 1) * ratio + middle)
    top = max(logs)
    return max(0.0, top + math.log(math.fsum(math.exp(x - top) for x in logs))) / (alpha - 1)


@lru_cache(maxsize=4096)
def pure_rdp(epsilon_micro: int) -> tuple[int, ...]:
    """Return the RDP at `ORDERS` (nano-nats) of every epsilon-DP mechanism, at most epsilon: that of randomised response."""
    return _laplace_rdp(Fraction(epsilon_micro, MICRO), 1)


def _laplace_rdp(ratio: Fraction, shift: int) -> tuple[int, ...]:
    if not ratio:
        return (0,) * len(ORDERS)
    most = math.ceil(ratio * NANO)
    return tuple(min(most, _up(discrete_laplace_rdp(a, float(ratio), shift), NANO)) for a in ORDERS)


@lru_cache(maxsize=4096)
def pure_gdp(epsilon_micro: int) -> tuple[int, ...]:
    """Return `gaussian_cost` at every reserve, in pico-nats^2."""
    return tuple(gaussian_cost(Fraction(epsilon_micro, MICRO), r) for r in RESERVES)


def gaussian_cost(epsilon: Fraction, reserve: int) -> int:
    """Bound the variance v (pico) of reading 3 for any epsilon-DP mechanism: equal total variation (module docstring).

    TV(RR o G(r)) = p H(-eps) + (1 - p) H(eps), p = 1/(1 + e^-eps), H the hockey stick of G(r); TV(G(v)) =
    2 Phi(sqrt(v)/2) - 1. Never more than without a reserve, v = (2 Phi^-1(p))^2.
    """
    eps = float(epsilon)
    if eps == 0:
        return 0
    if eps > 30:  # 1 - p is no longer a good float; no limit in use is near
        return UNREACHABLE
    r, p = reserve / PICO, 1 / (1 + math.exp(-eps))
    total = p * hockey_stick(-eps, r) + (1 - p) * hockey_stick(eps, r)
    bare = (2 * _NORMAL.inv_cdf(1 - p)) ** 2
    beside = (2 * _NORMAL.inv_cdf((1 - total) / 2)) ** 2 - r if total < 1 - 1e-6 else bare
    margin = r * 1e-13  # the difference of two numbers near r: inv_cdf is good to 1e-15
    return min(_up(bare, PICO), _up(beside + margin, PICO))


def hockey_stick(x: float, v: float) -> float:
    """Compute the delta of Gaussian noise of variance v at epsilon = x: Phi(sqrt v/2 - x/sqrt v) - e^x Phi(-sqrt v/2 - x/sqrt v)
    (Balle & Wang 2018, theorem 8)."""
    s = math.sqrt(2 * v)
    return (math.erfc((x - v / 2) / s) - math.exp(x) * math.erfc((x + v / 2) / s)) / 2


@lru_cache(maxsize=4096)
def _laplace_vector(l0: int, ratio: Fraction, linf: int) -> Loss:
    if l0 < 1 or linf < 1 or ratio < 0:
        raise ValueError("l0 and linf must be positive, the ratio not negative")
    coordinate = _laplace_rdp(ratio, linf)
    variances = (gaussian_cost(ratio, r) for r in RESERVES)
    return Loss(math.ceil(l0 * ratio * MICRO), 0, tuple(l0 * c for c in coordinate), tuple(l0 * v for v in variances))


@lru_cache(maxsize=4096)
def _gaussian(l0: int, linf: int, sigma: Fraction, epsilon_micro: int, delta_atto: int) -> Loss:
    if l0 < 1 or linf < 1 or sigma <= 0:
        raise ValueError("l0, linf and sigma must be positive")
    variance = Fraction(linf * linf) / (sigma * sigma)
    rdp = tuple(math.ceil(Fraction(a) * l0 * variance / 2 * NANO) for a in ORDERS)
    cost, coarse = math.ceil(l0 * variance * PICO), _coarse_cost(l0, linf, sigma)
    gdp = tuple(cost if _ripple_free(sigma, variance, r) else coarse for r in RESERVES)
    return Loss(epsilon_micro, delta_atto, rdp, gdp, delta_atto)


def _ripple_free(sigma: Fraction, variance: Fraction, reserve: int) -> bool:
    """Whether discrete Gaussian noise is as good as continuous next to the reserve r, but for a factor 1 + 1e-18.

    Its loss is a lattice of span h = variance / shift, weighted like N(., variance). Smoothed by r, Poisson summation
    gives the density of variance + r times at most 1 + 2 sum_m e^(-2 pi^2 m^2 u / h^2), with u = variance r /
    (variance + r), so u / h^2 = sigma^2 r / (variance + r); smaller shifts have less variance. 2.5 makes it 1e-21.
    """
    r = Fraction(reserve, PICO)
    return sigma * sigma * r / (variance + r) >= Fraction(5, 2)


STEPPED = Fraction(5, 2)
"""The part of the variance that makes noise whole numbers (`privacy.noise_scale.normal_rho_for`), in squared grid units."""


def _coarse_cost(l0: int, linf: int, sigma: Fraction) -> int:
    """The variance of reading 3 where a small reserve does not smooth the lattice: that of continuous noise of sigma**2 - 5/2, of
    which discrete noise is post-processing but for a factor 1 +- 4e-21 a coordinate (`privacy.noise_scale.normal_rho_for` has the
    proof), at every reserve. Noise of less variance than that is beyond this reading."""
    left = sigma * sigma - STEPPED
    return min(UNREACHABLE, math.ceil(l0 * linf * linf / left * PICO)) if left > 0 else UNREACHABLE


ZERO = Loss(0)
