"""Where accounts stand: what is remembered for a moment, and which levels are told to whom, how often."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import cast

from structlog.testing import capture_logs

from dpproxy.amounts import MICRO
from dpproxy.answers.standings import AppliedBudget, RecentStanding, WarningLevels, limit, standings
from dpproxy.ledger.ledger import Ledger, Standing
from dpproxy.policy.model import Budget

JUNE = dt.datetime(2024, 6, 1, tzinfo=dt.UTC)
ROLE = Standing("role", "analyst", "month", 10 * MICRO, 0, 0, 0, 10 * MICRO, 0, 0, 0, 0, JUNE)
BUDGET = Budget(10 * MICRO, 0, "month", warn=(50, 90))
HELD = [AppliedBudget("role", "analyst", BUDGET), AppliedBudget("dataset", "shop", BUDGET)]


def at(spent: int) -> list[Standing]:
    """The role's and the dataset's, when so much of 10 is spent of each."""
    role = replace(ROLE, spent_epsilon=spent * MICRO)
    return [role, replace(role, scope="dataset", name="shop")]


def test_each_account_is_asked_about_with_its_limit() -> None:
    class Asked:
        def standings(self, dataset: str, accounts: object, at: dt.datetime) -> object:
            assert at.tzinfo is not None
            return [dataset, accounts]

    found = cast("list[object]", standings(cast(Ledger, Asked()), "shop", HELD))
    assert found == ["shop", [("role", "analyst", limit(BUDGET)), ("dataset", "shop", limit(BUDGET))]]
    assert (limit(BUDGET).epsilon, limit(BUDGET).delta, limit(BUDGET).window) == (10 * MICRO, 0, "month")


def test_a_standing_is_remembered_for_a_second_and_until_somebody_is_charged() -> None:
    recent = RecentStanding()
    recent.keep("analyst", ROLE, 100.0)
    assert recent.find("analyst", 100.9) is ROLE
    assert recent.find("other", 100.9) is None
    assert recent.find("analyst", 101.0) is None
    recent.keep("analyst", ROLE, 200.0)
    recent.forget()
    assert recent.find("analyst", 200.0) is None


def test_who_asks_is_told_the_highest_level_of_its_own_accounts() -> None:
    levels = WarningLevels()
    assert levels.notices("shop", at(4), HELD) == []
    assert levels.notices("shop", at(5), HELD) == ["50 % of the budget of role analyst is spent"]
    assert levels.notices("shop", at(9), HELD) == ["90 % of the budget of role analyst is spent"], "not the dataset's"


def test_the_log_is_told_each_level_once_in_a_window() -> None:
    levels, logged = WarningLevels(), []
    later = [replace(s, resets=JUNE.replace(month=7)) for s in at(5)]
    for found in (at(5), at(9), at(9), later):
        with capture_logs() as entries:
            levels.notices("shop", found, HELD)
        logged.append([(e["scope"], e["percent"]) for e in entries])
    first, more = [("role", 50), ("dataset", 50)], [("role", 90), ("dataset", 90)]
    assert logged == [first, more, [], first]
