"""The audit audited: known bugs are planted in a small policy, one at a time, and each must be caught, by the part that is
for it.

Knows: planted bugs, the parts of an audit. Must not know: anybody's policy. Without a bug nothing may be found on the same
statements, or the catch would mean nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb

from dpproxy.amounts import ATTO, MICRO
from dpproxy.audit.attacks import accounting
from dpproxy.audit.bench import WHOLE, AuditBench, Neighbours, Statement, Subject, audit_bench
from dpproxy.audit.door_account import names_of
from dpproxy.audit.events import Outcome, evidence
from dpproxy.audit.planted import PLANTED, Part, Planted
from dpproxy.audit.replay import replay, values_of
from dpproxy.authoring.progress import Progress, silent
from dpproxy.engines import literal
from dpproxy.mechanisms.noise import Exact, Released
from dpproxy.plan.model import Plan
from dpproxy.review.verdicts import Bench

# Answers without a network: a statement's measurements run on a neighbour once, and pass the door as often as is asked.
#
# Knows: subjects, neighbours. Must not know: proxies. The exact columns of a database do not change from one answer to the
# next, so only the door is asked again, with noise as in production: thousands of answers a second. Statements of one
# measurement alone.


def planned(subject: Subject, bench: Bench, asked: Statement) -> Plan:
    """Return a plan that can be asked here. Raises Refusal, ValueError."""
    plan = subject.planned(bench, asked)
    if plan is None or len(plan.measurements) != 1:
        raise ValueError("a statement of one measurement is needed")
    return plan


def answers(subject: Subject, neighbours: Neighbours, plan: Plan, name: str, times: int) -> list[Outcome]:
    """Return that many answers of one database."""
    return [outcome(released) for released in releases(subject, neighbours, plan, name, times)]


def releases(subject: Subject, neighbours: Neighbours, plan: Plan, name: str, times: int) -> Sequence[Released]:
    """Return what passed the door, that many times."""
    (m,) = plan.measurements
    values = values_of(plan)
    if m.threshold is not None and m.threshold.first is not None:
        raise ValueError("two rounds are asked through a proxy")
    exact = Exact(tuple(neighbours.run(query.render(values, literal), name) for query in m.queries))
    return [subject.release(m, exact, subject.noise, None) for _ in range(times)]


def outcome(released: Released) -> Outcome:
    """Return an answer as events look at it: numbers by group and column."""
    names = names_of(released.keys, released.rows)
    numbers: dict[Hashable, float] = {
        (name, f"column {i}"): float(value)
        for i, values in enumerate(released.values)
        for name, value in zip(names, values.tolist(), strict=True)
    }
    return Outcome(tuple(str(values.dtype) for values in released.values), numbers)


POLICY: Final = Path(__file__).parent / "small_policy.yaml"
SHAPE: Final = """
CREATE TABLE people (pid INTEGER, region VARCHAR, score INTEGER, income DOUBLE, name VARCHAR);
CREATE TABLE orders (order_id BIGINT, pid INTEGER, amount DECIMAL(12, 2), category VARCHAR, note VARCHAR);
CREATE TABLE visits (visit_id BIGINT, pid INTEGER, page VARCHAR, secs DOUBLE);
"""
ROLE: Final = "auditor"
ANSWERS: Final = 1_200
"""Of each database: enough to tell half the noise from all of it."""
ALPHA: Final = 1e-5
NEIGHBOURS: Final = 3

Judge = Callable[[AuditBench, Subject, Statement], str]
"""Returns what it has to say against a subject; nothing when it sees nothing."""


@dataclass(frozen=True)
class Caught:
    """What caught one planted bug: `by` is empty where nothing did; `clean`: what was found without the bug."""

    bug: Planted
    by: str
    said: str
    clean: str

    @property
    def right(self) -> bool:
        return self.by == self.bug.part and not self.clean


def by_replay(bench: AuditBench, subject: Subject, asked: Statement) -> str:
    (found,) = replay(subject, bench.bench, bench.other, bench.neighbours, [asked])
    return found.refused or (found.problems[0] if found.problems else "")


def by_black_box(bench: AuditBench, subject: Subject, asked: Statement) -> str:
    plan = planned(subject, bench.bench, asked)
    one, other = (answers(subject, bench.neighbours, plan, n, ANSWERS) for n in (WHOLE, bench.world.units[1]))
    found = evidence(one, other, plan.loss.delta / ATTO, ALPHA)
    charged = plan.loss.epsilon / MICRO
    if found.epsilon <= charged or found.event is None:
        return ""
    return f"epsilon is at least {found.epsilon:.2f}, {charged:g} is charged: {found.event.name}"


def by_attack(bench: AuditBench, subject: Subject, asked: Statement) -> str:
    found = accounting(bench, asked, subject.ledger)
    if not found.overspent:
        return ""
    return f"a budget for {found.paid_for} answers gave {found.in_turn} in turn, {found.at_once} at once"


JUDGES: Mapping[Part, Judge] = {"replay": by_replay, "black box": by_black_box, "attacks": by_attack}


@contextmanager
def small_bench() -> Iterator[AuditBench]:
    """Make the small policy and its invented rows."""
    with TemporaryDirectory(prefix="dpproxy-planted-") as name:
        folder = Path(name)
        shutil.copy(POLICY, folder / "planted.yaml")
        with duckdb.connect(str(folder / "shape.duckdb")) as connection:
            connection.execute(SHAPE)
        with audit_bench(folder / "planted.yaml", None, 1, NEIGHBOURS) as bench:
            yield bench


def self_test(bugs: Sequence[Planted] = PLANTED, progress: Progress = silent) -> tuple[Caught, ...]:
    """Plant each bug and look for it."""
    found: list[Caught] = []
    clean: dict[tuple[str, str], str] = {}
    with small_bench() as bench:
        for done, bug in enumerate(bugs):
            progress("planting", done, len(bugs))
            asked, judge, key = Statement(ROLE, bug.sql), JUDGES[bug.part], (bug.part, bug.sql)
            clean[key] = clean[key] if key in clean else judge(bench, Subject(), asked)
            said = judge(bench, bug.subject, asked)
            found.append(Caught(bug, bug.part if said else "", said, clean[key]))
    return tuple(found)
