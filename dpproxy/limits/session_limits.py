"""What a client may take of the proxy: connections and time.

Knows: numbers and clocks it is given. Must not know: sockets, statements, sessions' insides. Analysts can SET
PostgreSQL's own timeouts to what they like, therefore these are held here.

A timeout is not a timer for each message, which would cost the relay more than the message does: once a tick `Watch`
looks how far each session has come, and acts on those that have not moved for too long. It is late by a tick at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from dpproxy.errors import ADMIN_SHUTDOWN, IDLE_IN_TRANSACTION_TIMEOUT, IDLE_SESSION_TIMEOUT
from dpproxy.facade import usage
from dpproxy.limits.quota import Quota

TICK: Final = 1.0
"""Seconds between two looks at the sessions: 500 of them take half a millisecond."""
DRAIN_SECONDS: Final = 30.0
"""For statements that run when the server is told to stop; Odyssey gives 30, PgDog 60."""
CANCEL_GRACE: Final = 10.0
"""Seconds a cancelled statement has to end before its session is ended."""


@dataclass(frozen=True)
class SessionLimits:
    """What a client may take; times are in seconds, 0 is no limit. `login`: from the connection to a known user,
    PostgreSQL's authentication_timeout."""

    connections: int = 500  # of all users together; the facade needs 1.4 MB for each
    connections_per_user: int = 200
    login: float = 60.0
    idle: float = 86_400.0  # pools keep connections for hours, nobody for days
    transaction: float = 3_600.0  # idle within one
    statement: float = 600.0  # as the facade's roles have by default


class State(Enum):
    IDLE = "idle"
    TRANSACTION = "idle in transaction"
    STATEMENT = "statement"


Progress = tuple[State, int, int]
"""What a session is doing, and two counters of which one changes with everything that is answered."""


class Watched(Protocol):
    """A session as `Watch` needs it."""

    @property
    def progress(self) -> Progress: ...

    def cancel(self, reason: str) -> object: ...

    def fatal(self, sqlstate: str, text: str) -> None: ...


S = TypeVar("S", bound=Watched)


class Watch(Generic[S]):
    """Remembers since when each session is where it is."""

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._seen: dict[S, tuple[Progress, float, bool]] = {}  # where, since when, cancelled

    @property
    def tick(self) -> float:
        """Return seconds to the next look: short limits are held more exactly."""
        given = [s for s in (self._limits.idle, self._limits.transaction, self._limits.statement) if s]
        return min(TICK, *(s / 4 for s in given)) if given else TICK

    def look(self, sessions: Iterable[S], now: float) -> None:
        """Act on who is late. `now` is of any clock that goes forward."""
        seen: dict[S, tuple[Progress, float, bool]] = {}
        for session in sessions:
            progress = session.progress
            before = self._seen.get(session)
            if before is None or before[0] != progress:
                seen[session] = (progress, now, False)
            else:
                seen[session] = (progress, before[1], self._act(session, progress[0], now - before[1], before[2]))
        self._seen = seen

    def _act(self, session: S, state: State, seconds: float, cancelled: bool) -> bool:
        """Whether its statement has been cancelled."""
        limits = self._limits
        if state is State.IDLE and 0 < limits.idle <= seconds:
            session.fatal(IDLE_SESSION_TIMEOUT, "terminating connection due to idle-session timeout")
        elif state is State.TRANSACTION and 0 < limits.transaction <= seconds:
            session.fatal(IDLE_IN_TRANSACTION_TIMEOUT, "terminating connection due to idle-in-transaction timeout")
        elif state is State.STATEMENT and 0 < limits.statement <= seconds:
            if not cancelled:
                session.cancel("statement timeout")
            elif seconds >= limits.statement + CANCEL_GRACE:
                session.fatal(ADMIN_SHUTDOWN, "terminating connection due to administrator command")
            return True
        return False


# What the operator allows the facade to take, made into bytes of this machine.
#
# Knows: options, how much memory and disk there are. Must not know: sessions. What is not said is a share of the machine.


MEGABYTE: Final = 1 << 20
MEMORY_PART: Final = 4
"""A quarter of the machine's memory: the engine under the proxy, or beside it, wants most of it."""
DISK_PART: Final = 10
MOST_DISK: Final = 8 << 30
"""Released answers are small: who sorts more than this on the facade sorts what it made up itself."""
LEAST: Final = 256 * MEGABYTE


@dataclass(frozen=True)
class Rations:
    """What the facade may take, in megabytes; None: by the machine. `parts`: processes that divide them among themselves."""

    memory_mb: int | None = None
    disk_mb: int | None = None
    share: float = 0.5
    reserve_mb: int = 512
    parts: int = 1

    def split(self, parts: int) -> Rations:
        """Return the rations of each of so many processes."""
        return replace(self, parts=parts)

    def quota(self, folder: Path) -> Quota:
        """Return the quota on this machine; `folder` is on the disk in question."""
        memory, disk = self.memory_mb, self.disk_mb
        whole = memory * MEGABYTE if memory is not None else max(LEAST, usage.machine_memory() // MEMORY_PART)
        files = disk * MEGABYTE if disk is not None else max(LEAST, min(MOST_DISK, usage.free(folder) // DISK_PART))
        return Quota(whole // self.parts, files // self.parts, self.share, self.reserve_mb * MEGABYTE)
