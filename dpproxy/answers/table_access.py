"""Which tables cannot be read any more: renamed, dropped, of other columns, or the right to read them withdrawn.

Knows: tables, who looks. Must not know: engines, SQL. When something fails after its charge, a look follows before its client
is told: so the next statement that reads such a table is refused before its charge, and so is each other, until a look sees the
table whole. Of a table that is closed each statement looks anew; those that ask at once share a look.

A refusal tells nothing of rows. A failure, which may depend on them, decides no more than when there is a look. What the look
sees is names, types and rights (`policy.probes` read no row). And who is told of the failure waits for the look, nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

import structlog

from dpproxy.backends.base import BackendError
from dpproxy.errors import OBJECT_NOT_IN_PREREQUISITE_STATE, Refusal
from dpproxy.table_terms import TableName

LOG = structlog.get_logger()

PATIENCE: Final = 5.0
"""Seconds that a client who is told of a failure waits for the look at most; the look goes on."""
NOT_THERE: Final = Refusal(
    OBJECT_NOT_IN_PREREQUISITE_STATE,
    "the data are not as the policy describes them",
    detail="A table or a column of the statement is not there, or may not be read. Nothing was charged.",
    hint="Tell the operator: the reason is in the proxy's log only.",
)
FIX: Final = "make the table as the policy describes it, or change the policy and reload"

Look = Callable[[], Awaitable[Mapping[TableName, str]]]
"""Says of each table that cannot be read why, to the operator. Raises BackendError where the engine does not answer."""


class TableAccess:
    """Keeps what the last look saw; for one event loop. `look`: None where data cannot change while they are open."""

    def __init__(self, look: Look | None = None, dataset: str = "") -> None:
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
