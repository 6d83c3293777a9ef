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
fixed before any answer: by the limit, and by what the first statement of a window costs (`budget.tuning`).
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

RESERVE_PARTS = 25
"""The reserve r is at most V/25: it costs 4 %, and merging queries of a hundredth of epsilon then costs about 2 %."""

MOST_EPSILON = 300.0
"""Above, e^epsilon nears the end of floats; limits that large are served by the other certificates."""


@dataclass(frozen=True)
class Shares:
    """How delta is divided, in hundredths: `failures` for thresholds and (epsilon, delta) readings, `gaussian` for the
    Gaussian certificate, `lead` for the one Renyi order ORDERS[order], the rest for all orders."""

    failures: int = 25
    gaussian: int = 60
    lead: int = 0
    order: int = 0

    def __post_init__(self) -> None:
        if min(self.failures, self.gaussian, self.lead, self.spread) < 0:
            raise ValueError("shares are not negative, and not more than the whole")

    @property
    def spread(self) -> int:
        return 100 - self.failures - self.gaussian - self.lead


BALANCED = Shares()
"""When nothing is known: the Gaussian certificate is the tighter one for sessions of many small queries."""

NO_CONVERSION = Shares(100, 0)
"""Basic composition only."""


@dataclass(frozen=True)
class Limit:
    """At most `epsilon` (micro) and `delta` (atto) within a window. `shares` of delta as in `Shares`."""

    epsilon: int
    delta: int = 0
    window: Window = "never"
    shares: Shares = BALANCED

    def __post_init__(self) -> None:
        if self.epsilon < 0 or not 0 <= self.delta < ATTO:
            raise ValueError("a limit is not negative, and delta is less than 1")

    @property
    def failures(self) -> int:
        return self.delta * self.shares.failures // 100

    def part(self, hundredths: int) -> float:
        """So many hundredths of delta, as a number; for the certificates, whose bounds have margins of their own."""
        return self.delta / ATTO * hundredths / 100

    def plus(self, epsilon: int, delta: int) -> Limit:
        """With an operator's grant; the shares grow alike."""
        return Limit(self.epsilon + epsilon, min(self.delta + delta, ATTO - 1), self.window, self.shares)


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
    """The bounds that the shares of delta give."""
    epsilon, shares = limit.epsilon / MICRO, limit.shares
    gaussian = limit.part(shares.gaussian) * (1 - 1e-6)  # for the factors 1 + 1e-18 of `plan.loss._gaussian`
    reserve, variance = _variance(epsilon, gaussian)
    deltas = _renyi_deltas(epsilon, limit.part(shares.spread), limit.part(shares.lead), shares.order)
    rdp = tuple(renyi_bound(a, epsilon, d) for a, d in zip(ORDERS, deltas, strict=True))
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


def _renyi_deltas(epsilon: float, spread: float, lead: float, order: int) -> tuple[float, ...]:
    """`lead` for one order; of `spread` a third for the one that is best for many small queries, and halves of it away
    from it."""
    deltas = [0.0] * len(ORDERS)
    if spread > 0:
        best = max(range(len(ORDERS)), key=lambda j: _converted(ORDERS[j], epsilon, spread) / ORDERS[j])
        deltas = [spread / 3 * 2.0 ** -abs(j - best) for j in range(len(ORDERS))]
    deltas[order] += lead
    return tuple(deltas)


def _converted(alpha: float, epsilon: float, delta: float) -> float:
    """The RDP of order alpha, in nats, that implies (epsilon, delta)-DP (CKS 2020, proposition 12)."""
    return epsilon - math.log1p(-1 / alpha) + math.log(delta * alpha) / (alpha - 1)


def renyi_bound(alpha: float, epsilon: float, delta: float) -> int:
    """The same in nano-nats, rounded down; negative when there is none."""
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
