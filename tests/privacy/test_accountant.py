"""The filter's certificates: shares of delta, conversions, against dp-accounting's RDP and PLD."""

from __future__ import annotations

from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import compute_epsilon
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.amounts import ATTO, MICRO
from dpproxy.privacy.accountant import ONLY_THRESHOLDS, Limit, admits, effective_epsilon, filter_of, remaining
from dpproxy.privacy.loss import NANO, ORDERS, PICO, RESERVES, ZERO, Loss, hockey_stick
from tests.privacy.spending import TYPICAL, admitted, limits, queries, times


@given(limits)
@settings(max_examples=100, deadline=None)
def test_shares_of_delta_never_exceed_delta(limit: Limit) -> None:
    f = filter_of(limit)
    shares = (f.failures + f.conversions) / ATTO + f.delta_gaussian + sum(f.deltas)
    assert shares <= limit.delta / ATTO * (1 + 1e-12)


@given(limits)
@settings(max_examples=100, deadline=None)
def test_certificates_convert_to_the_limit(limit: Limit) -> None:
    """Each bound, read the other way, gives at most epsilon at its share of delta."""
    f = filter_of(limit)
    if f.variance is not None:
        variance = (f.variance + RESERVES[f.reserve]) / PICO
        assert hockey_stick(limit.epsilon / MICRO, variance) <= f.delta_gaussian * (1 + 1e-9)
    for alpha, rdp, delta in zip(ORDERS, f.rdp, f.deltas, strict=True):
        if rdp > 0:
            epsilon, _ = compute_epsilon([alpha], [rdp / NANO], delta)
            assert epsilon * MICRO <= limit.epsilon * (1 + 1e-9)


def test_conversion_is_as_tight_as_dp_accounting() -> None:
    for limit in (TYPICAL, Limit(MICRO, 10**10), Limit(80 * MICRO, 10**13)):
        f = filter_of(limit)
        for alpha, rdp, delta in zip(ORDERS, f.rdp, f.deltas, strict=True):
            if rdp > NANO // 100 and alpha < 100:
                epsilon, _ = compute_epsilon([alpha], [rdp / NANO], delta)
                assert epsilon * MICRO == pytest.approx(limit.epsilon, rel=1e-6)


@given(st.lists(queries, max_size=12), limits)
@settings(max_examples=150, deadline=None)
def test_admitting_and_effective_epsilon_agree(spent: list[Loss], limit: Limit) -> None:
    total = sum(spent, ZERO)
    f = filter_of(limit)
    if total.failure <= f.failures and total.conversion <= f.conversions:
        slack = 2  # micro-epsilon, of floats in the conversion back
        effective = effective_epsilon(total, limit)
        assert not f.admits(total) or effective <= limit.epsilon + slack
        assert f.admits(total) or effective >= limit.epsilon - slack


