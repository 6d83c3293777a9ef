"""A dataset as sessions use it: what it notes, whose budgets apply, which words concern it, what closing it waits for."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import replace
from typing import Any, cast

import pytest

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.dataset import RECENT, AnswerEntry, Asker, Dataset, words_of
from dpproxy.facade.cluster import Endpoint
from dpproxy.ledger.ledger import Charge, Ledger
from dpproxy.policy.model import Budget, User
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import Loss
from tests.worlds.scripted import ScriptedEngine, policy, scripted_dataset

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)


class Steps(ScriptedEngine):
    """An engine, rooms and stored answers in one, that note in which order they are used."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Any] = []

    async def close(self) -> None:
        self.done.append("closed")

    async def take_place(self) -> None:
        self.done.append("place taken")

    async def withdraw(self, *what: object) -> None:
        self.done.append(what)

    def endpoint(self, role: str) -> Endpoint:
        return Endpoint(path=f"/{role}")


@pytest.fixture
def dataset() -> Dataset:
    return scripted_dataset(ScriptedEngine(), cast(Ledger, None), policy())


def entry(i: int, reused: bool) -> AnswerEntry:
    return AnswerEntry("analyst", NOON, 0, 0, 1, reused, f"hash {i}")


def test_answers_are_noted_and_the_oldest_forgotten(dataset: Dataset) -> None:
    for i in range(RECENT + 1):
        dataset.note(entry(i, reused=i % 4 == 0))
    assert len(dataset.answered) == RECENT
    assert dataset.answered[0].statement == "hash 1"


def test_earlier_charges_are_shown(dataset: Dataset) -> None:
    loss = Loss(MICRO, ATTO // 100)
    dataset.remember([Charge("id", 1, "shop", "analyst", "ada", loss, loss, "hash", NOON)])
    assert list(dataset.answered) == [AnswerEntry("analyst", NOON, MICRO, ATTO // 100, None, False, "hash")]


def test_the_budgets_that_apply(dataset: Dataset) -> None:
    rules = dataset.policy
    role, month = rules.roles["analyst"], Budget(MICRO, 0, "month")
    plain = Asker(rules.users["ada"], role)
    limited = Asker(User("eve", "analyst", "", month), role)
    assert [(b.scope, b.name) for b in dataset.applied_budgets(plain)] == [("role", "analyst"), ("dataset", "shop")]
    assert [(b.scope, b.name) for b in dataset.applied_budgets(limited)] == [
        ("role", "analyst"), ("user", "eve"), ("dataset", "shop"),
    ]  # fmt: skip
    limits = dataset.limits(limited)
    assert limits.user == Limit(MICRO, 0, "month")
    assert (limits.role.epsilon, limits.dataset.epsilon) == (role.budget.epsilon, rules.budget.epsilon)
    assert limits.per_query_epsilon == role.query.max_epsilon
    assert dataset.limits(plain).user is None


async def test_closing_waits_for_what_is_charged_before_the_engine_goes(dataset: Dataset) -> None:
    engine = Steps()
    made = replace(dataset, backend=engine, rooms=cast(Any, engine))

    async def measuring() -> None:
        await asyncio.sleep(0)
        engine.done.append("measured")

    made.paid.start(measuring())
    await made.close(60)
    assert engine.done == ["closed", "measured", "closed"], "the rooms, what is charged, the engine"


async def test_what_takes_too_long_is_ended(dataset: Dataset) -> None:
    task = dataset.paid.start(asyncio.sleep(3600))
    await dataset.close(0)
    assert task.cancelled()


async def test_where_a_role_connects_is_the_rooms_to_say(dataset: Dataset) -> None:
    with pytest.raises(ConnectionRefusedError):
        dataset.endpoint("analyst")
    await dataset.take_place()
    await dataset.yield_to(dataset)
    engine = Steps()
    made = replace(dataset, rooms=cast(Any, engine))
    assert made.endpoint("analyst") == Endpoint(path="/analyst")
    await made.take_place()
    await made.yield_to(dataset)
    assert engine.done == ["place taken", (dataset.policy, dataset.catalog)]


def test_words_that_concern_it() -> None:
    words = words_of(frozenset({"People", 'odd"name', "Łódź"}))
    assert words[:3] == (b'odd""name', b"people", "Łódź".encode()), "ASCII letters alone are folded, as in the texts"
    assert b"dpproxy" in words
    for text in ("alter role x", "notify x", "select 1 having true", "select * from dpproxy.budget"):
        assert any(word in text.encode() for word in words), text
    assert not any(word in b"select 1" for word in words)
