"""What an operator may ask of a proxy that serves, and the line of JSON that it is on the admin socket.

Knows: names and amounts. Must not know: sockets, how anything is carried out. A request is one line, its reply another:
`{"ok": ...}` or `{"error": "..."}`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from dpproxy.errors import OperatorError


class OperationError(OperatorError):
    """What was asked for cannot be done; the text says why, for the operator."""


@dataclass(frozen=True)
class Report:
    """Ask what a process knows of itself: a `Status`. `checked`: its parts are tried first."""

    checked: bool = False


@dataclass(frozen=True)
class Recent:
    """Ask for the last statements, the newest first."""

    count: int = 100


@dataclass(frozen=True)
class PauseRole:
    """Answer nothing to a role. `dataset`: may be empty where one dataset alone has a role of the name."""

    role: str
    reason: str
    dataset: str = ""


@dataclass(frozen=True)
class ResumeRole:
    role: str
    reason: str = ""
    dataset: str = ""


@dataclass(frozen=True)
class Reread:
    """Read the file of paused roles again: another process has written it."""


@dataclass(frozen=True)
class Reload:
    """Read certificates, policies and data again, in all processes."""


@dataclass(frozen=True)
class Drain:
    """Take no new connections, let statements end, and stop: all processes."""


@dataclass(frozen=True)
class CancelSession:
    """Cancel what a session does, or `end` the session."""

    session: int
    end: bool = False


@dataclass(frozen=True)
class GrantBudget:
    """Allow an account more in its window. `ledger`: the record that is meant, as `ledger_name` has it; `scope`: role, user,
    dataset. Amounts are millionths of epsilon and 10^-18 of delta."""

    ledger: str
    dataset: str
    scope: str
    name: str
    epsilon: int
    delta: int
    reason: str


@dataclass(frozen=True)
class SetClock:
    """Take the operator's word that this machine's clock is right. `wrong`: the ledger's ran ahead."""

    ledger: str
    dataset: str
    wrong: bool
    reason: str


Request = Report | Recent | PauseRole | ResumeRole | Reread | Reload | Drain | CancelSession | GrantBudget | SetClock
KINDS: Final[dict[str, type[Request]]] = {
    kind.__name__: kind
    for kind in (Report, Recent, PauseRole, ResumeRole, Reread, Reload, Drain, CancelSession, GrantBudget, SetClock)
}
MOST: Final = 1 << 16
"""Bytes of a request: more is a mistake."""


def line_of(request: Request, *, passed: bool = False) -> bytes:
    """Write a request. `passed`: another process has passed it on: it is for this one alone."""
    return json.dumps({"request": type(request).__name__, "passed": passed, **asdict(request)}).encode() + b"\n"


def read(line: bytes) -> tuple[Request, bool]:
    """Read what `line_of` wrote: the request, and whether it was passed on. Raises OperationError."""
    try:
        given: dict[str, Any] = json.loads(line)
        kind, passed = KINDS[given.pop("request")], given.pop("passed", False)
    except (ValueError, KeyError, AttributeError, TypeError):
        raise OperationError(f"the request is none of {', '.join(KINDS)}") from None
    types = {field.name: str(field.type) for field in fields(kind)}
    for name, value in given.items():
        if types.get(name) != type(value).__name__:
            raise OperationError(f"{kind.__name__} has no `{name}` of that type")
    try:
        return kind(**given), passed is True
    except TypeError as error:
        raise OperationError(f"{kind.__name__} is not complete: {error}") from None


# Asking a proxy that serves, by the sockets in its state folder.
#
# Knows: unix sockets, lines. Must not know: what requests mean. Each process has a socket of its own there; any of them carries
# out what concerns all, and tells the others. Whoever may read and write the folder may ask: that is the operator's account,
# and root.


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
