"""The proxy as one running process: what is started in which order, which signals it listens to, how it ends.

Knows: every part's constructor, signals. Must not know: the command line, how any part works. SIGTERM and SIGINT stop
it: no new connections, running statements get `drain` seconds; a second signal ends the patience. SIGHUP reads
certificates again; what cannot be read is reported, and what was there stays.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import structlog

from dpproxy.budget.files import SqliteReader
from dpproxy.budget.record import show
from dpproxy.budget.sqlite import SqliteLedger
from dpproxy.facade.facade import Facade, RemoteFacade
from dpproxy.session.dataset import Dataset
from dpproxy.session.opening import open_dataset
from dpproxy.session.server import DRAIN_SECONDS, Server
from dpproxy.session.tls import TlsError, TlsFiles, load_tls

LOG = structlog.get_logger()
LEDGER = "ledger.sqlite"  # in the state folder


class ServingError(Exception):
    """What was asked for cannot be served together; the text says why."""


@dataclass(frozen=True)
class Options:
    """`postgres`: bin folder of an installed PostgreSQL for the facade; `facade_dsn`: a server for it. `drain`: seconds."""

    policies: tuple[Path, ...]
    host: str
    port: int
    state: Path
    postgres: Path | None = None
    facade_dsn: str | None = None
    tls: TlsFiles | None = None
    require_tls: bool = False
    drain: float = DRAIN_SECONDS


async def serve(options: Options) -> None:
    """Until SIGTERM or SIGINT. Raises PolicyError, BackendError, FacadeError, LedgerError, TlsError, ServingError."""
    running = Running(options)
    try:
        await running.start()
        await running.stopping.wait()
    finally:
        await running.stop()


class Running:
    """`stopping` is set by the first signal."""

    def __init__(self, options: Options) -> None:
        """Opens the ledger. Raises LedgerError, TlsError."""
        options.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.stopping = asyncio.Event()
        self._options = options
        self._tls = load_tls(options.tls) if options.tls else None
        self._ledger = SqliteLedger(options.state / LEDGER)
        self._facade = RemoteFacade(options.facade_dsn) if options.facade_dsn else Facade(folder=options.postgres)
        self._datasets: dict[str, Dataset] = {}
        self._server = Server(self._datasets, lambda: self._facade.endpoint, tls=self._tls, require_tls=options.require_tls)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)

    async def start(self) -> None:
        options = self._options
        await self._facade.start(options.state)
        for path in options.policies:
            dataset = await open_dataset(path, self._facade, self._ledger)
            name = dataset.policy.dataset
            if name in self._datasets:
                await dataset.backend.close()
                raise ServingError(f"two policies are for dataset `{name}`")
            self._datasets[name] = dataset
            dataset.remember(show(SqliteReader(options.state / LEDGER), dataset=name))
        bound = await self._server.listen(options.host, options.port)
        print(f"listening on {options.host}:{bound}", file=sys.stderr, flush=True)

    async def stop(self) -> None:
        """Also after a start that failed halfway."""
        await self._server.stop(self._options.drain)
        for dataset in self._datasets.values():
            await dataset.backend.close()
        await self._facade.stop()
        self._ledger.close()

    def _told_to_stop(self) -> None:
        if self.stopping.is_set():
            self._server.hurry()
        self.stopping.set()

    def _reload(self) -> None:
        """Certificates are for handshakes to come; those made stay as they are."""
        if self._options.tls is None:
            return
        try:
            self._server.tls = load_tls(self._options.tls)
            LOG.info("certificates reloaded")
        except TlsError as error:
            LOG.error("certificates not reloaded", reason=str(error))
