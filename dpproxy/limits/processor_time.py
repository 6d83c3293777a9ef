"""Processor time, put down to whoever the work is for.

Knows: coroutines, threads' clocks. Must not know: sessions, what the work is. What a task does between two waits is measured as
it is done; a thread that works for it is measured by itself. A charged round, a task of its own that outlives who asked, is not
counted: the loop works 0.7 milliseconds for it, beside some five for the statement that asked. Who is worked for is a part of
the context, which tasks and threads take over from those who start them.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from functools import partial
from time import thread_time
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")


SLICE: Final = 0.003
"""Seconds of processor after which work that goes on message by message lets others have the loop."""


class Payer(Protocol):
    """Is who the work is for. `fresh`: seconds that were taken; only the loop's thread adds to it. `resumed`: the thread's
    processor time when its work last began or went on."""

    fresh: float
    resumed: float


_payer: ContextVar[Payer | None] = ContextVar("dpproxy_payer", default=None)


async def metered(work: Callable[[], Coroutine[Any, Any, T]], payer: Payer) -> T:
    """Return what `work` gives; the processor time it takes in this thread is put down to `payer`. A task that is cancelled
    before it runs has not called `work`."""
    before = _payer.set(payer)
    try:
        return await _driven(work(), payer)
    finally:
        _payer.reset(before)


@types.coroutine
def _driven(work: Coroutine[Any, Any, T], payer: Payer) -> Generator[Any, Any, T]:
    """From each wait to the next; what it waits for, and how that ends, is passed through."""
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        began = payer.resumed = thread_time()
        try:
            awaited = step()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            payer.fresh += thread_time() - began
        try:
            step = partial(work.send, (yield awaited))
        except BaseException as error:  # a cancellation, too, is the work's
            step = partial(work.throw, error)


async def breathe(payer: Payer, clock: Callable[[], float] = thread_time) -> None:
    """Return to the loop, which goes on here after everybody else, if the work for this payer has had it for a `SLICE`."""
    if clock() - payer.resumed > SLICE:
        await asyncio.sleep(0)


def put_down() -> Callable[[float], None]:
    """Return what takes down seconds that another thread took for whoever this is done for; it is called in the loop's thread."""
    payer = _payer.get()

    def add(seconds: float) -> None:
        if payer is not None:
            payer.fresh += seconds

    return add
