"""Several serving processes on one port: started, watched, told, stopped.

Knows: `serve.proxy`, pipes, signals, SO_REUSEPORT. Must not know: policies, statements, what an answer is. One Python process
uses one core; N of them share a port, the ledger (in PostgreSQL: a SQLite ledger has one writer), the stored answers and
the caps on connections. Each has a facade of its own: one that dies, or is built anew, concerns its own sessions only, and
a reload needs no agreement between processes.

A process is started by exec, not by fork: nothing that noise is drawn from may ever be a copy of another's.
`serve.member_process` says what passes through its two pipes, and holds its end of them.

SIGTERM and SIGINT go to every process. One that dies is started again; its sessions are lost, as with any server.

All serve the same data. The first process that is ready says which it has opened, and every other opens these or none: one
that is started again when the file is another ends, and is tried again, until a reload. By SIGHUP one process reads what is
there now, and says what it has; then the others are told to. One that finds others again has all of them begin anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import structlog

from dpproxy.records.place import SqlitePlace, place_of
from dpproxy.serve.member_process import NOTHING, Membership, decoded, packed
from dpproxy.serve.proxy import said
from dpproxy.serve.runtime import Options, ServingError, listening, notify
from dpproxy.server.connection_slots import SharedSlots, local_socket

LOG = structlog.get_logger()

MOST: Final = 64
"""Processes: the number is a part of a cancel key's 31 bits (`server.server`)."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0
"""Seconds before a process that died is started again, doubled each time until one has lived for a while."""
LIVED: Final = 60.0
ROUNDS: Final = 5
"""Reloads in a row in which processes find different data, before one that differs is ended."""
BACKLOG: Final = 64 * 1024
"""Bytes a process may leave unread before cancel requests for it are dropped."""


@dataclass
class _Worker:
    number: int
    process: asyncio.subprocess.Process
    ready: asyncio.Event
    outdated: bool = False  # what it reads now may be what was before a reload
    gone: bool = False

    @property
    def serves(self) -> bool:
        return self.ready.is_set() and not self.gone

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def tell(self, line: bytes) -> None:
        pipe = self.process.stdin
        if pipe is not None and pipe.transport.get_write_buffer_size() < BACKLOG:
            pipe.write(line)


async def supervise(options: Options, count: int) -> None:
    """Serve with `count` processes until SIGTERM or SIGINT. Raises ServingError."""
    check(options, count)
    with _reserved(options.host, options.port) as port, tempfile.TemporaryFile() as places, contextlib.ExitStack() as stack:
        local = None
        if options.local is not None:
            with listening(str(options.local)):
                local = stack.enter_context(local_socket(options.local, port))
        mine = replace(options, port=port, rations=options.rations.split(count))
        await _Watcher(mine, count, places.fileno(), local).run()


def check(options: Options, count: int) -> None:
    """Check that so many processes can serve these options. Raises ServingError."""
    if count > MOST:
        raise ServingError(f"--processes is {MOST} at most")
    if isinstance(place_of(options.ledger, options.state), SqlitePlace):
        raise ServingError("--processes needs a ledger that processes can share: --ledger postgresql://...")
    if options.facade_dsn is not None:
        raise ServingError("--processes cannot be used with --facade-dsn: each process has a facade of its own")
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ServingError("--processes needs a system with SO_REUSEPORT")


