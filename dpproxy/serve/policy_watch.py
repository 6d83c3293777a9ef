"""Policy files that are watched: when one has become another and stays so, policies are read again.

Knows: files' times and sizes. Must not know: what a policy says, who reads it. A file is looked at once a second; what is
being written is not read before it has been the same for a second, and a file that is gone for a moment (an editor writes
another in its place) is waited for. One that stays away is a change like any other. What cannot be read as a policy then leaves
the one that is served, as with SIGHUP, and the operator is told why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

SECONDS: Final = 1.0
GONE: Final = 10
"""Looks in a row at which files are away, before they are taken to be gone: no editor takes so long."""

Look = dict[Path, tuple[int, int, int] | None]
"""Of each file inode, size and time of change; None for one that is not there."""


def look(files: Sequence[Path]) -> Look:
    """Look at files: two looks are equal as long as nobody has written them."""
    return {file: _one(file) for file in files}


def _one(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


async def watched(
    files: Callable[[], Sequence[Path]],
    changed: Callable[[], None],
    pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(SECONDS),
) -> None:
    """Call `changed` each time that the files have become others, and have stayed so over one pause; over `GONE` where some are
    not there."""
    served = before = look(files())
    same = 0
    while True:
        await pause()
        now = look(files())
        same = same + 1 if now == before else 0
        if now != served and same >= (GONE if None in now.values() else 1):
            served = now
            changed()
        before = now
