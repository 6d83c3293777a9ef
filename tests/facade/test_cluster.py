"""A supervised server: started again when it dies, on its own files, then on new ones, for as long as it takes; made anew when
it has grown."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from dpproxy.facade import cluster
from dpproxy.facade.account import Account, Binaries, FacadeError, Place
from dpproxy.facade.cluster import ALARM, LONGEST_PAUSE, Cluster, Endpoint, Held
from tests.worlds.waiting import until


@dataclass
class Server:
    """Notes what is done to it; `failures`: how many of the next starts fail, `dies`: after how many it dies."""

    place: Place
    died: Callable[[], None]
    done: list[str] = field(default_factory=list)
    failures: int = 0
    dies: int = 0
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
        if self.dies:
            self.dies -= 1
            self.died()

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


async def test_it_is_made_anew_when_it_is_asked_to_be(world: World) -> None:
    await world.cluster.start()
    world.server.done.clear()
    world.cluster.make_anew()
    world.cluster.make_anew()
    with pytest.raises(ConnectionRefusedError, match="being started again"):
        _ = world.cluster.endpoint
    assert world.cluster.restarting
    await until(lambda: not world.cluster.restarting)
    assert world.server.done == ["stopped", "created from pattern", "started"]
    assert len(world.filled) == 2


async def test_what_dies_while_it_is_started_again_is_started_once_more(world: World) -> None:
    await world.cluster.start()
    world.server.dies = 1
    await revived(world)
    assert world.server.done == ["restarted", "stopped", "created from pattern", "started"]


MB = 1 << 20


def written(world: World, **sizes: int) -> None:
    for name, size in sizes.items():
        path = world.cluster.data / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size * MB))


async def test_what_it_had_when_it_was_filled_is_no_growth(world: World) -> None:
    written(world, base__5__16400=30)
    await world.cluster.start()
    assert await world.cluster.held() == Held()
    written(world, base__5__16400=31, base__5__16401=2, pg_xact__0000=3)
    assert await world.cluster.held() == Held(grown=6 * MB)
    world.cluster.data.with_name("postgres.log").write_bytes(bytes(4 * MB))
    assert await world.cluster.held() == Held(grown=10 * MB)


async def test_changes_that_postgres_keeps_to_its_bound_are_no_growth(world: World) -> None:
    written(world, pg_wal__1=50)
    await world.cluster.start()
    written(world, pg_wal__2=14)
    assert await world.cluster.held() == Held()
    written(world, pg_wal__3=14)
    assert await world.cluster.held() == Held(grown=14 * MB)


async def test_temporary_tables_are_their_processes_or_else_the_servers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.cluster.start()
    written(world, base__5__t3_1=5, base__5__t3_2=1, base__5__t4_3=2)
    written(world, base__5__t7_9=8)

    async def owners() -> dict[int, int]:
        (world.cluster.data / "base/5/t7_9").unlink(missing_ok=True)  # its process goes while it is asked about
        return {3: 17, 5: 18}

    monkeypatch.setattr(world.cluster, "owners", owners)
    assert await world.cluster.held() == Held(Counter({17: 6 * MB}), 2 * MB)

    async def silent() -> dict[int, int]:
        raise TimeoutError

    monkeypatch.setattr(world.cluster, "owners", silent)
    assert await world.cluster.held() == Held(grown=8 * MB)


async def test_it_is_never_given_up(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """An hour on a full disk: somebody is called once, and whoever makes room has to do no more."""
    await world.cluster.start()
    world.server.failures = 120
    await revived(world)
    assert world.server.done.count("failed") == 120
    assert world.server.done[-1] == "started"
    assert sum(record.levelname == "CRITICAL" for record in caplog.records) == 1
    assert world.cluster.endpoint.path == world.cluster.socket


async def test_what_nobody_thought_of_ends_no_revival(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.cluster.start()
    failures = iter([ValueError("a public table cannot be read"), None])

    async def fill(_: object) -> None:
        if failure := next(failures):
            raise failure

    monkeypatch.setattr(world.cluster, "_fill", fill)
    world.cluster.make_anew()
    await until(lambda: not world.cluster.restarting)
    assert next(failures, "no more") == "no more", "it was filled at the second attempt"


def test_pauses_double_up_to_a_bound() -> None:
    pauses = [cluster._pause(attempt) for attempt in range(2000)]
    assert pauses[:4] == [0.0, 0.2, 0.4, 0.8]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE
    assert sum(pauses[: ALARM + 1]) < LONGEST_PAUSE


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
