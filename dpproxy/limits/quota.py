"""What the sessions of a role, and all sessions together, may take of the facade's memory, disk and processors. Pure.

Knows: what each session takes and since when it does what it does, as it is told. Must not know: processes, files, sockets.
PostgreSQL bounds each session by itself; two hundred of them each within its bound would still fill the machine. Here they
are added up, by role and in total. Where a sum is over its limit, the session of that role that takes most of it is told to
stop, and the next, until the rest fits. Who is over a share of the processors is not stopped: it waits while others work.

The limits are not reached in a step: between two looks a session can take what the machine gives it in that time. Each
process is held to its role's memory by the system, and to its role's disk by PostgreSQL, so that one alone never passes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

from dpproxy.errors import CONFIGURATION_LIMIT_EXCEEDED, DISK_FULL, OUT_OF_MEMORY

GRACE: Final = 2.0
"""Seconds a cancelled statement has to give back what it took before its session is ended."""
LONG: Final = 0.25
"""Seconds of processor after which a statement waits for others: a thousand times what an answer costs the facade. Statements
that run for a role at the same time have them together."""
MEMORY_OF_WINDOW: Final = 2.0
"""Seconds in which a role's use of processors is forgotten to a third."""
LONGEST_MEMORY: Final = 10.0
"""Seconds, at most, for which a session whose statement was long goes on waiting: as long as the statement took."""
NEGLIGIBLE: Final = 4 << 20
"""Bytes below which ending a session helps nobody."""


@dataclass(frozen=True)
class Quota:
    """Bytes of all sessions together; `share`: the part of them, and of the processors, that one role may take.

    `reserve`: bytes of the facade's disk, and of the ledger's, that nobody may take.
    """

    memory: int
    disk: int
    share: float = 0.5
    reserve: int = 0

    @property
    def role_memory(self) -> int:
        return int(self.memory * self.share)

    @property
    def role_disk(self) -> int:
        return int(self.disk * self.share)


@dataclass(frozen=True)
class Taken:
    """Says what one session takes. `doing` changes with every statement; `busy`: one is running, and can be cancelled.
    `behind`: it waits for the others of the proxy as well (`limits.turns`)."""

    role: Hashable
    doing: Hashable
    busy: bool
    memory: int = 0
    seconds: float = 0.0
    disk: int = 0
    behind: bool = False


class Resource(Enum):
    MEMORY = (OUT_OF_MEMORY, "out of memory", "memory")
    DISK = (CONFIGURATION_LIMIT_EXCEEDED, "temporary file size exceeds what is allowed", "disk for temporary files")
    SPACE = (DISK_FULL, "disk full", "disk for temporary files")

    @property
    def sqlstate(self) -> str:
        return self.value[0]

    @property
    def message(self) -> str:
        return self.value[1]


S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Stop(Generic[S]):
    """Says that one session has to give back: its statement is cancelled, or (`end`) the session ended. `detail` is for the
    client."""

    session: S
    resource: Resource
    detail: str
    end: bool


