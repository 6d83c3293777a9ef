"""How many are connected, of all users and of each: counted here, or together with the other processes of one port.

Knows: numbers, a file that several processes have mapped. Must not know: sockets, sessions. A place is taken and given
back in one step, under a lock where processes share, so that no two take the last one. What a process that died held is
given back by who watches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

FREE: Final = 0
_ENTRY: Final = 16
"""Bytes: the process (from 1; 0 for a free place), and a name for the user."""


class ConnectionSlots(Protocol):
    def room(self) -> bool:
        """Whether there is a place for anybody."""
        ...

    def take(self, user: str) -> bool:
        """Take one, unless all are taken or too many by this user."""
        ...

    def give(self, user: str) -> None:
        """Give one back."""
        ...


class OwnSlots:
    """The slots of one process are counted here."""

    def __init__(self, total: int, per_user: int) -> None:
        self._total, self._per_user = total, per_user
        self._taken: Counter[str] = Counter()

    def room(self) -> bool:
        return self._taken.total() < self._total

    def take(self, user: str) -> bool:
        if not self.room() or self._taken[user] >= self._per_user:
            return False
        self._taken[user] += 1
        return True

    def give(self, user: str) -> None:
        self._taken[user] -= 1
        if not self._taken[user]:
            del self._taken[user]


class SharedSlots:
    """Of the processes that have `file` open. `process`: this one's number, from 1; 0 for who only watches."""

    def __init__(self, file: int, total: int, per_user: int, process: int = 0) -> None:
        """Use a file that all processes share. `file`: a descriptor, opened for reading and writing; it is made as long as it
        has to be."""
        self._file, self._per_user, self._process = file, per_user, process
        size = total * _ENTRY
        if os.fstat(file).st_size < size:
            os.ftruncate(file, size)
        self._words = memoryview(mmap.mmap(file, size)).cast("q")

    def room(self) -> bool:
        return FREE in self._words[0::2].tolist()

    def take(self, user: str) -> bool:
        name = _name(user)
        with self._locked():
            holders = self._words[0::2].tolist()
            names = self._words[1::2].tolist()
            held = sum(n == name and h != FREE for h, n in zip(holders, names, strict=True))
            if held >= self._per_user or FREE not in holders:
                return False
            self._set(holders.index(FREE), self._process, name)
        return True

    def give(self, user: str) -> None:
        name = _name(user)
        with self._locked():
            for i in range(0, len(self._words), 2):
                if (self._words[i], self._words[i + 1]) == (self._process, name):
                    self._set(i // 2, FREE, 0)
                    return

    def clear(self, process: int) -> None:
        """Whatever a process held: it is gone."""
        with self._locked():
            for i in range(0, len(self._words), 2):
                if self._words[i] == process:
                    self._set(i // 2, FREE, 0)

    def _set(self, place: int, process: int, name: int) -> None:
        self._words[2 * place], self._words[2 * place + 1] = process, name

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Between processes; within one there is one thread. The system lets go of what a dead process holds."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)


def _name(user: str) -> int:
    return int.from_bytes(hashlib.blake2b(user.encode(), digest_size=8).digest(), "big", signed=True)


# What the proxy asks of the operating system for sockets: options of each client's, and one in a folder for local ones.
#
# Knows: socket options by platform, where libpq looks for a local server. Must not know: protocols. A client whose machine is
# gone says nothing: keep-alive asks, and a time limit on unacknowledged data ends what waits for an answer. Options a platform
# lacks are left out.


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
