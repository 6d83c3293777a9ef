"""An epoch that has to be asked for, asked for beside the statements: none of them waits for the answer.

Knows: clocks, an epoch. Must not know: backends, data. How long the question takes depends on what else the engine does; and
what that is depends on data. So statements take what was told last, which is a second or two old, whatever takes long; only
when nobody has asked for a while, or nothing has been told for `STALE` seconds (whoever loads data locks their tables), they
wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from typing import Final

from dpproxy.backends.base import BackendError
from dpproxy.reuse.data_epoch import Epoch

EVERY: Final = 1.0
"""Seconds between two questions, as long as there are statements."""
STALE: Final = 10.0
IDLE: Final = 60.0
"""Seconds without a statement after which the engine is left in peace."""


class Refreshed:
    """Keeps an epoch at hand and asks for it anew; for one event loop."""

    def __init__(self, epoch: Epoch, every: float = EVERY) -> None:
        self._epoch, self._every = epoch, every
        self._told: str | BackendError | None = None
        self._at = self._wanted = 0.0  # when it was told last, and asked for
        self._news = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    async def current(self, now: dt.datetime) -> str:
        loop = asyncio.get_running_loop()
        self._wanted = loop.time()
        if self._asking is None or self._asking.done():
            self._told, self._asking = None, asyncio.ensure_future(self._ask())
        while self._told is None or loop.time() - self._at > STALE:
            self._news.clear()
            await self._news.wait()
        if isinstance(self._told, BackendError):
            raise BackendError(str(self._told))
        return self._told

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() - self._wanted < IDLE:
            try:
                self._told = await self._epoch.current(dt.datetime.now(dt.UTC))
            except BackendError as error:
                self._told = error
            except Exception as error:
                self._told = BackendError(type(error).__name__)
            self._at = loop.time()
            self._news.set()
            await asyncio.sleep(self._every)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._asking
