"""Ends sessions whose client has begun a message and does not go on.

Knows: how far each session's unfinished message has come, clocks it is given. Must not know: sockets, what messages say. An
unfinished message takes room that others may wait for. A client that sends nothing of it for `PAUSE` seconds has stopped; one
that sends a byte now and then has as long as a slow line takes for the whole. Time in which the proxy does not read the client
does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

from dpproxy.errors import IDLE_SESSION_TIMEOUT
from dpproxy.session.inflow import Half

PAUSE: Final = 30.0
"""Seconds without a byte of an unfinished message."""
SLOWEST: Final = 64 * 1024
"""Bytes a second: half a megabit. A message has this much time, and `PAUSE` seconds."""
STOPPED: Final = "terminating connection because a message was not completed in time"


class Sending(Protocol):
    """Is a session. `half`: its unfinished message, if it may send the rest."""

    @property
    def half(self) -> Half | None: ...

    def fatal(self, sqlstate: str, text: str) -> None: ...


S = TypeVar("S", bound=Sending)


class HalfMessages(Generic[S]):
    """Remembers since when each unfinished message is known, and since when it has not grown."""

    def __init__(self) -> None:
        self._seen: dict[S, tuple[Half, float, float]] = {}  # how far, known since, grown

    def look(self, sessions: Iterable[S], now: float) -> None:
        """End who has stopped. `now` is of any clock that goes forward."""
        seen: dict[S, tuple[Half, float, float]] = {}
        for session in sessions:
            half = session.half
            if half is None:
                continue
            before, since, grown = self._seen.get(session, (half, now, now))
            if before.number != half.number:
                since = grown = now
            elif before.pending != half.pending:
                grown = now
            if now - grown >= PAUSE or now - since >= PAUSE + half.size / SLOWEST:
                session.fatal(IDLE_SESSION_TIMEOUT, STOPPED)
            else:
                seen[session] = half, since, grown
        self._seen = seen
