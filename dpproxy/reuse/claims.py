"""Who is making which measurement, among the processes that share a file of stored answers.

Knows: file locks, names. Must not know: what the names stand for, who waits. A claim is a lock of one byte of a file, at a
place that the name's hash says; the system lets go of what a dead process held. Two names at one place would only wait
for each other's end. Where the system has no such locks there is one process, and claims are kept within it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection
from pathlib import Path

PLACE_BYTES = 7  # of the hash: places are far apart, and fit a signed offset


class Claims:
    """Holds the claims of one process; for one thread. All names of a call are taken, or none."""

    def __init__(self, path: Path) -> None:
        """Open the file of claims. Raises OSError."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        self._mine: set[int] = set()

    def take(self, names: Collection[str]) -> bool:
        """Take names; return False when one is somebody else's. It never waits."""
        places = sorted(map(place_of, set(names)))
        if not self._mine.isdisjoint(places):  # the system does not hold a process off from its own locks
            return False
        for i, place in enumerate(places):
            if not _lock(self._fd, place):
                self._let_go(places[:i])
                return False
        self._mine.update(places)
        return True

    async def claim(self, names: Collection[str]) -> bool:
        """Take names, as `tables.Claiming` says."""
        return self.take(names)

    def drop(self, names: Collection[str]) -> None:
        places = sorted(map(place_of, set(names)))
        self._mine.difference_update(places)
        self._let_go(places)

    def _let_go(self, places: Collection[int]) -> None:
        for place in places:
            _unlock(self._fd, place)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def place_of(name: str) -> int:
    """Return the number that stands for a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:PLACE_BYTES], "big")


def _lock(fd: int, place: int) -> bool:
    if sys.platform == "win32" or fd < 0:
        return True
    import fcntl

    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES, as the system likes
        return False
    except OSError:  # no locks on this file system: as if alone, which costs budget when one is not
        return True
    return True


def _unlock(fd: int, place: int) -> None:
    if sys.platform == "win32" or fd < 0:
        return
    import fcntl

    fcntl.lockf(fd, fcntl.LOCK_UN, 1, place)
