"""Answers without a network: a statement's measurements run on a neighbour once, and pass the door as often as is asked.

Knows: subjects, neighbours. Must not know: proxies. The exact columns of a database do not change from one answer to the next, so
only the door is asked again, with noise as in production: thousands of answers a second. Statements of one measurement alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dpproxy.audit.door_account import names_of
from dpproxy.audit.events import Outcome
from dpproxy.audit.neighbours import Neighbours
from dpproxy.audit.replay import values_of
from dpproxy.audit.subject import Statement, Subject
from dpproxy.engines import literal
from dpproxy.mechanisms.exact_answers import Exact, Released
from dpproxy.plan.model import Plan
from dpproxy.review.verdicts import Bench


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
