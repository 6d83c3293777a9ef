"""Which tables are closed, since the data break a claim that plans rest on (`policy.data_claims`), where data change while they
are open.

Knows: tables, epochs, clocks. Must not know: engines, SQL, policies: who looks is handed in. Before anything is charged a
statement asks here. What it reads by a claim that no key of the database keeps was looked at in the epoch of the data that is
asked, and not long ago: else it waits for a look, which all that wait share. A look that is merely due is made beside the
statement. Looks take a twentieth of the time, however long one takes; nobody looks where nobody asks.

A look and a measurement are two snapshots: what is written between them is found by the next look alone (docs/proof.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

import structlog

from dpproxy.backends.base import BackendError
from dpproxy.errors import CANNOT_CONNECT_NOW, OBJECT_NOT_IN_PREREQUISITE_STATE, SERIALIZATION_FAILURE, Refusal
from dpproxy.reuse.data_epoch import Epoch, Named, Refreshed
from dpproxy.table_terms import TableName

LOG = structlog.get_logger()

EVERY: Final = 60.0
"""Seconds after which a look is due."""
SHARE: Final = 20
"""It is due no sooner than after so many times what the last one took."""
LATE: Final = 2
"""So many times as old as when it is due, it is waited for."""
LOOKS: Final = 5
"""A statement waits for so many looks: where each is overtaken by a new epoch, no further one would help."""


@dataclass(frozen=True)
class Closure:
    """Why a table is closed: `why` and `remedy` to whoever asks, without a number of the data; `seen` to the log."""

    why: str
    remedy: str
    seen: str


Closures = Mapping[TableName, Closure]
Look = Callable[[], Awaitable[Closures | None]]
"""Looks at the data: which tables break a claim; None where tables, columns or keys are not those that were opened. Raises
BackendError."""


class ClaimStanding:
    """Keeps what the last look saw; for one event loop. `look`: None where data cannot change while they are open: those were
    looked at before. `watched`: tables of claims that nothing but a look confirms. `epoch`: of the data that are asked."""

    def __init__(
        self,
        look: Look | None = None,
        watched: Collection[TableName] = (),
        epoch: Epoch | None = None,
        dataset: str = "",
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._watched, self._dataset, self._every, self._clock = look, frozenset(watched), dataset, every, clock
        self._epoch = epoch if epoch is not None else Named("")
        self._closed: Closures | None = {}
        self._at, self._took = clock(), 0.0  # it was looked at when it was opened
        self._seen = self._epoch.name if isinstance(self._epoch, Named) else None  # the epoch of the last look
        self._failed: BackendError | None = None
        self._looking: asyncio.Task[None] | None = None

    async def check(self, tables: Collection[TableName], outdated: Callable[[], None]) -> None:
        """Raises Refusal where a table that is read is closed, or cannot be looked at. `outdated` is called where the tables are
        others than those that were opened."""
        if self._look is None:
            return
        if not self._watched.isdisjoint(tables):
            await self._settled()
        if self._age() > 1 and not self._busy():
            self._begun()
        if self._closed is None:
            outdated()
            told = "the tables of the database have changed and are being read again"
            raise Refusal(SERIALIZATION_FAILURE, told, hint="Nothing was charged. Ask again in a moment.")
        for table in tables:
            if (closed := self._closed.get(table)) is not None:
                hint = f"Nothing was charged. The table opens again once its data are right: {closed.remedy}."
                raise Refusal(OBJECT_NOT_IN_PREREQUISITE_STATE, f"table {table} is closed: {closed.why}", hint=hint)

    async def _settled(self) -> None:
        """Wait until the epoch of the data has been looked at, lately. Raises Refusal where that cannot be."""
        try:
            for _ in range(LOOKS):
                epoch = await self._epoch.current(dt.datetime.now(dt.UTC))
                if self._seen == epoch and self._age() <= LATE:
                    return
                await asyncio.wait({self._begun()})
                if self._failed is not None:
                    raise self._failed
        except BackendError:
            told = "the data cannot be looked at: whether they are as the policy says is not known"
            hint = "Nothing was charged. Ask again later; the reason is in the proxy's log only."
            raise Refusal(CANNOT_CONNECT_NOW, told, hint=hint) from None
        told = "the data change faster than they can be looked at: whether they are as the policy says is not known"
        hint = "Nothing was charged. Ask again once the load is over; a key in the database would need no look."
        raise Refusal(CANNOT_CONNECT_NOW, told, hint=hint)

    def _age(self) -> float:
        """How old the last look is; 1 when the next one is due."""
        return (self._clock() - self._at) / max(self._every, SHARE * self._took)

    def _busy(self) -> bool:
        return self._looking is not None and not self._looking.done()

    def _begun(self) -> asyncio.Task[None]:
        """The look that is under way, or a new one. Who waits for it may leave."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._looked())
        return self._looking

    async def _looked(self) -> None:
        assert self._look is not None
        began = self._clock()
        try:
            epoch = await self._epoch.current(dt.datetime.now(dt.UTC))
            found = await self._look()
        except Exception as error:
            self._failed = error if isinstance(error, BackendError) else BackendError(type(error).__name__)
            LOG.error("the data were not looked at", dataset=self._dataset, error=str(self._failed))
            return
        self._note(found)
        self._closed, self._seen, self._failed = found, epoch, None
        self._at, self._took = self._clock(), self._clock() - began

    def _note(self, found: Closures | None) -> None:
        before, now = self._closed or {}, found or {}
        for table in now.keys() - before.keys():
            LOG.error("table closed", dataset=self._dataset, table=str(table), problem=now[table].seen, fix=now[table].remedy)
        for table in before.keys() - now.keys() if found is not None else ():
            LOG.info("table open again", dataset=self._dataset, table=str(table))

    async def close(self) -> None:
        """End what is under way."""
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking
        if isinstance(self._epoch, Refreshed):
            await self._epoch.close()


