"""What is audited: how statements are planned, the door, what draws noise, the ledger. In production dpproxy itself; a bug is
planted by putting something else in one place.

Knows: types of the planner and of the door. Must not know: data, what is done with a subject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpproxy.ledger.ledger import Ledger
from dpproxy.mechanisms import key_rounds
from dpproxy.mechanisms import release as door
from dpproxy.mechanisms.noise import Exact, FoundGroups, Noise, Released
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.model import Plan
from dpproxy.privacy.measurement import Measurement
from dpproxy.review.verdicts import Bench

Release = Callable[[Measurement, Exact, Noise, FoundGroups | None], Released]
FirstRelease = Callable[[Measurement, Exact, Noise], FoundGroups]


def _unchanged(plan: Plan) -> Plan:
    return plan


def _as_it_is(ledger: Ledger) -> Ledger:
    return ledger


@dataclass(frozen=True)
class Statement:
    """What is asked: by a role, with settings of its session. `shape`: what kind of statement it is, for the report."""

    role: str
    sql: str
    shape: str = "given"
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Subject:
    """What is audited. `changed`: what becomes of a plan before it is run; `ledger`: what stands before the ledger."""

    changed: Callable[[Plan], Plan] = _unchanged
    release: Release = door.release
    found_first: FirstRelease = key_rounds.found_first
    noise: Noise = field(default_factory=DefaultNoise)
    ledger: Callable[[Ledger], Ledger] = _as_it_is

    def planned(self, bench: Bench, asked: Statement) -> Plan | None:
        """Return the plan of a statement; None where it reads no private table. Raises Refusal."""
        settings: Mapping[str, str | None] = dict(asked.settings)
        plan = bench.planned(asked.role, asked.sql, settings)
        return None if plan is None else self.changed(plan)
