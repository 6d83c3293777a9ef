"""Black box: what thousands of answers through the wire prove of epsilon, beside what each answer is charged.

Knows: answers of two proxies, charges. Must not know: plans, SQL. For each statement the event is looked for that tells the two
databases apart best (`events`), and from how often it is seen follows what epsilon is at least, with exact confidence
(`confidence`). This can refute a charge, never prove one: so the figure stands beside the smallest epsilon that as many
answers would have shown to be too large.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from dpproxy.amounts import ATTO, MICRO
from dpproxy.audit.bench import AuditBench
from dpproxy.audit.confidence import detectable
from dpproxy.audit.events import evidence
from dpproxy.audit.replay import Replayed
from dpproxy.audit.subject import Statement
from dpproxy.audit.wire import Answers, Pair, ask
from dpproxy.authoring.progress import Progress, silent

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
    """Is what answers to one statement prove: epsilon is at least `shown`, by `event`; it is charged `epsilon` and `delta`. With
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