class Ration(Generic[S]):
    """Remembers who was told to stop, and who has used the processors of late."""

    def __init__(self, quota: Quota, processors: int) -> None:
        self._quota = quota
        self._processors = processors
        self._told: dict[S, tuple[Hashable, float]] = {}  # what it was doing, when it was told
        self._began: dict[S, tuple[Hashable, float]] = {}  # what it does, and its processor time when that began
        self._until: dict[S, float] = {}  # when a session that took long has waited as long itself
        self._before: dict[S, float] = {}  # processor time at the last look
        self._used: defaultdict[Hashable, float] = defaultdict(float)  # seconds by role, fading
        self._then: float | None = None

    # memory and disk

    def over(self, sessions: Mapping[S, Taken], free: int, now: float) -> list[Stop[S]]:
        """Return who has to stop. `free`: bytes left on the facade's disk; `now`: of a clock that goes forward."""
        quota = self._quota
        self._told = {s: told for s, told in self._told.items() if s in sessions and sessions[s].doing == told[0]}
        gone = {s for s, (_, since) in self._told.items() if now < since + GRACE}
        stops: dict[S, Stop[S]] = {}
        for resource, amount, whole, each in (
            (Resource.MEMORY, _memory, quota.memory, quota.role_memory),
            (Resource.DISK, _disk, quota.disk, quota.role_disk),
        ):
            for session, detail in _largest(sessions, gone | stops.keys(), amount, whole, each):
                stops[session] = self._stop(session, sessions[session], resource, detail, now)
        if free < quota.reserve:
            least = f"less than {_size(quota.reserve)} are left on the disk of the facade"
            for session in _by_size(sessions, gone | stops.keys(), _disk)[:1]:
                stops[session] = self._stop(session, sessions[session], Resource.SPACE, least, now)
        return list(stops.values())

    def _stop(self, session: S, taken: Taken, resource: Resource, detail: str, now: float) -> Stop[S]:
        before = self._told.get(session)
        self._told[session] = (taken.doing, now)
        return Stop(session, resource, detail, end=before is not None or not taken.busy)

    # processors

    def last(self, sessions: Mapping[S, Taken], now: float) -> set[S]:
        """Return whose processes wait for those of others: long statements, every busy session of a role over its share, and
        who is behind."""
        elapsed = now - self._then if self._then is not None else 0.0
        self._then = now
        for role in list(self._used):
            self._used[role] *= 0.37 ** (elapsed / MEMORY_OF_WINDOW)
        self._until = {s: until for s, until in self._until.items() if s in sessions and until > now}
        running = Counter(taken.role for taken in sessions.values() if taken.busy)
        for session, taken in sessions.items():
            statement = self._statement(session, taken)
            if taken.busy and statement > LONG / running[taken.role]:
                self._until[session] = now + min(statement, LONGEST_MEMORY)
        long = {s for s in self._until if sessions[s].busy}
        for session, taken in sessions.items():
            self._used[taken.role] += max(0.0, taken.seconds - self._before.get(session, taken.seconds))
        self._before = {s: taken.seconds for s, taken in sessions.items()}
        self._began = {s: began for s, began in self._began.items() if s in sessions}
        allowed = self._quota.share * self._processors * MEMORY_OF_WINDOW
        greedy = {role for role, used in self._used.items() if used > allowed}
        return long | {s for s, taken in sessions.items() if taken.busy and (taken.behind or taken.role in greedy)}

    def _statement(self, session: S, taken: Taken) -> float:
        """Seconds of processor that what it does has taken so far."""
        began = self._began.get(session)
        if began is None or began[0] != taken.doing:
            began = self._began[session] = (taken.doing, self._before.get(session, taken.seconds))
        return taken.seconds - began[1]


Amount = Callable[[Taken], int]


def _memory(taken: Taken) -> int:
    return taken.memory


def _disk(taken: Taken) -> int:
    return taken.disk


def _largest(sessions: Mapping[S, Taken], gone: set[S], amount: Amount, whole: int, each: int) -> list[tuple[S, str]]:
    """Who has to stop so that every role, and then all together, are within their limits; and why."""
    left: Counter[Hashable] = Counter()
    for session, taken in sessions.items():
        if session not in gone:
            left[taken.role] += amount(taken)
    found: list[tuple[S, str]] = []
    for session in _by_size(sessions, gone, amount):
        taken = sessions[session]
        if left[taken.role] > each:
            found.append((session, f"the sessions of this role together take more than {_size(each)}"))
            left[taken.role] -= amount(taken)
    chosen = gone | {session for session, _ in found}
    while left.total() > whole:
        role = max(left, key=lambda name: left[name])
        of_role = {s: t for s, t in sessions.items() if t.role == role}
        next_one = _by_size(of_role, chosen, amount)[:1]
        if not next_one:
            break
        found.append((next_one[0], f"all sessions together take more than {_size(whole)}, this role the most of it"))
        left[role] -= amount(sessions[next_one[0]])
        chosen.add(next_one[0])
    return found


def _by_size(sessions: Mapping[S, Taken], gone: set[S], amount: Amount) -> Sequence[S]:
    """Those whose end would help, the largest first."""
    found = [s for s, taken in sessions.items() if s not in gone and amount(taken) >= NEGLIGIBLE]
    return sorted(found, key=lambda s: -amount(sessions[s]))


def _size(number: int) -> str:
    return f"{number / (1 << 30):.1f} GB" if number >= 1 << 30 else f"{number >> 20} MB"
