"""Waiting for events: what is awaited comes, however busy the machine is, or the test fails instead of hanging."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SAFETY = 300.0
"""Seconds."""


async def until(true: Callable[[], bool]) -> None:
    """Turns of the loop until `true` says so."""
    async with asyncio.timeout(SAFETY):
        while not true():
            await asyncio.sleep(0)
