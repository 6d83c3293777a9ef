"""Who may end a statement, and when: a cancel request, the client's own `statement_timeout`, the operator's limit.

Knows: reasons, waiting. Must not know: what is waited for. There is one of these for a statement, however many answers it takes.

Before its first charge a statement ends at once, also while it is planned, as in PostgreSQL, and costs nothing. What is charged
does not end: it is measured to its end and kept (`paid`), and only the client stops waiting. With a time grid (`grid`) it stops
on a point, where what is through by then is shown all the same: so nobody is told more than between which two points it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from dpproxy.answers.time_grid import Grid
from dpproxy.errors import QUERY_CANCELED, Refusal
from dpproxy.privacy.loss import ZERO, Loss

T = TypeVar("T")

GOES_ON = "What was charged is measured to its end and kept."
ASK_AGAIN = "Ask again to get it at no further charge."
USER, TIMEOUT = "user request", "statement timeout"


class Ending:
    """Is asked to end one statement, and heard by it. `reason`: why it is to end, in PostgreSQL's words; None as long as nobody
    wants that. `began`: by the loop's clock; `paid`: what it was charged and nobody was told of yet."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.began = asyncio.get_running_loop().time()
        self.paid: Loss = ZERO
        self._heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting = False
        self._grid: Grid | None = None
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, seconds: float | None) -> None:
        """Set the client's own `statement_timeout`, from the first time it is told on; the proxy's holds besides
        (`session_limits.Watch`)."""
        if seconds and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.ask, TIMEOUT)

    def over(self) -> None:
        """Stop the clock: the statement has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def ask(self, reason: str) -> bool:
        """Ask the statement to end. Return whether it stops, or will: else something outside of the proxy may be at work for
        it."""
        self.reason = self.reason or reason
        if self._grid:
            self._grid.then(self._heed)
            return True
        self._heed()
        return self._waiting

    def charged(self, grid: Grid, loss: Loss = ZERO) -> None:
        """Note a charge: from here on time depends on data, and the statement ends on points of the grid."""
        self._grid = grid
        self.paid = self.paid + loss

    def _heed(self) -> None:
        if not self._heard.done():
            self._heard.set_result(None)

    def check(self) -> None:
        """Raises Refusal when it is to end."""
        if self._heard.done():
            told = (GOES_ON, ASK_AGAIN) if self._grid is not None else (None, None)
            raise Refusal(QUERY_CANCELED, f"canceling statement due to {self.reason}", None, *told)

    async def race(self, work: Awaitable[T]) -> T:
        """Return what `work` gives, which costs nothing; it is cancelled when the statement is to end: then raises Refusal."""
        running: asyncio.Future[T] = asyncio.ensure_future(work)
        try:
            await self._either(running)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait([running])
        if running.cancelled():
            self.check()
        return running.result()

    async def outlasted(self, paid: asyncio.Task[T], through: Callable[[], bool]) -> T:
        """Return what `paid` comes to. It goes on when the statement is to end: then raises Refusal, unless it is all but
        `through`."""
        await self._either(paid)
        if not paid.done() and not through():
            self.check()
        return await asyncio.shield(paid)

    async def _either(self, running: asyncio.Future[Any]) -> None:
        self._waiting = True
        try:
            await asyncio.wait([running, self._heard], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting = False
