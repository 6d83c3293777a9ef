"""A database file as it is at one moment: what is opened, how that is told from what is there later, and its lock.

Knows: files, their times, DuckDB's blocks. Must not know: SQL, what the data are. A path names one file today and another
tomorrow, so what is served is known by the file itself:

- a file that is *replaced* (renamed over) has another inode. The one that is open is whole, and stays what it was;
- a file that is *written over* has the same inode. What is open is then neither the old data nor the new, and is refused;
- a copy can have the time of the original, so the content counts too: DuckDB keeps a checksum in each block.

DuckDB's lock on the file is POSIX's: whoever in this process closes any descriptor of it drops the lock, DuckDB by looking
at the file before it opens it, and any other instance of it. So each `DataFile` keeps one descriptor open as long as it
lives, and takes the lock again after each opening and closing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import threading
from dataclasses import dataclass
from typing import Final

HEADERS: Final = 3 * 4096
"""Bytes before the first block: which format, and twice how many blocks there are, and where the newest tables are."""
SMALLEST: Final = 16 * 1024
USUAL: Final = 256 * 1024
"""Bytes of a block: DuckDB's least, and what it makes unless it is told otherwise."""
CHECKSUM: Final = 8
_SIZE_AT: Final = (4096 + 40, 8192 + 40)
"""Where the two headers say how large blocks are."""


class FileChanged(Exception):
    """The file is not what it was. The text tells the operator what has happened."""


@dataclass(frozen=True)
class _Stamp:
    """What a change of a file changes. `changed` is set by the system alone: by renaming and chmod as well as by writing."""

    device: int
    inode: int
    size: int
    written: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> _Stamp:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _stamps(path: str, descriptor: int | None = None) -> tuple[_Stamp, _Stamp | None]:
    """Of the file, and of the log of changes that were not yet written into it, if there is one. Raises OSError."""
    own = _Stamp.of(os.stat(path) if descriptor is None else os.fstat(descriptor))
    try:
        return own, _Stamp.of(os.stat(f"{path}.wal"))
    except FileNotFoundError:
        return own, None


class DataFile:
    """A file that is to be opened, and then to be watched. Raises OSError, FileChanged."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # of a pipe nobody writes to, too
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise FileChanged("it is not a file")
            self._stamps = _stamps(path, self._descriptor)
            self._content = self._read()
            self.check_path()
        except BaseException:
            os.close(self._descriptor)
            raise
        with _LOCK:
            _OPEN.setdefault(self.key, []).append(self)

    @property
    def key(self) -> tuple[int, int]:
        """Return what names the file to the system."""
        return self._stamps[0].device, self._stamps[0].inode

    @property
    def size(self) -> int:
        """Return the bytes of the file."""
        return self._stamps[0].size

    @property
    def state(self) -> str:
        """Name the data: the same in all processes that have this very file open, another after any replacement."""
        own, log = self._stamps
        parts = [f"file {own.inode} {own.written} {self._content}"]
        return " ".join(parts + ([f"log {log.inode} {log.written}"] if log is not None else []))

    def check_path(self) -> None:
        """Check that the path names this file, as it was. Raises FileChanged."""
        self.check()
        try:
            there, log = _stamps(self._path)
        except OSError as error:
            raise FileChanged(f"the data file is gone: {error.strerror}") from None
        if (there, log) != self._stamps:
            raise FileChanged("the data file is being replaced or written")

    def check(self) -> None:
        """Check that this file is what it was, whatever the path names now. Raises FileChanged."""
        now, known = _Stamp.of(os.fstat(self._descriptor)), self._stamps[0]
        if now == known:
            return
        if (now.size, now.written) != (known.size, known.written) or self._read() != self._content:
            raise FileChanged("the data file was written over while it was open")
        self._stamps = now, self._stamps[1]  # renamed, or its permissions changed

    def still(self) -> bool:
        """Return whether opening the path anew would open the same data."""
        try:
            self.check_path()
        except FileChanged:
            return False
        return True

    def _read(self) -> str:
        """A digest of the headers and of every block's checksum, and of the log."""
        found = hashlib.sha256(os.pread(self._descriptor, HEADERS, 0))
        for at in range(HEADERS, os.fstat(self._descriptor).st_size, self._block()):
            found.update(os.pread(self._descriptor, CHECKSUM, at))
        with contextlib.suppress(FileNotFoundError), open(f"{self._path}.wal", "rb") as log:
            found.update(hashlib.file_digest(log, "sha256").digest())
        return found.hexdigest()[:32]

    def _block(self) -> int:
        told = {int.from_bytes(os.pread(self._descriptor, 8, at), "little") for at in _SIZE_AT}
        size = min(told)
        return size if len(told) == 1 and SMALLEST <= size <= USUAL and not size & (size - 1) else SMALLEST

    def opened(self) -> None:
        """Note that DuckDB has opened the file. Raises FileChanged when that may have been another."""
        self.check_path()
        lock_again(self.key)

    def close(self) -> None:
        """Close the file, after DuckDB has closed it. Idempotent."""
        with _LOCK:
            others = _OPEN.get(self.key, [])
            if self not in others:
                return
            others.remove(self)
            os.close(self._descriptor)
            if not others:
                del _OPEN[self.key]
        lock_again(self.key)


_OPEN: Final[dict[tuple[int, int], list[DataFile]]] = {}
_LOCK: Final = threading.Lock()


def lock_again(key: tuple[int, int]) -> None:
    """Take the lock: others may read, none may write. Where there are no locks, `check` is what is left."""
    with _LOCK:
        for file in _OPEN.get(key, [])[:1]:
            with contextlib.suppress(OSError):
                fcntl.lockf(file._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
