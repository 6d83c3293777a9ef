"""Folders and files of a proxy's own: their owner alone reads and writes them, whatever the umask.

Knows: modes. Must not know: what the files hold. What SQLite makes beside a file has that file's mode, so it is enough that the
file is there before SQLite opens it. A folder that others can write is none of a proxy's own: they could put another record of
what was spent in its place.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from dpproxy.errors import OperatorError

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class SharedFolder(OperatorError):
    """Which folder others can write, and what to do about it."""


def private_folder(path: Path) -> None:
    """Make a folder (mode 0700) unless it is there, and the folders above it that are not. Raises OSError; SharedFolder where
    others can write it."""
    for above in reversed(path.parents):
        if not above.exists():
            above.mkdir(mode=0o755, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_mode & OTHERS_WRITE:
        raise SharedFolder(f"others can write in the folder {path}, and put another record in place of yours: chmod 700 {path}")


def private_file(path: Path) -> None:
    """Make an empty file (mode 0600) unless it is there. Where none can be made, whoever opens it says why."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def private_opener(path: str, flags: int) -> int:
    """Open a file for the built-in `open`; one that is made is its owner's alone."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def settle(path: Path) -> None:
    """Put a file on the disk, or which names a folder has. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# A small file that is there whole or not at all, and that its owner alone reads.
#
# Knows: files. Must not know: what they hold. It is written beside its place, under a name that begins with a dot, and is on
# the disk before it takes the place; where that fails nothing of it is left.


def write_whole(path: Path, content: bytes, *, replace: bool) -> None:
    """Write a file (mode 0600). Without `replace` what is there stays: of several that begin together, the first counts. Raises
    OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(name, path)
            return
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    except OSError:
        os.unlink(name)
        raise
    os.unlink(name)
