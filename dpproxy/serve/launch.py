"""A proxy as a child process: started, awaited until it listens, stopped. For the demo, the acceptance run, the bench.

Knows: the command line of `dpproxy serve`, one line of its standard error. Must not know: policies, SQL, clients.
The child gets a session of its own, so that Ctrl-C in a terminal reaches the parent alone and the order of the end is
ours: the client first, then the proxy, asked politely and waited for.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dpproxy.errors import OperatorError

START_TIMEOUT: Final = 600.0
"""Seconds until the proxy listens: a facade and the public tables of fifteen data sets take ten on a slow machine, two minutes
and more on one that is busy with ten other things. A proxy that ends instead is told of at once."""
STOP_TIMEOUT: Final = 45.0
"""Seconds a proxy may take to end its sessions and its facade before it is killed."""
_LISTENING: Final = re.compile(r"listening on (\S+):(\d+)")


class LaunchError(OperatorError):
    """The proxy did not come up. The text holds the last lines it said."""


@dataclass
class Proxy:
    """A running `dpproxy serve`. `said` holds its last lines of standard error."""

    process: subprocess.Popen[str]
    host: str = ""
    port: int = 0
    said: collections.deque[str] = field(default_factory=lambda: collections.deque(maxlen=1000))
    ready: threading.Event = field(default_factory=threading.Event)

    @property
    def pid(self) -> int:
        return self.process.pid

    def listen(self) -> None:
        """Read standard error to its end (a full pipe would stop the proxy), noticing the line that says where."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))
            found = _LISTENING.search(line)
            if found and not self.ready.is_set():
                self.host, self.port = found[1], int(found[2])
                self.ready.set()
        self.ready.set()

    def stop(self) -> None:
        """Stop it by SIGTERM, then by SIGKILL. It is safe to call twice."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def client_variables(proxy: Proxy, user: str, dataset: str) -> dict[str, str]:
    """Return the environment of a client by libpq for a user whose password is the name. What this process has for another
    server is left out."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    address = {"PGHOST": proxy.host, "PGPORT": str(proxy.port), "PGCONNECT_TIMEOUT": "10"}
    return {**others, **address, "PGUSER": user, "PGPASSWORD": user, "PGDATABASE": dataset}


@contextlib.contextmanager
def launched(
    policies: Sequence[Path],
    state: Path,
    listen: str = "127.0.0.1:0",
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    program: Sequence[str] = (),
) -> Iterator[Proxy]:
    """Run a proxy over `policies`, listening when the body begins, gone when it ends. Port 0: any free one.

    `env` is added to this process's environment, `options` to the command line. `program`: what to start instead of the
    installed command. Raises LaunchError.
    """
    command = [*(program or [sys.executable, "-m", "dpproxy"]), "serve", *map(str, policies)]
    process = subprocess.Popen(
        [*command, "--listen", listen, "--state", str(state), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )
    proxy = Proxy(process)
    reader = threading.Thread(target=proxy.listen, daemon=True)
    reader.start()
    try:
        proxy.ready.wait(START_TIMEOUT)
        if not proxy.port:
            proxy.stop()
            reader.join(5)
            raise LaunchError("the proxy did not start:\n" + "\n".join(list(proxy.said)[-20:]))
        yield proxy
    finally:
        proxy.stop()


def end_on_sigterm() -> None:
    """Let SIGTERM end this process the way Ctrl-C does, through every `finally`."""

    def leave(_signal: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
