"""The connections of a server that are not logged in yet, and what is said of those that lose their place.

Knows: `Arrival` by its address and how to end it, the places there are. Must not know: logins, sessions. How many may wait is
twice what may be logged in: all of them may come at once, and as many strangers. One address has half of that at most, so that
a pool, or a proxy for everybody, can fill the server at once. `waiting_places` says who gives way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import structlog

from dpproxy.telemetry.tallies import Tallies
from dpproxy.waiting_places import WaitingPlaces, network

LOG = structlog.get_logger()
GAVE_WAY: Final = "gave way"
"""Outcome of a login, among the counts."""
QUIET: Final = 60.0
"""Seconds between two lines of the log: a flood must not fill the disk."""


class Waiting(Protocol):
    """Is a connection that is not logged in. `address`: empty for a unix socket."""

    @property
    def address(self) -> str: ...

    def abort(self) -> None: ...


class Arrivals:
    """Gives places to who arrives. `places`: of all together."""

    def __init__(self, places: int, tallies: Tallies, clock: Callable[[], float] = time.monotonic) -> None:
        self._places = WaitingPlaces[Waiting](places, max(1, places // 2))
        self._tallies, self._clock = tallies, clock
        self._closed = 0  # since the log was told
        self._told = -QUIET

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._places)

    def entered(self, arrival: Waiting) -> None:
        """Give a place to a newcomer; another connection may be ended for it."""
        gone = self._places.enter(arrival, network(arrival.address))
        if gone is not None:
            gone.abort()
            self._tally(gone)

    def heard(self, arrival: Waiting) -> None:
        """Note a step towards a login."""
        self._places.heard(arrival)

    def left(self, arrival: Waiting) -> None:
        """Note that a connection is logged in, or gone."""
        self._places.leave(arrival)

    def _tally(self, gone: Waiting) -> None:
        self._tallies.login("", GAVE_WAY)
        self._closed += 1
        now = self._clock()
        if now - self._told >= QUIET:
            LOG.warning("connections without a login gave way", address=gone.address, closed=self._closed)
            self._told, self._closed = now, 0
