"""A supervised server: started again when it dies, on its own files, then on new ones, and given up at last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from dpproxy.facade import cluster
from dpproxy.facade.account import Account, Place
from dpproxy.facade.binaries import Binaries, FacadeError
from dpproxy.facade.cluster import RESTARTS, Cluster, Endpoint
from tests.worlds.waiting import until


@dataclass
class Server:
    """Notes what is done to it; `failures`: how many of the next starts fail."""

    place: Place
    died: Callable[[], None]
    done: list[str] = field(default_factory=list)
    failures: int = 0
    pid: int = 7

    async def create(self, pattern: Path | None) -> None:
        self.done.append(f"created from {pattern}")

    async def start(self) -> None:
        self._start("started")

    async def restart(self) -> None:
        self._start("restarted")

    def _start(self, what: str) -> None:
        if self.failures:
            self.failures -= 1
            self.done.append("failed")
            raise FacadeError("postgres does not start")
        self.done.append(what)

    async def stop(self) -> None:
        self.done.append("stopped")


@dataclass
class World:
    cluster: Cluster
    server: Server
    filled: list[str]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made: list[Server] = []

    def server(place: Place, account: Account, connections: int, died: Callable[[], None], bounds: object) -> Server:
        made.append(Server(place, died))
        return made[0]

    real, filled = asyncio.sleep, list[str]()
    monkeypatch.setattr(cluster, "EmbeddedServer", server)
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: real(0))

    async def fill(connection: str) -> None:
        filled.append(connection)

    place = Place(tmp_path, Binaries(tmp_path, 17), False)
    running = Cluster(place, Account(0, 0, False), 10, "shop", Path("pattern"), fill)

    @asynccontextmanager
    async def connected(database: str | None = None) -> AsyncIterator[Any]:
        yield database or "shop"

    monkeypatch.setattr(running, "connected", connected)
    return World(running, made[0], filled)


async def revived(world: World) -> None:
    world.server.done.clear()
    world.server.died()
    with pytest.raises(ConnectionRefusedError, match="being started again"):
        _ = world.cluster.endpoint
    restarting = world.cluster._restarting
    assert restarting is not None
    await until(restarting.done)


async def test_it_is_made_started_and_filled(world: World) -> None:
    await world.cluster.start()
    assert world.server.done == ["created from pattern", "started"]
    assert world.filled == ["template1"], "its only database"
    assert world.cluster.endpoint == Endpoint(path=world.cluster.socket)


async def test_what_dies_is_started_again_on_its_files(world: World) -> None:
    await world.cluster.start()
    await revived(world)
    assert world.server.done == ["restarted"]
    assert len(world.filled) == 1
    assert world.cluster.endpoint.path == world.cluster.socket


async def test_files_that_are_unusable_are_made_anew_and_filled(world: World) -> None:
    await world.cluster.start()
    world.server.failures = 2
    await revived(world)
    assert world.server.done == [
        "failed", "stopped", "created from pattern", "failed", "stopped", "created from pattern", "started",
    ]  # fmt: skip
    assert len(world.filled) == 2


async def test_it_is_given_up_at_last(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.cluster.start()
    world.server.failures = 99
    await revived(world)
    assert world.server.done.count("failed") == RESTARTS
    assert caplog.messages[-1] == "facade: given up"


async def test_stopping_ends_a_revival_and_removes_the_files(world: World) -> None:
    await world.cluster.start()
    world.cluster.data.mkdir()
    (world.cluster.data / "PG_VERSION").write_text("17")
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    world.server.restart = lambda: never  # type: ignore[method-assign,assignment,return-value]
    world.server.died()
    await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(lambda: None))])
    await world.cluster.stop()
    await world.cluster.stop()
    assert never.cancelled()
    assert world.server.done[-1] == "stopped"
    assert not world.cluster.data.exists()


def test_a_password_is_in_no_text() -> None:
    assert "secret" not in repr(Endpoint(host="h", port=1, password="secret"))
    assert cast(Any, Endpoint()).path is None
