"""What one process of a proxy knows of itself, as frozen values: sessions, budgets, counts, whether its parts work.

Knows: names, numbers, times. Must not know: where they are from, who shows them: the commands of `dpproxy admin`, Prometheus
and the operators' pages all read these. Amounts of epsilon are millionths, of delta 10^-18; times are seconds since 1970. A
`Status` passes between processes as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from dpproxy.operations.pauses import Pause
from dpproxy.telemetry.tallies import Counted

CERTIFICATES: Final = "certificates"
"""The name of what is read again beside datasets."""


@dataclass
class PolicyHistory:
    """When the policy in a file was read, and why it could not be read again."""

    loaded: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class SessionStatus:
    """One client that is logged in. `session`: its number, also in the log; `address`: empty for a unix socket; `state`:
    idle, idle in transaction, statement; `statement`: the hash of the private statement in the making, or empty."""

    session: int
    process: int
    dataset: str
    role: str
    user: str
    address: str
    tls: bool
    since: float
    state: str
    statement: str


@dataclass(frozen=True)
class AccountStatus:
    """Where one budget stands in its window. `scope`: role, user, dataset; `resets`: when the window ends, None for never;
    `warned`: the highest of the policy's levels that is reached, in percent, or 0."""

    dataset: str
    scope: str
    name: str
    window: str
    spent_epsilon: int
    limit_epsilon: int
    left_epsilon: int
    spent_delta: int
    limit_delta: int
    lifetime_epsilon: int
    charges: int
    resets: float | None
    warned: int


@dataclass(frozen=True)
class DatasetStatus:
    """One policy that is served. `policy`: the digest of its text; `loaded`: when it was read; `problem`: why the last
    attempt to read it again failed, or empty; `places`: measurements that may run at once, of each role; `running`: charged
    measurements that are not through; `copy`: what there is of a prepared copy (none, looking, making, used, failed), and
    `copy_bytes` that it takes; `extract`: of an extract the moment of its snapshot, 0 where the data are none; `overtaken`: the
    epoch of the data moves faster than extracts are made."""

    name: str
    file: str
    policy: str
    backend: str
    loaded: float
    problem: str
    places: int
    running: int
    copy: str = "none"
    copy_bytes: int = 0
    extract: float = 0.0
    overtaken: bool = False


@dataclass(frozen=True)
class ReadAgain:
    """What became of something that was read again. `name`: of a dataset, or `CERTIFICATES`; `policy`: the digest of its
    text; `problem`: why what was there stays, or empty."""

    name: str
    policy: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Check:
    """Whether a part works: `facade`, `backend` or `ledger`. `subject`: the dataset, with the role behind a slash for a
    facade; `seconds`: how long it took to find out; `problem`: why it does not work, for the operator."""

    part: str
    subject: str
    works: bool
    seconds: float
    problem: str = ""


@dataclass(frozen=True)
class Status:
    """One process. `process`: its number of several, 0 of one; `untold`: dataset, role, reason, outcome and number of
    charged statements whose client was not told; `delayed`: dataset, role, turns, seconds; `lines`: of the log, by level;
    `certificates`: why the last attempt to read them again failed, or empty."""

    process: int
    pid: int
    version: str
    started: float
    stopping: bool
    memory: int
    sessions: tuple[SessionStatus, ...]
    datasets: tuple[DatasetStatus, ...]
    accounts: tuple[AccountStatus, ...]
    checks: tuple[Check, ...]
    pauses: tuple[Pause, ...]
    counted: Counted
    untold: tuple[tuple[str, str, str, str, int], ...]
    delayed: tuple[tuple[str, str, int, float], ...]
    lines: tuple[tuple[str, int], ...]
    certificates: str = ""

    @property
    def ready(self) -> bool:
        """Return whether statements can be answered."""
        return not self.stopping and all(check.works for check in self.checks)


def rebuilt(fields: object) -> Status:
    """Return the status that went through JSON as a dictionary of its fields. Raises ValueError, which names the path of what
    is missing, unknown or of another type: processes of two versions do not understand each other by halves."""
    status = _value(Status, fields, "status")
    assert isinstance(status, Status)
    return status


def _value(kind: Any, given: object, path: str) -> object:
    """Return what JSON left of a value of type `kind`: a dataclass, a tuple, an optional value or a primitive one."""
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass(kind, given, path)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), given, path)
    if isinstance(kind, UnionType):
        (other,) = (member for member in get_args(kind) if member is not NoneType)
        return None if given is None else _value(other, given, path)
    if kind is float and type(given) is int:  # `0` is a number of seconds as well
        return float(given)
    if type(given) is not kind:  # and not `isinstance`: a boolean is no number
        raise ValueError(f"{path}: {kind.__name__} expected, not {type(given).__name__}")
    return given


def _dataclass(kind: type, given: object, path: str) -> object:
    if not isinstance(given, dict):
        raise ValueError(f"{path}: fields of {kind.__name__} expected, not {type(given).__name__}")
    types = get_type_hints(kind)
    for name in sorted(types.keys() ^ given.keys()):
        raise ValueError(f"{path}.{name}: {'missing' if name in types else 'unknown'}")
    return kind(**{name: _value(types[name], value, f"{path}.{name}") for name, value in given.items()})


def _tuple(kinds: tuple[Any, ...], given: object, path: str) -> tuple[object, ...]:
    """Return a tuple. `kinds`: one type for each member, or one and an ellipsis for all."""
    if not isinstance(given, list):
        raise ValueError(f"{path}: list expected, not {type(given).__name__}")
    each = kinds[:1] * len(given) if kinds[-1] is ... else kinds
    if len(each) != len(given):
        raise ValueError(f"{path}: {len(each)} values expected, not {len(given)}")
    return tuple(_value(kind, value, f"{path}[{n}]") for n, (kind, value) in enumerate(zip(each, given, strict=True)))
