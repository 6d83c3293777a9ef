"""Starts the operators' pages in a thread with a loop of its own, so that no page holds a session up.

Knows: uvicorn, h11, sockets, certificates. Must not know: what the pages show. It is imported by a proxy that is asked for the
pages alone: a web server takes memory. On an address of this machine it speaks plain HTTP, elsewhere TLS with the server's
certificate, unless the operator has said that somebody else encrypts. `Options` have been checked
(`console.tokens.check_console`).
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpproxy.console.health import HealthServer
from dpproxy.console.source import Source
from dpproxy.console.tokens import Entrance, digests, is_local
from dpproxy.console.web import AT_A_TIME, LARGEST, PLACES, QUEUE, Door, Listener, application
from dpproxy.listeners import bound, server_context
from dpproxy.operations.status import Status
from dpproxy.serve.runtime import listening
from dpproxy.server.tls import TlsFiles

# HTTP connections of the operators' pages, which wait at a door until a request is whole.
#
# Knows: uvicorn's protocol and when it has read a request. Must not know: pages, who is let in. Whatever uvicorn does with a
# request it does here; what is added is that the door hears of it, and that a body which no form has ends the connection at its
# header. Each piece of a body costs the parser as much as a page of bytes: pieces of one byte, sent for a second and left in the
# system's buffers, were minutes of work in which no page came.


class BoundedRequests(h11.Connection):
    """HTTP of a server to which nobody sends a body in pieces, or a long one."""

    def next_event(self) -> Any:
        """Return what was sent next. Raises h11.RemoteProtocolError, behind which nothing is read."""
        event = super().next_event()
        if isinstance(event, h11.Request) and not _short(dict(event.headers)):
            raise h11.RemoteProtocolError("a form comes as a whole, and is short", error_status_hint=413)
        return event


def _short(headers: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" not in headers and int(headers.get(b"content-length", b"0")) <= LARGEST


class ConsoleProtocol(H11Protocol):
    """One connection. `door`: where it was given a place when it was accepted."""

    door: Door

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = BoundedRequests(h11.SERVER, HEADERS)
        self._waits = True

    def connection_lost(self, exc: Exception | None) -> None:
        if self.client is not None:
            self.door.left(self.client)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._tell()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._tell()

    def _tell(self) -> None:
        """A reply may also be complete before its request is: then it waits on."""
        cycle = self.cycle
        waits = cycle is None or cycle.more_body or cycle.response_complete
        if self.client is not None and waits != self._waits:
            self._waits = waits
            (self.door.answered if waits else self.door.asked)(self.client)


def protocol_at(door: Door) -> type[asyncio.Protocol]:
    """Return the protocol of connections that wait at this door."""
    return type("ConsoleProtocol", (ConsoleProtocol,), {"door": door})


HEADERS: Final = 1 << 15
"""Bytes of a request's line and headers: browsers send two thousand."""
AT_ONCE: Final = 32
"""Whole requests: more are turned away (503)."""
GRACE: Final = 3
"""Seconds that replies get when the proxy stops."""


class ConsoleServer:
    """Listens until `end`."""

    def __init__(self, address: tuple[str, int], source: Source, state: Path, tls: TlsFiles | None = None) -> None:
        """Listen, and say where on standard error. `tls`: None for plain HTTP. Raises ServingError, AccessError."""
        host, port = address
        digests(state)
        door = Door()
        with listening(f"{host}:{port}"):
            listener = Listener(bound(host, port, QUEUE), door)
        chosen = listener.getsockname()[1]
        self._tls = tls
        self._context = None if tls is None else server_context(tls.certificate, tls.key, tls.minimum)
        site = application(source, Entrance(lambda: digests(state)), f"dpproxy_console_{chosen}", secure=tls is not None)
        context = self._context
        config = uvicorn.Config(
            site,
            log_config=None,
            log_level="error",  # what strangers send wrong must not fill the log
            access_log=False,
            lifespan="off",
            loop="asyncio",
            http=protocol_at(door),
            backlog=AT_A_TIME,
            ws="none",
            proxy_headers=False,
            server_header=False,
            limit_concurrency=PLACES + AT_ONCE,
            timeout_graceful_shutdown=GRACE,
            ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="console", daemon=True)
        self._thread.start()
        print(f"console on http{'s' if tls else ''}://{host}:{chosen}", file=sys.stderr, flush=True)

    def renew(self) -> None:
        """Read the certificate again, for handshakes to come. Raises OSError, which ssl.SSLError is."""
        if self._tls is not None and self._context is not None:
            self._context.load_cert_chain(self._tls.certificate, self._tls.key)

    def end(self) -> None:
        """Answer nobody any more."""
        self._server.should_exit = True
        self._thread.join()


def console_tls(host: str, tls: TlsFiles | None, plain: bool) -> TlsFiles | None:
    """Return what the pages are encrypted with: nothing on an address of this machine."""
    return None if plain or is_local(host) else tls


# Starts what Prometheus and probes ask, and lets its threads ask the loop.
#
# Knows: `console.health`, the loop, who knows the status of all processes. Must not know: HTTP. It is imported by a proxy that
# is asked for metrics alone: Prometheus' library takes memory.


PATIENCE: Final = 20.0
"""Seconds a request may take."""


def open_health(
    address: tuple[str, int],
    token: str | None,
    statuses: Callable[[], Coroutine[Any, Any, Sequence[Status]]],
    probes_only: bool = False,
) -> Callable[[], None]:
    """Listen, and say where on standard error; return what ends it. `probes_only`: without metrics. Raises ServingError."""
    host, port = address
    loop = asyncio.get_running_loop()

    def asked() -> Sequence[Status]:
        return asyncio.run_coroutine_threadsafe(statuses(), loop).result(PATIENCE)

    def alive() -> None:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(PATIENCE)

    with listening(f"{host}:{port}"):
        server = HealthServer(host, port, asked, alive, token, probes_only)
    print(f"{'health' if probes_only else 'metrics'} on {host}:{server.server_port}", file=sys.stderr, flush=True)
    return server.end
