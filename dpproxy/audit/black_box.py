"""Black box: what thousands of answers through the wire prove of epsilon, beside what each answer is charged.

Knows: answers of two proxies, charges. Must not know: plans, SQL. For each statement the event is looked for that tells the two
databases apart best (`events`), and from how often it is seen follows what epsilon is at least, with exact confidence
(`events`). This can refute a charge, never prove one: so the figure stands beside the smallest epsilon that as many
answers would have shown to be too large.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpproxy.amounts import ATTO, MICRO
from dpproxy.audit.bench import WHOLE, AuditBench, Neighbours, Statement
from dpproxy.audit.events import Outcome, advantage_bound, detectable, discriminant, evidence, halved, lower
from dpproxy.audit.hostile_rows import HostileTable, World
from dpproxy.audit.replay import Replayed, values_of
from dpproxy.audit.wire import Answers, Pair, ask
from dpproxy.authoring.progress import Progress, silent
from dpproxy.engines import literal
from dpproxy.mechanisms.noise import Int64, MechanismError
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.model import Plan
from dpproxy.policy.model import ColumnPolicy, Policy, TablePolicy
from dpproxy.policy.names import quote_name

ALPHA = 1e-3
"""That any of the figures is too large, all of them together."""
FIRST = (
    "count", "undeclared key", "sum in groups", "percentile", "distinct values in groups", "null key", "two keys",
    "join in groups", "having", "average", "top list", "extremes", "mode", "keys of both sides", "full join",
)  # fmt: skip
"""Shapes in the order in which they are asked where there is not time for all: each is bounded in another way."""
SECONDS = 20
"""Each statement is asked at least so long: of fewer answers nothing would be seen."""
FEWEST = 3


@dataclass(frozen=True)
class Figure:
    """What answers to one statement prove: epsilon is at least `shown`, by `event`; it is charged `epsilon` and `delta`. With
    this many answers an epsilon above `detectable` would have been shown to exceed the charge."""

    statement: Statement
    epsilon: float
    delta: float
    shown: float
    event: str
    answers: int
    detectable: float

    @property
    def refuted(self) -> bool:
        return self.shown > self.epsilon


def chosen(replayed: Sequence[Replayed], seconds: float) -> tuple[Replayed, ...]:
    """Return one statement of each shape, one with a threshold where there is one, the one that came nearest to its claim; as
    many as there is time for."""
    best: dict[str, Replayed] = {}
    for r in replayed:
        known = best.get(r.statement.shape)
        if not r.refused and (known is None or (bool(r.delta), r.closest) > (bool(known.delta), known.closest)):
            best[r.statement.shape] = r
    order = {shape: place for place, shape in enumerate(FIRST)}
    inorder = sorted(best.values(), key=lambda r: order.get(r.statement.shape, len(order)))
    return tuple(inorder)[: max(FEWEST, int(seconds // SECONDS))]


def black_box(
    both: Pair, bench: AuditBench, replayed: Sequence[Replayed], seconds: float, progress: Progress = silent
) -> tuple[tuple[Figure, ...], Mapping[Statement, Answers]]:
    """Ask statements of every shape for so long together. Return the figures, and all answers, for attacks to use."""
    picked = [_dear(bench, r) for r in chosen(replayed, seconds)]
    given: dict[Statement, Answers] = {}
    for done, r in enumerate(picked):
        progress(f"asking: {r.statement.shape}", done, len(picked))
        given[r.statement] = asyncio.run(ask(both, r.statement, seconds / len(picked)))
    figures = tuple(figure(r, given[r.statement], ALPHA / len(picked)) for r in picked)
    return figures, given


def _dear(bench: AuditBench, r: Replayed) -> Replayed:
    """The statement at the highest epsilon that its role may ask for: the smaller the noise, the more an answer proves."""
    role = bench.loaded.policy.roles[r.statement.role]
    asked = replace(r.statement, settings=(("dpproxy.epsilon", f"{Decimal(role.query.max_epsilon) / MICRO:f}"),))
    plan = bench.bench.planned(asked.role, asked.sql, dict(asked.settings))
    assert plan is not None
    return replace(r, statement=asked, epsilon=plan.loss.epsilon / MICRO, delta=plan.loss.delta / ATTO)


def figure(r: Replayed, answers: Answers, alpha: float) -> Figure:
    """Return what answers prove of a statement."""
    found = evidence(answers.one, answers.other, r.delta, alpha)
    many = min(len(answers.one), len(answers.other))
    seen = "" if found.event is None else found.event.name
    return Figure(
        r.statement, r.epsilon, r.delta, found.epsilon, seen, many, detectable(r.epsilon, many // 2, r.delta, alpha / 4)
    )


# How well somebody guesses which of two databases answered, from several answers, beside what their charges allow.
#
# Knows: answers as outcomes, charges. Must not know: where answers are from. The guess is trained on one half of the answers
# and tried on the other. Its advantage is P(says D | D) - P(says D | D'), and (epsilon, delta) together allow at most
# (e**epsilon - 1 + 2 delta) / (e**epsilon + 1), whatever the guesser knows (Kairouz, Oh, Viswanath 2015).


GUESS_ALPHA = 1e-3
"""That a success is told larger than it is."""
FEWEST_GUESSES = 8
"""Tries of a guess: fewer say nothing."""


@dataclass(frozen=True)
class Point:
    """One amount that was spent, the advantage that was seen, what is sure of it, and what is allowed."""

    epsilon: float
    advantage: float
    sure: float
    allowed: float
    tries: int


@dataclass(frozen=True)
class Attack:
    """One attack: what it tried, how it went for what it spent, and in a sentence. `counts`: whether it may refute the
    promise; what is known not to be promised, as time is not without `timing.quantum`, is told and does not."""

    name: str
    tried: str
    points: tuple[Point, ...]
    said: str = ""
    counts: bool = True

    @property
    def refuted(self) -> bool:
        return self.counts and any(p.sure > p.allowed for p in self.points)


def point(right: int, of: int, wrong: int, others: int, epsilon: float, delta: float) -> Point:
    """Return a point from how often "D" was said of D, and of D'."""
    sure = lower(right, of, GUESS_ALPHA / 2) + lower(others - wrong, others, GUESS_ALPHA / 2) - 1
    seen = right / max(of, 1) - wrong / max(others, 1)
    return Point(epsilon, seen, max(sure, 0.0), advantage_bound(epsilon, delta), min(of, others))


