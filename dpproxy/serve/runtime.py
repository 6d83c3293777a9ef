"""What every serving process begins with: its event loop.

Knows: uvloop. Must not know: what is served, the command line.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, Final

SWITCH: Final = 0.0005
"""Seconds after which a thread that plans gives way to the loop, which is woken a dozen times for one answer."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run work to its end, on uvloop where it exists: the relay is twice as fast on it."""
    sys.setswitchinterval(SWITCH)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
