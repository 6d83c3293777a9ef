"""Room on the ledger's disk that nobody else can fill: a file that holds it until the ledger needs it.

Knows: one file, its size. Must not know: charges, SQLite. A disk is filled by others (logs, sorts, other programs), and a
ledger that cannot write must not charge. While the reserve is held, what is being written when the disk becomes full still
has room: the file is given up for it. While it is not held, nothing new is charged.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

SIZE: Final = 16 << 20
"""Bytes: some thousand charges, and SQLite's log up to its next checkpoint."""
_BLOCK: Final = bytes(1 << 20)
_FULL: Final = 1 << 20
"""Bytes left on a disk that counts as full."""


class Reserve:
    """A reserve keeps room on the ledger's disk. Several threads use it."""

    def __init__(self, path: Path, size: int = SIZE) -> None:
        self._path, self._size = path, size
        self._lock = threading.Lock()
        self._held = False

    def hold(self) -> bool:
        """Tell whether the room is there, made now if it can be."""
        with self._lock:
            if not (self._held and self._is_whole()):
                self._held = self._make()
            return self._held

    def give_up(self) -> None:
        """Give the room up, since the ledger could not write. Where the disk is full, the room is for what it writes next."""
        with self._lock, contextlib.suppress(OSError):
            facts = os.statvfs(self._path.parent)
            if facts.f_bavail * facts.f_frsize < _FULL:
                self._held = False
                self._path.unlink(missing_ok=True)

    def _is_whole(self) -> bool:
        try:
            return self._path.stat().st_size == self._size
        except OSError:
            return False

    def _make(self) -> bool:
        """A file with its blocks, not only of that length. None is left where they cannot be had."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            try:
                self._fill(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            return False
        return True

    def _fill(self, descriptor: int) -> None:
        os.ftruncate(descriptor, self._size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, self._size)
            return
        for start in range(0, self._size, len(_BLOCK)):
            os.write(descriptor, _BLOCK[: self._size - start])
