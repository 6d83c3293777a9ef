"""Asking a proxy that serves, by the sockets in its state folder.

Knows: unix sockets, lines. Must not know: what requests mean. Each process has a socket of its own there; any of them carries
out what concerns all, and tells the others. Whoever may read and write the folder may ask: that is the operator's account, and
root.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from dpproxy.operations.requests import OperationError, Request, line_of

PATIENCE: Final = 120.0
"""Seconds: a reload opens data and starts servers."""
LONGEST: Final = 100
"""Bytes of a socket's path that every system takes."""


def socket_name(process: int) -> str:
    """Return the name of a process's socket in the state folder. `process`: its number of several, 0 of one."""
    return f"admin-{process}.sock" if process else "admin.sock"


def sockets(state: Path) -> list[Path]:
    """Return the sockets that are there, also of processes that were killed."""
    return sorted(path for path in state.glob("admin*.sock") if path.is_socket())


@contextlib.contextmanager
def address(path: Path) -> Iterator[str]:
    """Return a socket's path in a form short enough for the system: by an open folder where it is too long. Raises OSError."""
    if len(os.fsencode(path)) <= LONGEST:
        yield str(path)
        return
    if not Path("/proc/self/fd").exists():
        raise OSError(errno.ENAMETOOLONG, f"a socket's path has {LONGEST} bytes at most on this system: use a shorter --state")
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def ask(path: Path, request: Request, *, passed: bool = False, patience: float = PATIENCE) -> Any:
    """Return the reply of the process behind a socket. Raises OperationError, OSError when it does not answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.settimeout(patience)
        with address(path) as short:
            door.connect(short)
        door.sendall(line_of(request, passed=passed))
        with door.makefile("rb") as replies:
            line = replies.readline()
    if not line:
        raise OperationError("the proxy ended before it replied")
    reply = json.loads(line)
    if "error" in reply:
        raise OperationError(reply["error"])
    return reply["ok"]


def ask_any(state: Path, request: Request, *, patience: float = PATIENCE) -> Any:
    """Return the reply of the first process that answers. Raises OperationError where none does."""
    for path in sockets(state):
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError):  # it was killed
            return ask(path, request, patience=patience)
    raise OperationError(f"no proxy serves with --state {state}")


def answers(path: Path) -> bool:
    """Tell whether somebody listens at a socket."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door, address(path) as short:
            door.connect(short)
    except OSError:
        return False
    return True


def serves(state: Path) -> bool:
    """Tell whether a proxy serves with this state folder."""
    return any(map(answers, sockets(state)))
