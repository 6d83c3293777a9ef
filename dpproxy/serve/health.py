"""Starts what Prometheus and probes ask, and lets its threads ask the loop.

Knows: `console.health`, the loop, who knows the status of all processes. Must not know: HTTP. It is imported by a proxy that is
asked for metrics alone: Prometheus' library takes memory.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from dpproxy.console.health import HealthServer
from dpproxy.operations.status import Status
from dpproxy.serve.options import listening

PATIENCE: Final = 20.0
"""Seconds a request may take."""


def open_health(
    address: tuple[str, int], token: str | None, statuses: Callable[[], Coroutine[Any, Any, Sequence[Status]]]
) -> Callable[[], None]:
    """Listen, and say where on standard error; return what ends it. Raises ServingError."""
    host, port = address
    loop = asyncio.get_running_loop()

    def asked() -> Sequence[Status]:
        return asyncio.run_coroutine_threadsafe(statuses(), loop).result(PATIENCE)

    def alive() -> None:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(PATIENCE)

    with listening(f"{host}:{port}"):
        server = HealthServer(host, port, asked, alive, token)
    print(f"metrics on {host}:{server.server_port}", file=sys.stderr, flush=True)
    return server.end
