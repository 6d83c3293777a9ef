"""Answers of the door, without a network."""

from __future__ import annotations

import pytest

from dpproxy.audit import self_test
from dpproxy.audit.bench import WHOLE, AuditBench, Statement, Subject
from dpproxy.audit.planted import REGIONS
from dpproxy.audit.self_test import ROLE


def test_each_answer_has_noise_of_its_own(small: AuditBench) -> None:
    subject = Subject()
    plan = self_test.planned(subject, small.bench, Statement(ROLE, REGIONS))
    found = self_test.answers(subject, small.neighbours, plan, WHOLE, 50)
    assert {o.code for o in found} == {("int64",)}
    assert {place[0] for o in found for place in o.numbers} == {("north",), ("south",), ("east",), ("west",)}  # type: ignore[index]
    assert len({tuple(o.numbers.values()) for o in found}) > 20


def test_statements_of_several_measurements_are_not_for_here(small: AuditBench) -> None:
    with pytest.raises(ValueError, match="one measurement"):
        self_test.planned(Subject(), small.bench, Statement(ROLE, "SELECT 1"))
