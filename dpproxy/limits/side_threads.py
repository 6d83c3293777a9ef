"""Work of the processor beside the loop, so that other sessions go on, and so that the proxy can end while it lasts.

Knows: threads, the loop. Must not know: statements. The threads are no executor's: those are waited for when the process ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from time import thread_time
from typing import Any, Final, Protocol, TypeVar

from dpproxy.errors import TOO_MANY_CONNECTIONS, Refusal
from dpproxy.limits.rota import SLICE, Order, Path, Place

# Processor time, put down to whoever the work is for.
#
# Knows: coroutines, threads' clocks. Must not know: sessions, what the work is. What a task does between two waits is measured
# as it is done; a thread that works for it is measured by itself. A charged round, a task of its own that outlives who asked,
# is not counted: the loop works 0.7 milliseconds for it, beside some five for the statement that asked. Who is worked for is a
# part of the context, which tasks and threads take over from those who start them.


class Payer(Protocol):
    """Who the work is for. `fresh`: seconds that were taken; only the loop's thread adds to it. `resumed`: the thread's
    processor time when its work last began or went on. `place`: where it waits for the loop, if it does."""

    fresh: float
    resumed: float
    place: Place | None


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
    """From each wait to the next; what it waits for, and how that ends, is passed through. Before it goes on it may have to
    wait for the loop, since others wait, too."""
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        if payer.place is not None and not payer.place.passes():
            try:
                yield from payer.place.turn()
            except BaseException as error:
                step = partial(work.throw, error)
        began = payer.resumed = thread_time()
        try:
            awaited = step()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            took = thread_time() - began
            payer.fresh += took
            if payer.place is not None:
                payer.place.took(took)
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


T = TypeVar("T")


class Race(Protocol):
    """Waits for work that costs nothing, and cancels it when the statement is to end: then it raises Refusal (`ending`)."""

    def __call__(self, work: Awaitable[T], /) -> Awaitable[T]: ...


def _payers_path() -> Path:
    """The role and the user whom the work is for."""
    payer = _payer.get()
    return payer.place.path if payer is not None and payer.place is not None else ("", "")


class SideThreads:
    """Runs some pieces of work at a time; others wait for their turn, roles and users one after the other (`rota.Order`): however
    much one of them has waiting, another's piece begins as soon as some that run have ended. Who waits may be cancelled: what
    has begun is asked to stop, and has its place until it has ended."""

    def __init__(self, places: int) -> None:
        self._places, self._running = places, 0
        self._line: Order[asyncio.Future[None]] = Order()

    async def _turn(self, path: Path) -> None:
        """Wait for a place, and take it."""
        if self._running < self._places and not self._line:
            self._running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.put(path, turn)
        try:
            await turn
        except BaseException:
            if not turn.cancelled():  # the place came at the same moment
                self._left(path, 0.0)
            raise

    def _left(self, path: Path, seconds: float) -> None:
        """Give a place to who is next."""
        self._line.charge(path, seconds)
        while self._line:
            turn = self._line.take()
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1
        if not self._running:
            self._line.forget()

    async def run(self, work: Callable[[], T], stop: Callable[[], object] = lambda: None) -> T:
        """Return what `work` gives or raises. `stop`: asks it to stop, where it can; called when nobody waits any more."""
        path = _payers_path()
        await self._turn(path)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context, put = contextvars.copy_context(), put_down()

        def settle(result: T | None, error: BaseException | None, seconds: float) -> None:
            self._left(path, seconds)
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
            self._left(path, 0.0)
            raise
        try:
            return await done
        finally:
            stop()


# Places on the engine: a measurement takes one before it is charged, and each role has its own.
#
# Knows: names of roles, numbers. Must not know: engines, charges. The places are dealt out once and for all, not to who comes
# first: so what one role asks never waits for what another asks, and how long its own statements wait says nothing about the
# other's. Who waits longer than `PATIENCE` is refused, at no charge.


PATIENCE: Final = 60.0
"""Seconds: a dashboard asks for thirty answers at once, of which the last wait for the first; a frozen backend frees nobody."""

LEAST: Final = 2
"""Places of a role, however many roles there are: one slow statement does not stop all the others."""


def share(places: int, roles: int) -> int:
    """Return the places of one role, on an engine on which `places` statements run well at once."""
    return max(LEAST, places // max(roles, 1))


class Seats:
    """Deals out places on the engine: `each` is what every role has."""

    def __init__(self, each: int = 8, patience: float = PATIENCE) -> None:
        self.each, self._patience = each, patience
        self._roles: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def taken(self, role: str) -> AsyncIterator[None]:
        """Hold a place; roles' statements get theirs in the order of coming. Raises Refusal after `PATIENCE`."""
        places = self._roles.setdefault(role, asyncio.Semaphore(self.each))
        try:
            async with asyncio.timeout(self._patience):
                await places.acquire()
        except TimeoutError:
            raise self._refusal() from None
        try:
            yield
        finally:
            places.release()

    def _refusal(self) -> Refusal:
        at_once = f"{self.each} statements" if self.each > 1 else "one statement"
        return Refusal(
            TOO_MANY_CONNECTIONS,
            "too many statements of your role are being measured",
            detail=f"A role may have {at_once} measured at once; no place became free within {self._patience:g} seconds. "
            "Nothing was charged.",
            hint="Ask again when some of them have ended.",
        )
