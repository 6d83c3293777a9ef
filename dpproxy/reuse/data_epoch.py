"""Which state of the data an answer is of: stored answers are of one state, and a new one is measured, and paid for, anew.

Knows: policies, clocks, what a backend says of the data it has open, one integer it may be asked for. Must not know: private
data. What an epoch is made of is public: whoever asks sees by the charge that it changed. A file that was replaced is another
whatever is in it, so that the charge does not tell whether anything in it is; a query may read public tables only (checked
when a dataset is opened, as far as tables are listed in the policy).

Whatever a policy says of epochs, data of other tables, columns or types are other data (`shape_of`).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from dataclasses import dataclass
from typing import Protocol

from dpproxy.backends.base import Backend
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
