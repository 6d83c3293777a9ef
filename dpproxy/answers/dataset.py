"""One dataset as sessions use it: policy, catalog, engine, ledger, planner, noise; and who is asking.

Knows: the other rooms' types. Must not know: connections, protocols.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import structlog

from dpproxy.answers.standings import AppliedBudget, RecentStanding, WarningLevels, applied_budgets, limit
from dpproxy.answers.table_standing import ClaimStanding, TableAccess
from dpproxy.backends.base import Backend
from dpproxy.facade.cluster import Endpoint
from dpproxy.facade.facade import Rooms
from dpproxy.facade.sample import Size, sample
from dpproxy.ledger.ledger import Charge, Ledger, Limits
from dpproxy.limits.side_threads import Race, Seats, SideThreads
from dpproxy.mechanisms.noise import Noise, Released
from dpproxy.mechanisms.reports import Told
from dpproxy.operations.pauses import Pauses
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy, Role, User
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.readings import Reading
from dpproxy.reuse.lookup import RecentNotices, Reuse
from dpproxy.reuse.matching import Spell
from dpproxy.sql.privacy_clauses import NAME as BUDGET_CALL
from dpproxy.sql.repeatability import BEYOND_WORDS
from dpproxy.sql.statements import SIGNALS, Statement
from dpproxy.sql.translation import FOREIGN
from dpproxy.table_terms import TableName
from dpproxy.telemetry.tallies import Tallies

# Measurements that are charged and not yet through. They belong to the dataset, not to the session that asked for them.
#
# Knows: tasks, roles, why nobody waits any more. Must not know: measurements, protocols. What is charged is finished and kept,
# whatever becomes of the client: a cancel request, a timeout of the client's own, a lost connection. So nobody can end it at a
# moment that depends on data, and nobody pays twice for what he was not shown. Only the operator ends it: by
# `--statement-timeout`, by stopping.
#
# Where answers are not stored (`reuse_answers: off`) an answer that its client did not wait for is kept here, in memory, for
# the role that paid: it is shown once, to who asks for the same within `KEPT`.


LOG = structlog.get_logger()

KEPT: Final = dt.timedelta(minutes=10)
"""As long as a statement may take by default: data that may change at any moment are hardly other ones by then."""
MOST_KEPT: Final = 100
MOST_NUMBERS: Final = 1_000_000
"""Of one answer that is kept in memory: 8 MB."""

LOST: Final = "client lost"
"""Why nobody waits, beside what PostgreSQL says of cancelled statements."""

T = TypeVar("T")
Key = tuple[str, tuple[str, ...]]
"""A role, and the generated statements of a measurement."""


@dataclass(frozen=True)
class UntoldAnswer:
    measurement: Measurement
    released: Released
    made: dt.datetime


class PaidMeasurements:
    """What is charged and not yet through, of one dataset, in one event loop. `untold` counts by role, why nobody waited,
    and whether the answer is kept or lost."""

    def __init__(self) -> None:
        self.untold: Counter[tuple[str, str, str]] = Counter()
        self._running: set[asyncio.Task[Any]] = set()
        self._kept: OrderedDict[Key, UntoldAnswer] = OrderedDict()
        self._waited: dict[Key, asyncio.Future[None]] = {}  # under way, and nobody waits

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits has been told; nobody may be waiting

    def left(self, dataset: str, role: str, reason: str, kept: bool, statement: str) -> None:
        """Note that a client was not told what was charged."""
        outcome = "kept" if kept else "lost"
        self.untold[role, reason, outcome] += 1
        LOG.warning("paid and not told", dataset=dataset, role=role, reason=reason, outcome=outcome, statement=statement)

    @property
    def running(self) -> int:
        """Return how many rounds are charged and not through."""
        return len(self._running)

    # where nothing is stored

    def expect(self, key: Key) -> None:
        """Expect a measurement that is under way, and whose asker has gone."""
        self._waited.setdefault(key, asyncio.get_running_loop().create_future())

    def keep(self, key: Key, kept: UntoldAnswer | None) -> None:
        """Keep an answer that nobody waited for; None if it failed."""
        expected = self._waited.pop(key, None)
        if expected is not None:
            expected.set_result(None)
        if kept is None or kept.released.rows * (len(kept.released.keys) + len(kept.released.values)) > MOST_NUMBERS:
            return
        self._kept[key] = kept
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    async def take(self, key: Key, measurement: Measurement) -> UntoldAnswer | None:
        """Wait for what is under way, and return it; it is not kept any longer."""
        if key in self._waited:
            await asyncio.wait([self._waited[key]])
        kept = self._kept.get(key)
        if kept is None or kept.measurement != measurement:
            return None
        del self._kept[key]
        return kept if dt.datetime.now(dt.UTC) - kept.made < KEPT else None

    # the end

    async def finish(self, seconds: float) -> None:
        """Wait for what runs; end what takes longer: its charge stands."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        await self.stop()

    async def stop(self) -> None:
        for task in (running := list(self._running)):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


