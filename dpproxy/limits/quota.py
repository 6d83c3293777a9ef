"""What the sessions of a role, and all sessions together, may take of the facade's memory, disk and processors. Pure.

Knows: what each session takes and since when it does what it does, what each role's server has grown by, as it is told. Must
not know: processes, files, sockets. PostgreSQL bounds each session by itself; two hundred of them each within its bound would
still fill the machine. Here they are added up, by role and in total. Where a sum is over its limit, the session of that role
that takes most of it is told to stop, and the next, until the rest fits. Who is over a share of the processors is not
stopped: it waits while others work.

Some of the disk is no session's: rows of the catalog outlive the tables that they describe, and the server's log the
statements that failed. Of it, a role's server is the holder, in the same sums as the sessions. Nothing but new files gives
it back, and with the old ones all sessions of the role end. Each role has servers of its own: nobody else loses anything.

The limits are not reached in a step: between two looks a session can take what the machine gives it in that time. Each
process is held to its role's memory by the system, and to its role's disk by PostgreSQL, so that one alone never passes them.
What was told to give back counts as free from then on, or one look after the other would stop somebody who has done nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar, cast

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
"""Bytes below which ending a session, or making a server anew, helps nobody: new files grow by themselves, and a role whose part
of the disk is smaller than that would lose its sessions every second."""


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
    """What one session takes. `doing` changes with every statement; `busy`: one is running, and can be cancelled.
    `behind`: it waits for the others of the proxy as well (`limits.turns`)."""

    role: Hashable
    doing: Hashable
    busy: bool
    memory: int = 0
    seconds: float = 0.0
    disk: int = 0
    behind: bool = False


class Resource(Enum):
    MEMORY = (OUT_OF_MEMORY, "out of memory")
    DISK = (CONFIGURATION_LIMIT_EXCEEDED, "temporary file size exceeds what is allowed")
    SPACE = (DISK_FULL, "disk full")

    @property
    def sqlstate(self) -> str:
        return self.value[0]

    @property
    def message(self) -> str:
        return self.value[1]


S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Stop(Generic[S]):
    """One session has to give back: its statement is cancelled, or (`end`) the session ended. `detail` is for the
    client."""

    session: S
    resource: Resource
    detail: str
    end: bool


@dataclass(frozen=True)
class Renewal:
    """The files of a role's servers are made anew, for which all its sessions end. `detail` is for the clients."""

    role: Hashable
    resource: Resource
    detail: str


@dataclass(frozen=True)
class Orders(Generic[S]):
    """Who gives back. `stops` are of roles that `renewals` leaves alone."""

    stops: list[Stop[S]]
    renewals: list[Renewal]


@dataclass(frozen=True)
class _Server:
    """Stands for the servers of a role among those who take of the disk."""

    role: Hashable


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

    def over(self, sessions: Mapping[S, Taken], grown: Mapping[Hashable, int], free: int, now: float) -> Orders[S]:
        """Return who has to give back. `grown`: by role, bytes of its servers' files that are no session's; `free`: bytes left
        on the facade's disk, those included that are being given back by servers; `now`: of a clock that goes forward."""
        quota = self._quota
        self._told = {s: told for s, told in self._told.items() if s in sessions and sessions[s].doing == told[0]}
        gone: set[Hashable] = {s for s, (_, since) in self._told.items() if now < since + GRACE}
        holders = dict[Hashable, Taken](sessions.items())
        held = {role: size for role, size in grown.items() if size >= NEGLIGIBLE}
        holders |= {_Server(role): Taken(role, None, busy=False, disk=size) for role, size in held.items()}
        chosen: dict[Hashable, tuple[Resource, str]] = {}
        for resource, amount, whole, each in (
            (Resource.MEMORY, _memory, quota.memory, quota.role_memory),
            (Resource.DISK, _disk, quota.disk, quota.role_disk),
        ):
            found = _largest(holders, gone | chosen.keys(), amount, whole, each)
            chosen |= {holder: (resource, why) for holder, why in found}
        left = _without(holders, gone | chosen.keys())
        if free + sum(taken.disk for holder, taken in holders.items() if holder not in left) < quota.reserve:
            least = f"less than {_size(quota.reserve)} are left on the disk of the facade"
            chosen |= dict.fromkeys(_most(left), (Resource.SPACE, least))
        anew = {holder.role for holder in chosen if isinstance(holder, _Server)}
        return Orders(
            [
                self._stop(cast("S", holder), holders[holder], resource, why, now)
                for holder, (resource, why) in chosen.items()
                if holders[holder].role not in anew
            ],
            [Renewal(h.role, resource, why) for h, (resource, why) in chosen.items() if isinstance(h, _Server)],
        )

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


_FLOORS: Final[Mapping[Amount, int]] = {_memory: NEGLIGIBLE, _disk: 1}
"""By what is looked at: bytes that a holder has to take. Each session takes some memory, and none need take any disk."""


def _largest(
    holders: Mapping[Hashable, Taken], gone: Set[Hashable], amount: Amount, whole: int, each: int
) -> list[tuple[Hashable, str]]:
    """Who has to give back so that every role, and then all together, are within their limits; and why."""
    left = _without(holders, gone)
    sums, found = _sums(left, amount), list[tuple[Hashable, str]]()
    waiting: defaultdict[Hashable, deque[Hashable]] = defaultdict(deque)

    def give_back(holder: Hashable, why: str) -> None:
        role = holders[holder].role
        found.append((holder, why))
        sums[role] = 0 if isinstance(holder, _Server) else sums[role] - amount(holders[holder])

    for holder in sorted(left, key=lambda h: -amount(left[h])):
        role = left[holder].role
        if amount(left[holder]) < _FLOORS[amount]:
            break
        if sums[role] > each:
            give_back(holder, f"the sessions of this role together take more than {_size(each)}")
        else:
            waiting[role].append(holder)
    while sums.total() > whole:
        role = max(sums, key=lambda name: sums[name])
        if not waiting[role]:
            break
        give_back(waiting[role].popleft(), f"all sessions together take more than {_size(whole)}, this role the most of it")
    return found


def _most(holders: Mapping[Hashable, Taken]) -> list[Hashable]:
    """Who takes most of the disk, of the role that does; none where nothing helps."""
    sums = _sums(holders, _disk)
    role = max(sums, key=lambda name: sums[name], default=None)
    if sums[role] < NEGLIGIBLE:
        return []
    return [max((h for h, taken in holders.items() if taken.role == role), key=lambda h: holders[h].disk)]


def _sums(holders: Mapping[Hashable, Taken], amount: Amount) -> Counter[Hashable]:
    sums = Counter[Hashable]()
    for taken in holders.values():
        sums[taken.role] += amount(taken)
    return sums


def _without(holders: Mapping[Hashable, Taken], gone: Set[Hashable]) -> dict[Hashable, Taken]:
    """With a server its role's sessions go."""
    roles = {holder.role for holder in gone if isinstance(holder, _Server)}
    return {holder: taken for holder, taken in holders.items() if holder not in gone and taken.role not in roles}


def _size(number: int) -> str:
    return f"{number / (1 << 30):.1f} GB" if number >= 1 << 30 else f"{number >> 20} MB"
