"""`/metrics`, `/healthz` and `/ready` by HTTP, for Prometheus and for who restarts what hangs.

Knows: HTTP, tokens. Must not know: how a status is made. `/healthz` says that the process answers, `/ready` that it can answer
statements and what of it cannot; they tell no name, so that a probe needs no token. `/metrics` tells what roles have spent:
where a token is configured it must be shown (`Authorization: Bearer ...`), and without one the address must be of this machine
(`tokens.check_address`). A server of probes alone has no `/metrics`, so that it may listen where a cluster's probes
reach it. Everything else is 404. Requests are answered in threads of their own, and a connection whose request is
not whole gives way when too many wait (`console.web`); nothing is read of a request but its first line and headers.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any, Final, cast

import structlog

from dpproxy.console import metrics, tokens
from dpproxy.console.web import QUEUE, Door
from dpproxy.operations.requests import OperationError
from dpproxy.operations.status import Status

LOG = structlog.get_logger()
LASTS: Final = 1.0
"""Seconds for which a status is told again."""
Statuses = Callable[[], Sequence[Status]]
"""Tries the parts, and returns what all processes know. Called in a thread. Raises OperationError, TimeoutError, OSError."""


class HealthServer(ThreadingHTTPServer):
    """Listens at one address, in threads, until `end`."""

    daemon_threads = True
    request_queue_size = QUEUE

    def __init__(
        self,
        host: str,
        port: int,
        statuses: Statuses,
        alive: Callable[[], object],
        token: str | None = None,
        probes_only: bool = False,
    ) -> None:
        """`alive` raises where the process does not answer. Raises OSError."""
        self.alive = alive
        self.token = token
        self.probes_only = probes_only
        self.door = Door()
        self._statuses = statuses
        self._trying = threading.Lock()
        self._tried: tuple[float, Sequence[Status]] = (-LASTS, ())
        super().__init__((host, port), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, name="health", daemon=True)
        self._thread.start()

    def statuses(self) -> Sequence[Status]:
        """Return what is known now."""
        return self._statuses()

    def recent(self) -> Sequence[Status]:
        """Return what was known a moment ago at most: however often a probe asks, parts are tried once in that time."""
        with self._trying:
            at, found = self._tried
            if time.monotonic() - at >= LASTS:
                found = self._statuses()
                self._tried = time.monotonic(), found
            return found

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.door.arrived(address[:2], connection)
        return connection, address

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.door.left(client_address[:2])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that leaves, or has given way, is no event."""

    def end(self) -> None:
        """Answer nobody any more."""
        self.shutdown()
        self.server_close()
        self._thread.join()


HEADERS: Final = 1 << 15
"""Bytes of a request's line and headers. Python's own bound is a hundred headers of 64 kB each, in every connection."""


class _Request:
    """What is read of a connection: no more than `HEADERS`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._left = HEADERS

    def readline(self, most: int) -> bytes:
        """Return the next line. Raises ConnectionError where the request is too long."""
        line = self._file.readline(min(most, self._left))
        self._left -= len(line)
        if not self._left:
            raise ConnectionError("the request is too long")
        return line

    def close(self) -> None:
        self._file.close()


class _Handler(BaseHTTPRequestHandler):
    server: HealthServer
    server_version, sys_version = "dpproxy", ""
    timeout = 30  # seconds for a client that does not finish its request

    def setup(self) -> None:
        super().setup()
        self.rfile = cast("Any", _Request(cast("IO[bytes]", self.rfile)))

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.door.asked(self.client_address[:2])
        try:
            if path == "/healthz":
                self.server.alive()
                self._say(200, "ok\n")
            elif path == "/ready":
                self._ready()
            elif path == "/metrics" and not self.server.probes_only:
                self._metrics()
            else:
                self._say(404, f"there is {'' if self.server.probes_only else '/metrics, '}/healthz and /ready\n")
        except ConnectionError:  # the client has gone, or has given way
            self.close_connection = True
        except Exception as error:  # whatever it is, the process does not do what it should
            LOG.error("health request failed", path=path, error=type(error).__name__)
            why = str(error) if isinstance(error, OperationError) else type(error).__name__
            self._say(503, f"{why}\n")

    do_HEAD = do_GET

    def _ready(self) -> None:
        statuses = self.server.recent()
        parts = sorted({check.part for status in statuses for check in status.checks})
        works = {p: all(c.works for s in statuses for c in s.checks if c.part == p) for p in parts}
        loaded = [dataset.loaded for status in statuses for dataset in status.datasets]
        ready = bool(statuses) and all(status.ready for status in statuses)
        found = {"ready": ready, **works, "stopping": any(status.stopping for status in statuses)}
        policy = {
            "policy_loaded": min(loaded, default=0.0),
            "reload_failed": any(d.problem for s in statuses for d in s.datasets),
        }
        self._say(200 if ready else 503, json.dumps(found | policy) + "\n", "application/json")

    def _metrics(self) -> None:
        if not tokens.shown(self.headers.get("Authorization", ""), self.server.token):
            self._say(401, "show the token: Authorization: Bearer ...\n")
            return
        self._say(200, metrics.page(self.server.statuses()).decode(), "text/plain; version=0.0.4; charset=utf-8")

    def _say(self, status: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a probe comes every few seconds."""