# The invented rows that previews show (`plan.previews`): made once for a dataset, the same for all who ask.
#
# Knows: a policy, a catalog, what invents rows of them. Must not know: engines, stored data, who asks. No rows are read for it,
# not even of public tables: what is declared, and types, are all that goes in.


SIZE = Size(units=100, rows=3.0)
"""More rows than people look at, and few enough to be sent as constants in a statement's text (cursors, COPY)."""
TYPES = frozenset(
    {
        *("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar"),
        *("date", "time", "timestamp", "timestamptz", "interval", "uuid", "json", "jsonb"),
    }
)
"""Types whose invented values PostgreSQL reads; columns of others are NULL."""

Rows = Mapping[TableName, Mapping[str, list[str | None]]]
"""Columns of each private table, in text form."""


class InventedRows:
    """Remembers what was invented for one dataset."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._lock = threading.Lock()

    def rows(self, policy: Policy, catalog: Catalog) -> Rows:
        """Return the rows of all private tables of the dataset, which these describe."""
        with self._lock:
            if self._rows is None:
                self._rows = _invented(policy, catalog)
            return self._rows


def _invented(policy: Policy, catalog: Catalog) -> Rows:
    found: dict[TableName, dict[str, list[str | None]]] = {}
    for shape, rows in sample(policy, catalog, {}, SIZE):
        known = {column.name for column in shape.columns if column.type in TYPES}
        nothing: list[str | None] = [None] * rows.num_rows
        found[shape.name] = {name: rows[name].to_pylist() if name in known else nothing for name in rows.column_names}
    return found


MOST_READINGS: Final = 64
ReadingKey = tuple[str, tuple[str, ...], Reading]
"""An epoch of the data, the generated SQL, and what is made of it."""


@dataclass
class RecentReadings:
    """What was estimated last, of one dataset."""

    _kept: OrderedDict[ReadingKey, tuple[Released, Told]] = field(default_factory=OrderedDict)

    def find(self, key: ReadingKey | None) -> tuple[Released, Told] | None:
        return self._kept.get(key) if key is not None else None

    def keep(self, key: ReadingKey | None, found: tuple[Released, Told]) -> None:
        numbers = found[0].rows * (len(found[0].keys) + len(found[0].values))
        if key is None or numbers > MOST_NUMBERS:
            return
        self._kept[key] = found
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_READINGS:
            self._kept.popitem(last=False)


if TYPE_CHECKING:
    from dpproxy.acceleration.accelerator import Accelerator  # it brings an engine along, which not every proxy has

RECENT = 1000  # answers shown in `dpproxy.answers`, of all roles together


@dataclass
class AnswerEntry:
    """One line of `dpproxy.answers`. `outcome`: running, and then told; or, when its client did not wait for what was
    charged, kept, and lost when it could not be measured to its end; preview where no row of the data was read. None: answered
    before the proxy was started last. `errors`: what its notice says of typical errors; None where it says nothing."""

    role: str
    asked: dt.datetime
    epsilon: int
    delta: int
    measurements: int | None  # None: answered before the proxy was started last
    reused: bool
    statement: str
    outcome: str | None = None
    errors: str | None = None


@dataclass(frozen=True)
class Asker:
    """A logged-in user, with the role that the policy gives."""

    user: User
    role: Role


Settings = Mapping[str, str | None]
"""A session's settings by their PostgreSQL names; None when unset."""


class Plans(Protocol):
    """What a session asks of the planner. All methods raise Refusal; `plan` with positions in characters of
    `Statement.query`."""

    @property
    def names(self) -> frozenset[str]:
        """Return bare names of the private tables, folded."""
        ...

    def split(self, text: str, role: Role | None = None) -> tuple[Statement, ...]:
        """Return a text's statements as the role sees them: a table it may not read is none."""
        ...

    def plan(self, statement: Statement, role: Role, settings: Settings, types: tuple[str, ...]) -> Plan: ...

    async def split_aside(self, text: str, role: Role, race: Race) -> tuple[Statement, ...]:
        """Do as `split`, in a thread where it may take long; then `race` waits for it."""
        ...

    async def plan_aside(self, statement: Statement, role: Role, settings: Settings, types: tuple[str, ...], race: Race) -> Plan:
        """Do as `plan`, in a thread where it may take long; then `race` waits for it."""
        ...

    async def counted_aside(self, race: Race, length: int, work: Callable[[], T]) -> T:
        """Return what `work` on a text of this length gives, done where a plan of it would be made, and within its steps."""
        ...


