"""Whether an account may spend more: a privacy filter over additive losses.

Knows: `Loss`, `Limit`. Must not know: clocks, rows, names. Pure functions of integers; a limit is turned once into
integer bounds (`Filter`), after which admitting is comparing.

A *filter* decides before each query whether it may run, when queries and their losses are chosen adaptively, and
promises (epsilon, delta)-DP for all that it ever admits (Rogers, Roth, Ullman, Vadhan 2016). Each statement here is
admitted when the failures (thresholds) of the total, the new query included, are at most delta_f, and one of these
*certificates* holds for it:

- basic: epsilons add up to at most epsilon, and conversions (the deltas at which Gaussian statements have an epsilon,
  thresholds apart) to at most delta_b;
- Gaussian: the sum of variances beside the reserve r is at most V - r, with G(V) within (epsilon, delta_g);
- Renyi, at each order j: the sum of RDP is at most the B_j that converts to (epsilon, delta_j), by the conversion of
  Canonne, Kamath, Steinke 2020, proposition 12.

Which certificate holds at the end may depend on the answers: an adversary goes on under whichever bound its luck makes
looser. So nothing is counted once for two of them: delta_f + delta_b + delta_g + sum of delta_j <= delta. The shares are
fixed before any answer: by the limit, and by what the first statement of a window costs (last part of this file).

Proof. P, Q: the session's answers on two neighbours, in either order; every reading of a loss holds for both orders. P is
(epsilon, delta)-close to Q when E[excess] <= delta, the excess of answers with loss l = log P/Q being (1 - e^(epsilon - l))_+
under P (zero unless l > epsilon).

Failures first (as in Whitehouse, Ramdas, Rogers, Wu 2023). On one neighbour a statement with a threshold of failure f is a
mixture: with probability at least 1 - f it is its restriction to the groups of both neighbours
(`privacy.noise_tail.units_threshold`). Along every path the f add up to at most delta_f, so all statements are restricted ones
with probability at least 1 - delta_f, whichever neighbour it is: that costs delta_f. From here on P and Q are of restricted
statements.

Each session is put under one certificate that holds for its total at the end; it is shown that the excess of those under c,
integrated, is at most delta_c. Let i run over the statements of a path; what a statement costs is known before its answer.

- basic (Rogers et al. 2016, theorem 3.6, of conversions). Statement i is (e_i, c_i)-DP: P_i = P_i' + N_i with P_i' <= e^e_i Q_i
  and N_i of mass at most c_i. Take N_i away as long as c_1 + ... + c_i <= delta_b, afterwards nothing. What is taken away
  has mass at most delta_b, being the sum of N_i at most c_i each along every path. Under the basic certificate N_i was taken
  away throughout, so what is left of P is at most e^(sum of e_i) Q <= e^epsilon Q there, and has no excess.
- Gaussian (fully adaptive composition under Gaussian DP: Smith & Thakurta 2022; Koskela, Tobaben, Honkela 2023; here beside
  a reserve). Let h(v, x) = E(1 - e^(x - L))_+, L the loss of G(v). The potential is h(V - v_1 - ... - v_i, epsilon - l_i),
  l_i the loss so far, for as long as V - v_1 - ... - v_i >= r, then frozen. M_i o G(r) <= G(r + v_i) (`privacy.loss`, reading
  3), and so with any larger variance in place of r: the potential is a supermartingale under P. It begins with h(V, epsilon)
  <= delta_g,
  is never negative, and under this certificate ends with h(w, epsilon - l), w >= r, which is at least the excess: noise that
  follows can only raise a divergence.
- Renyi (Feldman & Zrnic 2021, theorem 4.3; Lecuyer 2021). exp((a - 1)(l_i - rho_1 - ... - rho_i)) is a supermartingale
  under P that begins with 1, a the order. Under this certificate it ends with at least exp((a - 1)(l - B_j)), which is at
  least the excess over delta_j: that is the conversion, point by point.

Sum over certificates: delta_f + delta_b + delta_g + sum of delta_j. `tests/privacy/test_adaptive_sessions.py` searches for
sessions that come out above, by exact integrals.

An operator's grant widens the limit, its shares alike. The promise is then the wider limit's, as long as the grant was not
made in view of answers; a grant that was is a decision about them which no filter sees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product

from dpproxy.amounts import ATTO, MICRO
from dpproxy.budget_windows import Window
from dpproxy.privacy.loss import NANO, ORDERS, PICO, RESERVES, Loss, discrete_laplace_rdp, gaussian_cost, hockey_stick

RESERVE_PARTS = 25
"""The reserve r is at most V/25: it costs 4 %, and merging queries of a hundredth of epsilon then costs about 2 %."""

MOST_EPSILON = 300.0
"""Above, e^epsilon nears the end of floats; limits that large are served by the other certificates."""


@dataclass(frozen=True)
class Shares:
    """Say how delta is divided, in hundredths of it: `failures` for thresholds, `conversions` for the basic certificate's
    Gaussian statements, `gaussian` for the Gaussian certificate, `lead` for the one Renyi order ORDERS[order], the rest for all
    orders."""

    failures: int = 25
    gaussian: int = 57
    lead: int = 0
    order: int = 0
    conversions: int = 5

    def __post_init__(self) -> None:
        if min(self.failures, self.gaussian, self.lead, self.conversions, self.spread) < 0:
            raise ValueError("shares are not negative, and not more than the whole")

    @property
    def spread(self) -> int:
        """Return the hundredths that are divided over all Renyi orders."""
        return 100 - self.failures - self.conversions - self.gaussian - self.lead


BALANCED = Shares()
"""When nothing is known: the Gaussian certificate is the tighter one for sessions of many small queries."""

ONLY_THRESHOLDS = Shares(100, 0, conversions=0)
"""Basic composition only, without Gaussian statements."""


@dataclass(frozen=True)
class Limit:
    """Allow at most `epsilon` (micro) and `delta` (atto) within a window; `shares` says how delta is divided."""

    epsilon: int
    delta: int = 0
    window: Window = "never"
    shares: Shares = BALANCED

    def __post_init__(self) -> None:
        if self.epsilon < 0 or not 0 <= self.delta < ATTO:
            raise ValueError("a limit is not negative, and delta is less than 1")

    @property
    def failures(self) -> int:
        """Return the delta (atto) that thresholds may fail with."""
        return self.delta * self.shares.failures // 100

    @property
    def conversions(self) -> int:
        """Return the delta (atto) of the basic certificate, for Gaussian statements."""
        return self.delta * self.shares.conversions // 100

    def part(self, hundredths: int) -> float:
        """Return so many hundredths of delta as a number, for the certificates, whose bounds have margins of their own."""
        return self.delta / ATTO * hundredths / 100

    def plus(self, epsilon: int, delta: int) -> Limit:
        """Return the limit widened by an operator's grant (micro-epsilon, atto-delta); its shares grow alike."""
        if not epsilon and not delta:
            return self
        return Limit(self.epsilon + epsilon, min(self.delta + delta, ATTO - 1), self.window, self.shares)


