"""What every serving process begins with: its event loop, its log.

Knows: uvloop, structlog. Must not know: what is served, the command line.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine, MutableMapping
from typing import Any

import structlog


def run(work: Coroutine[Any, Any, None]) -> None:
    """To its end, on uvloop where it exists: the relay is twice as fast on it."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


def log_json(process: int = 0) -> None:
    """One JSON object a line on standard error; never an SQL text, a value or a secret at this level.

    `process`: the number of one of several, which share that stream.
    """
    number = f'"process": {process}, ' if process else ""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=f'{{{number}"logger": "%(name)s", "event": "%(message)s"}}')

    def numbered(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {**event, "process": process} if process else event

    structlog.configure(
        processors=[
            numbered,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),  # a line in one piece: others write there too
    )
