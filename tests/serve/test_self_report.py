"""What a process says of itself: from a scripted dataset, with parts that work, fail, and hang."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

import dpproxy
from dpproxy.answers.dataset import Dataset
from dpproxy.backends.base import BackendError
from dpproxy.facade.cluster import Endpoint
from dpproxy.ledger.ledger import LedgerError
from dpproxy.operations.pauses import Pauses
from dpproxy.operations.status import AccountStatus, PolicyHistory
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.serve import self_report
from dpproxy.serve.self_report import SelfReport, accounts, memory
from dpproxy.server.server import Server
from dpproxy.telemetry.tallies import Tallies
from tests.worlds.scripted import ScriptedEngine, policy, scripted_dataset

FILE = Path("shop.yaml")


class Engine(ScriptedEngine):
    outcome: Exception | None = None

    async def violations(self, checks: Sequence[str]) -> tuple[int, ...]:
        assert checks == ["SELECT 0"]
        if isinstance(self.outcome, TimeoutError):
            await asyncio.Event().wait()
        if self.outcome is not None:
            raise self.outcome
        return (0,)


@dataclass
class Rooms:
    """The facade of a role: a socket, or one that is being started again."""

    path: str | None

    def endpoint(self, role: str) -> Endpoint:
        if self.path is None:
            raise ConnectionRefusedError
        return Endpoint(self.path)


@dataclass
class World:
    dataset: Dataset
    engine: Engine
    rooms: Rooms
    ledger: SqliteLedger
    report: SelfReport

    async def works(self) -> dict[str, bool]:
        checks = (await self.report.status(checked=True)).checks
        assert {check.subject for check in checks} == {"shop", "shop/analyst"}
        return {check.part: check.works for check in checks}

    async def problems(self) -> list[str]:
        return [check.problem for check in await self.report.checks() if not check.works]


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async def entered(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    facade = await asyncio.start_unix_server(entered, tmp_path / "facade")
    engine, ledger, rooms = Engine(), SqliteLedger(tmp_path / "ledger.sqlite"), Rooms(str(tmp_path / "facade"))
    dataset = replace(scripted_dataset(engine, ledger, policy()), rooms=rooms)  # type: ignore[arg-type]
    datasets = {"shop": dataset}
    server = Server(datasets, lambda dataset, role: dataset.endpoint(role))
    history = {FILE: PolicyHistory(5.0, "a problem")}
    parts = (datasets, server, ledger, Tallies(), Pauses(), history)
    report = SelfReport(2, *parts, lambda: {"shop": FILE}, lambda: False)
    yield World(dataset, engine, rooms, ledger, report)
    facade.close()
    ledger.close()


async def test_all_that_is_known(world: World) -> None:
    status = await world.report.status()
    assert (status.process, status.pid, status.version) == (2, os.getpid(), dpproxy.__version__)
    (dataset,) = status.datasets
    assert (dataset.name, dataset.file, dataset.loaded, dataset.problem) == ("shop", "shop.yaml", 5.0, "a problem")
    assert [(a.scope, a.name) for a in status.accounts] == [("role", "analyst"), ("dataset", "shop")]
    assert (status.checks, status.sessions, status.ready) == ((), (), True)


async def test_parts_that_work_and_parts_that_do_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await world.works() == {"facade": True, "backend": True, "ledger": True}
    world.rooms.path, world.engine.outcome = None, BackendError("gone")
    assert await world.works() == {"facade": False, "backend": False, "ledger": True}
    monkeypatch.setattr(self_report, "SECONDS", 0.01)
    assert "gone" in await world.problems()
    world.engine.outcome = ValueError("a value of the data")
    assert "ValueError" in await world.problems(), "its text may hold anything"
    world.engine.outcome = TimeoutError()
    assert "no answer within 0.01 seconds" in await world.problems(), "what hangs does not work"


async def test_without_the_ledger_everything_else_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: Dataset) -> list[AccountStatus]:
        raise LedgerError("the server is away")

    assert [account.limit_epsilon for account in accounts(world.dataset)] == [10**9, 10**9]
    monkeypatch.setattr(self_report, "accounts", away)
    world.ledger.close()
    status = await world.report.status(checked=True)
    assert (status.accounts, status.ready) == ((), False)
    assert [check.part for check in status.checks if not check.works] == ["ledger"]


def test_memory_is_of_this_process() -> None:
    assert 10_000_000 < memory() < 10**11