class Watch(Protocol):
    """Looks whether the data that a dataset is an extract of have changed."""

    @property
    def moment(self) -> dt.datetime:
        """Return when the extract's snapshot was taken."""
        ...

    @property
    def overtaken(self) -> bool:
        """Return whether the epoch of the data moved on while the extract was made."""
        ...

    async def outdated(self) -> bool:
        """Return whether opening the data now would open others. Raises PolicyError, BackendError."""
        ...

    def start(self, changed: Callable[[], None]) -> None:
        """Look from now on; `changed` is called when there are others."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Dataset:
    """All that answers of one dataset need. `words`: lower-case bytes of which a statement's text must hold one before it is
    looked at more closely. `withheld`: public tables too large for the facade. `reuse`: None where no answers are stored.
    `rooms`: what its sessions connect to; None where somebody else says. `publics` names what public tables held when they were
    read (`answers.public_tables`); `outdated` asks for the dataset to be opened anew. `tallies`
    and `pauses` are the process's: what it counts, and which roles are paused. `accelerator`: keeps a prepared copy of the data;
    None where there is none to be had. `watch`: of data that are an extract, looks whether there are others by now. `claims`:
    knows which tables are closed, as their rows are not what the policy says. `access`: knows which cannot be read any more."""

    policy: Policy
    catalog: Catalog
    backend: Backend
    ledger: Ledger
    plans: Plans
    noise: Noise
    literal: Spell
    words: tuple[bytes, ...]
    withheld: frozenset[TableName] = frozenset()
    reuse: Reuse | None = None
    rooms: Rooms | None = None
    answered: deque[AnswerEntry] = field(default_factory=lambda: deque(maxlen=RECENT))
    warning_levels: WarningLevels = field(default_factory=WarningLevels)
    recent_standing: RecentStanding = field(default_factory=RecentStanding)
    recent_notices: RecentNotices = field(default_factory=RecentNotices)
    recent_readings: RecentReadings = field(default_factory=RecentReadings)
    paid: PaidMeasurements = field(default_factory=PaidMeasurements)
    seats: Seats = field(default_factory=Seats)
    spelling: SideThreads = field(default_factory=lambda: SideThreads(1))
    invented: InventedRows = field(default_factory=InventedRows)
    publics: Mapping[TableName, str] = field(default_factory=dict)
    outdated: Callable[[], None] = lambda: None
    tallies: Tallies = field(default_factory=Tallies)
    pauses: Pauses = field(default_factory=Pauses)
    accelerator: Accelerator | None = None
    watch: Watch | None = None
    claims: ClaimStanding = field(default_factory=ClaimStanding)
    access: TableAccess = field(default_factory=TableAccess)

    async def close(self, seconds: float = 0.0) -> None:
        """Close what no session is in any more. What is charged has `seconds` to be measured; then the engine is closed."""
        if self.watch is not None:
            await self.watch.close()
        if self.accelerator is not None:
            await self.accelerator.close()
        if self.rooms is not None:
            await self.rooms.close()
        await self.paid.finish(seconds)
        await self.claims.close()
        await self.access.close()
        if self.reuse is not None:
            await self.reuse.close()
        await self.backend.close()

    def endpoint(self, role: str) -> Endpoint:
        """Return where a role's sessions connect. Raises ConnectionRefusedError while that is being started again."""
        if self.rooms is None:
            raise ConnectionRefusedError
        return self.rooms.endpoint(role)

    async def take_place(self) -> None:
        """Take the place of an earlier dataset of the same name. Raises FacadeError."""
        if self.rooms is not None:
            await self.rooms.take_place()

    async def yield_to(self, newer: Dataset) -> None:
        """Withdraw from sessions that are still in this dataset whatever the newer one does not show."""
        if self.rooms is not None:
            await self.rooms.withdraw(newer.policy, newer.catalog)

    def note(self, entry: AnswerEntry) -> None:
        """Note an answer that was just given."""
        self.answered.append(entry)

    def remember(self, charges: Iterable[Charge]) -> None:
        """Remember charges of earlier runs of the proxy, in their order."""
        for charge in charges:
            loss = charge.loss
            self.answered.append(AnswerEntry(charge.role, charge.at, loss.epsilon, loss.delta, None, False, charge.statement))

    def limits(self, asker: Asker) -> Limits:
        own = limit(asker.user.budget) if asker.user.budget is not None else None
        return Limits(limit(asker.role.budget), limit(self.policy.budget), own, asker.role.query.max_epsilon)

    def applied_budgets(self, asker: Asker) -> list[AppliedBudget]:
        """Return the budgets that apply to the asker."""
        return applied_budgets(self.policy, [asker.role], [asker.user])


def words_of(names: frozenset[str]) -> tuple[bytes, ...]:
    """Return what to look for in a text: private tables' names, the virtual schema, statements that outlive a session or
    are for another one, and what other engines would understand."""
    named = sorted(n.replace('"', '""').encode().lower() for n in names)
    others = (*FOREIGN, BUDGET_CALL, *SIGNALS)
    return (*named, b"dpproxy", *BEYOND_WORDS, *(word.encode() for word in others))
