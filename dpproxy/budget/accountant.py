"""Whether an account may spend more: a privacy filter over additive losses.

Knows: `Loss`, `Limit`. Must not know: clocks, rows, names. Pure functions of integers; a limit is turned once into
integer bounds (`Filter`), after which admitting is comparing.

A *filter* decides before each query whether it may run, when queries and their losses are chosen adaptively, and
promises (epsilon, delta)-DP for all that it ever admits (Rogers, Roth, Ullman, Vadhan 2016). Each statement here is
admitted when one of these certificates holds for the total, the new query included:

- basic: the sum of epsilons is at most epsilon (Rogers et al. 2016, theorem 3.6);
- Gaussian: the sum of variances beside the reserve r is at most V - r, with G(V) within (epsilon, delta_g) (fully
  adaptive composition under Gaussian DP: Smith & Thakurta 2022; Koskela, Tobaben, Honkela 2023). Here with a reserve:
  the session is followed, in thought, by Gaussian noise of variance r, which can only raise its divergence; then its
  last query, and by induction each one before, merges into that noise (`plan.loss`, reading 3);
- Renyi, at each order j: the sum of RDP is at most the B_j that converts to (epsilon, delta_j) (Feldman & Zrnic 2021,
  theorem 4.3; Lecuyer 2021), by the conversion of Canonne, Kamath, Steinke 2020, proposition 12.

In every one the failures (thresholds) sum up to at most delta_f (as in Whitehouse, Ramdas, Rogers, Wu 2023).

Which certificate holds at the end may depend on the answers, so one delta cannot serve them all: an adversary would
go on under whichever bound its luck makes looser. Each has its own share, delta_f + delta_g + sum of delta_j <= delta.
Proof: on sessions that end under certificate c the expected excess of the loss over epsilon is at most delta_c (each
certificate's potential is a nonnegative supermartingale), under the basic one it is zero; sum over c. The shares are
fixed by the limit alone, before any answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpproxy.plan.loss import (
    MICRO,
    NANO,
    ORDERS,
    PICO,
    RESERVES,
    Loss,
    discrete_laplace_rdp,
    gaussian_cost,
    hockey_stick,
)
from dpproxy.policy.model import ATTO, Window

GAUSSIAN_SHARE = Fraction(4, 5)
"""Of the conversions' delta: the Gaussian certificate is the tighter one for sessions of many small queries."""

RESERVE_PARTS = 25
"""The reserve r is at most V/25: it costs 4 %, and merging queries of a hundredth of epsilon then costs about 2 %."""

MOST_EPSILON = 300.0
"""Above, e^epsilon nears the end of floats; limits that large are served by the other certificates."""


@dataclass(frozen=True)
class Limit:
    """At most `epsilon` (micro) and `delta` (atto) within a window.

    `conversion` is the part of delta kept for the Gaussian and Renyi certificates (three quarters unless given; 0:
    basic composition only); the rest, `failures`, is for thresholds and for (epsilon, delta) readings.
    """

    epsilon: int
    delta: int = 0
    window: Window = "never"
    conversion: int | None = None

    def __post_init__(self) -> None:
        if self.epsilon < 0 or not 0 <= self.delta < ATTO or not 0 <= (self.conversion or 0) <= self.delta:
            raise ValueError("a limit is not negative, and its conversion is part of delta")

    @property
    def converted(self) -> int:
        return self.delta * 3 // 4 if self.conversion is None else self.conversion

    @property
    def failures(self) -> int:
        return self.delta - self.converted

    def plus(self, epsilon: int, delta: int) -> Limit:
        """With an operator's grant; the shares grow alike."""
        kept = None if self.conversion is None else self.conversion + delta * self.conversion // max(1, self.delta)
        return Limit(self.epsilon + epsilon, min(self.delta + delta, ATTO - 1), self.window, kept)


@dataclass(frozen=True)
class Filter:
    """A limit as integer bounds on a total loss. `variance` is None, an entry of `rdp` negative, when unusable."""

    epsilon: int
    failures: int
    reserve: int  # index in RESERVES
    variance: int | None
    delta_gaussian: float
    rdp: tuple[int, ...]
    deltas: tuple[float, ...]

    def admits(self, total: Loss) -> bool:
        if total.failure > self.failures:
            return False
        return (total.epsilon <= self.epsilon and total.delta <= self.failures) or self.converts(total)

    def converts(self, total: Loss) -> bool:
        """Whether the Gaussian certificate or a Renyi one holds, failures aside."""
        if self.variance is not None and total.gdp[self.reserve] <= self.variance:
            return True
        return any(spent <= most for spent, most in zip(total.rdp, self.rdp, strict=True))


def admits(spent: Loss, new: Loss, limit: Limit) -> bool:
    """Whether `new` may run after `spent`. No loss at all is always admitted."""
    return not new or filter_of(limit).admits(spent + new)


