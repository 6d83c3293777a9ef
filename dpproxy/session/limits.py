"""What a client may take of the proxy: connections, time, attempts to log in.

Knows: numbers and clocks it is given. Must not know: sockets, statements, sessions' insides. Analysts can SET
PostgreSQL's own timeouts to what they like, therefore these are held here.

A timeout is not a timer for each message, which would cost the relay more than the message does: once a tick `Watch`
looks how far each session has come, and acts on those that have not moved for too long. It is late by a tick at most.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

TICK: Final = 1.0
"""Seconds between two looks at the sessions: 500 of them take half a millisecond."""
CANCEL_GRACE: Final = 10.0
"""Seconds a cancelled statement has to end before its session is ended."""


@dataclass(frozen=True)
class Limits:
    """Seconds; 0 is no limit. `login`: from the connection to a known user, PostgreSQL's authentication_timeout."""

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
    """A session, as `Watch` needs it."""

    @property
    def progress(self) -> Progress: ...

    def cancel(self, reason: str) -> object: ...

    def fatal(self, sqlstate: str, text: str) -> None: ...


S = TypeVar("S", bound=Watched)


class Watch(Generic[S]):
    """Remembers since when each session is where it is."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen: dict[S, tuple[Progress, float, bool]] = {}  # where, since when, cancelled

    @property
    def tick(self) -> float:
        """Seconds to the next look: short limits are held more exactly."""
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
            session.fatal("57P05", "terminating connection due to idle-session timeout")
        elif state is State.TRANSACTION and 0 < limits.transaction <= seconds:
            session.fatal("25P03", "terminating connection due to idle-in-transaction timeout")
        elif state is State.STATEMENT and 0 < limits.statement <= seconds:
            if not cancelled:
                session.cancel("statement timeout")
            elif seconds >= limits.statement + CANCEL_GRACE:
                session.fatal("57P01", "terminating connection due to administrator command")
            return True
        return False


FREE_FAILURES: Final = 5
"""Wrong passwords in a row that cost nothing: fingers slip, and programs start with an old one."""
FREE_FAILURES_OF_ADDRESS: Final = 50
"""The same for all users of an address: a BI server's are many people."""
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 16.0
"""Seconds; doubled from the first to the longest: at most 5,400 guesses a day for one user from one address."""
PATIENCE: Final = 30.0
"""Seconds an attempt may have to wait; who would wait longer is turned away, so that waiting holds few connections."""
FORGOTTEN: Final = 900.0
"""Seconds after the last failure when all is forgiven."""
REMEMBERED: Final = 10_000
"""Addresses and users remembered, a megabyte or two; the oldest go first."""


@dataclass
class _Failures:
    count: int = 0
    last: float = 0.0
    next: float = 0.0  # when the next attempt may go on


class Throttle:
    """Slows down who guesses passwords. Attempts wait before the first step, right and wrong ones alike, in turn."""

    def __init__(self) -> None:
        self._records: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def delay(self, address: str, user: str, now: float) -> float | None:
        """Seconds this attempt has to wait; None: too many wait already."""
        slots: list[tuple[_Failures, float]] = []
        for key, free in self._keys(address, user):
            record = self._records.get(key)
            if record is None or now - record.last >= FORGOTTEN or record.count < free:
                continue
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(record.count - free, 10))
            slots.append((record, max(now, record.next) + pause))
        wait = max((slot - now for _, slot in slots), default=0.0)
        if wait > PATIENCE:
            return None
        for record, slot in slots:
            record.next = slot
        return wait

    def failed(self, address: str, user: str, now: float) -> None:
        for key, _ in self._keys(address, user):
            record = self._records.setdefault(key, _Failures())
            if now - record.last >= FORGOTTEN:
                record.count = 0
            record.count += 1
            record.last = now
            self._records.move_to_end(key)
        while len(self._records) > REMEMBERED:
            self._records.popitem(last=False)

    def succeeded(self, address: str, user: str) -> None:
        """The user is forgiven, the address is not: one known password must not pay for guesses at others."""
        self._records.pop((network(address), user), None)

    def _keys(self, address: str, user: str) -> tuple[tuple[tuple[str, str], int], ...]:
        """No user's name is empty, so that the address alone has a key of its own."""
        where = network(address)
        return ((where, user), FREE_FAILURES), ((where, ""), FREE_FAILURES_OF_ADDRESS)


def network(address: str) -> str:
    """What one person has many of counts as one: the 64 bits of an IPv6 network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
    return str(found)
