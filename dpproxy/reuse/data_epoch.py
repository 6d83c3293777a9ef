"""Which state of the data an answer is of: stored answers are of one state, and a new one is measured, and paid for, anew.

Knows: policies, clocks, what a backend says of the data it has open, one integer it may be asked for. Must not know: private
data. What an epoch is made of is public: whoever asks sees by the charge that it changed. A file that was replaced is another
whatever is in it, so that the charge does not tell whether anything in it is; a query may read public tables only (checked
when a dataset is opened, as far as tables are listed in the policy).

Whatever a policy says of epochs, data of other tables, columns or types are other data (`shape_of`).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import re
from dataclasses import dataclass
from typing import Final, Protocol

from dpproxy.backends.base import Backend, BackendError
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.policy.scalars import reload_time

CHANGING_SECONDS = 24 * 3600
"""How long an answer of data that may change unnoticed is reused, unless the policy says `reuse_answers`."""

_QUERY = re.compile(r"\s*(select|with)\s", re.IGNORECASE)


class Epoch(Protocol):
    async def current(self, now: dt.datetime) -> str:
        """Return the epoch of the data as they are now. Raises BackendError."""
        ...


@dataclass(frozen=True)
class Named:
    """The policy's own name for the state of the data, or that of a file that cannot change while it is open."""

    name: str

    async def current(self, now: dt.datetime) -> str:
        return self.name


@dataclass
class Reloaded:
    """A new epoch every day at a time (UTC), of the data that are open. No epoch comes again when a clock is set back."""

    at: dt.time
    opened: str = ""
    _latest: dt.date = dt.date.min

    async def current(self, now: dt.datetime) -> str:
        since = dt.timedelta(hours=self.at.hour, minutes=self.at.minute)
        self._latest = max(self._latest, (now.astimezone(dt.UTC) - since).date())
        return f"reload {self._latest.isoformat()} {self.opened}"


@dataclass(frozen=True)
class Queried:
    """Reads the epoch from public tables, which tell a whole number."""

    query: str
    backend: Backend
    shape: str = ""

    async def current(self, now: dt.datetime) -> str:
        return f"version {await self.backend.number(self.query)} {self.shape}"


def epoch_query(policy: Policy) -> str | None:
    """Return the query of a policy whose epoch is one."""
    return policy.epoch if policy.epoch is not None and _QUERY.match(policy.epoch) else None


def epoch_of(policy: Policy, backend: Backend, opened: str, shape: str = "") -> Epoch:
    """Return the epoch as the policy says, else the data that are open (`Backend.state`). A policy's own name, or number, says
    what it names: that the data of a file put in place of another are the same, too."""
    query = epoch_query(policy)
    if query is not None:
        return Queried(query, backend, shape)
    at = reload_time(policy.epoch) if policy.epoch is not None else None
    if at is not None:
        return Reloaded(at, f"{opened} {shape}")
    return Named(f"opened {opened} {shape}" if policy.epoch is None else f"named {policy.epoch} {shape}")


def shape_of(policy: Policy, catalog: Catalog) -> str:
    """Return a digest of the policy's tables as they are in the data: columns, types, keys."""
    found = []
    for name in sorted(policy.tables, key=str):
        table = catalog.tables[name]
        columns = [(c.name, c.source, c.type, c.nullable, c.bounded, c.exact, c.collated) for c in table.columns]
        found.append((str(name), table.source, sorted(columns), table.primary_key, sorted(table.unique)))
    return hashlib.sha256(repr(found).encode()).hexdigest()


def max_age(policy: Policy, opened: str) -> dt.timedelta | None:
    """Return how long answers of the data that are `opened` (`Backend.state`) are reused; None: as long as the epoch lasts."""
    if policy.reuse_seconds is not None:
        return dt.timedelta(seconds=policy.reuse_seconds)
    unnoticed = policy.epoch is None and not opened
    return dt.timedelta(seconds=CHANGING_SECONDS) if unnoticed else None


# An epoch that has to be asked for, asked for beside the statements: none of them waits for the answer.
#
# Knows: clocks, an epoch. Must not know: backends, data. How long the question takes depends on what else the engine does; and
# what that is depends on data. So statements take what was told last, which is a second or two old, whatever takes long; only
# when nobody has asked for a while, or nothing has been told for `STALE` seconds (whoever loads data locks their tables), they
# wait.


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
