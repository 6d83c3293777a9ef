"""`timing.quantum`: what ends between two points of the grid looks the same whenever it ended, whatever a client does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from dpproxy.backends.base import BackendError

from .reuse_world import Client, Town, town

QUANTUM = 1.0
EARLY, LATE = 0.1, 0.7
"""Moments of one stretch of the grid, before and after a client's question."""
ASKS_AT = 0.4
SQL = "SELECT region, count(*) FROM people WHERE income < {} GROUP BY region"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("town")) as made:
        await made.reopen(timing_quantum_ms=round(QUANTUM * 1000))
        yield made


pytestmark = pytest.mark.asyncio(loop_scope="module")


def engine_takes(world: Town, seconds: float, failing: bool = False) -> None:
    async def before() -> None:
        await asyncio.sleep(seconds)
        if failing:
            raise BackendError("row 4711 is bad")

    world.backend.before = before


async def timed(work: Awaitable[object]) -> tuple[float, object]:
    """How long it takes, in points of the grid, and what becomes of it."""
    began = time.monotonic()
    try:
        found = await work
    except psycopg.Error as error:
        found = error.sqlstate
    return (time.monotonic() - began) / QUANTUM, found


def on_a_point(points: float) -> bool:
    return points % 1 < 0.45  # the grid begins a little later than the question, and what follows it takes a while


@pytest.mark.parametrize("seconds", [EARLY, LATE])
async def test_failures_leave_on_the_grid(slow: Town, seconds: float) -> None:
    engine_takes(slow, seconds, failing=True)
    async with slow.client() as ada:
        points, found = await timed(ada.ask(SQL.format(100 + seconds)))
        assert found == "58000"
        assert on_a_point(points)
        assert 1 <= points < 2


async def interrupted(client: Client, how: str, sql: str) -> object:
    """The statement, with a client that wants it ended at ASKS_AT."""
    asking = asyncio.ensure_future(client.ask(sql))
    if how == "cancel":
        await asyncio.sleep(ASKS_AT)
        await client.connection.cancel_safe()
    return await asking


async def prepared(client: Client, how: str) -> None:
    await client.ask(f"SET statement_timeout = {round(ASKS_AT * 1000) if how == 'timeout' else 0}")


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_a_question_at_a_moment_of_the_clients_choice(slow: Town, how: str) -> None:
    """The engine is through before it or after it, on the same stretch of the grid: the same answer, at the same time."""
    for i, seconds in enumerate((EARLY, LATE)):
        engine_takes(slow, seconds)
        async with slow.client() as ada:
            sql = SQL.format(200 + 10 * i + len(how))
            await prepared(ada, how)
            points, found = await timed(interrupted(ada, how, sql))
            assert isinstance(found, list)
            assert len(found) == 4
            assert on_a_point(points)
            assert 1 <= points < 2
            await ada.ask("RESET statement_timeout")
            await ada.ask(sql)
            assert any("reused, epsilon 0" in notice for notice in ada.notices)


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_it_is_heeded_on_the_next_point(slow: Town, how: str) -> None:
    engine_takes(slow, 20)
    async with slow.client() as ada:
        await prepared(ada, how)
        points, found = await timed(interrupted(ada, how, SQL.format(300 + len(how))))
        assert found == "57014"
        assert on_a_point(points)
        assert points < 3
    await slow.datasets["town"].paid.stop()


async def test_a_client_that_leaves_learns_nothing_from_what_is_stored(slow: Town) -> None:
    """It is stored on the same point, whenever it ended before."""
    for i, seconds in enumerate((EARLY, LATE)):
        engine_takes(slow, seconds)
        sql = SQL.format(400 + i)
        async with slow.client() as ada:
            began, lines = time.monotonic(), len(slow.datasets["town"].answered)
            asking = asyncio.ensure_future(ada.ask(sql))
            await asyncio.sleep(ASKS_AT)
            await ada.connection.close()
            with pytest.raises(psycopg.Error):
                await asking
        assert len(slow.datasets["town"].answered) == lines + 1
        while (kept := slow.datasets["town"].answered[-1]).outcome != "kept":
            assert kept.outcome == "running"
            await asyncio.sleep(0.01)
        points = (time.monotonic() - began) / QUANTUM
        assert on_a_point(points)
        assert 1 <= points < 2
        async with slow.client() as ada:
            await ada.ask(sql)
            assert any("reused, epsilon 0" in notice for notice in ada.notices)


async def test_without_a_grid_all_is_as_soon_as_may_be(tmp_path: Path) -> None:
    async with town(tmp_path) as world, world.client() as ada:
        engine_takes(world, 20)
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            await interrupted(ada, "cancel", SQL.format(1))
        assert time.monotonic() - began < 5
