"""Who may end a statement, and when: a cancel request, the client's own `statement_timeout`, the operator's limit.

Knows: reasons, waiting. Must not know: what is waited for. There is one of these for a statement, however many answers it takes.

Before its first charge a statement ends at once, also while it is planned, as in PostgreSQL, and costs nothing. What is charged
does not end: it is measured to its end and kept (`paid`), and only the client stops waiting. With a time grid (`grid`) it stops
on a point, where what is through by then is shown all the same: so nobody is told more than between which two points it ended.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import structlog

from dpproxy.backends.base import BackendError
from dpproxy.errors import INTERNAL_ERROR, QUERY_CANCELED, Refusal
from dpproxy.ledger.ledger import LedgerError, Suspended
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.telemetry.log import places

# When what was asked of data may show: on the points of the policy's time grid (`timing.quantum`).
#
# Knows: clocks. Must not know: answers, data. How long a measurement takes may depend on one person's rows. With a grid nobody
# learns more than between which two of its points it ended, whatever a client does: an answer, a failure and a cancelled
# statement leave on a point; what is stored, and can be asked again at no charge, is stored on one; and a cancel request or a
# `statement_timeout`, which ask "are you through?" at a moment of the client's choice, are heeded on the next one.


class Grid:
    """Points every `quantum_ms` milliseconds after it was made; None: every moment is a point. False is a grid without
    points."""

    def __init__(self, quantum_ms: int | None) -> None:
        self._quantum = (quantum_ms or 0) / 1000
        self._began = time.monotonic()

    def __bool__(self) -> bool:
        return self._quantum > 0

    @property
    def wait(self) -> float:
        """Return seconds to the next point."""
        return (self._began - time.monotonic()) % self._quantum if self else 0.0

    async def reached(self) -> None:
        if self:
            await asyncio.sleep(self.wait)

    def then(self, work: Callable[[], object]) -> None:
        """Do something on the next point."""
        asyncio.get_running_loop().call_later(self.wait, work)


T = TypeVar("T")

GOES_ON = "What was charged is measured to its end and kept."
ASK_AGAIN = "Ask again to get it at no further charge."
USER, TIMEOUT = "user request", "statement timeout"


class Ending:
    """A request to end one statement. `reason`: why it is to end, in PostgreSQL's words; None as long as nobody
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
        """Set the client's own `statement_timeout`, from its first statement on; the proxy's holds too
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


# How a statement fails, beside a refusal of the proxy's own: by the facade's error, or by what must not happen.
#
# Knows: errors, the log. Must not know: what was being done. A client hears the facade's error as it is (`StatementFailed`). Of
# what must not happen the operator's log has the place, and a client a number by which to ask for it. The text of an exception
# may hold a literal or a value of the data, so it is logged for those classes alone whose texts are made without (`PLAIN`).


LOG = structlog.get_logger()
PLAIN: Final = (BackendError, LedgerError, OSError)


class StatementFailed(Exception):
    """The facade refused: `raw` is its ErrorResponse, for the client as it is."""

    def __init__(self, raw: bytes) -> None:
        super().__init__("the facade refused the statement")
        self.raw = raw


def incident(error: BaseException, **context: object) -> str:
    """Log an unexpected error for the operator; returns the number by which a client may name it."""
    number = uuid.uuid4().hex[:12]
    text = {"text": str(error)} if isinstance(error, PLAIN) else {}
    LOG.error("incident", incident=number, **places(error), **text, **context)
    return number


def suspended_refusal(suspended: Suspended, dataset: str) -> Refusal:
    """Log why nothing is charged, and return the client's error."""
    LOG.error("nothing is charged", dataset=dataset, text=str(suspended))
    return suspended.refusal()


def internal(error: BaseException, **context: object) -> Refusal:
    """Log an error, and return the one text a client gets for something that must not happen."""
    return Refusal(
        INTERNAL_ERROR,
        f"internal error, incident {incident(error, **context)}",
        hint="Tell the operator this number: the log has it.",
    )
