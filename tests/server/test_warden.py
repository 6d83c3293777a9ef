"""Sessions that together take too much of a real facade: told why, and no others stopped. Nothing here depends on speed.

What a session takes it holds until it is stopped: each waits in `pg_sleep`, or has a cursor or a table.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from dpproxy.facade import usage
from dpproxy.facade.cluster import Cluster, Held
from dpproxy.facade.facade import Facade
from dpproxy.limits import quota
from dpproxy.limits.quota import Quota
from dpproxy.policy.model import User
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.server.server import Server
from dpproxy.server.warden import Warden
from tests.worlds import patterns
from tests.worlds.scripted import VERIFIER, ScriptedEngine, Stage, catalog, policy, scripted_dataset
from tests.worlds.wire_client import PASSWORD

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not usage.visible(), reason="this system does not tell what processes take"),
]
MB = 1 << 20
SAFETY = 300.0  # seconds, for a machine that does a hundred other things
HOLDS_50_MB = "SELECT length(s), pg_sleep(600) FROM (SELECT string_agg(repeat('x', 1000000), '') s FROM generate_series(1, 50)) t"
FILES_50_MB = "SELECT repeat(md5(g::text), 32) FROM generate_series(1, 50000) g"

SMALL = "SET work_mem = '64kB'"
SORTS = f"{SMALL}; BEGIN; DECLARE c CURSOR FOR SELECT * FROM ({FILES_50_MB}) t(x) ORDER BY x; FETCH c; SELECT pg_sleep(600)"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is told to stop has time to: on a busy machine that takes longer than the warden waits."""
    monkeypatch.setattr(quota, "GRACE", SAFETY)


@asynccontextmanager
async def limited(stage: Stage, **bounds: Any) -> AsyncIterator[None]:
    async with watched(stage.server, lambda: [(("shop", "analyst"), stage.facade)], **bounds):
        yield


@asynccontextmanager
async def watched(server: Server, clusters: Callable[[], Any], **bounds: Any) -> AsyncIterator[None]:
    warden = Warden(Quota(**{"memory": 1 << 40, "disk": 1 << 40, **bounds}), server.sessions, clusters)
    watching = asyncio.ensure_future(warden.watch())
    try:
        yield
    finally:
        watching.cancel()


async def connected(port: int, user: str = "ada") -> Any:
    return await asyncpg.connect(host="127.0.0.1", port=port, user=user, password=PASSWORD, database="shop", timeout=SAFETY)


@asynccontextmanager
async def connections(stage: Stage, count: int) -> AsyncIterator[list[Any]]:
    opened = [await connected(stage.port) for _ in range(count)]
    try:
        yield opened
    finally:
        for connection in opened:
            connection.terminate()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SAFETY):
        while not true():
            await asyncio.sleep(0.02)


async def test_memory_of_a_role(stage: Stage) -> None:
    """Three of about 64 MB each, where the role may take 150: one has to stop, and goes on with its session."""
    async with connections(stage, 3) as three, limited(stage, memory=300 * MB):
        tasks = [asyncio.ensure_future(one.execute(HOLDS_50_MB)) for one in three]
        await until(lambda: any(task.done() for task in tasks))
        stopped = [(one, task) for one, task in zip(three, tasks, strict=True) if task.done()]
        for one, task in stopped:
            error = task.exception()
            assert isinstance(error, asyncpg.OutOfMemoryError)
            assert error.detail == "the sessions of this role together take more than 150 MB"
            assert error.hint is not None
            assert await one.fetchval("SELECT 1", timeout=SAFETY) == 1
        assert len(stopped) < 3, "what fits goes on"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_files_of_sorts(stage: Stage) -> None:
    async with connections(stage, 1) as (one,), limited(stage, disk=80 * MB):
        with pytest.raises(asyncpg.ConfigurationLimitExceededError) as caught:
            await one.execute(
                f"{SMALL}; BEGIN; DECLARE c CURSOR FOR SELECT * FROM ({FILES_50_MB}) t(x) ORDER BY x; FETCH c; SELECT pg_sleep(600)"
            )
        assert caught.value.detail == "the sessions of this role together take more than 40 MB"
        await one.execute("ROLLBACK")


