"""Giving memory back to the system once starting up is done.

Knows: the C library. Must not know: anything of the proxy. Opening the data, checking it and importing the libraries leave
free pages in the heap that glibc keeps; an idle proxy should not hold on to them. Elsewhere than on glibc this does nothing.
"""

from __future__ import annotations

import atexit
import ctypes
import gc


def give_back() -> None:
    """Collect garbage, keep what start-up made out of later collections, and return free pages."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # or libraries that count their objects at the end report leaks
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return  # another C library: it has no such call, and nothing is lost
