"""What an operator asks is carried out, in all processes where it concerns all, and is in the audit log before it is replied to."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from dpproxy.answers.data_identity import data_of
from dpproxy.operations.audit import AuditLog
from dpproxy.operations.pauses import Pauses
from dpproxy.operations.requests import (
    CancelSession,
    Drain,
    GrantBudget,
    OperationError,
    PauseRole,
    Recent,
    Reload,
    Report,
    Request,
    ResumeRole,
    SetClock,
)
from dpproxy.operations.status import ReadAgain, Status
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.serve import operator
from dpproxy.serve.operator import AdminSocket, Operator
from dpproxy.serve.self_report import accounts
from dpproxy.telemetry.tallies import StatementEvent, Tallies
from tests.worlds.scripted import ScriptedEngine, policy, scripted_dataset
from tests.worlds.told_status import STATUS

ROOT = "root (0)"


@dataclass
class Steered:
    """Notes what it is told."""

    number: int
    session: int
    problem: str = ""
    told: list[str] = field(default_factory=list)
    reloading: asyncio.Event = field(default_factory=asyncio.Event)

    def end_session(self, session: int, end: bool) -> bool:
        self.told.append(f"{session} {end}")
        return session == self.session

    async def status(self, checked: bool = False) -> Status:
        return replace(STATUS, process=self.number, checks=STATUS.checks if checked else ())

    async def reloaded(self) -> tuple[ReadAgain, ...]:
        self.told.append("reload")
        await self.reloading.wait()
        return (ReadAgain("shop", "digest", self.problem),)

    def drain(self) -> None:
        self.told.append("drain")


@dataclass
class Process:
    steered: Steered
    operator: Operator
    pauses: Pauses
    tallies: Tallies
    ledger: SqliteLedger
    admin: AdminSocket

    async def ask(self, request: Request) -> Any:
        return await self.operator.carry_out(request, ROOT)


@dataclass
class World:
    """Two processes of one proxy, each with a ledger of its own."""

    state: Path
    one: Process
    two: Process

    def audited(self) -> list[dict[str, Any]]:
        path = self.state / "audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def process(state: Path, number: int) -> Process:
    ledger = SqliteLedger(state / f"ledger-{number}.sqlite")
    rules = policy()
    datasets = {name: scripted_dataset(ScriptedEngine(), ledger, replace(rules, dataset=name)) for name in ("shop", "city")}
    datasets["city"] = replace(datasets["city"], policy=replace(rules, dataset="city", roles={"clerk": rules.roles["analyst"]}))
    steered, pauses, tallies = Steered(number, 100 + number), Pauses(state / "paused.json"), Tallies()
    audit = AuditLog(state / "audit.jsonl")
    made = Operator(steered, state, number, datasets, ledger, "this ledger", pauses, tallies, audit)
    admin = AdminSocket(state, number, made.carry_out)
    await admin.open()
    return Process(steered, made, pauses, tallies, ledger, admin)


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path, await process(tmp_path, 1), await process(tmp_path, 2))
    yield made
    for each in (made.one, made.two):
        await each.admin.close()
        each.ledger.close()


async def test_what_all_know_and_what_was_asked_last(world: World) -> None:
    assert [status["process"] for status in await world.two.ask(Report())] == [2, 1]
    assert [status.process for status in await world.one.operator.statuses()] == [1, 2]
    for i, each in enumerate((world.one, world.two, world.one)):
        event = StatementEvent(float(i), "shop", "analyst", "ada", i, "hash", "select", "answered", "digest")
        each.tallies.statement(event)
    assert [event["session"] for event in await world.two.ask(Recent(2))] == [2, 1]
    assert await world.two.ask(Recent(0)) == []


async def test_a_pause_holds_in_all_processes(world: World) -> None:
    assert await world.one.ask(PauseRole("analyst", "a lost laptop"))
    for each in (world.one, world.two):
        pause = each.pauses.of("shop", "analyst")
        assert pause is not None
        assert (pause.by, pause.reason) == (ROOT, "a lost laptop")
    assert not await world.two.ask(PauseRole("analyst", "again", "shop"))
    assert await world.two.ask(ResumeRole("analyst", "found it"))
    assert world.one.pauses.all() == ()
    assert [(e["action"], e["outcome"], e["reason"]) for e in world.audited()] == [
        ("pause", "done", "a lost laptop"),
        ("pause", "nothing changed", "again"),
        ("resume", "done", "found it"),
    ]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (PauseRole("nobody", "r"), "there is no role `nobody`"),
        (PauseRole("analyst", "r", "city"), "there is no role `analyst` in dataset `city`"),
        (PauseRole("analyst", " "), "a pause has a reason"),
        (CancelSession(7), "there is no session 7"),
        (GrantBudget("another", "shop", "role", "analyst", 1, 0, "r"), "keeps another ledger: this ledger"),
        (GrantBudget("this ledger", "town", "role", "analyst", 1, 0, "r"), "`town` is not served"),
        (GrantBudget("this ledger", "shop", "role", "nobody", 1, 0, "r"), "there is no role `nobody`"),
        (GrantBudget("this ledger", "shop", "planet", "analyst", 1, 0, "r"), "there is no planet"),
        (GrantBudget("this ledger", "shop", "role", "analyst", 1, 0, " "), "a grant has a reason"),
        (SetClock("this ledger", "shop", True, "r"), "the ledger's clock is not ahead"),
    ],
)
async def test_what_cannot_be_done_is_said_and_changes_nothing(world: World, request_: Request, says: str) -> None:
    before = accounts(world.one.operator._datasets["shop"])
    with pytest.raises(OperationError, match=says):
        await world.one.ask(request_)
    assert accounts(world.one.operator._datasets["shop"]) == before
    assert world.one.pauses.all() == ()
    assert not any(entry["outcome"] == "done" for entry in world.audited())


async def test_a_role_of_two_datasets_is_named_with_its_dataset(world: World) -> None:
    world.one.operator._datasets["city"].policy.roles["analyst"] = policy().roles["analyst"]  # type: ignore[index]
    with pytest.raises(OperationError, match="say which: --dataset; `city`, `shop` have a role `analyst`"):
        await world.one.ask(PauseRole("analyst", "r"))
    assert await world.one.ask(PauseRole("analyst", "r", "city"))


async def test_a_session_is_ended_wherever_it_is(world: World) -> None:
    assert await world.one.ask(CancelSession(102, end=True))
    assert (world.one.steered.told, world.two.steered.told) == (["102 True"], ["102 True"])
    assert await world.one.ask(CancelSession(101))
    assert world.two.steered.told == ["102 True"], "it was here"
    assert [(e["action"], e["session"], e["end"]) for e in world.audited()] == [("cancel", 102, True), ("cancel", 101, False)]


async def test_a_grant_is_in_the_ledger_and_in_the_audit_log(world: World) -> None:
    one = world.one
    with capture_logs() as logged:
        await one.ask(GrantBudget("this ledger", "shop", "role", "analyst", 500_000, 0, "audit of May"))
    role = next(a for a in accounts(one.operator._datasets["shop"]) if a.scope == "role")
    assert role.limit_epsilon == policy().roles["analyst"].budget.epsilon + 500_000
    (entry,) = world.audited()
    assert (entry["action"], entry["by"], entry["epsilon_millionths"], entry["reason"]) == (
        "grant",
        ROOT,
        500_000,
        "audit of May",
    )
    assert one.ledger.name("shop", data_of(policy()), dt.datetime.now(dt.UTC)) == "shop"
    ((line),) = logged
    assert (line["event"], line["by"]) == ("operator", ROOT)
    assert "May" not in str(line), "a person's own words"


async def test_a_reload_is_waited_for_and_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one = world.one
    asked = asyncio.ensure_future(one.ask(Reload()))
    await asyncio.sleep(0)
    assert not asked.done()
    one.steered.reloading.set()
    assert await asked == [asdict(ReadAgain("shop", "digest"))]
    one.steered.problem = "shop.yaml:3:1: unknown key"
    assert (await one.ask(Reload()))[0]["problem"] == one.steered.problem
    one.steered.reloading.clear()
    monkeypatch.setattr(operator, "RELOADED", 0.0)
    with pytest.raises(OperationError, match="has not ended"):
        await one.ask(Reload())
    assert [entry["outcome"] for entry in world.audited()] == ["done", "not reloaded: shop", "not yet done"]


async def test_a_drain_is_noted_first(world: World) -> None:
    await world.one.ask(Drain())
    assert world.one.steered.told == ["drain"]
    assert [entry["action"] for entry in world.audited()] == ["drain"]


async def test_a_process_that_does_not_answer_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(*_: object) -> Any:
        raise OperationError("it cannot")

    world.two.admin._carry_out = refuses
    with pytest.raises(OperationError, match=r"other processes did not do it: admin-2.sock: it cannot"):
        await world.one.ask(PauseRole("analyst", "r"))
    assert world.one.pauses.of("shop", "analyst") is not None, "it holds where it could be made to hold, and after each start"
