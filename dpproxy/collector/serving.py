"""The collector as a process: its socket, its segments' ends, its loads.

Knows: uvicorn, TLS, signals. Must not know: what is sent, how a store is written. A connection that has not sent a request's
header in ten seconds is closed, and the body has ten seconds more: who sends slowly holds a place no longer than that. Nothing
of a request is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpproxy.collector.journal import JournalBusy, State, Writer
from dpproxy.collector.limits import Limits, Rates
from dpproxy.collector.tables import ReportTable
from dpproxy.collector.web import Site
from dpproxy.errors import OperatorError
from dpproxy.listeners import bound, server_context

HEADER_SECONDS: Final = 10.0
PLACES: Final = 2000
"""Connections at a time: more are turned away (503)."""
BACKLOG: Final = 2048
"""Connections that wait to be taken."""
GRACE: Final = 15
"""Seconds that requests get when the collector stops."""
LOAD_SECONDS: Final = 10.0
"""Between two looks for segments to seal and to load."""


@dataclass(frozen=True)
class Options:
    """How a collector serves. `tls`: certificate and key; None for plain HTTP."""

    host: str
    port: int
    state: Path
    tls: tuple[Path, Path] | None
    rates: Rates
    segment_seconds: float


async def serve(options: Options, tables: Mapping[str, ReportTable], load: Callable[[State], int] | None) -> None:
    """Take batches until SIGTERM or Ctrl-C. `load`: brings sealed segments into the store. Raises OperatorError, OSError."""
    state = State(options.state)
    with state.lock("collecting"):
        writer = Writer(state, time.time, segment_seconds=options.segment_seconds)
        work = Background(state, writer, load)
        site = Site(tables, writer, Limits(options.rates, time.monotonic), work.health)
        server = _Server(_config(site, options))
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, server.end)
        listener = bound(options.host, options.port, BACKLOG)
        address = f"http{'s' if options.tls else ''}://{options.host}:{listener.getsockname()[1]}"
        print(f"collecting on {address}", file=sys.stderr, flush=True)
        task = asyncio.create_task(work.run())
        try:
            await server.serve(sockets=[listener])
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await writer.close()


class _Server(uvicorn.Server):
    """A server that leaves the process to whoever started it when it ends: a segment is still to be sealed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def end(self) -> None:
        self.should_exit = True


class Background:
    """Seals segments whose time is over and loads them, again and again; what fails is tried again and said by `/health`."""

    def __init__(self, state: State, writer: Writer, load: Callable[[State], int] | None) -> None:
        self._state, self._writer, self._load = state, writer, load
        self._problem = ""

    async def run(self) -> None:
        while True:
            await self._writer.seal_old()
            if self._load is not None:
                await self._load_sealed(self._load)
            await asyncio.sleep(LOAD_SECONDS)

    async def _load_sealed(self, load: Callable[[State], int]) -> None:
        """In a thread: a segment is seconds of work, in which batches still come."""
        try:
            with self._state.lock("loading"):
                await asyncio.to_thread(load, self._state)
            problem = ""
        except JournalBusy:
            return  # `dpproxy collect load` is at it
        except (OperatorError, OSError) as error:
            problem = str(error) or type(error).__name__
        if problem and problem != self._problem:
            print(f"segments wait: {problem}", file=sys.stderr, flush=True)
        self._problem = problem

    def health(self) -> dict[str, Any]:
        """What waits, and why. `works` is about taking batches, which a store that is gone does not hinder."""
        return {"waiting": len(list(self._state.folder.glob("*.sealed"))), "problem": self._problem}


def _config(site: Site, options: Options) -> uvicorn.Config:
    context = None if options.tls is None else server_context(*options.tls)
    return uvicorn.Config(
        site.application(),
        log_config=None,
        log_level="critical",  # what strangers send wrong must not fill the log, nor what anybody sends
        access_log=False,
        lifespan="off",
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=_bounded(),
        ws="none",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        limit_concurrency=PLACES,
        timeout_graceful_shutdown=GRACE,
        ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
    )


def _bounded() -> type[asyncio.Protocol]:
    """The protocol of a connection: httptools where it is installed, which takes half the time, else h11."""
    try:
        base: Any = importlib.import_module("uvicorn.protocols.http.httptools_impl").HttpToolsProtocol
    except ImportError:
        base = H11Protocol

    class Bounded(base):  # type: ignore[misc]
        """Waits for a request's header for so long, and no longer."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self._await_header()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._timer.cancel()
            self._await_header()

        def connection_lost(self, exc: Exception | None) -> None:
            self._timer.cancel()
            super().connection_lost(exc)

        def _await_header(self) -> None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._late)

        def _late(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Bounded
