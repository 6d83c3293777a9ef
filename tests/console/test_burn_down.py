"""The line of a budget is the ledger's charges, by the accountant's rule; its end is what the pace says."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from dpproxy.console.figures import POINTS, burn_down
from dpproxy.privacy.accountant import Limit, effective_epsilon
from dpproxy.privacy.loss import ZERO
from tests.worlds.told_source import charge
from tests.worlds.told_status import STATUS

BEGIN = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
ROLE = replace(STATUS.accounts[0], resets=dt.datetime(2026, 12, 1, tzinfo=dt.UTC).timestamp(), warned=0)


def hours(number: float) -> dt.datetime:
    return BEGIN + dt.timedelta(hours=number)


def test_the_line_is_of_the_accounts_own_charges_in_the_window() -> None:
    charges = [
        charge(1, at=hours(-5)),
        charge(2, at=hours(10)),
        charge(3, role="clerk", at=hours(20)),
        charge(4, epsilon=400_000, at=hours(30)),
    ]
    line = burn_down(ROLE, charges, hours(240).timestamp())
    left = [(2_000_000, 0.0), (1_900_000, 10.0), (1_500_000, 30.0), (1_500_000, 240.0)]
    assert line.points == tuple((hours(at).timestamp(), amount) for amount, at in left)
    whole = replace(ROLE, scope="dataset", name="shop", spent_epsilon=600_000)
    assert [amount for _, amount in burn_down(whole, charges, hours(240).timestamp()).points][-1] == 1_400_000
    assert len(burn_down(replace(ROLE, scope="user", name="ada"), charges, hours(240).timestamp()).points) == 5


def test_many_charges_are_composed_as_the_ledger_does() -> None:
    charges = [charge(number, epsilon=10_000, at=hours(number / 10)) for number in range(1, 500)]
    total = ZERO
    for each in charges:
        total = total + each.loss
    limit = Limit(10_000_000, 10**13, "month")
    spent = effective_epsilon(total, limit)
    assert spent < total.epsilon, "composition is not addition here"
    account = replace(ROLE, limit_epsilon=10_000_000, spent_epsilon=spent)
    line = burn_down(account, charges, hours(100).timestamp())
    amounts = [amount for _, amount in line.points]
    assert amounts[0] == 10_000_000, "nothing is unseen"
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[-2] == amounts[-1] == 10_000_000 - spent
    assert len(line.points) <= 2 * POINTS + 2


def test_what_is_not_seen_is_spent_before() -> None:
    line = burn_down(ROLE, [charge(1, at=hours(10))], hours(20).timestamp())
    assert [amount for _, amount in line.points] == [1_600_000, 1_500_000, 1_500_000]


@pytest.mark.parametrize(
    ("spent", "now", "end"),
    [
        (500_000, 240.0, None),  # a quarter in a third of the window
        (1_000_000, 240.0, 480.0),  # a half in a third
        (0, 240.0, None),
        (2_000_000, 240.0, 240.0),
        (1_000_000, 0.001, None),  # too early to tell
    ],
)
def test_the_end_is_where_the_pace_leads(spent: int, now: float, end: float | None) -> None:
    line = burn_down(replace(ROLE, spent_epsilon=spent), (), hours(now).timestamp())
    assert line.spent_by == (None if end is None else pytest.approx(hours(end).timestamp()))


def test_a_window_that_never_ends() -> None:
    account = replace(ROLE, window="never", resets=None, spent_epsilon=500_000)
    line = burn_down(account, [charge(1, epsilon=500_000, at=hours(0))], hours(10).timestamp())
    assert (line.begins, line.spent_by) == (hours(0).timestamp(), pytest.approx(hours(40).timestamp()))
    assert line.ends == line.spent_by
