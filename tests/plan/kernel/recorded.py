"""Real plans with what the kernel is given of them: compiled measurements, and what they claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from unittest import mock

import plan_harness

from dpproxy.plan import pipeline
from dpproxy.plan.kernel.leaves import Leaves
from dpproxy.plan.kernel.verdict import Trees
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.privacy.measurement import Measurement


@dataclass(frozen=True)
class Recorded:
    """A plan, its first measurement as it was proved, the trees of that, and the leaves below."""

    plan: Plan
    claimed: Measurement
    trees: Trees
    leaves: Leaves


def recorded(
    sql: str, catalog: Catalog, given: Policy | None = None, role: str = "analyst", types: Sequence[str] = ()
) -> Recorded:
    """Plan a statement, and keep what the kernel saw of its first measurement. Raises Refusal."""
    seen: list[tuple[Compiled, Measurement, Leaves]] = []
    proof = pipeline._proof

    def noted(made: Compiled, claimed: Measurement, known: Leaves) -> pipeline.Proved:
        proved = proof(made, claimed, known)
        seen.append((made, proved[0], known))
        return proved

    with mock.patch.object(pipeline, "_proof", noted):
        plan = plan_harness.plan(sql, catalog, given, role, types)
    made, claimed, known = seen[0]
    return Recorded(plan, claimed, made.trees, known)
