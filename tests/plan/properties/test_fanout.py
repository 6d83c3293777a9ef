"""How often public rows repeat a unit's rows: the least bound first, and never less than once."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.properties.fanout import MANY, beside_series, check_repetitions, contribution, overall_limits
from dpproxy.tree.expr import Call, Column, Expr, Ref, Relation
from dpproxy.tree.relation import Beside, Contribution, ContributionLimits, Rows

OWN, A, B, C = (Column(i, name, "int4") for i, name in enumerate("oabc"))
UNIT = Column(9, "unit", "int4")


def equal(a: Column, b: Column) -> Expr:
    return Call("bool", "=", (Ref("int4", a), Ref("int4", b)))


def rows(*beside: Beside, conditions: tuple[Expr, ...] = (), groups: int | None = 2) -> Rows:
    node = Relation((UNIT, OWN, A, B, C))
    return Rows(node=node, unit=UNIT, conditions=conditions, contribution=Contribution(ContributionLimits(3, groups), beside))


def test_a_chain_starts_at_what_is_fixed() -> None:
    """b is one for each a, and a one for each b: but nothing ties either of them to the unit's rows."""
    first, second = Beside(frozenset({1}), 50, ((1, 1),)), Beside(frozenset({2}), 7, ((2, 1),))
    assert contribution(rows(first, second, conditions=(equal(A, B),)), ()).rows == 3 * 7
    assert contribution(rows(first, second, conditions=(equal(A, B), equal(OWN, A))), ()).rows == 3


def test_keys_fix_rows_and_widen_groups() -> None:
    table = Beside(frozenset({1, 2}), 50, ((1, 1), (2, 10)))
    assert contribution(rows(table), ()) == ContributionLimits(150, 2)
    assert contribution(rows(table), [Ref("int4", A)]) == ContributionLimits(3, 50)
    assert contribution(rows(table), [Ref("int4", B), Ref("int4", OWN)]) == ContributionLimits(30, 100)
    assert overall_limits(rows(table, groups=None)) == ContributionLimits(150, None)


def test_an_empty_table_may_have_rows_later() -> None:
    assert contribution(rows(Beside(frozenset({1}), 0)), ()) == ContributionLimits(3, 2)


def test_rows_of_unknown_number_need_an_equality() -> None:
    unknown = Beside(frozenset({1}), None)
    with pytest.raises(Refusal, match="whose number is not known"):
        check_repetitions(rows(unknown), ())
    check_repetitions(rows(unknown, conditions=(equal(A, OWN),)), ())
    assert contribution(rows(unknown, conditions=(equal(A, OWN),)), ()).rows == 3


def test_groups_by_rows_of_unknown_number_are_many() -> None:
    unknown = Beside(frozenset({1}), None)
    check_repetitions(rows(unknown), [Ref("int4", A)])
    assert contribution(rows(unknown), [Ref("int4", A)]) == ContributionLimits(3, 2 * MANY)


@pytest.mark.parametrize(
    ("start", "stop", "step", "size"),
    [
        ("1", "10", "1", 10), ("10", "1", "-3", 4), ("5", "1", "1", 0), ("2024-01-01", "2024-12-01", "1 month", 12),
        ("2024-01-01", "2024-01-02", "6 hours", 5), ("2024-01-01", "", "1 day", None), ("1", "2", "0", None),
    ],
)  # fmt: skip
def test_series(start: str, stop: str, step: str, size: int | None) -> None:
    assert beside_series([A], start, stop, step).size == size
