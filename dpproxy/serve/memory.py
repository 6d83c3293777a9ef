"""Giving memory back to the system: once starting up is done, and after a flood.

Knows: the C library, what the system says of this process. Must not know: anything of the proxy. Opening the data, checking it
and importing the libraries leave free pages in the heap that glibc keeps, and so do thousands of connections that have gone: an
idle proxy should not hold on to them. Elsewhere than on glibc and Linux this does nothing.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

SPARE: Final = 16 << 20
"""Bytes beyond what a proxy has that has just started, above which free pages are looked for: five milliseconds of a thread."""
PAUSE: Final = 30.0
"""Seconds between two looks."""


def give_back() -> None:
    """Collect garbage, keep what start-up made out of later collections, and return free pages."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # or libraries that count their objects at the end report leaks
    trim()


def trim() -> None:
    """Return free pages."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return  # another C library: it has no such call, and nothing is lost


def resident() -> int:
    """Return the bytes of memory that this process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


async def keep_giving_back(
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    size: Callable[[], int] = resident,
    give: Callable[[], None] = trim,
) -> None:
    """Return free pages again and again while the process has more than at first, until cancelled. The loop goes on meanwhile."""
    first = size()
    while True:
        await pause(PAUSE)
        if size() > first + SPARE:
            await asyncio.to_thread(give)
