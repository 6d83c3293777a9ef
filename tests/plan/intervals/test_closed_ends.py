"""Where the policy says how many rows a person has at most (`rows_at_most`), intervals under `rows: n` are closed, and hold.

The truth here is the exact answer of the same SQL: what steps that noise hides hold included. Dice are seeded.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import plan_harness
import pytest
from accuracy_stage import Stage

from dpproxy.plan.model import Plan
from dpproxy.policy.model import Mechanism, Policy

RELEASES = 150
MOST = 200
"""Orders of the customer who has most of them."""


def policy(at_most: int | None, rows: int = 2, mechanism: Mechanism = "laplace") -> Policy:
    given = replace(plan_harness.policy("whole"), mechanism=mechanism)
    tables = {
        name: replace(t, rows_at_most=at_most, bounds=replace(t.bounds, rows=rows)) if name.name == "orders" else t
        for name, t in given.tables.items()
    }
    roles = {n: replace(r, query=replace(r.query, max_epsilon=10**13)) for n, r in given.roles.items()}
    return replace(given, tables=tables, roles=roles)


def plan(stage: Stage, call: str, given: Policy, keys: str = "", epsilon: str = "0.5") -> Plan:
    listed, grouped = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    sql = f"SELECT {listed}{call}, dpproxy.low({call}), dpproxy.high({call}) FROM orders{grouped}"
    return plan_harness.plan(sql, stage.catalog, given, dpproxy__epsilon=epsilon)


def held(stage: Stage, made: Plan, call: str, keys: str = "", releases: int = RELEASES) -> float:
    """How often both ends hold the exact answer. Every cell has both."""
    names = [row[0] for row in stage.rows(f"SELECT {keys} FROM orders GROUP BY 1")] if keys else [None]
    truth = {name: stage.true(f"SELECT {call} FROM orders" + (f" WHERE {keys} = '{name}'" if keys else "")) for name in names}
    inside = []
    for released in itertools.islice(stage.through_the_door(made), releases):
        for *key, value, low, high in stage.shown(made, released):
            assert low <= value <= high
            exact = truth[key[0] if key else None]
            slack = 1e-9 * abs(exact)
            inside.append(float(low) - slack <= exact <= float(high) + slack)
    return float(np.mean(inside))


CALLS = ["count(*)", "sum(qty)", "sum(qty - 10)", "avg(qty)", "stddev(qty)"]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("call", CALLS)
def test_both_ends_hold_the_exact_answer(stage: Stage, call: str, mechanism: Mechanism) -> None:
    made = plan(stage, call, policy(MOST, mechanism=mechanism))
    assert held(stage, made, call) >= 0.95
    assert made.endless == ()


@pytest.mark.parametrize("call", ["count(*)", "avg(qty)"])
def test_by_group_too(stage: Stage, call: str) -> None:
    assert held(stage, plan(stage, call, policy(MOST), "status"), call, "status", RELEASES // 3) >= 0.95


@pytest.mark.parametrize("call", CALLS)
def test_of_no_noise_to_speak_of_it_is_the_exact_answer(stage: Stage, call: str) -> None:
    """Nothing is lost by dividing: what steps hold adds up to the whole."""
    made = plan(stage, call, policy(MOST), epsilon="1000000" if call != "stddev(qty)" else "100000")
    assert held(stage, made, call, releases=5) == 1
    ((value, low, high),) = stage.shown(made, next(stage.through_the_door(made)))
    assert float(high - low) <= 0.01 * abs(float(value))


def test_what_is_stated_is_taken_as_true_and_would_be_seen_if_it_were_not(stage: Stage) -> None:
    """A twentieth of the rows that some have: the ends miss what these have beyond it."""
    made = plan(stage, "count(*)", policy(MOST // 20), epsilon="10")
    assert held(stage, made, "count(*)", releases=40) < 0.5


def test_where_all_rows_count_nothing_is_cut(stage: Stage) -> None:
    """Neither in steps nor to a norm: the bound is the number that a person has, and only noise is left."""
    made = plan(stage, "count(*)", policy(MOST, rows=500), epsilon="10")
    assert made.measurements[0].stepped == ()
    assert made.measurements[0].bases[0].linf == MOST * made.measurements[0].bases[0].fine
    assert held(stage, made, "count(*)") >= 0.95
    assert made.cuts == ()


@pytest.mark.parametrize(("at_most", "rows", "steps"), [(None, 2, 12), (200, 2, 8), (4, 2, 2), (5, 2, 3), (10**9, 2, 12)])
def test_there_are_as_many_steps_as_hold_everybody(stage: Stage, at_most: int | None, rows: int, steps: int) -> None:
    (basis,) = plan(stage, "count(*)", policy(at_most, rows)).measurements[0].bases
    assert basis.steps == steps


@pytest.mark.parametrize("at_most", [None, 10**9])
def test_where_nothing_closes_it_an_end_is_open_and_the_bound_named(stage: Stage, at_most: int | None) -> None:
    made = plan(stage, "count(*)", policy(at_most))
    ((_, low, high),) = stage.shown(made, next(stage.through_the_door(made)))
    assert (low is None, high) == (False, None)
    assert made.cuts[0].startswith("`rows`: 2 rows of a customer (more count where they exceed the noise)")


def test_more_noise_than_planned_would_be_seen(stage: Stage) -> None:
    made, inside = plan(stage, "count(*)", policy(MOST)), []
    truth = stage.true("SELECT count(*) FROM orders")
    for released in itertools.islice(stage.through_the_door(made, Fraction(4)), RELEASES):
        ((_, low, high),) = stage.shown(made, released)
        inside.append(low <= truth <= high)
    assert np.mean(inside) < 0.9
