"""Who may stay at an HTTP door without having asked anything whole: places, and which connection gives way.

Knows: sockets that were accepted, by their peers. Must not know: HTTP, TLS, what is behind the door. A connection costs the
proxy a file and perhaps a thread from its first packet on, and one that never finishes a handshake, a header or a form costs
whoever opened it nothing. So a connection waits here from when it is accepted until a request of it is whole, and again behind
the reply; where places are short, the one gives way that was silent for longest (`waiting_places`). Nobody is turned away at the
door.

Several threads may use one door.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any, Final

from dpproxy.waiting_places import WaitingPlaces, network

PLACES: Final = 128
OF_ONE: Final = 64
"""Connections that may wait, of all networks and of one: a browser opens six, a monitor one. They are few beside the files
that a process may have open, which sessions need."""
AT_A_TIME: Final = 16
"""Connections that are accepted before those that are there are read again: several times as many may wait, so that whoever asks
at once is read before a flood behind it takes its place."""
QUEUE: Final = 1024
"""Connections that the system holds until they are accepted."""

Peer = tuple[str, int]


class Door:
    """Gives places to connections, by the address and port of their peers."""

    def __init__(self, places: int = PLACES, of_one: int = OF_ONE) -> None:
        self._places = WaitingPlaces[Peer](places, of_one)
        self._sockets: dict[Peer, socket.socket] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._places)

    def arrived(self, peer: Peer, connection: socket.socket) -> None:
        """Give a place to a connection that was accepted; another may be ended for it."""
        with self._lock:
            self._places.leave(peer)  # of one that ended before it came to a request, if a port comes again
            self._sockets[peer] = connection
            gone = self._entered(peer)
        _end(gone)

    def asked(self, peer: Peer) -> None:
        """Note that a request is whole: it is worked on now."""
        with self._lock:
            self._places.leave(peer)

    def answered(self, peer: Peer) -> None:
        """Note that a connection which was answered stays for another request."""
        with self._lock:
            gone = self._entered(peer) if peer in self._sockets else None
        _end(gone)

    def left(self, peer: Peer) -> None:
        """Note that a connection has ended."""
        with self._lock:
            self._places.leave(peer)
            self._sockets.pop(peer, None)

    def _entered(self, peer: Peer) -> socket.socket | None:
        gone = self._places.enter(peer, network(peer[0]))
        return self._sockets.pop(gone, None) if gone is not None else None


def _end(connection: socket.socket | None) -> None:
    """Whoever reads it finds its end, and closes it."""
    if connection is not None:
        with contextlib.suppress(OSError):  # it has ended already
            connection.shutdown(socket.SHUT_RDWR)


class Listener(socket.socket):
    """Listens, and has what it accepts wait at a door."""

    def __init__(self, bound: socket.socket, door: Door) -> None:
        """Take a socket's place."""
        super().__init__(bound.family, bound.type, bound.proto, fileno=bound.detach())
        self._door = door

    def listen(self, backlog: int = QUEUE) -> None:
        """Have the system hold as many as it may: `backlog` is how many an event loop accepts in one go."""
        super().listen(max(backlog, QUEUE))

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        self._door.arrived(address[:2], connection)
        return connection, address
