"""The log: one line an event on standard error, as JSON or for people.

Knows: structlog, levels, formats. Must not know: events. What libraries log by Python's own module becomes lines of the same
form: ours from the level on that was asked for, others' from warnings on. An exception is told by its class and the places of
the code that it passed through, never by its text, which may hold a literal of a statement or a value of the data.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal, TextIO

import structlog

Format = Literal["json", "human"]
FORMATS: Final[tuple[Format, ...]] = ("json", "human")
LEVELS: Final = ("debug", "info", "warning", "error")
TOGETHER: Final = 0.02
"""Seconds a line of the log waits for others."""
PACKAGE: Final = "dpproxy"

Event = MutableMapping[str, Any]


class Lines:
    """Writes the lines of thousands of answers a second, several in one write: each write wakes whoever reads the log, who
    takes the processor from who answers. Warnings and errors are written at once, with what came before them. `counts`: lines
    by level."""

    def __init__(self, stream: TextIO) -> None:
        self.counts: Counter[str] = Counter()
        self._stream = stream
        self._lines: list[str] = []
        self._lock = threading.Lock()
        atexit.register(self.push)

    def debug(self, line: str) -> None:
        self._add(line, "debug")

    def info(self, line: str) -> None:
        self._add(line, "info")

    def warning(self, line: str) -> None:
        self._add(line, "warning")

    def error(self, line: str) -> None:
        self._add(line, "error")

    critical = exception = error

    def _add(self, line: str, level: str) -> None:
        try:
            loop = asyncio.get_running_loop() if level in ("debug", "info") else None
        except RuntimeError:  # in a thread
            loop = None
        with self._lock:
            self.counts[level] += 1
            self._lines.append(line + "\n")
            first = len(self._lines) == 1
        if loop is None:
            self.push()
        elif first:
            loop.call_later(TOGETHER, self.push)

    def push(self) -> None:
        with self._lock:
            text = "".join(self._lines)
            self._lines.clear()
            if text:
                self._stream.write(text)
                self._stream.flush()


class _Foreign(logging.Handler):
    """Passes on what is logged by Python's own module."""

    def emit(self, record: logging.LogRecord) -> None:
        where = places(record.exc_info[1]) if record.exc_info and record.exc_info[1] is not None else {}
        write = structlog.get_logger().error if record.levelno >= logging.ERROR else structlog.get_logger().warning
        if record.levelno < logging.WARNING:
            write = structlog.get_logger().info
        message = record.getMessage()
        text = message.split("\n")[0] if where else message  # behind it an event loop says what the exception said
        write(text, logger=record.name, **where)


def places(error: BaseException) -> Mapping[str, str]:
    """Return an exception's class, and where it came through, without any text of its own."""
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    return {"error": type(error).__name__, "trace": "\n".join(frames)}


def _without_texts(_logger: object, _method: str, event: Event) -> Event:
    raised = event.pop("exc_info", None)
    error = sys.exc_info()[1] if raised is True else raised[1] if isinstance(raised, tuple) else raised
    return event if error is None else {**event, **places(error)}


def start_log(form: Format = "json", level: str = "info", process: int = 0, stream: TextIO | None = None) -> Lines:
    """Log from now on; return what counts the lines. `process`: the number of one of several, which share the stream."""
    lines = Lines(stream or sys.stderr)

    def numbered(_logger: object, _method: str, event: Event) -> Event:
        return {**event, "process": process} if process else event

    structlog.configure(
        processors=[
            numbered,
            _without_texts,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        cache_logger_on_first_use=True,
        logger_factory=lambda *_: lines,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_Foreign()], force=True)
    logging.getLogger(PACKAGE).setLevel(level.upper())
    return lines