# Which tables cannot be read any more: renamed, dropped, of other columns, or the right to read them withdrawn.
#
# Knows: tables, who looks. Must not know: engines, SQL. When something fails after its charge, a look follows before its client
# is told: so the next statement that reads such a table is refused before its charge, and so is each other, until a look sees
# the table whole. Of a table that is closed each statement looks anew; those that ask at once share a look.
#
# A refusal tells nothing of rows. A failure, which may depend on them, decides no more than when there is a look. What the look
# sees is names, types and rights (`policy.grants` read no row). And who is told of the failure waits for the look, nobody else.


PATIENCE: Final = 5.0
"""Seconds that a client who is told of a failure waits for the look at most; the look goes on."""
NOT_THERE: Final = Refusal(
    OBJECT_NOT_IN_PREREQUISITE_STATE,
    "the data are not as the policy describes them",
    detail="A table or a column of the statement is not there, or may not be read. Nothing was charged.",
    hint="Tell the operator: the reason is in the proxy's log only.",
)
FIX: Final = "make the table as the policy describes it, or change the policy and reload"

AccessLook = Callable[[], Awaitable[Mapping[TableName, str]]]
"""Says of each table that cannot be read why, to the operator. Raises BackendError where the engine does not answer."""


class TableAccess:
    """Keeps what the last look saw; for one event loop. `look`: None where data cannot change while they are open."""

    def __init__(self, look: AccessLook | None = None, dataset: str = "") -> None:
        self._look, self._dataset = look, dataset
        self._closed: Mapping[TableName, str] = {}
        self._looking: asyncio.Task[None] | None = None

    async def failed(self) -> None:
        """Look, since something that was charged has failed."""
        if self._look is not None:
            await asyncio.wait({self._begun()}, timeout=PATIENCE)

    async def check(self, tables: Collection[TableName]) -> None:
        """Raises Refusal where a table that is read is closed, and still is when it is looked at."""
        if not self._closed.keys().isdisjoint(tables):
            await asyncio.wait({self._begun()})
        if not self._closed.keys().isdisjoint(tables):
            raise replace(NOT_THERE)

    def _begun(self) -> asyncio.Task[None]:
        """The look that is under way, or a new one. Who waits for it may leave."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._looked())
        return self._looking

    async def _looked(self) -> None:
        assert self._look is not None
        try:
            found = await self._look()
        except BackendError:  # the engine does not answer, as whoever asks next is told before the charge
            return
        except Exception as error:  # a fault of ours: what was seen last holds
            LOG.error("the data were not looked at", dataset=self._dataset, error=type(error).__name__)
            return
        for table in found.keys() - self._closed.keys():
            LOG.error("table closed", dataset=self._dataset, table=str(table), problem=found[table], fix=FIX)
        for table in self._closed.keys() - found.keys():
            LOG.info("table open again", dataset=self._dataset, table=str(table))
        self._closed = found

    async def close(self) -> None:
        """End what is under way."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
