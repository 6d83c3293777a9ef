"""Starts the operators' pages in a thread with a loop of its own, so that no page holds a session up.

Knows: uvicorn, sockets, certificates. Must not know: what the pages show. It is imported by a proxy that is asked for the pages
alone: a web server takes memory. On an address of this machine it speaks plain HTTP, elsewhere TLS with the server's certificate,
unless the operator has said that somebody else encrypts. `Options` have been checked (`console.access.check_console`).
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Final

import uvicorn

from dpproxy.console.access import is_local
from dpproxy.console.entrance import Entrance
from dpproxy.console.http_door import AT_A_TIME, PLACES, QUEUE, Door, Listener
from dpproxy.console.source import Source
from dpproxy.console.token_file import digests
from dpproxy.console.web import application
from dpproxy.serve.console_protocol import protocol_at
from dpproxy.serve.options import listening
from dpproxy.server.tls import TlsFiles

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
            listener = Listener(_bound(host, port), door)
        bound = listener.getsockname()[1]
        self._tls, self._context = tls, context_of(tls) if tls is not None else None
        site = application(source, Entrance(lambda: digests(state)), f"dpproxy_console_{bound}", secure=tls is not None)
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
        print(f"console on http{'s' if tls else ''}://{host}:{bound}", file=sys.stderr, flush=True)

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


def context_of(tls: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if tls.minimum == "1.3" else ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.certificate, tls.key)
    return context


def _bound(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=QUEUE)
