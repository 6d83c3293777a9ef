"""What the proxy asks of the operating system for sockets: options of each client's, and one in a folder for local ones.

Knows: socket options by platform, where libpq looks for a local server. Must not know: protocols. A client whose machine is
gone says nothing: keep-alive asks, and a time limit on unacknowledged data ends what waits for an answer. Options a
platform lacks are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""Seconds of silence, seconds between questions, unanswered ones: a client that is gone is noticed in two minutes."""
USER_TIMEOUT: Final = 300_000
"""Milliseconds data may stay unacknowledged or, with a client that does not read, unsent: long enough for a person who
pages through a result, short enough that a client that hangs does not hold rows in buffers for ever."""

BACKLOG: Final = 1024
"""Connections that may wait to be accepted: all of a pool that starts at once."""

OF_A_SESSION: Final = 2
"""Files that a session has open: the client's connection, and its own to the facade."""
BESIDE: Final = 256
"""Files for everything else: data, ledger, stored answers, operators' pages."""
LEAST_WAITING: Final = 16
"""Connections without a login, where the system lets a process have few files open."""


def waiting_room(connections: int) -> int:
    """Return how many connections may be open that are not logged in, next to so many that are: twice as many, or as many as the
    system lets this process have. Most systems let a process ask for more than it has at first."""
    wanted = (OF_A_SESSION + 2) * connections + BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):  # a system that has a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    left = wanted if soft == resource.RLIM_INFINITY else soft
    return min(2 * connections, max(LEAST_WAITING, left - OF_A_SESSION * connections - BESIDE))


def keep_alive(transport: asyncio.Transport) -> None:
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # the client has gone already
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in {**KEEP_ALIVE, "TCP_USER_TIMEOUT": USER_TIMEOUT}.items():
            option = getattr(socket, name, None)
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)


def address_of(transport: asyncio.Transport) -> str:
    """Return the client's address without its port; empty for a unix socket."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


@contextlib.contextmanager
def local_socket(folder: Path, port: int) -> Iterator[socket.socket]:
    """Make a listening socket where libpq looks for it (`-h folder -p port`), gone at the end. Raises OSError.

    Anybody on this machine who can reach the folder may connect, as with PostgreSQL's own: the password decides.
    """
    path = folder / f".s.PGSQL.{port}"
    _clear(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        made = path.stat().st_ino
        try:
            path.chmod(0o777)
            listener.listen(BACKLOG)
            yield listener
        finally:
            with contextlib.suppress(OSError):
                if path.stat().st_ino == made:
                    path.unlink()


def _clear(path: Path) -> None:
    """Remove what a server that was killed left behind. Raises OSError when one listens there, or it is no socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if path.is_socket():
                path.unlink()
                return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