@dataclass(frozen=True)
class Filter:
    """A limit as integer bounds on a total loss. `variance` is None, an entry of `rdp` negative, when unusable."""

    epsilon: int
    failures: int
    conversions: int
    reserve: int  # index in RESERVES
    variance: int | None
    delta_gaussian: float
    rdp: tuple[int, ...]
    deltas: tuple[float, ...]

    def admits(self, total: Loss) -> bool:
        """Say whether a total loss is within the limit."""
        return total.failure <= self.failures and (self.adds_up(total) or self.converts(total))

    def adds_up(self, total: Loss) -> bool:
        """Say whether the basic certificate holds, failures aside."""
        return total.epsilon <= self.epsilon and total.conversion <= self.conversions

    def converts(self, total: Loss) -> bool:
        """Say whether the Gaussian certificate or a Renyi one holds, failures aside."""
        if self.variance is not None and total.gdp[self.reserve] <= self.variance:
            return True
        return any(spent <= most for spent, most in zip(total.rdp, self.rdp, strict=True))


def admits(spent: Loss, new: Loss, limit: Limit) -> bool:
    """Say whether `new` may run after `spent`, by any certificate of the module's essay. No loss at all is always admitted."""
    return not new or filter_of(limit).admits(spent + new)


@lru_cache(maxsize=1024)
def filter_of(limit: Limit) -> Filter:
    """Turn a limit into the integer bounds that its shares of delta give."""
    epsilon, shares = limit.epsilon / MICRO, limit.shares
    gaussian = limit.part(shares.gaussian) * (1 - 1e-6)  # for the factors 1 + 1e-18 of `privacy.loss._gaussian`
    reserve, variance = _variance(epsilon, gaussian)
    deltas = _renyi_deltas(epsilon, limit.part(shares.spread), limit.part(shares.lead), shares.order)
    rdp = tuple(renyi_bound(a, epsilon, d) for a, d in zip(ORDERS, deltas, strict=True))
    return Filter(limit.epsilon, limit.failures, limit.conversions, reserve, variance, gaussian, rdp, deltas)


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
    """Return the RDP of order `alpha` that implies (epsilon, delta)-DP, in nano-nats, rounded down; negative when there is none.

    CKS 2020, proposition 12.
    """
    if delta <= 0 or epsilon <= 0:
        return -1
    return math.floor(_converted(alpha, epsilon, delta) * NANO * (1 - 1e-12) - 1)


