"""Tells systemd that the proxy serves, or stops serving.

Knows: the socket that systemd names in the environment (sd_notify). Must not know: what is served. Where nobody has started the
process as a service of this kind, nothing is told to nobody.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Literal

VARIABLE = "NOTIFY_SOCKET"


def notify(state: Literal["READY=1", "STOPPING=1"]) -> None:
    """Tell it. A service manager that cannot be told is no reason not to serve."""
    where = os.environ.get(VARIABLE, "")
    if not where.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
        door.connect("\0" + where[1:] if where.startswith("@") else where)
        door.sendall(state.encode())
