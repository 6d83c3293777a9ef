"""A year of charges in memory: what the ledger would admit, how long it lasts, what repeats cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.amounts import MICRO
from dpproxy.authoring.spending import Habit, charges_a_day, spending
from dpproxy.policy.load import load_text
from dpproxy.policy.model import Budget, Policy
from dpproxy.privacy.loss import Loss
from tests.worlds.authored_town import town_text


@pytest.fixture(scope="module")
def policy() -> Policy:
    """All roles: 10 a year. Analysts: 5 a month."""
    return load_text(town_text(), "town.yaml", Path("/town"))


@pytest.mark.parametrize(
    ("seconds", "per_day", "reloads", "charged"),
    [
        (0, 20, 1, 20),  # nothing is kept
        (None, 20, 1, 1),  # kept as long as the data stay
        (None, 20, 0, 0),
        (86_400, 20, 0, 1),
        (3_600, 20, 1, 20),  # too old each hour, and asked less often
        (3_600, 100, 1, 24),
        (86_400, 0.5, 1, 0.5),
    ],
)
def test_repeats(seconds: int | None, per_day: float, reloads: float, charged: float, policy: Policy) -> None:
    assert charges_a_day(replace(policy, reuse_seconds=seconds), per_day, reloads) == charged


def habit(per_day: float = 5) -> Habit:
    return Habit("analyst", Loss(MICRO), per_day, "a")


def test_a_role_that_spends_its_month(policy: Policy) -> None:
    """One epsilon a day of pure noise: five days by basic composition, then nothing until the month ends."""
    found = spending(replace(policy, budget=Budget(10**9, 0, "year")), [habit()], 1, days=40)["analyst"]
    assert (found.limit, found.every, found.ends) == (5, "month", 6)
    assert found.by_day[:6] == (1, 2, 3, 4, 5, 5)
    assert found.by_day[31] == 1
    assert found.refused == 26 + 4


def test_all_roles_together(policy: Policy) -> None:
    """Ten for everybody, five a month for analysts: the second month is the last."""
    found = spending(policy, [habit()], 1, days=100)
    assert found[""].ends == 61
    assert found[""].by_day[-1] == 10


def test_what_is_kept_is_charged_once(policy: Policy) -> None:
    found = spending(policy, [habit()], 0, days=30)
    assert found["analyst"].by_day[-1] == 1
    assert found["analyst"].ends is None
