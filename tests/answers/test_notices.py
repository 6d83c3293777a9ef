"""What is told beside an answer: its price, what is left of the asker's own account, and how exact it is; found out once."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpproxy.amounts import MICRO
from dpproxy.answers import answering
from dpproxy.answers.answering import FEW, note, of_values, told_of
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.ledger.ledger import Standing
from dpproxy.plan.model import Plan, Typical
from dpproxy.policy.model import Budget
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.sql.statements import split
from tests.worlds.scripted import COST, ScriptedEngine, policy, scripted_dataset, scripted_plan

JUNE = dt.datetime(2024, 6, 1, tzinfo=dt.UTC)
ROLE = Standing("role", "analyst", "month", 10 * MICRO, 0, MICRO, 0, 9 * MICRO, 0, MICRO, 0, 1, JUNE)
VALUES = {0: (np.array([100, 50], np.int64),)}


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[Dataset]:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    yield scripted_dataset(ScriptedEngine(), ledger, policy())
    ledger.close()


def plan(deviation: float = 1.0) -> Plan:
    (statement,) = split("SELECT region, count(*) AS n FROM people", frozenset({"people"}))
    made = scripted_plan(statement, policy().roles["analyst"], {"dpproxy.epsilon": "1"}, ())
    return replace(made, typical=(Typical("n", "linear", 0, (0,), (deviation,)),))


def asker(dataset: Dataset) -> Asker:
    return Asker(dataset.policy.users["ada"], dataset.policy.roles["analyst"])


@pytest.mark.parametrize(
    ("charged", "free", "expected"),
    [
        (ZERO, 2, "reused, epsilon 0; role analyst has epsilon 9 left until 2024-06-01"),
        (Loss(MICRO), 0, "charged epsilon 1; role analyst has epsilon 9 left until 2024-06-01"),
        (Loss(MICRO), 1, "charged epsilon 1 (1 of 2 measurements reused); role analyst has epsilon 9 left until 2024-06-01"),
    ],
)
def test_what_it_cost_and_what_is_left(charged: Loss, free: int, expected: str) -> None:
    assert note(charged, free, 2, ROLE) == expected
    assert note(charged, free, 2, ROLE, ("", "typical error 2 % of n", "")) == f"{expected}; typical error 2 % of n"


async def test_the_whole_notice(dataset: Dataset) -> None:
    told = await told_of(dataset, asker(dataset), plan(), VALUES, COST, 0)
    cost, left, error = told.text.split("; ")
    assert told.errors == error
    assert cost == "charged epsilon 0.1"
    assert left.startswith("role analyst has epsilon 1000 ")
    assert error.startswith("typical error ")
    assert error.endswith(" % of n")


async def test_what_has_no_interval_is_said_and_kept_beside_the_errors(dataset: Dataset) -> None:
    told = await told_of(dataset, asker(dataset), replace(plan(), endless=("mode() (no order)",)), VALUES, COST, 0)
    assert told.errors.endswith(" % of n; no interval can be given for mode() (no order)")
    assert told.errors in told.text


async def test_what_is_said_of_an_answer_is_found_out_once(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def errors(wanted: object, values: object) -> str:
        asked.append(values)
        return "typical error 1 % of n"

    monkeypatch.setattr(answering, "typical_errors_told", errors)
    made = plan()
    for _ in range(3):
        assert "typical error 1 % of n" in (await told_of(dataset, asker(dataset), made, VALUES, ZERO, 1)).text
    assert asked == [VALUES]
    other = {0: (np.array([100, 50], np.int64),)}
    await told_of(dataset, asker(dataset), made, other, ZERO, 1)
    assert len(asked) == 2, "other numbers, though equal"


async def test_a_standing_is_read_again_after_a_charge(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers at no charge come by the thousand; who was charged is told what is left now."""
    read: list[list[str]] = []
    real = answering.standings

    def reading(ledger: object, name: str, held: object) -> list[Standing]:
        read.append([each.scope for each in held])  # type: ignore[attr-defined]
        return real(ledger, name, held)  # type: ignore[arg-type]

    monkeypatch.setattr(answering, "standings", reading)
    monkeypatch.setattr(dataset.recent_standing, "LIFE", 1e9)
    for charged in (ZERO, ZERO, COST, ZERO):
        await told_of(dataset, asker(dataset), plan(), VALUES, charged, 0)
    assert read == [["role"], ["role", "dataset"]]


async def test_levels_are_told_when_they_are_reached(dataset: Dataset) -> None:
    rules = dataset.policy
    tight = replace(rules.roles["analyst"], budget=Budget(MICRO, 0, warn=(0, 50)))
    warned = replace(dataset, policy=replace(rules, roles={"analyst": tight}))
    told = await told_of(warned, asker(warned), plan(), VALUES, COST, 0)
    assert told.text.endswith("; 0 % of the budget of role analyst is spent")
    assert " is spent" not in (await told_of(warned, asker(warned), plan(), VALUES, ZERO, 1)).text


async def test_many_groups_are_looked_through_beside_the_loop() -> None:
    def where(wanted: object, values: object) -> threading.Thread:
        return threading.current_thread()

    few, many = ({0: (np.zeros(n, np.int64),)} for n in (FEW, FEW + 1))
    assert await of_values(plan(), few, where) is threading.main_thread()
    assert await of_values(plan(), many, where) is not threading.main_thread()
