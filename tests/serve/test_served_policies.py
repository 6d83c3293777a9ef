"""What is served after a reload: the new one as a whole, or what was there; and who of the sessions stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio

from dpproxy.answers.dataset import Asker
from dpproxy.backends.base import BackendError
from dpproxy.policy.problems import PolicyError, Problem
from dpproxy.serve.runtime import ServingError
from dpproxy.serve.served_policies import same_but_users
from dpproxy.session.client import ClientSession
from tests.worlds.read_policies import MORE, RULES, Engine, Session, World, read_policies


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with read_policies(tmp_path) as made:
        yield made


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


async def test_open_decisions_are_not_served_unless_it_is_a_draft(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = world.policies
    open_ = Problem(str(path), 3, 1, "an open decision", "decide", "open-decision")
    monkeypatch.setattr("dpproxy.serve.served_policies.load_file", lambda path: replace(world.load(path), warnings=(open_,)))
    world.policies[path] = replace(RULES, timing_quantum_ms=100)
    assert await world.reload() == ["policy not reloaded"]
    assert "an open decision" in world.running._served.history[path].problem
    world.running._served._draft = True
    assert await world.reload() == ["policy reloaded"]


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
        await world.running._served.hold(two, world.load(two))


async def test_a_file_that_is_another_datasets_serves_the_former_no_more(world: World) -> None:
    (path,) = world.policies
    before = world.served["shop"]
    world.policies[path] = replace(RULES, dataset="city")
    await world.reload()
    assert set(world.served) == {"city"}
    assert cast(Engine, before.backend).closed == 1


def test_policies_but_for_their_users() -> None:
    assert same_but_users(RULES, MORE)
    assert not same_but_users(RULES, replace(MORE, timing_quantum_ms=100))
