"""What a client may take of the proxy: connections, time, attempts to log in.

Knows: numbers and clocks it is given. Must not know: sockets, statements, sessions' insides. Analysts can SET
PostgreSQL's own timeouts to what they like, therefore these are held here.

A timeout is not a timer for each message, which would cost the relay more than the message does: once a tick `Watch`
looks how far each session has come, and acts on those that have not moved for too long. It is late by a tick at most.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from array import array
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


GUESSES: Final = 1_000
"""Wrong passwords for one user from one address that are looked at as they come: a pool of connections that starts with an
old password, and somebody who floods the address a user shares, are to be told from the right one for some time."""
STRANGERS_GUESSES: Final = 10_000
"""The same for one user from all addresses together from where it has not logged in before."""
GUESSES_A_SECOND: Final = 1.0
"""Given back, up to the numbers above: at most 87,400 guesses on the first day for a user from an address, 86,400 on each day
after; and no more than 96,400 and 86,400 from all strange addresses together."""
PATIENCE: Final = 1.0
"""Seconds an attempt may have to wait for its turn; who would wait longer is turned away unheard."""
CELLS: Final = 1 << 16
"""Of the memory for pairs of user and address, and of that for users: half a megabyte each. What shares a cell shares its
guesses; a secret decides what does, so that nobody can aim at another's cell."""
KNOWN: Final = 10_000
"""Pairs of user and address that have logged in, remembered; the oldest go first."""


class _Buckets:
    """Guesses left, by cell. A cell's number is the time at which it is full again: one number says all."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._full = array("d", bytes(8 * CELLS))
        self._secret = secrets.token_bytes(16)

    def wait(self, key: tuple[str, ...], now: float) -> float:
        """Seconds until a guess is left."""
        return max(0.0, self._full[self._cell(key)] - now - (self._size - 1) / GUESSES_A_SECOND)

    def take(self, key: tuple[str, ...], now: float) -> None:
        cell = self._cell(key)
        self._full[cell] = max(self._full[cell], now) + 1 / GUESSES_A_SECOND

    def give(self, key: tuple[str, ...]) -> None:
        self._full[self._cell(key)] -= 1 / GUESSES_A_SECOND

    def _cell(self, key: tuple[str, ...]) -> int:
        text = "\0".join(key).encode("utf-8", "replace")
        return int.from_bytes(hashlib.blake2b(text, key=self._secret, digest_size=4).digest()) % CELLS


class Throttle:
    """Bounds how many passwords can be guessed; never by the address alone, which many people may share.

    An attempt takes a guess before it is heard, and gets it back when it was right. So right passwords cost nothing and wait
    for nothing, until somebody has used up what their own user has at their own address. Then attempts are heard one a
    second, and whoever cannot be within `PATIENCE` is turned away: that a right one among thousands of wrong ones is told
    from them at once, and the wrong ones are not, is impossible.
    """

    def __init__(self) -> None:
        self._pairs, self._users = _Buckets(GUESSES), _Buckets(STRANGERS_GUESSES)
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def begin(self, address: str, user: str, now: float) -> float | None:
        """Take a guess: the seconds until it may be heard; None: there is none."""
        buckets = self._of(address, user)
        wait = max(bucket.wait(key, now) for bucket, key in buckets)
        if wait > PATIENCE:
            return None
        for bucket, key in buckets:
            bucket.take(key, now)
        return wait

    def succeeded(self, address: str, user: str) -> None:
        """The guess was none. From now on this is no strange address to the user."""
        for bucket, key in self._of(address, user):
            bucket.give(key)
        pair = (network(address), user)
        self._known[pair] = None
        self._known.move_to_end(pair)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)

    def _of(self, address: str, user: str) -> list[tuple[_Buckets, tuple[str, ...]]]:
        pair = (network(address), user)
        return [(self._pairs, pair)] if pair in self._known else [(self._pairs, pair), (self._users, (user,))]


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
