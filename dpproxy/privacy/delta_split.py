"""How a window's delta is divided among the certificates: so that its first statement could be repeated most often.

Knows: limits, losses. Must not know: accounts, clocks. Any division is sound that is fixed before the first answer
(`privacy.accountant`). What the first statement costs is: whoever asks it has seen nothing yet in this window. Most
sessions go on as they begin - a dashboard's charts have one price - and those that do not keep a part of every share.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product

from dpproxy.amounts import MICRO
from dpproxy.privacy.accountant import BALANCED, Filter, Limit, Shares, filter_of, renyi_bound
from dpproxy.privacy.loss import ORDERS, Loss

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
    return min(_ratio(bounds.failures, loss.failure), max(basic, _converted(bounds, loss)))


def _converted(bounds: Filter, loss: Loss) -> float:
    gaussian = _ratio(bounds.variance, loss.gdp[bounds.reserve]) if bounds.variance is not None else 0
    return max(gaussian, *map(_ratio, bounds.rdp, loss.rdp))


def _ratio(bound: int, cost: int) -> float:
    """How often a cost fits: whole times; without end when it is nothing."""
    if bound < 0:
        return 0
    return bound // cost if cost else float("inf")
