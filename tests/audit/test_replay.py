"""Statements of every kind are replayed without a problem; inputs have stand-ins; what is refused says why."""

from __future__ import annotations

import pytest

from dpproxy.audit.bench import AuditBench, Statement, Subject
from dpproxy.audit.replay import Replayed, replay, values_of
from dpproxy.audit.self_test import ROLE

ASKED = (
    "SELECT count(*), sum(score), avg(income) FROM people",
    "SELECT note, count(*), sum(amount) FROM orders GROUP BY note",
    "SELECT page, count(*), sum(secs) FROM visits GROUP BY page",
    "SELECT note, count(*) FROM orders GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
    "SELECT region, percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY score), max(score) FROM people GROUP BY 1",
    "SELECT count(*) FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
    "SELECT amount FROM orders",
)


@pytest.fixture(scope="module")
def replayed(small: AuditBench) -> tuple[Replayed, ...]:
    asked = [Statement(ROLE, sql) for sql in ASKED]
    return replay(Subject(), small.bench, small.other, small.neighbours, asked)


def test_nothing_is_refuted(replayed: tuple[Replayed, ...]) -> None:
    assert [r.problems for r in replayed] == [()] * len(ASKED)
    assert [bool(r.refused) for r in replayed] == [False] * (len(ASKED) - 1) + [True]
    for found in replayed[:-1]:
        assert found.epsilon == 1
        assert found.runs >= 6
        assert 0 < found.closest <= 1 + 1e-9, found.statement.sql


def test_what_the_facade_would_say_is_stood_in_for(small: AuditBench) -> None:
    plan = small.bench.planned(ROLE, ASKED[5])
    assert plan is not None
    assert plan.inputs
    assert all(value is not None for value in values_of(plan))


def test_a_plan_that_depends_on_a_unit_is_told(small: AuditBench) -> None:
    asked = Statement(ROLE, "SELECT count(*) FROM people")
    other = small.bench.planned(ROLE, "SELECT count(*) FROM orders")
    plans = iter([small.bench.planned(ROLE, asked.sql), other])
    subject = Subject(changed=lambda plan: next(plans) or plan)
    (found,) = replay(subject, small.bench, small.other, small.neighbours, [asked])
    assert found.problems == ("the plan depends on one unit's rows",)
