"""What pages are told is what the proxy, its ledger, its policies and the planner say; no engine is asked."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from dpproxy import errors
from dpproxy.answers.dataset import AnswerEntry
from dpproxy.console.source import FreeRepeat
from dpproxy.ledger.ledger import ChargeRequest, Limits
from dpproxy.operations.requests import OperationError, PauseRole
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import Loss
from dpproxy.records.place import SqlitePlace
from dpproxy.reuse.lookup import Reuse, epoch_name
from dpproxy.reuse.matching import Origin
from dpproxy.reuse.store import AnswerStore
from dpproxy.serve.console_source import ProxySource
from dpproxy.telemetry.tallies import StatementEvent
from tests.reuse.test_store import release
from tests.serve.test_operator import Process, process
from tests.worlds.scripted import ScriptedEngine, policy, scripted_dataset


@dataclass
class World:
    process: Process
    source: ProxySource
    engine: ScriptedEngine


class Today:
    async def current(self, now: dt.datetime) -> str:
        return "today"


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made, engine = await process(tmp_path, 1), ScriptedEngine()
    datasets = {"shop": scripted_dataset(engine, made.ledger, policy())}
    datasets["shop"].note(AnswerEntry("analyst", dt.datetime.now(dt.UTC), 100, 0, 1, False, "feed", "told", "count ± 3"))
    file = tmp_path / "shop.yaml"
    place = SqlitePlace(tmp_path / "ledger-1.sqlite")
    yield World(made, ProxySource(made.operator, datasets, lambda: {"shop": file}, place, tmp_path), engine)
    await made.admin.close()
    made.ledger.close()
    assert engine.asked == [], "no engine was asked anything"


async def test_what_the_proxy_knows(world: World) -> None:
    source = world.source
    world.process.tallies.statement(StatementEvent(1.0, "shop", "analyst", "ada", 7, "feed", "select", "answered", "d"))
    (status,) = await asyncio.to_thread(source.statuses)
    assert status.version
    assert status.checks == (), "nothing was tried"
    assert [event.statement for event in await asyncio.to_thread(source.recent, 5)] == ["feed"]
    (line,) = await asyncio.to_thread(source.answers, 5)
    assert (line.dataset, line.role, line.errors, line.outcome) == ("shop", "analyst", "count ± 3", "told")
    assert source.roles() == {"shop": ("analyst",)}
    (stored,) = source.stored()
    assert stored.count is None


async def test_what_may_be_asked_again(tmp_path: Path) -> None:
    """On today's data, and not when it is too old; what it cost and its stated error are from the answers that are remembered."""
    store, now, day = AnswerStore(tmp_path / "answers.sqlite"), dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    reuse = Reuse(store, Today(), "a ledger", day)
    for statement, epoch, at in (("feed", "today", now), ("beef", "yesterday", now), ("cafe", "today", now - day)):
        store.put(release(at=at), Origin(statement, epoch_name("a ledger", epoch)))
    made = await process(tmp_path, 1)
    dataset = replace(scripted_dataset(ScriptedEngine(), made.ledger, policy()), reuse=reuse)
    dataset.note(AnswerEntry("a", now, 100, 0, 1, False, "feed", "told", "count ± 3"))
    dataset.note(AnswerEntry("a", now, 0, 0, 1, True, "feed", "told", None))
    source = ProxySource(made.operator, {"shop": dataset}, dict, SqlitePlace(tmp_path / "l.sqlite"), tmp_path)
    since = now.timestamp()
    assert await asyncio.to_thread(source.repeats, 5) == [
        FreeRepeat("shop", "a", "feed", 1, since, since + day.total_seconds(), 100, "count ± 3")
    ]
    await made.admin.close()
    made.ledger.close()
    store.close()


async def test_the_ledgers_charges(world: World) -> None:
    limits = Limits(Limit(10**6, 0, "never"), Limit(10**6, 0, "never"))
    loss = Loss.pure(250_000)
    request = ChargeRequest("an id", "shop", "analyst", "ada", loss, loss, limits, "feed", dt.datetime.now(dt.UTC))
    await asyncio.to_thread(world.process.ledger.submit(request).result)
    (charge,) = await asyncio.to_thread(world.source.charges, "shop")
    assert (charge.user, charge.loss, charge.statement) == ("ada", loss, "feed")


async def test_actions_are_audited_and_their_errors_told(world: World) -> None:
    assert await asyncio.to_thread(world.source.carry_out, PauseRole("analyst", "why", "shop"), "console from here")
    await asyncio.to_thread(world.source.note, "console login", "console from here", "done")
    last, before = await asyncio.to_thread(world.source.audited, 2)
    assert (last["action"], before["action"], before["by"]) == ("console login", "pause", "console from here")
    with pytest.raises(OperationError):
        await asyncio.to_thread(world.source.carry_out, PauseRole("nobody", "why", "shop"), "console")


async def test_a_statement_is_planned_and_nothing_more(world: World) -> None:
    refused = world.source.explain("shop", "analyst", "SELECT id FROM people", "")
    assert (refused.sqlstate, bool(refused.message)) == (errors.INSUFFICIENT_PRIVILEGE, True)
    counted = world.source.explain("shop", "analyst", "SELECT count(*) FROM people", "0.5")
    assert (counted.epsilon, len(counted.generated)) == (500_000, 1)
    assert "count(" in counted.generated[0]
    assert counted.account["Measurements"][0]["Outputs"][0]["Within"] > 0
    assert "charge epsilon=0.5" in counted.lines[0]
    assert "no private table" in world.source.explain("shop", "analyst", "SELECT 1", "").message
    for dataset, role in (("nowhere", "analyst"), ("shop", "nobody")):
        with pytest.raises(KeyError):
            world.source.explain(dataset, role, "SELECT 1", "")


async def test_policies_are_reviewed_as_their_files_are(world: World, tmp_path: Path) -> None:
    (review,) = world.source.reviews()
    assert review.changed
    assert "shop.yaml" in review.unread
    assert any("epsilon" in sentence for s in world.source.exposure("shop", "analyst") for sentence in s.sentences)
    with pytest.raises(KeyError):
        world.source.exposure("shop", "nobody")
