"""One embedded PostgreSQL process: made, started, watched, stopped.

Knows: `initdb`, `postgres`, signals, settings. Must not know: policies, clients, what the databases hold.
The data directory is made anew at every start: nothing in it is worth keeping, and so no trust is ever put in files of an
earlier run. What initdb makes, in a third of a second, is a pattern from which each server's files are copied. Therefore
`fsync` is off. A postmaster that dies is started again on the same files, after what is left of its children is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from dpproxy.facade.account import Account, FacadeError, Place
from dpproxy.private_files import private_opener

SUPERUSER = "postgres"
START_TIMEOUT = 120.0  # seconds; a start takes 0.1 s, more only on a machine in trouble
STOP_TIMEOUT = 10.0  # seconds for a fast shutdown before it is killed
OVERHEAD = 512 << 20  # bytes of address space a server process has before it takes any for a statement
PR_SET_PDEATHSIG = 1  # prctl(2)
FIRST_TO_GO = {"PG_OOM_ADJUST_FILE": "/proc/self/oom_score_adj", "PG_OOM_ADJUST_VALUE": "900"}
"""Where the machine's memory ends all the same, Linux kills a session of the facade, not the proxy with its ledger."""


@dataclass(frozen=True)
class Bounds:
    """Bounds the bytes of one session, whatever it sets `work_mem` to. What sessions take together is looked at by
    `server.warden`."""

    memory: int = 1 << 30
    disk: int = 1 << 30


CHANGES: Final = 64 << 20
"""Bytes of PostgreSQL's log of changes, which it keeps to by itself but for a few."""
LOG_KEPT: Final = 1 << 20
"""Bytes of the server's own log up to which it outlives the files that are made anew: says why the ones before were unusable."""

SETTINGS: Final = {
    # reachable only through the socket in the private folder
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": "5432",
    # nothing here is worth keeping
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": f"{CHANGES >> 20}MB",
    # off where nothing can be written (`facade.facade`); a session can make the catalog grow by 17 MB a second
    "autovacuum": "off",
    "autovacuum_naptime": "15s",
    "autovacuum_max_workers": "1",
    # small, and bounded
    "shared_buffers": "32MB",
    "max_worker_processes": "0",
    "max_parallel_workers": "0",
    "max_parallel_workers_per_gather": "0",
    "max_prepared_transactions": "0",
    "work_mem": "16MB",
    "temp_buffers": "4MB",
    "jit": "off",
    "huge_pages": "off",
    # a vanished client is noticed while its statement runs
    "client_connection_check_interval": "5s",
    # no SQL of an analyst in logs, process titles or views of other sessions
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": "-1",
    "log_error_verbosity": "terse",
    "track_activities": "off",
    "update_process_title": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "password_encryption": "scram-sha-256",
}
"""What every server runs with. Every entry is here for speed, for a bound, or to keep statements out of logs."""


def settings(home: Path, connections: int, major: int, bounds: Bounds) -> dict[str, str]:
    """Return the settings that the server runs with."""
    own = {
        "unix_socket_directories": '"' + str(home).replace('"', '""') + '"',  # a list, in which a comma separates
        "max_connections": str(connections),
        "temp_file_limit": f"{bounds.disk >> 10}kB",
    }
    if major >= 18:
        own["io_method"] = "sync"  # no worker processes for reads that never happen
    return SETTINGS | own


