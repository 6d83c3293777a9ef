"""No session that the ledger admits is worse than its limit: exact divergences of sessions that branch on their answers.

A session is a tree: statements, and after an answer whatever the ledger still admits. Of a tree the largest hockey-stick
divergence at the limit's epsilon is computed exactly (but for quadrature): after an answer of loss l what counts is the
divergence of the rest at epsilon - l, so the adversary takes, at each l, the branch where that is largest. Statements are
the worst of their kind: randomised response, a failure that tells everything, continuous Gaussian noise. With the shares of
conversions and failures pooled, as they once were, the same search must come out above delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from dpproxy.amounts import ATTO, MICRO
from dpproxy.ledger.ledger import BudgetExhausted, charge
from dpproxy.privacy.accountant import Filter, Limit, Shares, filter_of, tuned
from dpproxy.privacy.loss import ORDERS, RESERVES, UNREACHABLE, ZERO, Loss, hockey_stick
from dpproxy.records.sqlite import SqliteLedger
from tests.ledger.conftest import WIDE, make_request

Floats = npt.NDArray[np.float64]
Admits = Callable[[Loss], bool]

NODES = 200
"""Of quadrature, over 16 standard deviations: with twice as many the divergences below are 0.3 % smaller."""

PARTS = 10**5
"""Steps of variance that are tried, of 1."""

WIDE_SENSITIVITY = 10**6  # grid units: noise of steps this fine is continuous for all purposes


@dataclass(frozen=True)
class Statement:
    """`times` randomised responses of `pure` each, Gaussian noise of variance `variance` (over the squared shift), and
    a failure; `loss` is what it is charged."""

    loss: Loss
    pure: float = 0.0
    times: int = 0
    variance: float = 0.0
    failure: float = 0.0

    def after(self, value: Callable[[Floats], Floats], x: Floats) -> Floats:
        """The divergence at x of this statement, followed by what has divergence `value(x)`."""
        return self._mixed(value, x, *_losses(self.pure, self.times, self.variance))

    def alone(self, x: Floats) -> Floats:
        """With the closed form of Gaussian noise."""
        return self._mixed(lambda at: _gaussian_divergence(at, self.variance), x, *_losses(self.pure, self.times, 0.0))

    def _mixed(self, value: Callable[[Floats], Floats], x: Floats, losses: Floats, weights: Floats) -> Floats:
        values = value((x[:, None] - losses).ravel()).reshape(len(x), -1)
        found: Floats = self.failure + (1 - self.failure) * values @ weights
        return found

    def __add__(self, other: Statement) -> Statement:
        """Both; at most one has randomised responses."""
        mine = self if self.times else other
        failure = 1 - (1 - self.failure) * (1 - other.failure)
        return Statement(self.loss + other.loss, mine.pure, mine.times, self.variance + other.variance, failure)


def _losses(pure: float, times: int, variance: float) -> tuple[Floats, Floats]:
    """Losses and their probabilities under P; of Gaussian noise the midpoints of bins, with their exact masses."""
    if variance:
        s = math.sqrt(variance)
        edges = np.linspace(-8, 8, NODES + 1)
        return variance / 2 + s * (edges[1:] + edges[:-1]) / 2, np.diff(ndtr(edges))
    k = np.arange(times + 1)
    weights = binom.pmf(k, times, 1 / (1 + math.exp(-pure)))
    kept = weights > 1e-14
    return (pure * (2 * k - times))[kept], weights[kept]


def _gaussian_divergence(x: Floats, v: float) -> Floats:
    if not v:
        return np.maximum(0.0, -np.expm1(np.minimum(x, 0.0)))
    s = math.sqrt(v)
    found: Floats = ndtr(s / 2 - x / s) - np.exp(np.minimum(x, 500)) * ndtr(-s / 2 - x / s)
    return found


def pure(epsilon: int, times: int = 1) -> Statement:
    one = Loss.pure(epsilon)
    rdp, gdp = tuple(times * r for r in one.rdp), tuple(times * g for g in one.gdp)
    return Statement(Loss(times * epsilon, 0, rdp, gdp), epsilon / MICRO, times)


def failing(delta: int) -> Statement:
    return Statement(Loss.delta_only(delta), failure=delta / ATTO)


@lru_cache(maxsize=4096)
def gaussian(epsilon: int, delta: int) -> Statement:
    """Exactly (epsilon, delta), as plans calibrate it; whatever its size it is charged as Gaussian noise."""
    low, high = 1e-9, 4 * epsilon / MICRO + 8
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if hockey_stick(epsilon / MICRO, middle) <= delta / ATTO else (low, middle)
    return _noise(low, epsilon, delta)


def _noise(v: float, epsilon: int, delta: int) -> Statement:
    sigma = Fraction(math.ceil(WIDE_SENSITIVITY / math.sqrt(v)))
    loss = Loss.gaussian(1, WIDE_SENSITIVITY, sigma, epsilon, delta)
    return Statement(loss, variance=float(Fraction(WIDE_SENSITIVITY**2) / sigma**2))


def noisy(v: float) -> Statement:
    """Gaussian noise of this variance, for the certificates other than the basic one: its epsilon is out of reach."""
    return _noise(v, 10**12, 1)


def most(fits: Callable[[int], bool], top: int) -> int:
    """The largest n <= top that fits, 0 when none does."""
    low = 0
    while low < top:
        middle = (low + top + 1) // 2
        low, top = (middle, top) if fits(middle) else (low, middle - 1)
    return low


def last(spent: Loss, admits: Admits, limit: Limit) -> list[Statement]:
    """Ways to spend all that is left: failures and then one kind of statement, or the other way round."""

    def failures(after: Loss) -> Statement:
        return failing(most(lambda d: admits(after + Loss.delta_only(d)), limit.delta))

    before = failures(spent)
    found = [before + statement for statement in _fillings(spent + before.loss, admits, limit)]
    return [before, *found, *(s + failures(spent + s.loss) for s in _fillings(spent, admits, limit))]


def _fillings(spent: Loss, admits: Admits, limit: Limit) -> list[Statement]:
    """As much of one kind as is admitted."""
    small, epsilon = max(limit.epsilon // 40, 1), max(limit.epsilon - spent.epsilon, 0)
    found = [pure(epsilon)] if admits(spent + Loss.pure(epsilon)) else []
    found.append(pure(most(lambda e: admits(spent + Loss.pure(e)), 2 * limit.epsilon)))
    found.append(pure(small, most(lambda n: admits(spent + pure(small, n).loss), 2000)))
    if admits(spent + noisy(1e-9).loss):
        found.append(noisy(most(lambda n: admits(spent + noisy(n / PARTS).loss), 40 * PARTS) / PARTS))
    delta = most(lambda d: admits(spent + _basic(epsilon, d)), limit.delta)
    return [*found, gaussian(epsilon, delta)] if epsilon and delta else found


def _basic(epsilon: int, conversion: int) -> Loss:
    """What only the basic certificate can admit."""
    return Loss(epsilon, conversion, (UNREACHABLE,) * len(ORDERS), (UNREACHABLE,) * len(RESERVES), conversion)


def probes(limit: Limit) -> list[Statement]:
    """Statements after whose answer a session branches."""
    e, d = limit.epsilon, limit.delta
    found = [gaussian(e * p // 10, d * q // 100) for p in (1, 3, 6) for q in (1, 4, 24, 59) if d * q // 100]
    found += [pure(e * p // 10) for p in (2, 5)] + [pure(e // 20, 20)]
    return found + [noisy((e / MICRO) ** 2 / n) for n in (40.0, 80.0)]


def divergence(limit: Limit, bounds: Filter, first: Statement, between: Sequence[Statement] = (), depth: int = 1) -> float:
    """Of the worst session found that begins with `first`."""

    def value(spent: Loss, depth: int) -> Callable[[Floats], Floats]:
        tails = last(spent, bounds.admits, limit)
        fitting = [p for p in between or probes(limit) if bounds.admits(spent + p.loss)] if depth else []
        branches = [(p, value(spent + p.loss, depth - 1)) for p in fitting]

        def best(x: Floats) -> Floats:
            found: Floats = np.max([*(t.alone(x) for t in tails), *(p.after(v, x) for p, v in branches)], axis=0)
            return found

        return best

    assert bounds.admits(first.loss)
    return float(first.after(value(first.loss, depth), np.array([limit.epsilon / MICRO]))[0])


LIMITS = [Limit(MICRO, 10**12), Limit(MICRO // 2, 10**14), Limit(5 * MICRO, 10**10)]
FIRSTS: list[Callable[[Limit], Statement]] = [
    lambda limit: failing(1),
    lambda limit: pure(limit.epsilon // 20),
    lambda limit: pure(limit.epsilon // 100) + failing(limit.delta // 100),
    lambda limit: gaussian(limit.epsilon // 20, limit.delta // 100),
    lambda limit: gaussian(limit.epsilon // 2, limit.delta // 4),
]


@pytest.mark.parametrize("first", range(len(FIRSTS)))
@pytest.mark.parametrize("limit", LIMITS)
def test_no_session_exceeds_its_limit(limit: Limit, first: int) -> None:
    begun = FIRSTS[first](limit)
    mine = tuned(limit, begun.loss)
    found = divergence(mine, filter_of(mine), begun) / (limit.delta / ATTO)
    assert found <= 1, f"{found:.4f} delta"
    assert found >= 0.4  # the search is one


def test_no_session_of_two_branchings_exceeds_its_limit() -> None:
    begun = failing(1)
    mine = tuned(LIMITS[0], begun.loss)
    few = [gaussian(MICRO * 3 // 10, 4 * 10**10), noisy(1 / 80), pure(MICRO // 5)]
    assert 0.8 * mine.delta / ATTO <= divergence(mine, filter_of(mine), begun, few, depth=2) <= mine.delta / ATTO


@dataclass(frozen=True)
class Pooled(Filter):
    """As the filter once was: conversions were paid from the share of failures."""

    def adds_up(self, total: Loss) -> bool:
        return total.epsilon <= self.epsilon and total.delta <= self.failures


@pytest.mark.parametrize("limit", LIMITS)
def test_the_search_finds_shares_that_are_counted_twice(limit: Limit) -> None:
    pooled = replace(limit, shares=Shares(60, 37, conversions=0))
    bounds = Pooled(**vars(filter_of(pooled)))
    assert divergence(pooled, bounds, failing(1)) > 1.15 * limit.delta / ATTO


@dataclass(frozen=True)
class Uncounted(Filter):
    """Conversions have a share that nothing else pays for: each certificate alone is right, all of them together are not."""

    def adds_up(self, total: Loss) -> bool:
        return total.epsilon <= self.epsilon and total.conversion <= self.failures


def test_the_search_finds_a_certificate_without_a_share() -> None:
    limit = replace(LIMITS[2], shares=Shares(40, 57, conversions=0))
    bounds = Uncounted(**vars(filter_of(limit)))
    assert divergence(limit, bounds, failing(1)) > 1.05 * limit.delta / ATTO


def test_both_branches_of_the_session_that_once_passed(tmp_path: Path) -> None:
    """Limit (1, 1e-6): a tiny threshold, Gaussian noise at (0.3, 0.6 delta), then pure 0.7 or thresholds of 0.6 delta."""
    limit = LIMITS[0]
    limits = replace(WIDE, role=limit)
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    try:
        losses = [Loss.delta_only(1), gaussian(3 * MICRO // 10, 6 * 10**11).loss, Loss.pure(7 * MICRO // 10)]
        for loss in losses[:2]:
            charge(ledger, replace(make_request(limits=limits), loss=loss, dataset_loss=ZERO))
        with pytest.raises(BudgetExhausted):
            charge(ledger, replace(make_request(limits=limits), loss=losses[2], dataset_loss=ZERO))
    finally:
        ledger.close()