@lru_cache(maxsize=1024)
def filter_of(limit: Limit) -> Filter:
    """The shares of delta and the bounds they give."""
    epsilon, converted = limit.epsilon / MICRO, limit.converted / ATTO
    gaussian = converted * float(GAUSSIAN_SHARE) * (1 - 1e-6)  # for the factors 1 + 1e-18 of `plan.loss._gaussian`
    reserve, variance = _variance(epsilon, gaussian)
    deltas = _renyi_deltas(epsilon, converted * float(1 - GAUSSIAN_SHARE))
    rdp = tuple(_renyi_bound(a, epsilon, d) for a, d in zip(ORDERS, deltas, strict=True))
    return Filter(limit.epsilon, limit.failures, reserve, variance, gaussian, rdp, deltas)


def _variance(epsilon: float, delta: float) -> tuple[int, int | None]:
    """The reserve's index and V - r in pico, rounded down."""
    if not (0 < epsilon <= MOST_EPSILON and delta > 0):
        return 0, None
    low, high = 0.0, 4 * epsilon + 64
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if hockey_stick(epsilon, middle) <= delta else (low, middle)
    most = math.floor(low * PICO * (1 - 1e-9))
    fitting = [i for i, r in enumerate(RESERVES) if r * RESERVE_PARTS <= most]
    return (fitting[-1], most - RESERVES[fitting[-1]]) if fitting else (0, None)


def _renyi_deltas(epsilon: float, delta: float) -> tuple[float, ...]:
    """A third for the order that is best for many small queries, and halves of it away from it: at most `delta`."""
    if delta <= 0:
        return (0.0,) * len(ORDERS)
    best = max(range(len(ORDERS)), key=lambda j: _converted(ORDERS[j], epsilon, delta) / ORDERS[j])
    return tuple(delta / 3 * 2.0 ** -abs(j - best) for j in range(len(ORDERS)))


def _converted(alpha: float, epsilon: float, delta: float) -> float:
    """The RDP of order alpha, in nats, that implies (epsilon, delta)-DP (CKS 2020, proposition 12)."""
    return epsilon - math.log1p(-1 / alpha) + math.log(delta * alpha) / (alpha - 1)


def _renyi_bound(alpha: float, epsilon: float, delta: float) -> int:
    if delta <= 0 or epsilon <= 0:
        return -1
    return math.floor(_converted(alpha, epsilon, delta) * NANO * (1 - 1e-12) - 1)


def effective_epsilon(spent: Loss, limit: Limit) -> int:
    """What `spent` comes to at the limit's delta, in micro-epsilon, rounded up: the smallest of the certificates.

    At most limit.epsilon when the limit's filter admits `spent`; the basic sum when nothing better is known.
    """
    if not spent:
        return 0
    bounds = filter_of(limit)
    found = [float(spent.epsilon)]
    if bounds.variance is not None:
        v = (spent.gdp[bounds.reserve] + RESERVES[bounds.reserve]) / PICO
        found.append(_gaussian_epsilon(v, bounds.delta_gaussian) * MICRO)
    for alpha, rdp, delta in zip(ORDERS, spent.rdp, bounds.deltas, strict=True):
        if delta > 0:
            found.append((rdp / NANO - _converted(alpha, 0.0, delta)) * MICRO)
    return max(0, math.ceil(min(found)))


def _gaussian_epsilon(v: float, delta: float) -> float:
    """The smallest epsilon at which G(v) has at most delta; infinity beyond MOST_EPSILON."""
    if v > 4 * MOST_EPSILON or hockey_stick(MOST_EPSILON, v) > delta:
        return math.inf
    low, high = 0.0, MOST_EPSILON
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if hockey_stick(middle, v) <= delta else (middle, high)
    return high


@lru_cache(maxsize=4096)
def remaining(spent: Loss, limit: Limit) -> tuple[int, int]:
    """(epsilon, delta): the largest micro-epsilon of one further statement, and the atto-delta left for thresholds."""
    bounds = filter_of(limit)
    if spent.failure > bounds.failures:
        return 0, 0
    failures = bounds.failures - (spent.failure if bounds.converts(spent) else min(spent.delta, bounds.failures))
    low = bounds.epsilon - spent.epsilon if spent.delta <= bounds.failures else 0
    low, high = max(0, low), max(0, bounds.epsilon)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fits(spent, middle, bounds) else (low, middle - 1)
    return low, failures


def _fits(spent: Loss, epsilon: int, bounds: Filter) -> bool:
    """`Filter.admits` of a further `Loss.pure(epsilon)`, computing only the entries that are compared."""
    if spent.epsilon + epsilon <= bounds.epsilon and spent.delta <= bounds.failures:
        return True
    ratio = Fraction(epsilon, MICRO)
    if bounds.variance is not None:
        left = bounds.variance - spent.gdp[bounds.reserve]
        if left >= 0 and gaussian_cost(ratio, RESERVES[bounds.reserve]) <= left:
            return True
    for alpha, rdp, most in zip(ORDERS, spent.rdp, bounds.rdp, strict=True):
        if rdp <= most and discrete_laplace_rdp(alpha, float(ratio), 1) * NANO * (1 + 1e-12) + 1 <= most - rdp:
            return True
    return False