@contextlib.contextmanager
def _reserved(host: str, port: int) -> Iterator[int]:
    """The port is bound as long as the watcher runs, so that no other program takes it between two processes."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as reserved:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            reserved.bind(address)
            yield int(reserved.getsockname()[1])
    except OSError as error:
        raise ServingError(f"{host}:{port} cannot be listened on: {error.strerror}") from error


class _Watcher:
    def __init__(self, options: Options, count: int, places: int, local: socket.socket | None) -> None:
        self._options = options
        self._count = count
        self._file = places
        self._local = local
        self._places = SharedSlots(places, options.limits.connections, options.limits.connections_per_user)
        self._workers: dict[int, _Worker] = {}
        self._stopping = asyncio.Event()
        self._states = b""  # the data all serve, as the first process said it
        self._leading: int | None = None  # who is reading what is there now
        self._again = False  # told to reload meanwhile
        self._rounds = 0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        for ending in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(ending, self._stop)
        watches: list[asyncio.Task[None]] = []
        try:
            for group in ((1,), range(2, self._count + 1)):  # the first alone: it makes what they share
                for number, reading in zip(group, await asyncio.gather(*map(self._start, group)), strict=True):
                    if not self._workers[number].ready.is_set() and not self._stopping.is_set():
                        raise ServingError(f"process {number} did not start")
                    watches.append(asyncio.ensure_future(self._watch(number, reading)))
            if not self._stopping.is_set():
                print(said(self._options.host, self._options.port, self._options.local), file=sys.stderr, flush=True)
                notify("READY=1")
            await asyncio.gather(*watches)
        finally:
            self._stop()
            await asyncio.gather(*watches, return_exceptions=True)

    def _stop(self) -> None:
        """Called again, it ends their patience."""
        self._stopping.set()
        notify("STOPPING=1")
        if self._local is not None:
            with contextlib.suppress(OSError):  # so that nobody waits there for a process that will not come
                os.unlink(self._local.getsockname())
        for worker in self._workers.values():
            worker.send(signal.SIGTERM)

    def _reload(self) -> None:
        """One reads first. A process that is still starting gets the request when it is ready."""
        if self._leading is not None:
            self._again = True
            return
        for worker in self._workers.values():
            worker.outdated = not worker.serves
        first = next((w for _, w in sorted(self._workers.items()) if w.serves), None)
        if first is not None:
            self._leading = first.number
            first.tell(b"reload -\n")

    def _reloaded(self, worker: _Worker, states: bytes) -> None:
        if worker.number == self._leading:
            self._states, self._leading = states, None
            for other in self._workers.values():
                if other.serves and other is not worker:
                    other.tell(b"reload %b\n" % states)
            if self._again:
                self._again, self._rounds = False, 0
                self._reload()
        elif self._leading is None and states != self._states:
            self._differs(worker)
        else:
            self._rounds = 0

    def _differs(self, worker: _Worker) -> None:
        """It could not open what the first did: that is another by now, or only this process cannot."""
        self._rounds += 1
        if self._rounds <= ROUNDS:
            self._reload()
        else:
            LOG.error("a process does not get the data the others have, and is ended", number=worker.number)
            worker.send(signal.SIGTERM)

    def _joined(self, worker: _Worker, states: bytes) -> None:
        alone = not any(other.serves for other in self._workers.values())
        worker.ready.set()
        if alone:
            self._states = states
            if worker.outdated:
                self._reload()
        elif worker.outdated or states != self._states:
            worker.tell(b"reload %b\n" % self._states)

    def _left(self, worker: _Worker) -> None:
        worker.gone = True
        if worker.number == self._leading:
            self._leading = None
            self._reload()

    async def _start(self, number: int) -> asyncio.Task[None]:
        """A process that is ready, or has ended; the task ends with it."""
        local = self._local.fileno() if self._local is not None else None
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "dpproxy.serve.member_process",
                str(number),
            ),  # the number is for who looks at a list of processes
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(self._file,) if local is None else (self._file, local),
            start_new_session=True,  # Ctrl-C reaches the watcher alone, which tells each once
        )
        worker = _Worker(number, process, asyncio.Event())
        self._workers[number] = worker
        if self._stopping.is_set():
            worker.send(signal.SIGTERM)
        states = self._states if any(other.serves for other in self._workers.values()) else NOTHING
        worker.tell(packed(Membership(number, self._file, local, self._options, decoded(states))))
        reading = asyncio.ensure_future(self._read(worker))
        waiting = asyncio.ensure_future(worker.ready.wait())
        await asyncio.wait((reading, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return reading

    async def _read(self, worker: _Worker) -> None:
        """Until the process has ended."""
        assert worker.process.stdout is not None
        async for line in worker.process.stdout:
            match line.split():
                case [b"ready", states]:
                    self._joined(worker, states)
                case [b"reloaded", states]:
                    self._reloaded(worker, states)
                case [b"outdated"]:
                    self._reload()
                case [b"drain"]:
                    self._stop()
                case [b"cancel", number, ticket, *key]:
                    other = self._workers.get(int(number))
                    if other is not None:
                        other.tell(b"cancel %d %b %b\n" % (worker.number, ticket, b" ".join(key)))
                    else:
                        worker.tell(b"heard %b\n" % ticket)
                case [b"heard", number, ticket]:
                    self._workers[int(number)].tell(b"heard %b\n" % ticket)
        await worker.process.wait()
        self._places.clear(worker.number)
        self._left(worker)

    async def _watch(self, number: int, reading: asyncio.Task[None]) -> None:
        """Start it again whenever it dies."""
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        while True:
            began = loop.time()
            await reading
            if self._stopping.is_set():
                return
            pause = FIRST_PAUSE if loop.time() - began > LIVED else min(2 * pause, LONGEST_PAUSE)
            LOG.error("a process died and is started again", number=number, exit_code=self._workers[number].process.returncode)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
                return
            reading = await self._start(number)
