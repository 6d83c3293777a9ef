"""What is planted is there, and each bug says where it was seen."""

from __future__ import annotations

import pytest

from dpproxy.audit.bench import AuditBench, Statement
from dpproxy.audit.planted import COUNT, PLANTED, Planted
from dpproxy.audit.self_test import ROLE


def test_bugs_are_told_apart() -> None:
    assert len({bug.name for bug in PLANTED}) == len(PLANTED) >= 12
    assert all(len(bug.source) > 10 for bug in PLANTED)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_statements_are_planned_with_their_bug(small: AuditBench, bug: Planted) -> None:
    assert bug.subject.planned(small.bench, Statement(ROLE, bug.sql)) is not None


def test_a_change_that_changes_nothing_is_no_bug(small: AuditBench) -> None:
    clamp = next(bug for bug in PLANTED if bug.name == "a column without a clamp")
    with pytest.raises(ValueError, match="nothing was planted"):
        clamp.subject.planned(small.bench, Statement(ROLE, COUNT))
