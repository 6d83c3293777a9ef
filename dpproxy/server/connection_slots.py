"""How many are connected, of all users and of each: counted here, or together with the other processes of one port.

Knows: numbers, a file that several processes have mapped. Must not know: sockets, sessions. A place is taken and given
back in one step, under a lock where processes share, so that no two take the last one. What a process that died held is
given back by who watches it.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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
