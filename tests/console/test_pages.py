"""Pages' values: what an operator has to look after, and which errors are stated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpproxy.console.pages import outcome, stated_errors, troubles
from dpproxy.operations.status import Check
from tests.worlds.told_source import ACCOUNT
from tests.worlds.told_status import STATUS


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"checks": (Check("backend", "shop", False, 5.0),)}, "The backend of shop does not work."),
        (
            {"checks": (Check("ledger", "shop", False, 0.0, "the disk is full"),)},
            "The ledger of shop does not work: the disk is full.",
        ),
        ({"datasets": (replace(STATUS.datasets[0], problem="no such file"),)}, "shop was not read again: no such file"),
        ({"stopping": True}, "stopping"),
        ({}, "Role intern of shop is paused"),
        ({}, "At least 20 % of the budget of role analyst (shop) is spent."),
        (
            {"accounts": (replace(STATUS.accounts[0], spent_epsilon=2_000_000),)},
            "All of the budget of role analyst (shop) is spent.",
        ),
        ({"accounts": ()}, "The ledger does not say"),
    ],
)
def test_what_has_to_be_looked_after(fields: dict[str, object], said: str) -> None:
    status = replace(STATUS, **fields)  # type: ignore[arg-type]
    assert any(said in trouble for trouble in troubles([status, status]))
    assert len(troubles([status, status])) == len(troubles([status]))


def test_a_proxy_without_troubles() -> None:
    accounts = tuple(replace(account, warned=0) for account in STATUS.accounts)
    assert troubles([replace(STATUS, pauses=(), accounts=accounts)]) == []


def test_errors_of_each_kind() -> None:
    assert stated_errors(ACCOUNT) == [
        ("count(*)", "Within", 30.0, True),
        ("avg(income)", "Within Times Rows", 5e6, False),
        ("median(income)", "Within Ranks", 12.0, False),
    ]
    assert stated_errors({}) == []


def test_outcomes() -> None:
    assert outcome(True, "Done.") == ("Done.", False)
    assert outcome(False, "Done.") == ("Nothing changed: it was so already.", False)
    assert outcome([{"name": "shop", "problem": ""}], "Done.") == ("Done.", False)
    assert outcome([{"name": "shop", "problem": "line 3"}], "Done.") == ("Not read again: shop: line 3", True)
