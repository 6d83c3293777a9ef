"""Parts of a declared domain: which keys are enumerated together, from which sources, under which conditions.

Knows: declared columns, public relations, what every row satisfies. Must not know: engines, private rows. Keys that share no
source are enumerated apart, and their groups are all combinations. A condition over sources of two parts makes them one, whose
combinations it is tried on: `(country, plan) IN (...)`, `a.name < b.name`. A source of no key is beside them where a condition of
its own says something of it: `p.plan <> s.plan AND s.plan = 'pro'`.

What there is to be tried has a limit. A condition that would need more is not tried: more groups are listed than have rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from dpproxy.plan.operations.operation import Step
from dpproxy.plan.properties import cells
from dpproxy.plan.properties.fanout import most_together
from dpproxy.plan.properties.key_origins import clipped
from dpproxy.plan.properties.stray_values import Trial, clear, trial
from dpproxy.tree.expr import Column, Domain, Expr, Relation, SeriesDomain, TableDomain, ValuesDomain, has_subquery, references
from dpproxy.tree.measured import DeclaredPart
from dpproxy.tree.relation import (
    Aggregate,
    Beside,
    Distinct,
    Filter,
    Join,
    Project,
    Public,
    Rows,
    Scan,
    Staged,
    Union,
    Values,
    is_public_alone,
)

MAX_LINKED = 500_000  # combinations that a condition over several sources is tried on


@dataclass(frozen=True)
class Part:
    """The keys of a part share sources: `columns` with value domains, `scans` of public tables, `conditions` on them. `rows`: the
    most combinations of rows that the scans have, None where that is not known; `fixed`: whatever public tables become."""

    keys: tuple[tuple[int, Expr], ...]
    columns: tuple[tuple[Column, Domain], ...]
    scans: tuple[Scan | Public, ...]
    conditions: tuple[Expr, ...]
    rows: int | None = 1
    fixed: bool = True

    @cached_property
    def declared(self) -> DeclaredPart:
        """What is tried to find the groups, stray values among it."""
        conditions = self._tried()
        made = trial(self.keys, self.columns, conditions, self.conditions) or Trial(self.keys, conditions, ())
        return DeclaredPart(made.keys, self.columns, self.scans, made.conditions, made.strays)

    def _tried(self) -> tuple[Expr, ...]:
        series = ((c.id, d) for c, d in self.columns if isinstance(d, SeriesDomain) and d.kind != "int")
        steps: dict[int, Step] = {i: step for i, d in series for step in cells.STEPS if step == d.kind}
        found = (cells.tried(c, steps) for c in self.conditions)
        return tuple(c for c in found if c is not None)

    @cached_property
    def keyed(self) -> tuple[tuple[Column, Domain], ...]:
        """The columns that keys are made of: others only decide which groups there are."""
        read = {c.id for _, key in self.keys for c in references(key)}
        return tuple((c, d) for c, d in self.columns if c.id in read)

    @property
    def tried(self) -> int | None:
        """How many combinations of values the engine enumerates."""
        return None if self.rows is None else self.rows * self._combined(self.columns)

    @property
    def reached(self) -> int | None:
        """How many of these differ in what keys are made of."""
        rows = self.rows if self._of_scans else 1
        return None if rows is None else rows * self._combined(self.keyed)

    @property
    def stays(self) -> bool:
        """Whether there are no more groups than `reached`, whatever public tables become."""
        return self.fixed or not self._of_scans

    @cached_property
    def _of_scans(self) -> bool:
        owner = {c.id for s in self.scans for c in s.columns}
        return any(c.id in owner for _, key in self.keys for c in references(key))

    def _combined(self, columns: Sequence[tuple[Column, Domain]]) -> int:
        beside = {s.column.id: len(s.rows) for s in self.declared.strays}
        return prod(values(d) + beside.get(c.id, 0) for c, d in columns)


def values(domain: Domain) -> int:
    """Return how many values a domain has."""
    return len(domain.values) if isinstance(domain, ValuesDomain) else getattr(domain, "size", 1)


@dataclass
class _Group:
    """Keys of common sources, while parts are put together."""

    scans: set[int] = field(default_factory=set)
    columns: dict[int, Column] = field(default_factory=dict)
    keys: list[tuple[int, Expr]] = field(default_factory=list)

    def shares(self, other: _Group) -> bool:
        return bool(self.scans & other.scans or self.columns.keys() & other.columns.keys())

    def joined(self, other: _Group) -> _Group:
        return _Group(self.scans | other.scans, {**self.columns, **other.columns}, self.keys + other.keys)


class Parts:
    """The parts of a grouping. `scans`: the public relations, by number. `untried`: conditions were left out, as too much would
    have to be tried."""

    def __init__(self, rows: Rows, scans: Mapping[int, Scan | Public]) -> None:
        self._rows, self._scans = rows, scans
        self._owner = {c.id: s.number for s in scans.values() for c in s.columns}
        self._possible = tuple(c for c in rows.conditions if self._is_possible(c))
        self.untried = False

    def of(self, keys: Sequence[Expr]) -> list[Part]:
        """Return the parts. Their columns have the series that the keys look at."""
        groups: list[_Group] = []
        for index, key in enumerate(keys):
            mine = self._sources([key])
            mine.scans = set().union(*(self._links[n] for n in mine.scans))
            mine.keys = [(index, key)]
            groups = _merged(groups, mine)
        return [self._part(group) for group in self._linked(groups)]

    # --- what conditions say

    def _is_possible(self, condition: Expr) -> bool:
        """Whether a condition rests on sources alone, and does not decide which public rows an outer join keeps."""
        read = references(condition)
        if not read or not all(c.id in self._owner or isinstance(c.domain, ValuesDomain | SeriesDomain) for c in read):
            return False
        if has_subquery(condition) and not is_public_alone(condition):
            return False
        public = {c.id in self._owner for c in read}
        return len(public) == 1 or not self._rows.padded

    def _sources(self, exprs: Sequence[Expr]) -> _Group:
        read = {c.id: c for e in exprs for c in references(e)}
        return _Group({self._owner[i] for i in read if i in self._owner}, {i: c for i, c in read.items() if i not in self._owner})

    @cached_property
    def _links(self) -> dict[int, set[int]]:
        """Public relations that conditions tie to each other."""
        links = {n: {n} for n in self._owner.values()}
        for condition in self._rows.conditions:
            ids = [c.id for c in references(condition)]
            if ids and all(i in self._owner for i in ids):
                merged = set().union(*(links[self._owner[i]] for i in ids))
                for n in merged:
                    links[n] = merged
        return links

    def _linked(self, groups: list[_Group]) -> list[_Group]:
        """Groups made one by conditions over sources of several, the smallest first, as far as these can be tried."""
        crossing = [(c, self._sources([c])) for c in self._possible]
        crossing = [(c, s) for c, s in crossing if len(s.scans) + len(s.columns) > 1]
        while crossing:
            found: list[tuple[int, list[_Group]]] = []
            for _, sources in crossing:
                if (made := self._joined(groups, sources)) is not None:
                    found.append(made)
            if not found:
                self.untried = any(self._separate(groups, sources) for _, sources in crossing)
                break
            _, groups = min(found, key=lambda made: made[0])
        return groups

    def _joined(self, groups: list[_Group], sources: _Group) -> tuple[int, list[_Group]] | None:
        """The groups that share sources made one with these, and its size; None where there is nothing to be done."""
        sharing = [g for g in groups if g.shares(sources)]
        beside = {i: c for i, c in sources.columns.items() if not any(i in g.columns for g in sharing)}
        tables = sources.scans - set().union(*(g.scans for g in sharing))
        if not sharing or (len(sharing) == 1 and not beside and not tables):
            return None
        if not all(self._limited(c) for c in beside.values()):
            return None
        made = _Group(set(sources.scans), dict(sources.columns))
        for group in sharing:
            made = made.joined(group)
        made.keys.sort(key=lambda pair: pair[0])
        size = self._part(made).tried
        if size is None or size > MAX_LINKED:
            return None
        return size, [made, *(g for g in groups if g not in sharing)]

    def _separate(self, groups: Sequence[_Group], sources: _Group) -> bool:
        """Whether keys of several groups are in one condition."""
        return sum(g.shares(sources) for g in groups) > 1

    def _limited(self, column: Column) -> bool:
        """Whether a condition compares a column of no key with constants: else it can be anything, and says nothing of others."""
        if not column.undeclared or column.id < 0:
            return False
        return any(any(r.id == column.id for r in references(c)) and clear(c, column) for c in self._possible)

    # --- a part

    def _part(self, group: _Group) -> Part:
        members = tuple(self._scans[n] for n in sorted(group.scans))
        known = {c.id for s in members for c in s.columns} | group.columns.keys()
        conditions = tuple(c for c in self._possible if all(r.id in known for r in references(c)))
        together = len(group.columns) > 1 or (bool(members) and bool(group.columns))
        columns = tuple(
            (column, self._enumerated(column, group, conditions, together))
            for column in sorted(group.columns.values(), key=lambda c: c.id)
        )
        rows, fixed = self._size(members)
        return Part(tuple(group.keys), columns, members, conditions, rows, fixed)

    def _enumerated(self, column: Column, group: _Group, conditions: Sequence[Expr], together: bool) -> Domain:
        domain = column.domain
        assert domain is not None
        if not isinstance(domain, SeriesDomain):
            return domain
        if domain.kind != "int":
            step = self._step(column, [key for _, key in group.keys], conditions, together)
            if step == "hour":
                return clipped(cells.series(domain, step), column, conditions)
            return cells.series(clipped(domain, column, conditions), step)
        return clipped(domain, column, conditions)

    def _step(self, column: Column, keys: Sequence[Expr], conditions: Sequence[Expr], together: bool) -> Step:
        """The step that keys look at. Beside others, months where nothing looks at days."""
        looked: list[Step | None] = [cells.looks_at(key, column) for key in keys if column in references(key)]
        if together:
            others = (cells.looks_at(c, column) for c in conditions if column in references(c))
            looked += [step for step in others if step is not None and step != "hour"]
        else:
            looked.append("day")
        step = cells.finest(looked) or "day"
        return "day" if step == "hour" and column.type == "date" else step  # moments are not of a date's type: `date - 1` fails

    def _size(self, members: Sequence[Scan | Public]) -> tuple[int | None, bool]:
        """The most combinations of rows of public relations, and whether that follows from the statement alone."""
        ids = {c.id for s in members for c in s.columns}
        known = [b for b in self._rows.beside if b.columns & ids]
        said = frozenset().union(*(b.columns for b in known))
        ones = [s for s in members if not {c.id for c in s.columns} & said]
        if not all(_rows_of(s) for s in ones):
            return None, False
        sizes = [Beside(frozenset(c.id for c in s.columns), _rows_of(s)) for s in ones]
        return most_together([*known, *sizes], self._rows.conditions), not any(map(_reads_table, members))


def _merged(groups: Sequence[_Group], mine: _Group) -> list[_Group]:
    rest = []
    for group in groups:
        if group.shares(mine):
            mine = group.joined(mine)
        else:
            rest.append(group)
    return [*rest, mine]


def _rows_of(node: Relation) -> int | None:
    """How many rows constants are, at most."""
    match node:
        case Values(rows=rows):
            return len(rows)
        case Public(child=child) | Project(child=child) | Filter(child=child) | Distinct(child=child):
            return _rows_of(child)
        case Aggregate(keys=()):
            return 1
        case _:
            return None


def _reads_table(node: Relation) -> bool:
    """Whether it reads a table, whose rows may have become others since the plan was made."""
    match node:
        case Values() | Staged():
            return False
        case Public(child=child) | Project(child=child) | Filter(child=child) | Distinct(child=child) | Aggregate(child=child):
            return _reads_table(child)
        case Join(left=left, right=right):
            return _reads_table(left) or _reads_table(right)
        case Union(children=children):
            return any(map(_reads_table, children))
        case _:
            return True


def is_declared(column: Column, scans: Mapping[int, Scan | Public], key: Expr) -> bool:
    """Tell whether the values of a column can be enumerated for a key."""
    domain = column.domain
    if isinstance(domain, TableDomain):
        return domain.scan in scans
    if isinstance(domain, SeriesDomain) and domain.kind != "int":
        return cells.looks_at(key, column) is not None
    return domain is not None
