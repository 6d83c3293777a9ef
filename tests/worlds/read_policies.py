"""A proxy whose policy files say what a test says, over a scripted engine; nothing listens."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.limits.session_limits import State
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import Policy, User
from dpproxy.policy.problems import Problem
from dpproxy.serve import proxy, served_policies
from dpproxy.serve.proxy import Running
from dpproxy.serve.runtime import Options
from dpproxy.session.client import ClientSession
from dpproxy.session.facade_login import NOWHERE, Origin
from tests.worlds.scripted import ScriptedEngine, policy, scripted_dataset

RULES = policy()
MORE = replace(RULES, users={**RULES.users, "eve": User("eve", "analyst", RULES.users["ada"].password)})


class Engine(ScriptedEngine):
    state = ""
    closed = 0

    async def close(self) -> None:
        self.closed += 1


@dataclass
class World:
    """A proxy whose files say what the test says, over a scripted engine."""

    running: Running
    policies: dict[Path, Policy | Exception]
    opened: list[Dataset] = field(default_factory=list)
    outdated: bool = False
    failure: Exception | None = None

    @property
    def served(self) -> dict[str, Dataset]:
        return self.running._datasets

    def load(self, path: Path) -> Loaded:
        found = self.policies[path]
        if isinstance(found, Exception):
            raise found
        return cast(Loaded, _Loaded(found))

    async def open_dataset(self, loaded: _Loaded, facade: object, ledger: Any, *rest: object) -> Dataset:
        if self.failure is not None:
            raise self.failure
        self.opened.append(replace(scripted_dataset(Engine(), ledger, policy()), policy=loaded.policy))
        return self.opened[-1]

    async def is_outdated(self, dataset: Dataset) -> bool:
        return self.outdated

    async def start(self) -> None:
        """As `Running.start`, without what listens."""
        for path in self.policies:
            await self.running._served.hold(path, self.load(path))

    async def reload(self) -> list[str]:
        """What is logged."""
        with capture_logs() as logged:
            await self.running._served.reload()
            await self.running._served.retired()
        return [entry["event"] for entry in logged if entry["event"].startswith("policy")]


@dataclass(frozen=True)
class _Loaded:
    policy: Policy
    included: tuple[Path, ...] = ()
    warnings: tuple[Problem, ...] = ()


@dataclass
class Session:
    """Goes as soon as it is told to."""

    world: World
    dataset: Dataset
    asker: Asker
    key: tuple[int, bytes]
    origin: Origin = NOWHERE
    progress: tuple[State, int, int] = (State.IDLE, 0, 0)

    def move(self, newer: Dataset) -> None:
        self.dataset = newer

    def leave(self, *why: str) -> None:
        self.world.running._server.closed(cast(ClientSession, self))

    fatal = leave


@asynccontextmanager
async def read_policies(folder: Path) -> AsyncIterator[World]:
    """One policy, opened."""
    one = folder / "shop.yaml"
    running = Running(Options((one,), "127.0.0.1", 0, folder / "state", drain=0.0))
    made = World(running, {one: RULES})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served_policies, "load_file", made.load)
        patch.setattr(proxy, "open_dataset", made.open_dataset)
        patch.setattr(served_policies, "outdated", made.is_outdated)
        await made.start()
        yield made
        await running.stop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)
