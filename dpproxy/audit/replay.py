"""Replay: statements run on an invented database and on its neighbours with the same dice, and compared. No statistics.

Knows: plans, neighbours, dice. Must not know: how rows are invented, how results are told. Every measurement is one record on the
whole database, played again on each neighbour (Re:cord-play: Cebere et al. 2026, arXiv 2602.17454):
- the exact columns, which are what the mechanisms are called with, move by what is claimed at most (`movement`);
- what is released is those columns with their dice, and nothing else (`door_account`), on each database;
- so each released cell moves by at most its claimed sensitivity, which is looked at as well;
- control flow agrees: the same plan on both, the same calls of the dice; a second round, which depends on what the first one
  released, is played with the groups that were recorded.
What the facade would evaluate before a measurement is replaced by a constant of its type: any must be as private as any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

from dpproxy.amounts import ATTO, MICRO
from dpproxy.audit import door_account, movement
from dpproxy.audit.bench import SAME, WHOLE, Neighbours, Statement, Subject
from dpproxy.audit.door_account import Dice, Roll
from dpproxy.audit.movement import Exactly, Moved
from dpproxy.authoring.progress import Progress, silent
from dpproxy.engines import literal
from dpproxy.errors import Refusal
from dpproxy.mechanisms.noise import Exact, FoundGroups, MechanismError, Released
from dpproxy.plan.model import Plan
from dpproxy.privacy.measurement import FirstRound, Measurement
from dpproxy.review.verdicts import Bench

STAND_INS: Mapping[str, str] = {
    "date": "2024-03-15", "timestamp": "2024-03-15 12:00:00", "timestamptz": "2024-03-15 12:00:00", "time": "12:00:00",
    "int2": "3", "int4": "3", "int8": "3", "numeric": "17.5", "float4": "17.5", "float8": "17.5", "bool": "true",
    "text": "a", "varchar": "a", "bpchar": "a", "interval": "1 mon", "uuid": "00000000-0000-0000-0000-000000000003",
}  # fmt: skip
"""What the facade might answer, by type."""


@dataclass(frozen=True)
class Replayed:
    """What came of a statement. `refused`: why it is not answered, which costs nothing and tells nothing; `problems`:
    what the neighbours refute; `moved`: the most of what is claimed that was seen, by column; `runs`: how often generated SQL
    was run."""

    statement: Statement
    epsilon: float = 0.0
    delta: float = 0.0
    refused: str = ""
    problems: tuple[str, ...] = ()
    moved: Mapping[str, float] = field(default_factory=dict)
    runs: int = 0

    @property
    def told(self) -> bool:
        """Return whether there is something to report other than a refusal."""
        return not self.refused or bool(self.problems)

    @property
    def closest(self) -> float:
        """Return the most of a claim that any unit used up: near 1 means that the data reached for the bound."""
        return max(self.moved.values(), default=0.0)


def replay(
    subject: Subject,
    bench: Bench,
    other: Bench,
    neighbours: Neighbours,
    statements: Sequence[Statement],
    progress: Progress = silent,
) -> tuple[Replayed, ...]:
    """Replay all statements. `other`: the bench of a neighbour, by whose rows no plan may differ."""
    found = []
    for done, asked in enumerate(statements):
        progress("replaying", done, len(statements))
        found.append(_replayed(subject, bench, other, neighbours, asked))
    return tuple(found)


def _replayed(subject: Subject, bench: Bench, other: Bench, neighbours: Neighbours, asked: Statement) -> Replayed:
    plan, theirs = (_planned(subject, each, asked) for each in (bench, other))
    if isinstance(plan, str):
        differs = f"is refused on one database and not on its neighbour: {plan}"
        return Replayed(asked, refused=plan, problems=() if plan == theirs else (differs,))
    run = _Run(subject, neighbours, values_of(plan))
    if plan != theirs:
        run.problems.append("the plan depends on one unit's rows")
    for number, m in enumerate(plan.measurements):
        run.measurement(number, m)
    told = tuple(dict.fromkeys(run.problems))
    return Replayed(asked, plan.loss.epsilon / MICRO, plan.loss.delta / ATTO, "", told, run.moved.parts, run.runs)


def _planned(subject: Subject, bench: Bench, asked: Statement) -> Plan | str:
    """A plan, or why there is none."""
    try:
        plan = subject.planned(bench, asked)
    except Refusal as refusal:
        return refusal.message
    return plan if plan is not None and plan.measurements else "reads no row of people"


def values_of(plan: Plan) -> list[str | None]:
    """Return what stands for values that are not known: the client's parameters, and what the facade would be asked."""
    return [*(["3"] * plan.parameters), *(_stand_in(given.type) for given in plan.inputs)]


def _stand_in(type_: str) -> str | None:
    if type_.startswith("rows("):
        types = type_[5:-1].split(",")
        return json.dumps([[STAND_INS.get(t) for t in types], [None] * len(types)])
    if type_.endswith("[]"):
        return "{" + (STAND_INS.get(type_[:-2]) or "") + ",NULL}"
    return STAND_INS.get(type_)


