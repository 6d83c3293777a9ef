"""Relations: what a subquery reads of the query around it, and which claims survive which operators."""

from __future__ import annotations

import pytest
from small_expressions import call, column, lit, ref, same

from dpproxy.table_terms import TableName
from dpproxy.tree.expr import Exists, InQuery, Relation, Scalar
from dpproxy.tree.relation import (
    Beside,
    Contribution,
    ContributionLimits,
    Filter,
    Identity,
    Join,
    Padding,
    PendingPath,
    Project,
    Rows,
    Scan,
    of_somebody,
    outer_columns,
)

A, B, C, X, Y = (column(i) for i in (1, 2, 3, 8, 9))
INSIDE = Scan((X, Y), 1, ("main", "t"), ("x", "y"))
OUTSIDE = Scan((A, B), 2, ("main", "u"), ("a", "b"))


def filtered(*conditions: object) -> Relation:
    node: Relation = INSIDE
    for condition in conditions:
        node = Filter((X, Y), node, condition)  # type: ignore[arg-type]
    return node


@pytest.mark.parametrize(
    ("expr", "read"),
    [
        (Exists("bool", INSIDE), set()),
        (Exists("bool", filtered(same(X, Y))), set()),
        (Exists("bool", filtered(same(X, A), same(B, Y))), {A, B}),
        (InQuery("bool", (ref(A),), INSIDE, (ref(X),)), set()),
        (InQuery("bool", (ref(A),), filtered(same(X, B)), (ref(X),)), {B}),
        (Scalar("int4", INSIDE, ref(X)), set()),
        (Scalar("int4", INSIDE, call("+", ref(X), ref(C), type_="int4")), {C}),
        (Exists("bool", filtered(Exists("bool", Filter((A, B), OUTSIDE, same(A, C))))), {C}),
        (call("=", ref(A), ref(B)), set()),
    ],
)
def test_columns_of_the_query_around(expr: object, read: set[object]) -> None:
    assert outer_columns(expr) == read


def test_somebodys_rows_have_a_unit() -> None:
    sure = column(4, nullable=False)
    assert of_somebody(OUTSIDE, sure) is OUTSIDE
    assert of_somebody(OUTSIDE, A) == Filter((A, B), OUTSIDE, call("is_not_null", ref(A)))


CLAIMS = Rows(
    node=OUTSIDE,
    unit=A,
    one=True,
    conditions=(same(A, B),),
    contribution=Contribution(ContributionLimits(3, 2), (Beside(frozenset({1}), 5),), keyed=frozenset({1})),
    identity=Identity(frozenset({2})),
    padding=Padding(padded=True, kept=frozenset({1})),
)


def test_fewer_rows_keep_all_claims() -> None:
    condition = call("=", ref(B), lit("1"))
    found = CLAIMS.fewer(Filter((A, B), OUTSIDE, condition), (condition,))
    assert found.conditions == (same(A, B), condition)
    kept = ("unit", "one", "contribution", "identity", "padding", "pending")
    assert all(getattr(found, name) == getattr(CLAIMS, name) for name in kept)


def test_fewer_rows_have_their_columns() -> None:
    with pytest.raises(AssertionError):
        CLAIMS.fewer(Project((A,), OUTSIDE, (ref(A),)))


def test_wider_rows_have_more_columns_and_all_claims() -> None:
    found = CLAIMS.wider((C,), (lit("1"),))
    assert found.node.columns == (C, A, B)
    assert (found.unit, found.limits, found.determinants) == (A, ContributionLimits(3, 2), frozenset({2}))


def test_new_rows_claim_nothing() -> None:
    """What an operator does not say is not claimed."""
    bare = Rows(node=Join((A, B, X, Y), "inner", OUTSIDE, INSIDE, None), unit=A)
    assert (bare.one, bare.conditions, bare.limits, bare.keyed, bare.determinants, bare.padded) == (
        False, (), ContributionLimits(1, 1), frozenset(), frozenset(), False,
    )  # fmt: skip


def test_parts_are_replaced_one_by_one() -> None:
    assert CLAIMS.limited(ContributionLimits(9, None)).limits.rows == 9
    assert CLAIMS.limited(ContributionLimits(9, None)).beside == CLAIMS.beside
    assert CLAIMS.contributing(Contribution()).per_value == ()
    assert not CLAIMS.padding_of(Padding()).padded
    assert CLAIMS.rewritten(INSIDE, (), X).identity == CLAIMS.identity


def test_rows_are_private_before_their_unit_is_reached() -> None:
    pending = Rows(node=OUTSIDE, pending=PendingPath(B, TableName("public", "t"), "x"))
    assert pending.private
    assert not Rows(node=OUTSIDE).private
    reached = pending.of_parent(X)
    assert (reached.unit, reached.pending, reached.private) == (X, None, True)
