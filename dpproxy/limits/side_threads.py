"""Work of the processor beside the loop, so that other sessions go on, and so that the proxy can end while it lasts.

Knows: threads, the loop. Must not know: statements. The threads are no executor's: those are waited for when the process ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from dpproxy.limits.processor_time import put_down

T = TypeVar("T")


class Race(Protocol):
    """Waits for work that costs nothing, and cancels it when the statement is to end: then it raises Refusal (`ending`)."""

    def __call__(self, work: Awaitable[T], /) -> Awaitable[T]: ...


class SideThreads:
    """Runs some pieces of work at a time; others wait for their turn. Who waits may be cancelled: what has begun is asked to
    stop, and has its place until it has ended."""

    def __init__(self, places: int) -> None:
        self._free = asyncio.Semaphore(places)

    async def run(self, work: Callable[[], T], stop: Callable[[], object] = lambda: None) -> T:
        """Return what `work` gives or raises. `stop`: asks it to stop, where it can; called when nobody waits any more."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context, put = contextvars.copy_context(), put_down()

        def settle(result: T | None, error: BaseException | None, seconds: float) -> None:
            self._free.release()
            put(seconds)
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def whole() -> None:
            result, error = None, None
            try:
                result = context.run(work)
            except BaseException as caught:
                error = caught
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, error, time.thread_time())

        try:
            threading.Thread(target=whole, name="dpproxy-aside", daemon=True).start()
        except BaseException:
            self._free.release()
            raise
        try:
            return await done
        finally:
            stop()
