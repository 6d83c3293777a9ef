"""Which state of the data an answer is of: stored answers are of one state, and a new one is measured, and paid for, anew.

Knows: policies, clocks, file times, one integer a backend may be asked for. Must not know: private data. What an epoch is
made of is public: whoever asks sees by the charge that it changed. So a file's time counts, its size does not; a query
may read public tables only (checked when a dataset is opened, as far as tables are listed in the policy).
"""

from __future__ import annotations

import datetime as dt
import os
import re
from dataclasses import dataclass
from typing import Protocol

from dpproxy.backends.base import Backend
from dpproxy.policy.model import DuckDBBackend, Policy
from dpproxy.policy.scalars import reload_time

CHANGING_SECONDS = 24 * 3600
"""How long an answer of data that may change unnoticed is reused, unless the policy says `reuse_answers`."""

_QUERY = re.compile(r"\s*(select|with)\s", re.IGNORECASE)


class Epoch(Protocol):
    async def current(self, now: dt.datetime) -> str:
        """Raises BackendError."""
        ...


@dataclass(frozen=True)
class Named:
    """The policy's own name for the state of the data, or that of a file that cannot change while it is open."""

    name: str

    async def current(self, now: dt.datetime) -> str:
        return self.name


@dataclass(frozen=True)
class Reloaded:
    """A new epoch every day at a time (UTC)."""

    at: dt.time

    async def current(self, now: dt.datetime) -> str:
        since = dt.timedelta(hours=self.at.hour, minutes=self.at.minute)
        return f"reload {(now.astimezone(dt.UTC) - since).date().isoformat()}"


@dataclass(frozen=True)
class Queried:
    """A whole number that public tables tell."""

    query: str
    backend: Backend

    async def current(self, now: dt.datetime) -> str:
        (version,) = await self.backend.violations([self.query])
        return f"version {version}"


def epoch_query(policy: Policy) -> str | None:
    """The query of a policy whose epoch is one."""
    return policy.epoch if policy.epoch is not None and _QUERY.match(policy.epoch) else None


def epoch_of(policy: Policy, backend: Backend, opened: str) -> Epoch:
    """As the policy says, else `opened` (`state_of`)."""
    query = epoch_query(policy)
    if query is not None:
        return Queried(query, backend)
    at = reload_time(policy.epoch) if policy.epoch is not None else None
    return Reloaded(at) if at is not None else Named(opened if policy.epoch is None else f"named {policy.epoch}")


def state_of(policy: Policy) -> str:
    """The state of a file about to be opened: a DuckDB file cannot change while the proxy has it open."""
    if not isinstance(policy.backend, DuckDBBackend):
        return ""
    try:
        return f"{policy.backend.path} {os.stat(policy.backend.path).st_mtime_ns}"
    except OSError:
        return policy.backend.path  # opening it will say why


def max_age(policy: Policy) -> dt.timedelta | None:
    """How long answers are reused; None: as long as the epoch lasts."""
    if policy.reuse_seconds is not None:
        return dt.timedelta(seconds=policy.reuse_seconds)
    unnoticed = policy.epoch is None and not isinstance(policy.backend, DuckDBBackend)
    return dt.timedelta(seconds=CHANGING_SECONDS) if unnoticed else None
