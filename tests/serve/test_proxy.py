"""What is served after a reload: the new one as a whole, or what was there; and who of the sessions stays."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.backends.base import BackendError
from dpproxy.operations.requests import OperationError
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import Policy, User
from dpproxy.policy.problems import PolicyError
from dpproxy.serve import proxy
from dpproxy.serve.options import Options, ServingError
from dpproxy.serve.proxy import Running, said, same_but_users
from dpproxy.session.client import ClientSession
from dpproxy.session.greeting import NOWHERE, Origin
from dpproxy.session.limits import State
from tests.worlds.scripted import ScriptedEngine, policy, scripted_dataset
from tests.worlds.waiting import until

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
            await self.running._open(path, self.load(path))

    async def reload(self) -> list[str]:
        """What is logged."""
        with capture_logs() as logged:
            for path in self.policies:
                await self.running._reload_policy(path)
            await asyncio.gather(*self.running._retiring)
        return [entry["event"] for entry in logged if entry["event"].startswith("policy")]


@dataclass(frozen=True)
class _Loaded:
    policy: Policy
    included: tuple[Path, ...] = ()


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


@pytest_asyncio.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    one = tmp_path / "shop.yaml"
    running = Running(Options((one,), "127.0.0.1", 0, tmp_path / "state", drain=0.0))
    made = World(running, {one: RULES})
    monkeypatch.setattr(proxy, "load_file", made.load)
    monkeypatch.setattr(proxy, "open_dataset", made.open_dataset)
    monkeypatch.setattr(proxy, "outdated", made.is_outdated)
    await made.start()
    yield made
    await running.stop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)


async def test_where_nothing_changed_nothing_does(world: World) -> None:
    before = world.served["shop"]
    assert await world.reload() == ["policy unchanged"]
    assert world.served["shop"] is before
    assert len(world.opened) == 1


async def test_what_cannot_be_read_leaves_what_was_there(world: World) -> None:
    before = world.served["shop"]
    (path,) = world.policies
    world.policies[path] = PolicyError([])
    assert await world.reload() == ["policy not reloaded"]
    world.policies[path] = replace(RULES, timing_quantum_ms=100)
    for failure in (BackendError("away"), ValueError("something else")):
        world.failure = failure
        assert "policy not reloaded" in await world.reload()
    assert world.served["shop"] is before
    assert cast(Engine, before.backend).closed == 0


async def test_another_policy_holds_and_the_former_is_closed(world: World) -> None:
    before = world.served["shop"]
    (path,) = world.policies
    world.policies[path] = replace(RULES, timing_quantum_ms=100)
    assert await world.reload() == ["policy reloaded"]
    assert world.served["shop"].policy.timing_quantum_ms == 100
    assert cast(Engine, before.backend).closed == 1


async def test_other_data_are_opened_though_the_policy_is_the_same(world: World) -> None:
    world.outdated = True
    assert await world.reload() == ["policy reloaded"]
    assert len(world.opened) == 2


async def test_where_only_users_changed_nothing_is_opened_and_who_is_the_same_stays(world: World) -> None:
    (path,) = world.policies
    before = world.served["shop"]
    ada = RULES.users["ada"]
    other = replace(ada, password="another")
    stays, goes = (Session(world, before, Asker(user, RULES.roles["analyst"]), (i, b"")) for i, user in enumerate((ada, other)))
    for session in (stays, goes):
        world.running._server.opened(cast(ClientSession, session))
    world.policies[path] = MORE
    assert await world.reload() == ["policy reloaded"]
    assert len(world.opened) == 1
    assert world.served["shop"].policy is MORE
    assert stays.dataset is world.served["shop"]
    assert list(world.running._server.sessions()) == [stays]


async def test_two_policies_of_one_dataset_are_refused(world: World, tmp_path: Path) -> None:
    two = tmp_path / "two.yaml"
    world.policies[two] = RULES
    with pytest.raises(ServingError, match="two policies are for dataset `shop`"):
        await world.running._open(two, world.load(two))


async def test_a_file_that_is_another_datasets_serves_the_former_no_more(world: World) -> None:
    (path,) = world.policies
    before = world.served["shop"]
    world.policies[path] = replace(RULES, dataset="city")
    await world.reload()
    assert set(world.served) == {"city"}
    assert cast(Engine, before.backend).closed == 1


async def test_data_that_are_not_what_was_opened_are_read_again(world: World) -> None:
    reloading = asyncio.ensure_future(world.running._reload_when_told())
    world.outdated = True
    world.served["shop"].outdated()
    await until(lambda: len(world.opened) == 2)
    reloading.cancel()


async def test_what_stops_is_not_reloaded(world: World) -> None:
    world.running.told_to_stop()
    with pytest.raises(OperationError, match="the proxy is stopping"):
        await world.running.reloaded()


async def test_a_session_is_cancelled_or_ended_by_its_number(world: World) -> None:
    assert not world.running.end_session(7, end=True)
    session = Session(world, world.served["shop"], Asker(RULES.users["ada"], RULES.roles["analyst"]), (7, b""))
    world.running._server.opened(cast(ClientSession, session))
    assert world.running.end_session(7, end=True)
    assert not world.running.end_session(7, end=True), "it has gone"


async def test_a_second_signal_ends_the_patience(world: World) -> None:
    world.running.told_to_stop()
    assert world.running.stopping.is_set()
    assert not world.running._server.hurried
    world.running.told_to_stop()
    assert world.running._server.hurried


def test_where_one_listens() -> None:
    assert said("127.0.0.1", 5432, None) == "listening on 127.0.0.1:5432"
    assert said("127.0.0.1", 5432, Path("/run")) == "listening on 127.0.0.1:5432 and in /run"


def test_policies_but_for_their_users() -> None:
    assert same_but_users(RULES, MORE)
    assert not same_but_users(RULES, replace(MORE, timing_quantum_ms=100))


async def test_a_state_that_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServingError, match="no state directory at"):
        Running(Options((), "127.0.0.1", 0, tmp_path / "file" / "state"))