def averaged(
    one: Sequence[Outcome], other: Sequence[Outcome], epsilon: float, delta: float, times: Sequence[int]
) -> tuple[Point, ...]:
    """Guess by the mean over so many answers of a linear score of all numbers. `epsilon`, `delta`: of one answer."""
    (train_one, test_one), (train_other, test_other) = halved(one), halved(other)
    score = _score(train_one, train_other)
    if score is None:
        return ()
    scores = [np.array([score(o) for o in given]) for given in (train_one, train_other, test_one, test_other)]
    edge = (scores[0].mean() + scores[1].mean()) / 2
    found = []
    for k in times:
        means = [s[: len(s) // k * k].reshape(-1, k).mean(axis=1) for s in scores[2:]]
        if min(map(len, means)) >= FEWEST_GUESSES:
            right, wrong = (int((m >= edge).sum()) for m in means)
            found.append(point(right, len(means[0]), wrong, len(means[1]), k * epsilon, k * delta))
    return tuple(found)


def _score(one: Sequence[Outcome], other: Sequence[Outcome]) -> Callable[[Outcome], float] | None:
    both = [*one, *other]
    places = [p for p in (both[0].numbers if both else ()) if all(p in o.numbers for o in both)]
    return discriminant(places[: max(1, min(len(one), len(other)) // 8)], one, other)


def together(parts: Sequence[Sequence[Outcome]]) -> list[Outcome]:
    """Return answers to several statements as one: the first answers of each, the second ones, and so on."""
    found = []
    for answers in zip(*parts, strict=False):
        numbers: dict[Hashable, float] = {}
        for i, outcome in enumerate(answers):
            numbers |= {(i, place): value for place, value in outcome.numbers.items()}
        found.append(Outcome(tuple(o.code for o in answers), numbers))
    return found


def shown_keys(one: Sequence[Outcome], other: Sequence[Outcome], epsilon: float, delta: float) -> Point | None:
    """Guess by whether a row is there: the row that is there most unequally often in one half, tried on the other."""
    (a, b), (c, d) = (halved([{str(p) for p in o.numbers} for o in given]) for given in (one, other))
    rows = sorted(set().union(*a, *c))
    if not b or not d:
        return None
    if not rows:
        return point(0, len(b), 0, len(d), epsilon, delta)

    def part(given: Sequence[set[str]], row: str) -> float:
        return sum(row in shown for shown in given) / max(len(given), 1)

    best = max(rows, key=lambda row: abs(part(a, row) - part(c, row)))
    here, there = sum(best in shown for shown in b), sum(best in shown for shown in d)
    if part(a, best) < part(c, best):
        here, there = len(b) - here, len(d) - there
    return point(here, len(b), there, len(d), epsilon, delta)


# Reconstruction (Dinur & Nissim 2003): many counts of random sets of people, and the secret bits that fit them best.
#
# Knows: the planner, a source of noise, a made-up table of people. Must not know: proxies. Whoever knows everybody's attributes
# asks how many of a random set have the secret value, over and over, and solves for all bits at once: the linear program of
# Dwork, McSherry and Talwar 2007, by which the counts are missed by least in sum, of bits held within 0 and 1. Of each bit,
# however much else is known, at most (e**epsilon - 1) / (e**epsilon + 1) more than half can be told, with twice the epsilon
# that is spent: another value is one row less and one row more. The counts are computed on invented people, and get noise of
# production's source at the scale that their share of epsilon buys.


Bits = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]

PEOPLE, COUNTS = 24, 64
STEPS = 1000
"""Then the misses are within a thousandth of the least, for as many people and counts as here."""
SPENT = (0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Epsilon of all counts together: from what a budget allows to far beyond it."""
_WHOLE_NUMBERS = ("int2", "int4", "int8")


@dataclass(frozen=True)
class _Ground:
    """A table with one row for each person, a number that tells them apart, and a secret of declared values."""

    table: HostileTable
    rules: TablePolicy
    number: ColumnPolicy
    secret: ColumnPolicy


def reconstruction(bench: AuditBench) -> Attack | None:
    """Ask for all bits, at several epsilons; None where the policy has no table to try it on."""
    ground = _ground(bench.loaded.policy, bench.world)
    if ground is None:
        return None
    random = np.random.default_rng(7)
    sets = random.integers(0, 2, (COUNTS, PEOPLE)).astype(bool)
    bits = random.integers(0, 2, PEOPLE).astype(bool)
    people = Neighbours(World((_filled(ground, bits),), ()), 0)
    try:
        plans = [_planned(bench, ground, chosen) for chosen in sets]
        counts = np.array([_exact(plan, people) for plan in plans], dtype=np.int64)
    finally:
        people.close()
    linf = plans[0].measurements[0].bases[0].linf
    points = tuple(_tried(counts, linf, sets, bits, epsilon) for epsilon in SPENT)
    tried = f"{COUNTS} counts of random sets of {PEOPLE} people, solved by a linear program"
    shown = ", ".join(f"{0.5 + p.advantage / 2:.0%} at {p.epsilon / 2:g}" for p in points)
    return Attack("reconstruction", tried, points, f"Bits that are right, by the epsilon spent: {shown}.")


def _ground(policy: Policy, world: World) -> _Ground | None:
    for table in world.tables:
        rules = policy.tables[table.shape.name]
        plain = {c.name: c.type for c in table.shape.columns}
        numbers = [c for c in rules.columns.values() if c.range and plain.get(c.name) in _WHOLE_NUMBERS and _wide(c)]
        secrets = [c for c in rules.columns.values() if c.values and len(c.values) > 1 and isinstance(c.values[0], str)]
        if rules.one and numbers and secrets and rules.unit is not None and not rules.unit.steps:
            return _Ground(table, rules, numbers[0], secrets[0])
    return None


def _wide(column: ColumnPolicy) -> bool:
    low, high = column.range or (0, 0)
    return not hasattr(low, "year") and high - low >= PEOPLE  # type: ignore[operator]


def _low(column: ColumnPolicy) -> int:
    assert column.range is not None
    return int(column.range[0])  # type: ignore[arg-type]


def _filled(ground: _Ground, bits: Bits) -> HostileTable:
    """The table with nobody in it but these people."""
    unit = ground.rules.unit.column if ground.rules.unit is not None else ""
    values = ground.secret.values or ()
    columns: dict[str, list[str | None]] = {}
    for name in ground.table.rows.column_names:
        blank = ground.table.rows.column(name)[0].as_py()
        columns[name] = [blank] * PEOPLE
    columns[unit] = [str(i) for i in range(PEOPLE)]
    columns[ground.number.name] = [str(_low(ground.number) + i) for i in range(PEOPLE)]
    columns[ground.secret.name] = [str(values[0 if bit else 1]) for bit in bits]
    for name in ground.table.shape.primary_key:
        columns[name] = [str(i) for i in range(PEOPLE)]
    rows = pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})
    return HostileTable(ground.table.shape, rows, tuple(str(i) for i in range(PEOPLE)))


def _planned(bench: AuditBench, ground: _Ground, chosen: Bits) -> Plan:
    name = quote_name(ground.rules.name.name)
    if ground.rules.name.schema != "public":
        name = f"{ground.rules.name.schema}.{name}"
    low, value = _low(ground.number), str((ground.secret.values or ("",))[0]).replace("'", "''")
    listed = ", ".join(str(low + i) for i in np.flatnonzero(chosen))
    secret, number = quote_name(ground.secret.name), quote_name(ground.number.name)
    sql = f"SELECT count(*) FROM {name} WHERE {secret} = '{value}' AND {number} IN ({listed})"
    plan = bench.bench.planned(next(iter(bench.loaded.policy.roles)), sql)
    if plan is None or len(plan.measurements) != 1:
        raise MechanismError("a count is not one measurement")
    return plan


def _exact(plan: Plan, people: Neighbours) -> int:
    """A count of invented people; it is given noise before it is used."""
    (m,) = plan.measurements
    return int(people.run(m.queries[0].render(values_of(plan), literal), WHOLE).column("b0")[0].as_py())


def _tried(counts: Int64, linf: int, sets: Bits, bits: Bits, epsilon: float) -> Point:
    """Solve for the bits, from counts with the noise that an equal share of epsilon buys each. Twice that epsilon is what
    changing a bit may cost."""
    scale = Fraction(linf * len(counts)) / Fraction(epsilon).limit_denominator(10**6)
    answers = DefaultNoise().laplace(scale, counts).astype(np.float64)
    solved = fitted(sets.astype(np.float64), answers) >= 0.5
    ones, zeros = int(bits.sum()), int((~bits).sum())
    return point(int(solved[bits].sum()), ones, int(solved[~bits].sum()), zeros, 2 * epsilon, 0.0)


def fitted(sets: Reals, counts: Reals) -> Reals:
    """Return the x within 0 and 1 for which the sum of abs(sets @ x - counts) is least: by alternating directions of
    multipliers (Boyd et al. 2011, section 6.1), where misses and bounds each have a copy of their own, brought together."""
    many, people = sets.shape
    both = np.linalg.inv(sets.T @ sets + np.eye(people))
    held, missed = np.full(people, 0.5), np.zeros(many)
    off_missed, off_held = np.zeros(many), np.zeros(people)
    for _ in range(STEPS):
        x = both @ (sets.T @ (counts + missed - off_missed) + held - off_held)
        off = sets @ x - counts + off_missed
        missed = np.sign(off) * np.maximum(np.abs(off) - 1, 0)
        held = np.clip(x + off_held, 0, 1)
        off_missed, off_held = off - missed, off_held + x - held
    return held
