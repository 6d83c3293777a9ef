"""One running process: when it reads again, how its sessions are steered, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio

from dpproxy.answers.dataset import Asker
from dpproxy.operations.requests import OperationError
from dpproxy.serve import proxy as proxies
from dpproxy.serve.proxy import Running, said
from dpproxy.serve.runtime import Options, ServingError
from dpproxy.session.client import ClientSession
from tests.worlds.read_policies import RULES, Session, World, read_policies
from tests.worlds.waiting import until


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with read_policies(tmp_path) as made:
        yield made


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


async def test_a_state_that_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServingError, match="no state directory at"):
        Running(Options((), "127.0.0.1", 0, tmp_path / "file" / "state"))


@pytest.mark.parametrize("fits", [True, False])
def test_certificates_are_read_again_for_all_who_show_them_or_for_nobody(fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages of operators show the same certificate as the port does."""
    renewed: list[str] = []

    class Console:
        def renew(self) -> None:
            if not fits:
                raise OSError("the key does not fit")
            renewed.append("pages")

    monkeypatch.setattr(proxies, "load_tls", lambda files: f"new of {files}")
    serving: Any = object.__new__(Running)
    serving._options = SimpleNamespace(tls="files")
    serving._server, serving._console, serving._certificates = SimpleNamespace(tls="old"), Console(), "earlier"
    serving._reload_tls()
    told = (serving._server.tls, serving._certificates, renewed)
    assert told == (("new of files", "", ["pages"]) if fits else ("old", "the key does not fit", []))
