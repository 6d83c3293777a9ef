"""Probes name columns that there are, and nearly all of them are answered or refused in the plan, for everybody alike."""

from __future__ import annotations

from dpproxy.audit.attacks import probes
from dpproxy.audit.bench import AuditBench
from dpproxy.review.verdicts import Answered


def test_probes_of_the_small_policy(small: AuditBench) -> None:
    asked = probes(small.loaded.policy, small.bench.catalog)
    assert len(asked) > 20
    assert {"score", "region"} <= {word for p in asked for word in p.sql.replace('"', " ").split()}
    answered = [isinstance(small.bench.verdict(p.role, p.sql), Answered) for p in asked]
    assert sum(answered) > len(asked) / 3, "some are refused; most are total"