async def test_files_of_an_idle_session(stage: Stage) -> None:
    """A held cursor keeps its rows on disk while nothing runs: the session is ended."""
    async with connections(stage, 1) as (one,):
        ended = asyncio.Event()
        one.add_termination_listener(lambda _: ended.set())
        await one.execute(f"{SMALL}; DECLARE c CURSOR WITH HOLD FOR {FILES_50_MB}")
        async with asyncio.timeout(SAFETY), limited(stage, disk=80 * MB):
            await ended.wait()
        data = stage.facade.data
        assert data is not None
        await until(lambda: usage.spilled(data).total() == 0)


async def test_temporary_tables(stage: Stage) -> None:
    async with connections(stage, 1) as (one,), limited(stage, disk=60 * MB):
        with pytest.raises(asyncpg.ConfigurationLimitExceededError):
            await one.execute(f"CREATE TEMP TABLE t AS {FILES_50_MB}; SELECT pg_sleep(600)")


async def test_a_disk_that_is_nearly_full(stage: Stage) -> None:
    async with connections(stage, 1) as (one,), limited(stage, reserve=1 << 60):
        with pytest.raises(asyncpg.DiskFullError):
            await one.execute(
                f"{SMALL}; BEGIN; DECLARE c CURSOR FOR SELECT * FROM ({FILES_50_MB}) t(x) ORDER BY x; FETCH c; SELECT pg_sleep(600)"
            )


async def test_a_long_statement_waits_for_others(stage: Stage) -> None:
    async with connections(stage, 1) as (one,), limited(stage):
        (session,) = stage.server.sessions()
        pid = session.server_process
        running = asyncio.ensure_future(one.execute("SELECT count(*) FROM generate_series(1, 1000000000000)"))
        await until(lambda: os.getpriority(os.PRIO_PROCESS, pid) == usage.LAST)
        session.cancel()
        with pytest.raises(asyncpg.QueryCanceledError):
            await running
        if os.geteuid() == 0:
            await until(lambda: os.getpriority(os.PRIO_PROCESS, pid) == 0)


# what belongs to a server


@dataclass
class Two:
    """A proxy with two roles: of `ada`, who makes tables, and of `bob`."""

    server: Server
    facade: Facade
    clusters: dict[str, Cluster]
    port: int


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Two]:
    state, facade, engine, rules = tmp_path_factory.mktemp("two"), Facade(connections=100), ScriptedEngine(), policy()
    analyst = rules.roles["analyst"]
    rules = replace(
        rules,
        roles={"analyst": analyst, "clerk": replace(analyst, name="clerk")},
        users={**rules.users, "bob": User("bob", "clerk", VERIFIER)},
    )
    await patterns.start(facade, state)
    rooms = await facade.open(rules, catalog(), engine.public_rows)
    clusters = {role: server for (_, role), server in facade.clusters()}
    ledger = SqliteLedger(state / "ledger.sqlite")
    server = Server({"shop": scripted_dataset(engine, ledger, rules)}, lambda _, role: rooms.endpoint(role))
    yield Two(server, facade, clusters, await server.listen("127.0.0.1", 0))
    await server.stop(drain=0)
    await facade.stop()
    ledger.close()