class _Run:
    """One statement. A neighbour's problem is reported once, with the neighbour that showed it first."""

    def __init__(self, subject: Subject, neighbours: Neighbours, values: Sequence[str | None]) -> None:
        self._subject, self._neighbours, self._values = subject, neighbours, values
        self.problems: list[str] = []
        self.moved = Moved()
        self.runs = 0

    def measurement(self, number: int, m: Measurement) -> None:
        name = WHOLE
        try:
            first = m.threshold.first if m.threshold is not None else None
            found = self._first(m, first) if first is not None else None
            whole = self._tables(m, name, found)
            before, released = self._released(m, whole, found, Roll.FAIR, name)
            for roll in (Roll.LOW, Roll.HIGH):
                exact, loaded = self._released(m, whole, found, roll, name)
                self._told(name, door_account.follows_dice(m, exact, loaded, roll))
            for name in self._neighbours.names:
                tables = self._tables(m, name, found)
                after, theirs = self._released(m, tables, found, Roll.FAIR, name)
                self._compare(m, name, (before, whole, released), (after, tables, theirs))
        except (duckdb.Error, pa.ArrowException, MechanismError, ValueError) as error:
            self._told(name, [f"measurement {number} fails, which tells of data: {type(error).__name__}: {str(error)[:200]}"])

    def _compare(
        self,
        m: Measurement,
        name: str,
        one: tuple[Exactly, Sequence[pa.Table], Released],
        other: tuple[Exactly, Sequence[pa.Table], Released],
    ) -> None:
        (before, whole, released), (after, tables, theirs) = one, other
        keys, shared = len(m.keys), [k for k in before.order if k in after.cells]
        if name in SAME and before.cells != after.cells:
            self._told(name, ["rows of nobody, or the order of rows, change an exact value"])
            return
        self._told(name, movement.compared(m, before, after, self.moved))
        if m.top is not None:
            self._told(name, movement.compared_scores(m, m.top, before, after, self.moved))
        else:
            self._told(name, _released_moved(m, released, theirs))
        for s in m.selections:
            here, there = (movement.points(found[s.query], keys, shared) for found in (whole, tables))
            self._told(name, movement.compared_points(m, s, here, there, self.moved))

    def _first(self, m: Measurement, first: FirstRound) -> FoundGroups:
        """The first of two rounds: compared, and recorded. The groups that it finds are those of every replay's second round."""
        sql = first.query.render(self._values, literal)
        whole = self._ran(sql, WHOLE)
        before = Exactly.read(whole, len(m.keys))
        for name in self._neighbours.names:
            after = Exactly.read(self._ran(sql, name), len(m.keys))
            self._told(name, movement.compared_rounds(m, first, before, after, self.moved))
        dice = Dice(before.order, Roll.HIGH)
        self._subject.found_first(m, Exact((whole,)), dice)
        half = Dice(before.order, Roll.LOW)
        if len(self._subject.found_first(m, Exact((whole,)), half).numbers):
            self._told(WHOLE, ["a group of the first round is shown although the dice hide all of them"])
        every = pa.array(range(0, whole.num_rows, 2))
        return FoundGroups(
            tuple(whole.column(i).combine_chunks().take(every) for i in range(len(m.keys))),
            tuple(whole.column("h").take(every).to_pylist()),
        )

    def _tables(self, m: Measurement, name: str, found: FoundGroups | None) -> list[pa.Table]:
        numbers = found.numbers if found is not None else ()
        return [self._ran(query.render(self._values, literal, numbers), name) for query in m.queries]

    def _ran(self, sql: str, name: str) -> pa.Table:
        self.runs += 1
        return self._neighbours.run(sql, name)

    def _released(
        self, m: Measurement, tables: Sequence[pa.Table], found: FoundGroups | None, roll: Roll, name: str
    ) -> tuple[Exactly, Released]:
        """What passes the door with these dice; the door's account is looked at."""
        exact = Exactly.read(tables[0], len(m.keys)) if m.bases or m.keys else Exactly(((),), {(): ()})
        dice = Dice(exact.order, roll, m.threshold.reach if m.threshold is not None else None)
        released = self._subject.release(m, Exact(tuple(tables)), dice, found)
        self._told(name, door_account.problems(m, exact, released, dice, found))
        return exact, released

    def _told(self, name: str, problems: Iterator[str] | Sequence[str]) -> None:
        for problem in problems:
            if not any(told.endswith(problem) for told in self.problems):
                self.problems.append(f"beside {name}: {problem}" if name != WHOLE else problem)


def _released_moved(m: Measurement, one: Released, other: Released) -> Iterator[str]:
    """The cells of groups that both show, under the same dice. Rounding to the grid may add less than one of its steps."""
    names, theirs = (door_account.names_of(r.keys, r.rows) for r in (one, other))
    places = {name: i for i, name in enumerate(theirs)}
    both = [(i, places[name]) for i, name in enumerate(names) if name in places]
    for i, basis in enumerate(m.bases):
        if basis.steps > 1 or not both:
            continue  # put together from several columns, each of which is compared
        here, there = (np.array(at, dtype=np.int64) for at in zip(*both, strict=True))
        moved = int(np.abs(one.values[i][here] - other.values[i][there]).max())
        if moved > -(-basis.linf // basis.fine):
            yield f"{basis.label}: a released cell moved by {moved}, {-(-basis.linf // basis.fine)} is claimed"
