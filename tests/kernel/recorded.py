"""Real plans with what the kernel is given of them: compiled measurements, and what they claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import plan_harness

from dpproxy.kernel.leaves import Leaves
from dpproxy.kernel.verdict import Stored, Trees
from dpproxy.plan import pipeline
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.privacy.measurement import Measurement
from dpproxy.tree.relation import Beside


@dataclass(frozen=True)
class Recorded:
    """A plan, its first measurement as it was proved, the trees of that, and what lies below: leaves, rows of the facade."""

    plan: Plan
    claimed: Measurement
    trees: Trees
    leaves: Leaves
    handed: Mapping[int, Beside]
    stored: Stored


def recorded(
    sql: str, catalog: Catalog, given: Policy | None = None, role: str = "analyst", types: Sequence[str] = ()
) -> Recorded:
    """Plan a statement, and keep what the kernel saw of its first measurement. Raises Refusal."""
    return recording(lambda: plan_harness.plan(sql, catalog, given, role, types))


def recording(planned: Callable[[], Plan]) -> Recorded:
    """Plan, and keep what the kernel saw of the first measurement."""
    seen: list[tuple[Compiled, Measurement, Leaves, Mapping[int, Beside], Stored]] = []
    proof = pipeline._proof

    def noted(made: Compiled, claimed: Measurement, *below: Any) -> pipeline.Proved:
        proved = proof(made, claimed, *below)
        seen.append((made, proved[0], *below))
        return proved

    with mock.patch.object(pipeline, "_proof", noted):
        plan = planned()
    made, claimed, known, handed, stored = seen[0]
    return Recorded(plan, claimed, made.trees, known, handed, stored)
