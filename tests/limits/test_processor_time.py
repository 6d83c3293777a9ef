"""Processor time is put down to whoever the work is for, in tasks and in threads; what is waited for is not."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass

import pytest

from dpproxy.limits.side_threads import SLICE, SideThreads, breathe, metered

pytestmark = pytest.mark.asyncio


@dataclass
class Payer:
    fresh: float = 0.0
    resumed: float = 0.0
    place: None = None


def work(seconds: float = 0.02) -> None:
    """Take this much of the thread's processor."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_what_is_done_between_waits_is_put_down() -> None:
    payer = Payer()

    async def whole() -> str:
        work()
        await asyncio.sleep(0.05)
        work()
        return "done"

    def of_others() -> None:
        work(0.2)

    asyncio.get_running_loop().call_soon(of_others)
    assert await metered(whole, payer) == "done"
    assert 0.04 <= payer.fresh < 0.2


async def test_work_in_a_thread_is_put_down() -> None:
    payer, threads = Payer(), SideThreads(1)
    await metered(lambda: threads.run(work), payer)
    assert payer.fresh >= 0.02
    await threads.run(work)
    assert payer.fresh < 0.04, "nobody's"


async def test_errors_and_cancellations_pass_through() -> None:
    payer = Payer()

    async def fails() -> None:
        await asyncio.sleep(0)
        work()
        raise ValueError("reason")

    with pytest.raises(ValueError, match="reason"):
        await metered(fails, payer)
    assert payer.fresh >= 0.02
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            work()
            ended.set()

    task = asyncio.ensure_future(metered(waits, payer))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert payer.fresh >= 0.04


async def test_whoever_works_on_after_a_cancellation_does() -> None:
    begun = asyncio.Event()

    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "on"

    task = asyncio.ensure_future(metered(stubborn, Payer()))
    await begun.wait()
    task.cancel()
    assert await task == "on"


async def test_work_that_goes_on_lets_others_have_the_loop_after_a_slice() -> None:
    """Counted on a clock of the test: each step is a tenth of a slice, and others run after each eleven."""
    payer, done, others = Payer(), 0, []

    def clock() -> float:
        return payer.resumed + (done - (others[-1] if others else 0)) * SLICE / 10

    async def whole() -> None:
        nonlocal done
        for _ in range(100):
            await breathe(payer, clock)
            done += 1

    async def other() -> None:
        while done < 100:
            others.append(done)
            await asyncio.sleep(0)

    await asyncio.gather(metered(whole, payer), other())
    steps = [b - a for a, b in itertools.pairwise(others)]
    assert max(steps) <= 11
    assert len(others) >= 9


async def test_a_slice_begins_when_work_goes_on() -> None:
    payer = Payer()

    async def whole() -> tuple[float, float]:
        first = payer.resumed
        work()
        await asyncio.sleep(0)
        return first, payer.resumed

    first, second = await metered(whole, payer)
    assert second - first >= 0.02
