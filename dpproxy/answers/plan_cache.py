"""The planner as the session sees it: texts to statements, statements to plans, remembered.

Knows: the functions of `sql` and `plan`. Must not know: connections, budgets, data. A plan is a pure function of the policy,
the statement, the settings, the parameter types and what the clock shows of the time that the statement looks at
(`sql.repeatability`), so it is kept by exactly these. A plan for one time of day is not kept: it is not asked for again. This
is the only file of the room that calls the planner.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Generic, TypeVar

from dpproxy.answers.dataset import Settings
from dpproxy.answers.statement_end import internal
from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal, UnprovenPlan
from dpproxy.facade.ddl import Shown, visible_columns
from dpproxy.limits.side_threads import Race, SideThreads
from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import PlanFunction, planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy, Role
from dpproxy.sql.effort import Postponed, Stop, at_once, counted, stoppable
from dpproxy.sql.person_aggregates import Units
from dpproxy.sql.privacy_clauses import as_table, in_double_quotes, written
from dpproxy.sql.repeatability import CLOCK, CLOSENESS, Reading, reading, shown
from dpproxy.sql.statements import Statement, split
from dpproxy.sql.template import Dialect
from dpproxy.sql.translation import spelled_out

TEXTS = 1024  # texts whose statements are remembered: a dashboard's worth
PLANS = 512  # plans remembered
ROOM_OF_TEXTS = 16 << 20  # bytes of them: as many of 4 kB. A text of 16 MB is refused, and not remembered for that
ROOM_OF_PLANS = 64 << 20  # bytes of them: as many of usual statements; one of 250 averages has 1.8 MB
COPIES = 4  # times that the bytes of a text are held for it: as it came, without what stands around it, in trees
LEAST_OF_TEXT, LEAST_OF_PLAN = 2048, 48 * 1024  # bytes, whatever was asked
OF_ACCOUNT = 9  # bytes of a plan for each of its outer query and its account; trees have the rest
SHORT = 400  # characters of a text that is split, and most often planned, in some milliseconds; a longer one holds others up
AT_ONCE = 100  # steps of planning a short text on the loop, three to ten milliseconds: a few short ones take a second
ASIDE = 2  # texts beside the loop at a time
LOGGED = 50_000  # characters of a plan that is refused as unproven, in the log

T = TypeVar("T")


class MemoizedCall(Generic[T]):
    """Remembers what a function said the last times; it is asked again and again, also from threads, and without a lock, so that
    nobody waits for another's question. `most`: answers; `room`: bytes of all of them with their questions, as `weight` says."""

    def __init__(
        self, function: Callable[..., T], most: int, room: int, weight: Callable[[tuple[Hashable, ...], T], int]
    ) -> None:
        self._function, self._most, self._room, self._weight = function, most, room, weight
        self._said: OrderedDict[tuple[Hashable, ...], tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __call__(self, *key: Hashable) -> T:
        with self._lock:
            if key in self._said:
                self._said.move_to_end(key)
                return self._said[key][0]
        said = self._function(*key)
        weight = self._weight(key, said)
        with self._lock:
            self._bytes += weight - self._said.pop(key, (said, 0))[1]
            self._said[key] = said, weight
            while len(self._said) > self._most or self._bytes > self._room:
                self._bytes -= self._said.popitem(last=False)[1][1]
        return said

    @property
    def held(self) -> int:
        """Return the bytes that are held, as `weight` says."""
        return self._bytes

    def has(self, *key: Hashable) -> bool:
        with self._lock:
            return key in self._said

    def clear(self) -> None:
        with self._lock:
            self._said.clear()
            self._bytes = 0


@dataclass(frozen=True)
class Known:
    """The names that mean something to a role: of private tables and views, of columns, of all tables. What a text is taken
    for must not depend on any other name, or it would tell that there is such a one."""

    private: frozenset[str]
    columns: frozenset[str]
    tables: frozenset[str]
    units: Units = frozenset()


def _spelled_out(statement: Statement, known: Known) -> Statement:
    """With output names where only other engines know them (`sql.translation`), and in our words what they say of privacy. Raises
    Refusal of that."""
    clause = written(statement.query, known.units)
    if clause is not None:
        text = f"{statement.prefix}{statement.into}{clause.query}{statement.suffix}"
        statement = replace(statement, query=clause.query, text=text, asked=clause.asked)
    try:
        query = spelled_out(statement.query, known.columns, None if statement.private else known.tables)
    except Refusal:
        return statement  # whoever plans it says why
    if query == statement.query:
        return statement
    return replace(statement, query=query, text=f"{statement.prefix}{statement.into}{query}{statement.suffix}")


class PlanCache:
    """Remembers what `plan` said; refusals are remembered too, since they are as pure as plans."""

    def __init__(
        self,
        names: frozenset[str],
        plan: PlanFunction,
        columns: frozenset[str] = frozenset(),
        tables: frozenset[str] = frozenset(),
        roles: Mapping[str, Known] = MappingProxyType({}),
        views: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`roles` says what a role knows, where that is not everything; `views` are the texts of the policy's views by name."""
        self.names = names
        self._views, self._views_read = frozenset(views), reading(" ".join(views.values()))
        self._all, self._roles = Known(names, columns, tables), roles
        self._plan = plan
        self._split = MemoizedCall(_caught(self._statements), TEXTS, ROOM_OF_TEXTS, _weight_of_text)
        self._made = _caught(self._fresh)
        self._plans = MemoizedCall(self._made, PLANS, ROOM_OF_PLANS, _weight_of_plan)
        self._aside = SideThreads(ASIDE)

    def split(self, text: str, role: Role | None = None) -> tuple[Statement, ...]:
        return _unpacked(self._split(text, self._known(role)))

    def plan(self, statement: Statement, role: Role, settings: Settings, types: tuple[str, ...]) -> Plan:
        return _unpacked(self._plan_call(statement)(*self._key(statement, role, settings, types)))

    async def split_aside(self, text: str, role: Role, race: Race) -> tuple[Statement, ...]:
        return _unpacked(await self._beside(race, self._split, len(text), text, self._known(role)))

    async def plan_aside(self, statement: Statement, role: Role, settings: Settings, types: tuple[str, ...], race: Race) -> Plan:
        key = self._key(statement, role, settings, types)
        return _unpacked(await self._beside(race, self._plan_call(statement), len(statement.text), *key))

    async def counted_aside(self, race: Race, length: int, work: Callable[[], T]) -> T:
        """Return what `work` on a text of this length gives, done where a plan of it would be made, and within its steps. Raises
        Refusal."""

        def within() -> T:
            return counted(work)[0]

        return await self._beside(race, within, length)

    def _reading(self, statement: Statement) -> Reading:
        """How closely a statement looks at the clock; one that reads a view of the policy may do so by any of them."""
        own, text = reading(statement.text), statement.text.lower()
        return max(own, self._views_read, key=CLOSENESS.index) if any(view in text for view in self._views) else own

    def _key(self, statement: Statement, role: Role, settings: Settings, types: tuple[str, ...]) -> tuple[Hashable, ...]:
        looked_at = {**settings, CLOCK: shown(settings.get(CLOCK), self._reading(statement))}
        return statement, _RoleKey(role), tuple(looked_at.items()), types

    def _plan_call(self, statement: Statement) -> Callable[..., Plan | Refusal]:
        return self._made if self._reading(statement) == "moment" else self._plans

    async def _beside(self, race: Race, call: Callable[..., T], length: int, *key: Hashable) -> T:
        """A plan that nobody waits for any more ends at its next step (`sql.effort`), and is not remembered. Of a short text one
        is begun here, and anew beside the loop where that takes long."""
        known = isinstance(call, MemoizedCall) and call.has(*key)
        if known:
            return call(*key)
        if length <= SHORT:
            try:
                return at_once(AT_ONCE, lambda: call(*key))
            except Postponed:
                pass
        stop = Stop()
        return await race(self._aside.run(lambda: stoppable(stop, lambda: call(*key)), stop.ask))

    def _known(self, role: Role | None) -> Known:
        return self._all if role is None else self._roles.get(role.name, self._all)

    def _statements(self, text: str, known: Known) -> tuple[Statement, ...]:
        return tuple(
            _spelled_out(s, known) if s.query and (s.private or s.kind == "select") else s
            for s in split(as_table(in_double_quotes(text)), known.private)
        )

    def replan(self, plan: PlanFunction) -> None:
        """Plan with another function from now on, and forget what the one before said. Plans that are in use stay as they are."""
        self._plan = plan
        self._plans = MemoizedCall(self._made, PLANS, ROOM_OF_PLANS, _weight_of_plan)

    def forget(self) -> None:
        self._split.clear()
        self._plans.clear()

    def _fresh(
        self, statement: Statement, role: _RoleKey, settings: tuple[tuple[str, str | None], ...], types: tuple[str, ...]
    ) -> Plan:
        try:
            return self._plan(statement, role.role, dict(settings), types)
        except UnprovenPlan as error:  # a fault of ours: its plan is for the operator
            raise internal(error, statement=statement.text, rule=error.rule, plan=error.plan[:LOGGED]) from error


class _RoleKey:
    """A role by its name: within one dataset the name says it all."""

    def __init__(self, role: Role) -> None:
        self.role = role

    def __hash__(self) -> int:
        return hash(self.role.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RoleKey) and other.role.name == self.role.name


def _weight_of_text(key: tuple[Hashable, ...], _said: object) -> int:
    return LEAST_OF_TEXT + COPIES * _bytes_of(key)


def _weight_of_plan(key: tuple[Hashable, ...], said: Plan | Refusal) -> int:
    account = _bytes_of((said.outer, said.explain)) if isinstance(said, Plan) else 0
    return LEAST_OF_PLAN + COPIES * _bytes_of(key) + OF_ACCOUNT * account


def _bytes_of(value: object) -> int:
    """Bytes of the texts of a question: a character may take four of them."""
    if isinstance(value, str):
        return sys.getsizeof(value)
    if isinstance(value, Statement):
        return sys.getsizeof(value.text)
    return sum(map(_bytes_of, value)) if isinstance(value, tuple) else 0


def _caught(function: Callable[..., T]) -> Callable[..., T | Refusal]:
    """What is nested too deeply to be gone through is refused, whoever goes through it: what is written in other words is nested
    more deeply than what was sent."""

    def call(*arguments: Hashable) -> T | Refusal:
        try:
            return function(*arguments)
        except Refusal as refusal:
            return replace(refusal)  # without the frames it was raised in, which hold all that was read
        except RecursionError:
            return Refusal(STATEMENT_TOO_COMPLEX, "statement is nested too deeply", hint="Ask for less at a time.")

    return call


def _unpacked(value: T | Refusal) -> T:
    if isinstance(value, Refusal):
        raise replace(value)
    return value


def private_names(policy: Policy) -> frozenset[str]:
    """Return bare names of tables whose rows are not shown, and of views, which may read them."""
    tables = {t.name.name for t in policy.tables.values() if not t.kind.shown}
    return frozenset(tables | {view.name for view in policy.views})


def plans_for(policy: Policy, catalog: Catalog, dialect: Dialect, pick_key: int = 0) -> PlanCache:
    """Return the planner of one dataset; `pick_key` of 63 bits, the same for all that share stored answers."""
    roles = {role.name: known_to(Shown(policy, catalog, role)) for role in policy.roles.values()}
    columns = frozenset[str]().union(*(known.columns for known in roles.values()))
    tables = frozenset[str]().union(*(known.tables for known in roles.values()))
    made, views = planning(policy, catalog, dialect, pick_key), {v.name.lower(): text for v, text in policy.views.items()}
    return PlanCache(private_names(policy), made, columns, tables, roles, views)


def known_to(shown: Shown) -> Known:
    """Return exactly what the role's facade shows."""
    columns = frozenset(c.name for table, shape in shown.tables for c in visible_columns(table, shape))
    views = frozenset(view.name for view in shown.views)
    private = frozenset(table.name.name for table, _ in shown.tables if not table.kind.shown)
    units = frozenset((t.name.name, t.unit.column) for t, _ in shown.tables if t.unit is not None and not t.unit.steps)
    return Known(private | views, columns, frozenset(table.name.name for table, _ in shown.tables), units)
