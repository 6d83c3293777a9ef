"""What the proxy asks of the operating system for each client's socket.

Knows: socket options by platform. Must not know: protocols. A client whose machine is gone says nothing: keep-alive asks,
and a time limit on unacknowledged data ends what waits for an answer. Options a platform lacks are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""Seconds of silence, seconds between questions, unanswered ones: a client that is gone is noticed in two minutes."""
USER_TIMEOUT: Final = 300_000
"""Milliseconds data may stay unacknowledged or, with a client that does not read, unsent: long enough for a person who
pages through a result, short enough that a client that hangs does not hold rows in buffers for ever."""


def keep_alive(transport: asyncio.Transport) -> None:
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # the client has gone already
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in {**KEEP_ALIVE, "TCP_USER_TIMEOUT": USER_TIMEOUT}.items():
            option = getattr(socket, name, None)
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)


def address_of(transport: asyncio.Transport) -> str:
    """The client's, without its port; empty for a unix socket."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""
