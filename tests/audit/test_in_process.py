"""Answers of the door, without a network."""

from __future__ import annotations

import pytest

from dpproxy.audit import in_process
from dpproxy.audit.bench import AuditBench
from dpproxy.audit.neighbours import WHOLE
from dpproxy.audit.planted import REGIONS
from dpproxy.audit.self_test import ROLE
from dpproxy.audit.subject import Statement, Subject


def test_each_answer_has_noise_of_its_own(small: AuditBench) -> None:
    subject = Subject()
    plan = in_process.planned(subject, small.bench, Statement(ROLE, REGIONS))
    found = in_process.answers(subject, small.neighbours, plan, WHOLE, 50)
    assert {o.code for o in found} == {("int64",)}
    assert {place[0] for o in found for place in o.numbers} == {("north",), ("south",), ("east",), ("west",)}  # type: ignore[index]
    assert len({tuple(o.numbers.values()) for o in found}) > 20


def test_statements_of_several_measurements_are_not_for_here(small: AuditBench) -> None:
    with pytest.raises(ValueError, match="one measurement"):
        in_process.planned(Subject(), small.bench, Statement(ROLE, "SELECT 1"))
