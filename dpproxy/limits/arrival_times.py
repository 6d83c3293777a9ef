"""How long ago a client's message arrived, though the loop comes to read it only now.

Knows: what the system tells of a connection. Must not know: messages, sessions. Linux tells when a TCP connection last received
anything, to some milliseconds; it takes 5 microseconds to ask. Elsewhere, and of unix sockets, nothing is known.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import Final

_LAST_RECEIVED: Final = struct.Struct("=52xI")
"""Milliseconds since data last came, in the system's own struct (<linux/tcp.h>): behind eight bytes the twelfth word of four."""


def seconds_waited(transport: asyncio.BaseTransport) -> float:
    """Return seconds since the last bytes of a client arrived; 0 where nobody knows."""
    connected = transport.get_extra_info("socket")
    if sys.platform != "linux" or connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return 0.0
    try:
        facts = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED.size)
    except OSError:  # it has gone already
        return 0.0
    return float(_LAST_RECEIVED.unpack(facts)[0]) / 1000 if len(facts) == _LAST_RECEIVED.size else 0.0
