"""Measuring has threads of its own: however many questions wait in the loop's, what was measured gets on, and the other way round."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpproxy.backends.base import BackendError, in_measuring_thread
from tests.worlds.waiting import SAFETY


async def test_it_does_not_wait_for_the_loops_threads() -> None:
    loop, gate, begun = asyncio.get_running_loop(), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        gate.wait(SAFETY)

    loop.set_default_executor(ThreadPoolExecutor(1))
    waiting = asyncio.ensure_future(asyncio.to_thread(wait))
    behind = asyncio.ensure_future(asyncio.to_thread(lambda: "told"))
    try:
        async with asyncio.timeout(SAFETY):
            await in_measuring_thread(begun.wait)
            assert await in_measuring_thread(lambda: "measured") == "measured"
            assert not behind.done(), "every thread of the loop's is taken"
    finally:
        gate.set()
    assert await behind == "told"
    await waiting


async def test_what_it_raises_is_raised() -> None:
    def fail() -> None:
        raise BackendError("away")

    with pytest.raises(BackendError, match="away"):
        await in_measuring_thread(fail)


async def test_it_is_beside_the_loop() -> None:
    assert await in_measuring_thread(threading.current_thread) is not threading.current_thread()