class EmbeddedServer:
    """Runs a postmaster over a fresh data directory in `place`. `on_exit` is called in the loop when it dies unasked."""

    def __init__(
        self, place: Place, account: Account, connections: int, on_exit: Callable[[], None], bounds: Bounds | None = None
    ) -> None:
        self.place = place
        self._bounds = bounds or Bounds()
        self._account = account
        self._connections = connections
        self._on_exit = on_exit
        self._process: subprocess.Popen[bytes] | None = None
        self._exited = asyncio.Event()
        self._stopping = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def create(self, pattern: Path | None = None) -> None:
        """Make new, empty files: a copy of a pattern, else initdb's. Raises FacadeError, OSError."""
        await asyncio.to_thread(self._clear)  # a gigabyte takes its time
        if pattern is not None:
            await asyncio.to_thread(_copy, pattern, self.place.data, self._account)
        else:
            await asyncio.to_thread(initdb, self.place, self._account)
        self._configure()

    def _clear(self) -> None:
        kill_strays(self.place.data)
        shutil.rmtree(self.place.data, ignore_errors=True)
        self.place.socket.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if self.place.log.stat().st_size > LOG_KEPT:
                self.place.log.unlink()

    async def start(self) -> None:
        """Start the postmaster and wait until it accepts connections. Raises FacadeError."""
        self._stopping = False
        self._exited = asyncio.Event()
        (self.place.data / "postmaster.pid").unlink(missing_ok=True)
        with open(self.place.log, "ab", opener=private_opener) as log:
            self._process = subprocess.Popen(
                [self.place.binaries.program("postgres"), "-D", str(self.place.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=partial(_bounded, self._bounds.memory + OVERHEAD),
                **_identity(self.place, self._account),
            )
        self._watch(self._process)
        await self._ready()

    async def stop(self) -> None:
        """Stop the server: fast shutdown, then kill. Sessions get PostgreSQL's own 57P01."""
        self._stopping = True
        if self._process is None:
            return
        self._signal(signal.SIGINT)
        try:
            await asyncio.wait_for(self._exited.wait(), STOP_TIMEOUT)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            kill_strays(self.place.data)
        self._process = None

    async def restart(self) -> None:
        """Clear what a postmaster that died left behind, and start again on the same files. Raises FacadeError."""
        for _ in range(50):  # killed children need a moment to leave the shared memory
            if not kill_strays(self.place.data):
                break
            await asyncio.sleep(0.02)
        self.place.socket.unlink(missing_ok=True)
        await self.start()

    def _configure(self) -> None:
        chosen = settings(self.place.home, self._connections, self.place.binaries.major, self._bounds)
        lines = [f"{name} = {_quoted(value)}\n" for name, value in chosen.items()]
        (self.place.data / "postgresql.conf").write_bytes(os.fsencode("".join(lines)))
        (self.place.data / "pg_hba.conf").write_text("local all all trust\n")

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """A thread that waits for the end: works on every platform, and costs nothing until then."""
        loop = asyncio.get_running_loop()

        def wait() -> None:
            process.wait()
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody is left to be told
                loop.call_soon_threadsafe(self._ended, process)

        threading.Thread(target=wait, name="facade-watch", daemon=True).start()

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        if process is self._process:
            self._exited.set()
            if not self._stopping:
                self._on_exit()

    async def _ready(self) -> None:
        """PostgreSQL writes `ready` in its pid file once it accepts connections."""
        deadline = asyncio.get_running_loop().time() + START_TIMEOUT
        pidfile = self.place.data / "postmaster.pid"
        while asyncio.get_running_loop().time() < deadline:
            if self._exited.is_set():
                raise FacadeError(f"postgres does not start: {self._log_tail()}")
            with contextlib.suppress(FileNotFoundError):
                lines = pidfile.read_text().splitlines()
                if len(lines) >= 8 and lines[7].strip() == "ready":
                    return
            await asyncio.sleep(0.01)
        raise FacadeError(f"postgres was not ready within {START_TIMEOUT:.0f} s: {self._log_tail()}")

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return self.place.log.read_text(errors="replace")[-1000:].strip()
        return "no log"

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._process:
                self._process.send_signal(number)


def _identity(place: Place, account: Account) -> dict[str, Any]:
    """How a child becomes the account, and the little it inherits."""
    environment = {"PATH": os.defpath, "LC_ALL": "C", "HOME": str(place.home), **FIRST_TO_GO}
    shared: dict[str, Any] = {"cwd": str(place.home), "env": environment}
    return shared | account.identity()


def initdb(place: Place, account: Account) -> None:
    """Run initdb. Raises FacadeError with what it said."""
    locale = ["--locale-provider=builtin", "--locale=C.UTF-8", "--lc-collate=C", "--lc-ctype=C"]
    arguments = locale if place.binaries.major >= 17 else ["--locale=C"]
    arguments += ["--no-data-checksums"] if place.binaries.major >= 18 else []
    arguments += ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions", "--wal-segsize=1"]
    _ran(place, account, [place.binaries.program("initdb"), "-D", str(place.data), *arguments])


ONE_DATABASE = (
    (
        "template1",
        """
UPDATE pg_database SET datistemplate = false
DROP DATABASE template0
DROP DATABASE postgres
CREATE DATABASE lone{options}
""",
    ),
    (
        "lone",
        """
DROP DATABASE template1
UPDATE pg_database SET datname = 'template1' WHERE datname = 'lone'
""",
    ),
)
"""A server's only database is a dataset's: no other is there to be seen. Its number is of those that are not the system's, which
pgAdmin does not list. By the database in which a script is run; in single-user mode a line is a statement."""


def make_pattern(place: Place, account: Account) -> None:
    """Make the files that servers' files are copied from. Raises FacadeError."""
    shutil.rmtree(place.data, ignore_errors=True)
    initdb(place, account)
    for database, script in ONE_DATABASE:
        program = [place.binaries.program("postgres"), "--single", "-D", str(place.data), "-c", "fsync=off", database]
        options = " STRATEGY = file_copy OID = 16384" if place.binaries.major >= 15 else ""
        said = _ran(place, account, program, script.format(options=options))
        if "ERROR" in said:
            raise FacadeError(f"postgres --single failed: {said.strip()[-2000:]}")


def _ran(place: Place, account: Account, program: list[str], given: str = "") -> str:
    """Raises FacadeError."""
    done = subprocess.run(program, input=given, capture_output=True, text=True, check=False, **_identity(place, account))
    if done.returncode:
        raise FacadeError(f"{Path(program[0]).name} failed: {done.stderr.strip()[-2000:]}")
    return str(done.stderr)


def _copy(pattern: Path, data: Path, account: Account) -> None:
    """Raises OSError."""
    shutil.copytree(pattern, data, symlinks=True)
    for made in (data, *data.rglob("*")) if account.switch else ():
        os.chown(made, account.uid, account.gid, follow_symlinks=False)


def _quoted(value: str) -> str:
    """As postgresql.conf wants it: a folder's name may hold any of these."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _bounded(memory: int) -> None:
    """In the child, before PostgreSQL: end with the proxy, no core files, bounded memory, and wait one's turn.

    A session of the facade is woken by what the proxy writes. By default it takes the processor at once, so that the proxy is
    stopped behind each statement it passes on; under SCHED_BATCH it waits until the proxy has passed on all that was there.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it: that costs speed, nothing else
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGQUIT), 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # macOS does not enforce it
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def kill_strays(folder: Path) -> int:
    """Kill server processes that still live in `folder` or below: their working directory is there. Returns how many there were.

    Only Linux tells working directories; elsewhere PostgreSQL's own interlock makes the restart fail instead.
    """
    found = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink().is_relative_to(folder):
                os.kill(int(entry.name), signal.SIGKILL)
                found += 1
    return found
