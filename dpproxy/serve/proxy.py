"""The proxy as one running process: what is started in which order, which signals it listens to, how it ends.

Knows: every part's constructor, signals. Must not know: the command line, how any part works. SIGTERM and SIGINT stop
it: no new connections, running statements get `drain` seconds; a second signal ends the patience.

SIGHUP reads certificates, policies and data again. What cannot be read is reported, and what was there stays;
`serve.served_policies` says what becomes of sessions.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from dpproxy import __version__
from dpproxy.answers.dataset import Dataset
from dpproxy.derived_keys import derived
from dpproxy.errors import ADMIN_SHUTDOWN
from dpproxy.facade.facade import Facade
from dpproxy.facade.remote_server import RemoteFacade
from dpproxy.facade.server import Bounds
from dpproxy.facade.usage import visible
from dpproxy.limits.quota import Quota
from dpproxy.operations import audit
from dpproxy.operations import pauses as paused
from dpproxy.operations.audit import AuditLog
from dpproxy.operations.pauses import Pauses
from dpproxy.operations.requests import OperationError
from dpproxy.operations.status import CERTIFICATES, ReadAgain, Status
from dpproxy.policy.load import Loaded
from dpproxy.private_files import private_folder
from dpproxy.records.place import PostgresPlace, ledger_key, named, place_of, read_secret
from dpproxy.records.record import recent
from dpproxy.reuse.store import AnswerStore
from dpproxy.reuse.tables import Sealer
from dpproxy.serve.datasets import open_dataset
from dpproxy.serve.neighbours import Neighbours
from dpproxy.serve.operator import AdminSocket, Operator
from dpproxy.serve.runtime import Options, Rounds, ServingError, give_back, keep_giving_back, lasting_secret, listening, notify
from dpproxy.serve.self_report import SelfReport
from dpproxy.serve.served_policies import ServedPolicies, watched
from dpproxy.server.connection_slots import local_socket, waiting_room
from dpproxy.server.server import LEAVE, Server
from dpproxy.server.tls import Tls, TlsError, load_tls
from dpproxy.server.warden import Warden
from dpproxy.sql.statements import Signal
from dpproxy.telemetry.log import Lines
from dpproxy.telemetry.tallies import Tallies

if TYPE_CHECKING:
    from dpproxy.serve.console_server import ConsoleServer

LOG = structlog.get_logger()
ANSWERS = "answers.sqlite"  # in the state folder, of this proxy's processes alone
UNKNOWN = "unknown-users.key"  # in the state folder, of this machine's processes: what unknown users' salts are made of
REMEMBERED = 5000  # of the ledger's last entries, what is of a dataset is shown in its `dpproxy.answers`
OPERATOR = "operator request"
SPARE_CONNECTIONS = 20  # of the facade, for its own administration and cancel requests


async def serve(options: Options, neighbours: Neighbours | None = None, lines: Lines | None = None) -> None:
    """Serve until SIGTERM or SIGINT. `lines`: what counts the lines of the log. Raises OperatorError."""
    running = Running(options, neighbours, lines)
    try:
        await running.start()
        await running.stopping.wait()
    finally:
        await running.stop()


def said(host: str, port: int, local: Path | None) -> str:
    """Return the line for the operator once connections are accepted."""
    return f"listening on {host}:{port}" + (f" and in {local}" if local else "")


class Running:
    """A proxy that serves. `stopping` is set by the first signal."""

    def __init__(self, options: Options, neighbours: Neighbours | None = None, lines: Lines | None = None) -> None:
        """Opens the ledger and the stored answers. Raises LedgerError, SealError, SharedFolder, TlsError."""
        try:
            private_folder(options.state)
        except OSError as error:
            raise ServingError(f"no state directory at {options.state}: {error.strerror}") from None
        self.stopping = asyncio.Event()
        self._options = options
        self._neighbours = neighbours
        tls = load_tls(options.tls) if options.tls else None
        secret = read_secret(options.key_file)
        self._place = place_of(options.ledger, options.state, options.anchor)
        self._ledger = self._place.open(ledger_key(secret))
        shared = self._place.dsn if secret and isinstance(self._place, PostgresPlace) else None
        self._answers = AnswerStore(shared or options.state / ANSWERS, sealer=Sealer(secret) if secret else None)
        self._quota = options.rations.quota(options.state)
        self._facade = _facade(options, self._quota)
        self._datasets: dict[str, Dataset] = {}
        self._tallies, self._pauses = Tallies(), Pauses(options.state / paused.FILE)
        self._number = neighbours.number if neighbours else 0
        salts = derived(secret, "unknown users") if secret else lasting_secret(options.state / UNKNOWN)
        self._server = self._new_server(tls, salts)
        self._served = ServedPolicies(options.policies, self._datasets, self._opened, self._server, options.drain, options.draft)
        state = (self._number, self._datasets, self._server, self._ledger, self._tallies, self._pauses, self._served.history)
        self.report = SelfReport(*state, self._served.files, self.stopping.is_set, lines)
        served = (options.state, self._number, self._datasets, self._ledger, named(self._place))
        self._audit = AuditLog(options.state / audit.FILE)
        self.operator = Operator(self, *served, self._pauses, self._tallies, self._audit)
        self._admin = AdminSocket(options.state, self._number, self.operator.carry_out)
        self._local = ExitStack()
        self._ends_health: list[Callable[[], None]] = []
        self._console: ConsoleServer | None = None
        self._certificates = ""  # why they were not read again
        self._reloading = asyncio.Event()
        self._reloaded = Rounds()
        self._reloader: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._policies: asyncio.Task[None] | None = None
        self._trimming: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.told_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._reloading.set)

    def _new_server(self, tls: Tls | None, salts: bytes) -> Server:
        """`salts`: what those of unknown users are made of."""
        options, neighbours = self._options, self._neighbours
        return Server(
            self._datasets,
            lambda dataset, role: dataset.endpoint(role),
            limits=options.limits,
            tls=tls,
            require_tls=options.require_tls,
            places=neighbours.places if neighbours else None,
            waiting=waiting_room(options.limits.connections),
            number=self._number,
            elsewhere=neighbours,
            secret=salts,
            tallies=self._tallies,
        )

    async def start(self) -> None:
        options, neighbours = self._options, self._neighbours
        with listening(f"the admin socket in {options.state}"):
            await self._admin.open()
        self._pauses.read()  # whoever changes them from now on tells this process
        await self._facade.start(options.state / f"process-{neighbours.number}" if neighbours else options.state)
        await self._served.open()
        self._reloader = asyncio.ensure_future(self._reload_when_told())
        if options.watch and (neighbours is None or neighbours.number == 1):
            self._policies = asyncio.ensure_future(watched(self._served.read, self._outdated))
        if isinstance(self._facade, Facade) and visible():
            warden = Warden(self._quota, self._server.sessions, self._facade.clusters)
            self._watching = asyncio.ensure_future(warden.watch())
        with listening(f"{options.host}:{options.port}"):
            bound = await self._server.listen(options.host, options.port, shared=neighbours is not None)
        await self._listen_locally(bound)
        self._serve_health()
        self._serve_console()
        self._audit.started(self._number, __version__)
        give_back()
        self._trimming = asyncio.ensure_future(keep_giving_back())
        if neighbours is not None:
            await neighbours.joined(self)
        else:
            print(said(options.host, bound, options.local), file=sys.stderr, flush=True)
            notify("READY=1")

    async def _listen_locally(self, port: int) -> None:
        """Raises ServingError."""
        local = self._neighbours.local if self._neighbours else None
        if local is None and self._options.local is not None:
            with listening(str(self._options.local)):
                local = self._local.enter_context(local_socket(self._options.local, port))
        if local is not None:
            await self._server.listen_locally(local)

    def _serve_health(self) -> None:
        """Raises ServingError."""
        options = self._options
        if self._neighbours is not None and self._neighbours.number != 1:
            return
        for address, probes_only in ((options.metrics, False), (options.health, True)):
            if address is not None:
                from dpproxy.serve.console_server import open_health  # who does not ask for it does not pay for its memory

                statuses = partial(self.operator.statuses, checked=True)
                self._ends_health.append(open_health(address, options.metrics_token, statuses, probes_only))

    def _serve_console(self) -> None:
        """Raises ServingError, AccessError."""
        options = self._options
        if options.console is None or (self._neighbours is not None and self._neighbours.number != 1):
            return
        from dpproxy.serve.console_server import ConsoleServer, console_tls  # a web server takes memory
        from dpproxy.serve.console_source import ProxySource

        source = ProxySource(self.operator, self._datasets, self.report.files, self._place, options.state)
        tls = console_tls(options.console[0], options.tls, options.console_plain)
        self._console = ConsoleServer(options.console, source, options.state, tls)

    async def stop(self) -> None:
        """Stop everything, also after a start that failed halfway."""
        if self._neighbours is None:
            notify("STOPPING=1")
        for task in (self._reloader, self._watching, self._policies, self._trimming):
            if task is not None:
                task.cancel()
        self._local.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.drain
        await self._server.stop(self._options.drain)
        await self._admin.close()
        if self._console is not None:
            await asyncio.to_thread(self._console.end)
        for end_health in self._ends_health:
            await asyncio.to_thread(end_health)
        await self._served.retired()
        for dataset in self._datasets.values():
            await dataset.close(0.0 if self._server.hurried else max(0.0, deadline - loop.time()))
        await self._facade.stop()
        self._ledger.close()
        self._answers.close()
        self._audit.stopped(self._number)

    def reach(self, pid: int, signal: Signal, of: tuple[str, str]) -> None:
        """Signal a session of a dataset's role, where this process has one of that number."""
        self._server.reached(of, signal, pid)

    def cancel(self, pid: int, secret: bytes) -> asyncio.Future[None] | None:
        """Hear a cancel request that reached another process."""
        return self._server.cancel(pid, secret)

    def told_to_stop(self) -> None:
        if self.stopping.is_set():
            self._server.hurry()
        self.stopping.set()

    # what an operator may ask

    async def status(self, checked: bool = False) -> Status:
        return replace(await self.report.status(checked), certificates=self._certificates)

    def end_session(self, session: int, end: bool) -> bool:
        found = next((each for each in self._server.sessions() if each.key[0] == session), None)
        if found is not None and end:
            found.fatal(ADMIN_SHUTDOWN, LEAVE)
        elif found is not None:
            found.cancel(OPERATOR)
        return found is not None

    async def reloaded(self) -> tuple[ReadAgain, ...]:
        if self.stopping.is_set():
            raise OperationError("the proxy is stopping")
        awaited = self._reloaded.next()
        self._outdated()
        await awaited
        certificates = (ReadAgain(CERTIFICATES, problem=self._certificates),) if self._options.tls is not None else ()
        return (*certificates, *(ReadAgain(d.name, d.policy, d.problem) for d in (await self.report.status()).datasets))

    def drain(self) -> None:
        if self._neighbours is not None:
            self._neighbours.drain()
        else:
            self.told_to_stop()

    async def _opened(self, loaded: Loaded) -> Dataset:
        """What is about to hold, with all that it needs of this process. Raises BackendError, FacadeError, ServingError."""
        name = loaded.policy.dataset
        expected = self._neighbours.expected.get(name) if self._neighbours else None
        opened = await open_dataset(loaded, self._facade, self._ledger, self._answers, expected, self._options.state)
        dataset = replace(opened, outdated=self._outdated, tallies=self._tallies, pauses=self._pauses)
        try:
            dataset.remember(await asyncio.to_thread(recent, self._place.reader(name), name, REMEMBERED))
            await dataset.take_place()
        except BaseException:
            await dataset.close()
            raise
        if dataset.accelerator is not None:
            dataset.accelerator.start()
        if dataset.watch is not None:
            dataset.watch.start(self._outdated)
        return dataset

    # SIGHUP

    async def _reload_when_told(self) -> None:
        while True:
            await self._reloading.wait()
            self._reloading.clear()
            with self._reloaded.round():
                self._reload_tls()
                await self._served.reload()
            if self._neighbours is not None:
                self._neighbours.reloaded(self)

    def reload(self) -> None:
        """Read policies and data again, as SIGHUP asks for."""
        self._reloading.set()

    def _outdated(self) -> None:
        """Data are not what was opened: read again, by all processes."""
        if self._neighbours is not None:
            self._neighbours.outdated()
        else:
            self._reloading.set()

    def states(self) -> dict[str, str]:
        """Return what names the data that are open, by dataset."""
        return {name: dataset.backend.state for name, dataset in self._datasets.items()}

    def _reload_tls(self) -> None:
        """Certificates are for handshakes to come; those made stay as they are."""
        if self._options.tls is None:
            return
        try:
            tls = load_tls(self._options.tls)
            if self._console is not None:
                self._console.renew()
            self._server.tls, self._certificates = tls, ""
            LOG.info("certificates reloaded")
        except (TlsError, OSError) as error:
            self._certificates = str(error)
            LOG.error("certificates not reloaded", reason=str(error))


def _facade(options: Options, quota: Quota) -> Facade | RemoteFacade:
    if options.facade_dsn:
        return RemoteFacade(options.facade_dsn)
    bounds = Bounds(min(Bounds.memory, quota.role_memory), min(Bounds.disk, quota.role_disk))
    return Facade(folder=options.postgres, connections=options.limits.connections + SPARE_CONNECTIONS, bounds=bounds)
