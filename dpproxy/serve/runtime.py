"""What every serving process begins with: its event loop, its log.

Knows: uvloop, structlog. Must not know: what is served, the command line.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
import threading
from collections.abc import Coroutine, MutableMapping
from typing import Any, Final, TextIO, cast

import structlog

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


TOGETHER: Final = 0.02
"""Seconds a line of the log waits for others."""


class Lines:
    """Writes the lines of thousands of answers a second, several in one write: each write wakes whoever reads the log, who takes
    the processor from who answers. Warnings and errors are written at once, with what came before them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self._lock = threading.Lock()
        atexit.register(self.push)

    def write(self, line: str) -> None:
        try:
            loop = asyncio.get_running_loop() if '"level": "info"' in line else None
        except RuntimeError:  # in a thread
            loop = None
        with self._lock:
            self._lines.append(line)
            first = len(self._lines) == 1
        if loop is None:
            self.push()
        elif first:
            loop.call_later(TOGETHER, self.push)

    def flush(self) -> None:
        """Called behind each line."""

    def push(self) -> None:
        with self._lock:
            text = "".join(self._lines)
            self._lines.clear()
            if text:
                self._stream.write(text)
                self._stream.flush()


def log_json(process: int = 0) -> None:
    """Log one JSON object a line on standard error; never an SQL text, a value or a secret at this level.

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
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", Lines(sys.stderr))),  # whole lines: others write there too
    )