@given(st.lists(queries, max_size=8), limits)
@settings(max_examples=150, deadline=None)
def test_what_is_said_to_be_left_is_what_is_admitted(spent: list[Loss], limit: Limit) -> None:
    total = sum(spent, ZERO)
    epsilon, delta = remaining(total, limit)
    if epsilon:
        assert admits(total, Loss.pure(epsilon), limit)
    if filter_of(limit).admits(total):
        assert admits(total, Loss.delta_only(delta), limit)
        assert not admits(total, Loss.delta_only(delta + 1), limit)
        assert not admits(total, Loss.pure(epsilon + epsilon // 1000 + 10), limit)


def test_failures_are_capped_in_every_certificate() -> None:
    limit = Limit(10 * MICRO, 1000)
    assert limit.failures == 250
    assert admits(ZERO, Loss(1, 250), limit)
    assert not admits(ZERO, Loss(1, 251), limit)
    assert admits(ZERO, Loss(1, 1000), Limit(10 * MICRO, 1000, shares=ONLY_THRESHOLDS))
    assert not admits(Loss(1, 200), Loss.delta_only(51), limit)


def test_without_delta_only_basic_composition_is_left() -> None:
    assert admitted(Loss.pure(MICRO // 10), Limit(10 * MICRO)) == 100


def test_nothing_is_always_admitted_and_something_never_beyond() -> None:
    assert admits(Loss.pure(11 * MICRO), ZERO, Limit(10 * MICRO))
    assert not admits(Loss.pure(10 * MICRO), Loss.pure(1), Limit(10 * MICRO))


def test_large_queries_fall_back_to_basic_composition() -> None:
    assert admitted(Loss.pure(2 * MICRO), TYPICAL) == 5


def test_gaussian_noise_uses_its_own_certificates() -> None:
    """rho = 0.005: the (epsilon, delta) reading of one query must not be what limits many."""
    query = Loss.gaussian(1, 1, Fraction(10), 500_000, 10**9)
    assert admitted(query, TYPICAL) > 250


@given(st.integers(1, 60), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_a_grant_never_narrows(epsilon: int, delta: int) -> None:
    wider = TYPICAL.plus(epsilon * MICRO, delta * 10**10)
    assert wider.epsilon == TYPICAL.epsilon + epsilon * MICRO
    assert wider.failures >= TYPICAL.failures
    assert filter_of(wider).delta_gaussian >= filter_of(TYPICAL).delta_gaussian


def pld_of(query: Fraction, n: int) -> pld.PrivacyLossDistribution:
    one = pld.from_discrete_laplace_mechanism(float(query), value_discretization_interval=1e-4)
    return one.self_compose(n)


def test_effective_epsilon_is_above_the_optimum() -> None:
    """dp-accounting's optimistic PLD is a lower bound of the truth for non-adaptive queries; the filter's is above."""
    for parts, n in ((20, 25), (50, 60), (100, 280)):
        one = pld.from_discrete_laplace_mechanism(10 / parts, pessimistic_estimate=False)
        truth = one.self_compose(n).get_epsilon_for_delta(TYPICAL.delta / ATTO)
        assert effective_epsilon(times(Loss.pure(10 * MICRO // parts), n), TYPICAL) >= truth * MICRO


def most_by_pld(one: pld.PrivacyLossDistribution, at_least: int) -> int:
    """How many dp-accounting's PLD admits, all chosen in advance."""
    low, high = at_least, 2 * at_least
    while low < high:
        middle = (low + high + 1) // 2
        good = one.self_compose(middle).get_epsilon_for_delta(TYPICAL.delta / ATTO) <= 10
        low, high = (middle, high) if good else (low, middle - 1)
    return low


@pytest.mark.slow
def test_how_many_queries_a_budget_admits(capsys: pytest.CaptureFixture[str]) -> None:
    """(10, 1e-6): within 11 % of dp-accounting's PLD, which may use all of delta and may not be adaptive."""
    lines = ["epsilon of a query | basic | counts: this filter / PLD | sums: this filter / PLD"]
    for epsilon in (Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(1, 2)):
        counts, sums = Loss.laplace_vector(1, epsilon), Loss.laplace_vector(1, epsilon, 10_000)
        mine = [admitted(counts, TYPICAL), admitted(sums, TYPICAL)]
        theirs = [
            most_by_pld(pld.from_discrete_laplace_mechanism(float(epsilon), value_discretization_interval=1e-4), mine[0]),
            most_by_pld(pld.from_laplace_mechanism(1 / float(epsilon), value_discretization_interval=1e-4), mine[1]),
        ]
        pairs = " | ".join(f"{m:5} / {t:5} = {m / t:.2f}" for m, t in zip(mine, theirs, strict=True))
        lines.append(f"{float(epsilon):18} | {int(TYPICAL.epsilon // (epsilon * MICRO)):5} | {pairs}")
        assert all(m >= 0.89 * t for m, t in zip(mine, theirs, strict=True)), lines[-1]
    with capsys.disabled():
        print("\n" + "\n".join(lines))