WIDE = ", ".join(f"c{number} int" for number in range(1500))
ENDED = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What a client of asyncpg raises whose session is ended: the third where the end meets a statement it is sending."""


async def keep_dead_rows(connection: Any) -> None:
    """Stay in a transaction, so that no vacuum removes what others drop, however slow they are."""
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")


async def grow(connection: Any) -> None:
    """Make tables and drop them, until the session is ended."""
    while True:
        await connection.execute(f"CREATE TEMP TABLE wide ({WIDE}); DROP TABLE wide")


async def test_a_growing_catalog_ends_its_role_alone_and_comes_back(two: Two) -> None:
    """Neither session of the role holds a file. Another role's session has a temporary table, a sort's file and a transaction:
    it goes on with all of them."""
    ada, idle, bob = await connected(two.port), await connected(two.port), await connected(two.port, "bob")
    grows, server = two.clusters["analyst"], two.clusters["clerk"].pid
    before, ended = grows.pid, asyncio.Event()
    idle.add_termination_listener(lambda _: ended.set())
    await keep_dead_rows(idle)
    await bob.execute(f"{SMALL}; CREATE TEMP TABLE mine AS SELECT 1 AS x; BEGIN")
    await bob.execute(f"DECLARE c CURSOR FOR SELECT * FROM ({FILES_50_MB}) t(x) ORDER BY x; FETCH c")
    async with watched(two.server, two.facade.clusters, disk=140 * MB):
        async with asyncio.timeout(SAFETY):
            with pytest.raises(ENDED):
                await grow(ada)
            await ended.wait()
        again = await connected(two.port)
        assert await again.fetchval("SELECT count(*) FROM shops") == 2, "what the role sees is there as before"
        assert grows.pid != before
        assert (await grows.held()).grown < quota.NEGLIGIBLE
        assert await bob.fetchval("SELECT x FROM mine") == 1
        assert len(await bob.fetch("FETCH 10 FROM c")) == 10
        assert two.clusters["clerk"].pid == server
    for connection in (again, bob):
        connection.terminate()


async def test_a_disk_is_given_back_by_the_role_whose_server_fills_it(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions write long comments, of which none is anybody's file; the only file beside them is a small sort's."""
    adas, bob = [await connected(two.port) for _ in range(2)], await connected(two.port, "bob")
    idle = await connected(two.port)
    await keep_dead_rows(idle)
    await bob.execute(f"{SMALL}; BEGIN; DECLARE c CURSOR FOR SELECT * FROM ({FILES_50_MB}) t(x) ORDER BY x; FETCH c")

    def free(_: object) -> int:
        folders = [cluster.data for cluster in two.clusters.values()]
        return capacity - sum(usage.files(data).others + usage.spilled(data).total() for data in folders)

    capacity = 0
    capacity = 200 * MB - free(None)
    monkeypatch.setattr(usage, "free", free)
    async with watched(two.server, two.facade.clusters, reserve=100 * MB):
        outcomes = await asyncio.wait_for(asyncio.gather(*map(comment, adas), return_exceptions=True), SAFETY)
        assert all(isinstance(outcome, ENDED) for outcome in outcomes)
        await until(lambda: free(None) > 150 * MB)
        assert len(await bob.fetch("FETCH 10 FROM c")) == 10
    for connection in (idle, bob):
        connection.terminate()


async def comment(connection: Any) -> None:
    """Say something new of a table that has no row, until the session is ended."""
    await connection.execute("CREATE TEMP TABLE small (x int)")
    for number in itertools.count():
        text = "".join(hashlib.sha512(f"{number} {part}".encode()).hexdigest() for part in range(8000))
        await connection.execute(f"COMMENT ON TABLE small IS '{text}'")


class Mute:
    """Is a server that answers nothing, and whose files are not there."""

    data = Path("/nonexistent/home/data")
    restarting = False

    async def held(self) -> Held:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    def make_anew(self) -> None:
        raise AssertionError


async def test_a_server_that_does_not_answer_hides_no_other(two: Two) -> None:
    ada, mute = await connected(two.port), (("shop", "third"), Mute())
    async with watched(two.server, lambda: [mute, *two.facade.clusters()], disk=60 * MB):
        with pytest.raises(asyncpg.ConfigurationLimitExceededError):
            await ada.execute(f"CREATE TEMP TABLE t AS {FILES_50_MB}; SELECT pg_sleep(600)")
    ada.terminate()
