"""Sessions that together take too much of a real facade: told why, and no others stopped. Nothing here depends on speed.

What a session takes it holds until it is stopped: each waits in `pg_sleep`, or has a cursor or a table.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from dpproxy.facade import usage
from dpproxy.limits import quota
from dpproxy.limits.quota import Quota
from dpproxy.server.warden import Warden
from tests.worlds.scripted import Stage
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
    given = {"memory": 1 << 40, "disk": 1 << 40, **bounds}
    warden = Warden(Quota(**given), stage.server.sessions, lambda: [stage.facade])
    watching = asyncio.ensure_future(warden.watch())
    try:
        yield
    finally:
        watching.cancel()


@asynccontextmanager
async def connections(stage: Stage, count: int) -> AsyncIterator[list[Any]]:
    opened = [
        await asyncpg.connect(host="127.0.0.1", port=stage.port, user="ada", password=PASSWORD, database="shop", timeout=SAFETY)
        for _ in range(count)
    ]
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
