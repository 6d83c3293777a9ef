"""One dataset as sessions use it: policy, catalog, engine, ledger, planner, noise; and who is asking.

Knows: the other rooms' types. Must not know: connections, protocols.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpproxy.answers.claim_standing import ClaimStanding
from dpproxy.answers.invented_rows import InventedRows
from dpproxy.answers.paid_measurements import PaidMeasurements
from dpproxy.answers.plan_cache import Plans
from dpproxy.answers.standings import AppliedBudget, RecentStanding, WarningLevels, applied_budgets, limit
from dpproxy.answers.table_access import TableAccess
from dpproxy.backends.base import Backend
from dpproxy.facade.cluster import Endpoint
from dpproxy.facade.facade import Rooms
from dpproxy.ledger.ledger import Charge, Ledger, Limits
from dpproxy.limits.engine_seats import Seats
from dpproxy.limits.side_threads import SideThreads
from dpproxy.mechanisms.noise import Noise
from dpproxy.operations.pauses import Pauses
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy, Role, User
from dpproxy.reuse.lookup import Reuse
from dpproxy.reuse.recent import RecentNotices
from dpproxy.reuse.spelled_values import Spell
from dpproxy.sql.aliases import FOREIGN
from dpproxy.sql.budget_call import NAME as BUDGET_CALL
from dpproxy.sql.session_reach import BEYOND_WORDS
from dpproxy.sql.signals import SIGNALS
from dpproxy.table_terms import TableName
from dpproxy.telemetry.tallies import Tallies

if TYPE_CHECKING:
    from dpproxy.acceleration.accelerator import Accelerator  # it brings an engine along, which not every proxy has

RECENT = 1000  # answers shown in `dpproxy.answers`, of all roles together


@dataclass
class AnswerEntry:
    """Is one line of `dpproxy.answers`. `outcome`: running, and then told; or, when its client did not wait for what was
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
    """Is a logged-in user, with the role that the policy gives."""

    user: User
    role: Role


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
    """Is all that answers of one dataset need. `words`: lower-case bytes of which a statement's text must hold one before it is
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
        """Return the budgets that apply to who asks."""
        return applied_budgets(self.policy, [asker.role], [asker.user])


def words_of(names: frozenset[str]) -> tuple[bytes, ...]:
    """Return what to look for in a text: private tables' names, the virtual schema, statements that outlive a session or
    are for another one, and what other engines would understand."""
    named = sorted(n.replace('"', '""').encode().lower() for n in names)
    others = (*FOREIGN, BUDGET_CALL, *SIGNALS)
    return (*named, b"dpproxy", *BEYOND_WORDS, *(word.encode() for word in others))
