"""Measurements that are charged and not yet through. They belong to the dataset, not to the session that asked for them.

Knows: tasks, roles, why nobody waits any more. Must not know: measurements, protocols. What is charged is finished and kept,
whatever becomes of the client: a cancel request, a timeout of the client's own, a lost connection. So nobody can end it at a
moment that depends on data, and nobody pays twice for what he was not shown. Only the operator ends it: by
`--statement-timeout`, by stopping.

Where answers are not stored (`reuse_answers: off`) an answer that its client did not wait for is kept here, in memory, for the
role that paid: it is shown once, to who asks for the same within `KEPT`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter, OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog

from dpproxy.mechanisms.exact_answers import Released
from dpproxy.privacy.measurement import Measurement

LOG = structlog.get_logger()

KEPT: Final = dt.timedelta(minutes=10)
"""As long as a statement may take by default: data that may change at any moment are hardly other ones by then."""
MOST_KEPT: Final = 100
MOST_NUMBERS: Final = 1_000_000
"""Of one answer that is kept in memory: 8 MB."""

LOST: Final = "client lost"
"""Why nobody waits, beside what PostgreSQL says of cancelled statements."""

T = TypeVar("T")
Key = tuple[str, tuple[str, ...]]
"""A role, and the generated statements of a measurement."""


@dataclass(frozen=True)
class UntoldAnswer:
    measurement: Measurement
    released: Released
    made: dt.datetime


class PaidMeasurements:
    """Holds what is charged and not yet through, of one dataset, in one event loop. `untold` counts by role, why nobody waited,
    and whether the answer is kept or lost."""

    def __init__(self) -> None:
        self.untold: Counter[tuple[str, str, str]] = Counter()
        self._running: set[asyncio.Task[Any]] = set()
        self._kept: OrderedDict[Key, UntoldAnswer] = OrderedDict()
        self._waited: dict[Key, asyncio.Future[None]] = {}  # under way, and nobody waits

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits has been told; nobody may be waiting

    def left(self, dataset: str, role: str, reason: str, kept: bool, statement: str) -> None:
        """Note that a client was not told what was charged."""
        outcome = "kept" if kept else "lost"
        self.untold[role, reason, outcome] += 1
        LOG.warning("paid and not told", dataset=dataset, role=role, reason=reason, outcome=outcome, statement=statement)

    @property
    def running(self) -> int:
        """Return how many rounds are charged and not through."""
        return len(self._running)

    # where nothing is stored

    def expect(self, key: Key) -> None:
        """Expect a measurement that is under way, and whose asker has gone."""
        self._waited.setdefault(key, asyncio.get_running_loop().create_future())

    def keep(self, key: Key, kept: UntoldAnswer | None) -> None:
        """Keep an answer that nobody waited for; None if it failed."""
        expected = self._waited.pop(key, None)
        if expected is not None:
            expected.set_result(None)
        if kept is None or kept.released.rows * (len(kept.released.keys) + len(kept.released.values)) > MOST_NUMBERS:
            return
        self._kept[key] = kept
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    async def take(self, key: Key, measurement: Measurement) -> UntoldAnswer | None:
        """Wait for what is under way, and return it; it is not kept any longer."""
        if key in self._waited:
            await asyncio.wait([self._waited[key]])
        kept = self._kept.get(key)
        if kept is None or kept.measurement != measurement:
            return None
        del self._kept[key]
        return kept if dt.datetime.now(dt.UTC) - kept.made < KEPT else None

    # the end

    async def finish(self, seconds: float) -> None:
        """Wait for what runs; end what takes longer: its charge stands."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        await self.stop()

    async def stop(self) -> None:
        for task in (running := list(self._running)):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
