"""Reconstruction (Dinur & Nissim 2003): many counts of random sets of people, and the secret bits that fit them best.

Knows: the planner, a source of noise, a made-up table of people. Must not know: proxies. Whoever knows everybody's attributes
asks how many of a random set have the secret value, over and over, and solves for all bits at once: the linear program of Dwork,
McSherry and Talwar 2007, by which the counts are missed by least in sum, of bits held within 0 and 1.
Of each bit, however much else is known, at most (e**epsilon - 1) / (e**epsilon + 1) more than half can be told, with twice
the epsilon that is spent: another value is one row less and one row more. The counts are computed on invented people, and get
noise of production's source at the scale that their share of epsilon buys.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpproxy.audit.bench import WHOLE, AuditBench, Neighbours
from dpproxy.audit.black_box import Attack, Point, point
from dpproxy.audit.hostile_rows import HostileTable, World
from dpproxy.audit.replay import values_of
from dpproxy.engines import literal
from dpproxy.mechanisms.noise import Int64, MechanismError
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.model import Plan
from dpproxy.policy.model import ColumnPolicy, Policy, TablePolicy
from dpproxy.policy.names import quote_name

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
