"""What an operator may ask of a proxy that serves, and the line of JSON that it is on the admin socket.

Knows: names and amounts. Must not know: sockets, how anything is carried out. A request is one line, its reply another:
`{"ok": ...}` or `{"error": "..."}`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
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