def effective_epsilon(spent: Loss, limit: Limit) -> int:
    """Return what `spent` comes to at the limit's delta, in micro-epsilon, rounded up: the smallest of the certificates.

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
    """Return the largest epsilon (micro) of one further statement, and the delta (atto) left for thresholds."""
    bounds = filter_of(limit)
    if spent.failure > bounds.failures:
        return 0, 0
    low = bounds.epsilon - spent.epsilon if bounds.adds_up(spent) else 0
    low, high = max(0, low), max(0, bounds.epsilon)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fits(spent, middle, bounds) else (low, middle - 1)
    return low, bounds.failures - spent.failure


def _fits(spent: Loss, epsilon: int, bounds: Filter) -> bool:
    """`Filter.admits` of a further `Loss.pure(epsilon)`, computing only the entries that are compared."""
    if spent.epsilon + epsilon <= bounds.epsilon and spent.conversion <= bounds.conversions:
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


# How a window's delta is divided among the certificates: so that its first statement could be repeated most often.
#
# Knows: limits, losses. Must not know: accounts, clocks. Any division is sound that is fixed before the first answer
# (`privacy.accountant`). What the first statement costs is: whoever asks it has seen nothing yet in this window. Most sessions
# go on as they begin - a dashboard's charts have one price - and those that do not keep a part of every share.

FAILURES = (12, 25, 40, 60)
"""Hundredths for thresholds to choose from: never none, since a later statement may have undeclared groups."""

CONVERSIONS = (5, 50)
"""Hundredths for the basic certificate's Gaussian statements: never none, since a later statement may be one; many, where the
first statement is one of so few that adding up serves best. The least costs other sessions under 0.6 % of their statements."""

LEADING = 94
"""Of what is left, the part of the leading certificate, in hundredths; a second one loses 1 % of its queries by it."""

BESIDE = 3
"""Of what is left, the Gaussian certificate's part beside a leading order."""


@lru_cache(maxsize=4096)
def tuned(limit: Limit, first: Loss) -> Limit:
    """Return the limit with the shares that admit most statements like the first of its window; `limit` itself when none is
    better, or when its shares are given."""
    if not limit.delta or limit.shares != BALANCED:
        return limit
    return max((replace(limit, shares=s) for s in (BALANCED, *_candidates(limit, first))), key=lambda lim: _repeats(lim, first))


def _candidates(limit: Limit, first: Loss) -> list[Shares]:
    found = []
    for failures, conversions in product(FAILURES, CONVERSIONS if first.conversion else CONVERSIONS[:1]):
        rest = 100 - failures - conversions
        if rest < 0:
            continue
        lead, beside = rest * LEADING // 100, rest * BESIDE // 100
        bounds = [renyi_bound(alpha, limit.epsilon / MICRO, limit.part(lead)) for alpha in ORDERS]
        order = max(range(len(ORDERS)), key=lambda j: _ratio(bounds[j], first.rdp[j]))
        found += [
            Shares(failures, lead, conversions=conversions),
            Shares(failures, beside, lead, order, conversions),
        ]
    return found


def _repeats(limit: Limit, loss: Loss) -> float:
    """How many statements of this loss the limit admits."""
    bounds = filter_of(limit)
    basic = min(_ratio(bounds.epsilon, loss.epsilon), _ratio(bounds.conversions, loss.conversion))
    return min(_ratio(bounds.failures, loss.failure), max(basic, _by_divergence(bounds, loss)))


def _by_divergence(bounds: Filter, loss: Loss) -> float:
    gaussian = _ratio(bounds.variance, loss.gdp[bounds.reserve]) if bounds.variance is not None else 0
    return max(gaussian, *map(_ratio, bounds.rdp, loss.rdp))


def _ratio(bound: int, cost: int) -> float:
    """How often a cost fits: whole times; without end when it is nothing."""
    if bound < 0:
        return 0
    return bound // cost if cost else float("inf")
