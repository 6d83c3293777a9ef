"""What every serving process begins with: its event loop.

Knows: uvloop. Must not know: what is served, the command line.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import gc
import os
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from dpproxy.errors import OperatorError
from dpproxy.limits.session_limits import DRAIN_SECONDS, Rations, SessionLimits
from dpproxy.private_files import write_whole
from dpproxy.server.tls import TlsFiles
from dpproxy.telemetry.log import Format

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


# Giving memory back to the system: once starting up is done, and after a flood.
#
# Knows: the C library, what the system says of this process. Must not know: anything of the proxy. Opening the data, checking
# it and importing the libraries leave free pages in the heap that glibc keeps, and so do thousands of connections that have
# gone: an idle proxy should not hold on to them. Elsewhere than on glibc and Linux this does nothing.


SPARE: Final = 16 << 20
"""Bytes beyond what a proxy has that has just started, above which free pages are looked for: five milliseconds of a thread."""
PAUSE: Final = 30.0
"""Seconds between two looks."""


def give_back() -> None:
    """Collect garbage, keep what start-up made out of later collections, and return free pages."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # or libraries that count their objects at the end report leaks
    trim()


def trim() -> None:
    """Return free pages."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return  # another C library: it has no such call, and nothing is lost


def resident() -> int:
    """Return the bytes of memory that this process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


async def keep_giving_back(
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    size: Callable[[], int] = resident,
    give: Callable[[], None] = trim,
) -> None:
    """Return free pages again and again while the process has more than at first, until cancelled. The loop goes on meanwhile."""
    first = size()
    while True:
        await pause(PAUSE)
        if size() > first + SPARE:
            await asyncio.to_thread(give)


# Rounds of work that is done again and again, and who waits for the end of one that began after they asked.
#
# Knows: counting, waiting. Must not know: what is done. Who asks while a round is under way has to wait for the next one: this
# one may have read already what they have changed since.


class Rounds:
    """Counts rounds, in one event loop."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None  # the end of a round that has not begun

    @contextmanager
    def round(self) -> Iterator[None]:
        """Do the work of one round."""
        awaited, self._next = self._next, None
        try:
            yield
        finally:
            if awaited is not None and not awaited.done():
                awaited.set_result(None)

    def next(self) -> asyncio.Future[None]:
        """Return what is done when the next round to begin has ended; many may wait for it."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._next)


# A secret that outlives the process: drawn once, kept in a file that only its owner reads.
#
# Knows: files. Must not know: what the secret is for. Processes that begin together all get the one that was kept first.


SIZE: Final = 32
"""Bytes."""


def lasting_secret(path: Path) -> bytes:
    """Read, or drawn and kept. A file of another length was cut short, and is made anew. Raises OSError."""
    for _ in range(2):
        try:
            found = path.read_bytes()
        except FileNotFoundError:
            found = b""
        if len(found) == SIZE:
            return found
        _keep(path, secrets.token_bytes(SIZE), anew=bool(found))
    return path.read_bytes()


def _keep(path: Path, secret: bytes, *, anew: bool) -> None:
    """The first of several wins."""
    write_whole(path, secret, replace=anew)


# Tells systemd that the proxy serves, or stops serving.
#
# Knows: the socket that systemd names in the environment (sd_notify). Must not know: what is served. Where nobody has started
# the process as a service of this kind, nothing is told to nobody.


VARIABLE = "NOTIFY_SOCKET"


def notify(state: Literal["READY=1", "STOPPING=1"]) -> None:
    """Tell it. A service manager that cannot be told is no reason not to serve."""
    where = os.environ.get(VARIABLE, "")
    if not where.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
        door.connect("\0" + where[1:] if where.startswith("@") else where)
        door.sendall(state.encode())


# What is served, and how: the options of `dpproxy serve` as a value, and what cannot be served together.
#
# Knows: types of options. Must not know: the command line, what an option does.


class ServingError(OperatorError):
    """What was asked for cannot be served together; the text says why."""


@contextmanager
def listening(where: str) -> Iterator[None]:
    """Raises ServingError for an address that cannot be had."""
    try:
        yield
    except OSError as error:
        raise ServingError(f"cannot listen on {where}: {error.strerror or error}") from None


@dataclass(frozen=True)
class Options:
    """What is served, and how. `postgres`: bin folder of an installed PostgreSQL for the facade; `facade_dsn`: a server for
    it. `drain`: seconds. `ledger`: its address, None for a file in `state`. `key_file`: the secret that seals ledger and
    stored answers. `metrics`: where Prometheus may ask; of several processes the first answers. `health`: where probes alone
    may ask. `local`: folder for a unix socket. `session_limits`: what the facade may take. `anchor`: a file outside that
    tells when a SQLite ledger was rolled back. `watch`: policies are read again when their files change. `metrics_token`:
    what has to be shown for metrics. `console`: where operators' pages are; of several processes the first has them;
    `console_plain`: without TLS. `draft`: policies with open decisions are served, too."""

    policies: tuple[Path, ...]
    host: str
    port: int
    state: Path
    postgres: Path | None = None
    facade_dsn: str | None = None
    tls: TlsFiles | None = None
    require_tls: bool = False
    drain: float = DRAIN_SECONDS
    limits: SessionLimits = field(default_factory=SessionLimits)
    ledger: str | None = None
    key_file: Path | None = None
    metrics: tuple[str, int] | None = None
    local: Path | None = None
    rations: Rations = field(default_factory=Rations)
    anchor: Path | None = None
    watch: bool = False
    log_format: Format = "json"
    log_level: str = "info"
    metrics_token: str | None = field(default=None, repr=False)
    console: tuple[str, int] | None = None
    console_plain: bool = False
    draft: bool = False
    health: tuple[str, int] | None = None
