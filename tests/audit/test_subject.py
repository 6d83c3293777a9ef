"""A subject plans as the product does, and then with what is planted."""

from __future__ import annotations

from dataclasses import replace

from dpproxy.audit.bench import AuditBench, Statement, Subject
from dpproxy.audit.planted import COUNT
from dpproxy.audit.self_test import ROLE


def test_a_plan_is_changed_after_it_is_made(small: AuditBench) -> None:
    asked = Statement(ROLE, COUNT, settings=(("dpproxy.epsilon", "2"),))
    plan = Subject().planned(small.bench, asked)
    assert plan is not None
    assert plan.loss.epsilon == 2_000_000
    assert Subject(changed=lambda p: replace(p, outer="x")).planned(small.bench, asked) == replace(plan, outer="x")
    assert Subject().planned(small.bench, Statement(ROLE, "SELECT 1")) is None
