"""Budgets, roles and users: limits in whole millionths, rounded down, and nobody may spend more than whom they belong to."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.amounts import ATTO, MICRO
from dpproxy.policy.model import Budget, QueryLimits
from dpproxy.policy.people import delta_of, epsilon_of
from dpproxy.policy.reader import Reader
from dpproxy.policy.tree import Mapping, parse

from .good import GOOD, loaded, problems, table


def test_roles() -> None:
    role = loaded().policy.roles["analyst"]
    assert role.budget == Budget(10_000_000, 10**12, "month")
    assert role.query == QueryLimits(100_000, 1_000_000, 10**9)  # delta: a thousandth of the role's
    assert role.tables == {table("customers"), table("orders")}
    assert (role.min_units, role.temp_tables, role.previews) == (10, False, "refuse")


def test_previews_of_a_role_go_before_those_of_the_policy() -> None:
    of_all = GOOD.replace("\nroles:\n", "\npreviews: empty\nroles:\n")
    assert loaded(of_all).policy.roles["analyst"].previews == "empty"
    assert loaded(of_all.replace("min_units: 10\n", "previews: synthetic\n")).policy.roles["analyst"].previews == "synthetic"
    (problem,) = problems(of_all.replace("previews: empty", "previews: some"))
    assert "`previews` cannot be `some`" in problem.what


def test_limits_are_rounded_down() -> None:
    budget = loaded(GOOD.replace("epsilon: 100, delta: 1e-5", "epsilon: 100.0000019, delta: 0.1000000000000000019")).policy.budget
    assert (budget.epsilon, budget.delta) == (100_000_001, 100_000_000_000_000_001)


@given(st.decimals(min_value="0.000001", max_value=1000, places=9), st.decimals(min_value=0, max_value="0.9", places=21))
def test_no_limit_is_more_than_written(epsilon: Decimal, delta: Decimal) -> None:
    reader = Reader("p.yaml")
    tree = parse(f"epsilon: {epsilon}\ndelta: {delta}", "p.yaml")
    assert isinstance(tree, Mapping)
    spent = epsilon_of(reader, tree.entries["epsilon"], "epsilon"), delta_of(reader, tree.entries["delta"], "delta")
    for found, written, unit in zip(spent, (epsilon, delta), (MICRO, ATTO), strict=True):
        if found is None:
            assert 0 < written < Decimal("1e-18")
        else:
            assert 0 <= Fraction(written) - Fraction(found, unit) < Fraction(1, unit)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "budget: { epsilon: 10, delta: 1e-6",
            "budget: { epsilon: 101, delta: 1e-6",
            "role `analyst` may spend more than the dataset",
        ),
        (
            "budget: { epsilon: 10, delta: 1e-6",
            "budget: { epsilon: 10, delta: 1e-4",
            "role `analyst` may spend more than the dataset",
        ),
        ("max_epsilon: 1 ", "max_epsilon: 11 ", "one query may spend more than the budget of its role"),
        ("epsilon: 0.1, max", "epsilon: 2, max", "`epsilon` of a query is above its `max_epsilon`"),
        ("max_epsilon: 1 ", "max_epsilon: 1, measure_bounds: 0.6 ", "`measure_bounds` is not from 0 to 0.5"),
        ("epsilon: 0.1, max", "epsilon: 1e-7, max", "`query epsilon` must be at least a millionth"),
        ("tables: [customers, orders]", "tables: [customer]", "there is no table or view `customer` in this policy"),
        ("role: analyst,", "role: analist,", "there is no role `analist`"),
        ("role: analyst,", "role: analyst, budget: { epsilon: 11 },", "user `ada` may spend more than role `analyst`"),
    ],
)
def test_limits_that_cannot_be(old: str, new: str, says: str) -> None:
    assert GOOD.count(old) == 1
    assert [p.what for p in problems(GOOD.replace(old, new))] == [says]


def test_a_password_is_never_repeated() -> None:
    found = problems(GOOD.replace(GOOD[GOOD.index("SCRAM-") : GOOD.index('" }', GOOD.index("SCRAM-"))], "hunter2"))
    assert [p.what.partition(" (")[0] for p in found] == ["the password of `ada` is not a SCRAM-SHA-256 verifier"]
    assert not any("hunter2" in str(p) for p in found)


def test_what_is_not_written_has_its_default() -> None:
    text = (
        GOOD.replace(", every: month", "")
        .replace("min_units: 10\n", "temp_tables: true\n")
        .replace("    tables: [customers, orders]\n", "")
    )
    role = loaded(text).policy.roles["analyst"]
    assert (role.budget.every, role.budget.warn, role.min_units, role.tables, role.temp_tables) == ("never", (80,), 1, None, True)
    assert loaded(text.replace("1e-6 }", "1e-6, warn: [90, 50, 90] }")).policy.roles["analyst"].budget.warn == (50, 90)
