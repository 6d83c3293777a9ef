"""A dashboard of 40 charts, replayed by many users: it costs exactly its first run, and answers at once.

By `pytest -m long` ten users replay it 50 times each, else four users 4 times: each user asks in each of the words.
The figures are printed. Medians are of whole statements through the wire, with one client at a time: of texts that were
asked before, as dashboards do, and of other words for them, which have to be planned first. The promise is of the former.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
import pytest_asyncio

from tests.worlds.town import Client, Town, town

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEASURES = ("count(*)", "sum(income)", "avg(income)", "count(*), sum(income)")
WHERES = ("income >= 0", "income > 1000", "sex = 'F'", "sex = 'M'", "income < 4000")
CHARTS = [
    f"SELECT {key}, {m} FROM people WHERE {w} GROUP BY {key}" for m in MEASURES for w in WHERES for key in ("region", "sex")
]


@pytest_asyncio.fixture(loop_scope="module")
async def world(tmp_path: Path) -> AsyncIterator[Town]:
    async with town(tmp_path) as made:
        yield made


def rewritten(chart: str, replay: int) -> str:
    """What BI tools do to a chart: one of four texts."""
    return (f"{chart} ORDER BY 1", f"SELECT * FROM ({chart}) AS t LIMIT 1000", chart, f"/* bi */ {chart}")[replay % 4]


async def replay(client: Client, expected: list[object], number: int) -> list[float]:
    times = []
    for chart, rows in zip(CHARTS, expected, strict=True):
        began = time.perf_counter()
        assert await client.ask(rewritten(chart, number)) == rows
        times.append(time.perf_counter() - began)
    return times


@pytest.mark.slow
@pytest.mark.parametrize(("users", "replays"), [(4, 4), pytest.param(10, 50, marks=pytest.mark.long)])
async def test_a_dashboard_costs_its_first_run(users: int, replays: int, world: Town, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(CHARTS) == len(set(CHARTS)) == 40
    async with world.client() as first:
        await first.ask("SET dpproxy.epsilon = 0.1")
        expected: list[object] = [await first.ask(chart) for chart in CHARTS]
        cost, asked = world.account(), len(world.backend.asked)
        assert cost["analyst"] == cost["all"] == 40 * Decimal("0.1")
        reworded = [t for n in range(4) for t in await replay(first, expected, n)]
        times = [t for n in range(4, 4 + replays) for t in await replay(first, expected, n)]

        async def user(number: int) -> None:
            async with world.client("ada" if number % 2 else "bob") as client:
                await client.ask("SET dpproxy.epsilon = 0.1")
                for n in range(replays):
                    await replay(client, expected, n)

        began = time.perf_counter()
        await asyncio.gather(*(user(n) for n in range(users)))
        seconds = time.perf_counter() - began
        assert world.account() == cost
        assert len(world.backend.asked) == asked
    median = statistics.median(times)
    answers = users * replays * len(CHARTS)
    with capsys.disabled():
        print(f"\nreuse: 40 charts x {replays} x {users} users cost epsilon {cost['analyst']}, their first run; ", end="")
        print(
            f"median {median * 1000:.2f} ms, {statistics.median(reworded) * 1000:.2f} ms in new words; {answers / seconds:.0f} answers/s by {users} users"
        )
