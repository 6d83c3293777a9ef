"""When what was asked of data may show: on the points of the policy's time grid (`timing.quantum`).

Knows: clocks. Must not know: answers, data. How long a measurement takes may depend on one person's rows. With a grid nobody
learns more than between which two of its points it ended, whatever a client does: an answer, a failure and a cancelled
statement leave on a point; what is stored, and can be asked again at no charge, is stored on one; and a cancel request or a
`statement_timeout`, which ask "are you through?" at a moment of the client's choice, are heeded on the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Grid:
    """Has points every `quantum_ms` milliseconds after it was made; None: every moment is a point. False is a grid without
    points."""

    def __init__(self, quantum_ms: int | None) -> None:
        self._quantum = (quantum_ms or 0) / 1000
        self._began = time.monotonic()

    def __bool__(self) -> bool:
        return self._quantum > 0

    @property
    def wait(self) -> float:
        """Return seconds to the next point."""
        return (self._began - time.monotonic()) % self._quantum if self else 0.0

    async def reached(self) -> None:
        if self:
            await asyncio.sleep(self.wait)

    def then(self, work: Callable[[], object]) -> None:
        """Do something on the next point."""
        asyncio.get_running_loop().call_later(self.wait, work)
