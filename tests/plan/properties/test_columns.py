"""Columns made of others: what is known of an expression is known of its column, and an outer join takes certainty away."""

from __future__ import annotations

from fractions import Fraction

import pytest
from small_expressions import between, call, column, lit, ref

from dpproxy.plan.context import Counter
from dpproxy.plan.properties.null_padding import computed_column, nulled_column
from dpproxy.tree.expr import Domain, SeriesDomain, TableDomain, Taint, ValuesDomain

X = column(101, "int4", 0, 10, grid=Fraction(1), nullable=False, constant=True)


def test_a_computed_column_is_known_as_its_expression_is() -> None:
    made = computed_column(Counter(), "double", call("*", ref(X), lit("2"), type_="int4"))
    assert (made.name, made.type, made.bound, made.constant) == ("double", "int4", between(0, 20), True)
    assert made.grid is not None
    assert (made.grid / 1).denominator == 1


def test_it_is_new() -> None:
    counter = Counter()
    assert computed_column(counter, "a", ref(X)).id != computed_column(counter, "b", ref(X)).id


@pytest.mark.parametrize("known", [{"taint": Taint.UNIT}, {"taint": Taint.KEY}, {"constant": True}, {"nullable": True}])
def test_what_names_a_person_still_does(known: dict[str, object]) -> None:
    source = column(7, **known)
    made = computed_column(Counter(), "x", ref(source))
    assert (made.taint, made.constant, made.nullable) == (source.taint, source.constant, source.nullable)


def test_texts_keep_their_length() -> None:
    assert computed_column(Counter(), "t", ref(column(1, "text", length=4))).length == 4
    assert computed_column(Counter(), "n", ref(X)).length is None


@pytest.mark.parametrize(
    ("domain", "after"),
    [
        (ValuesDomain(("a", "b")), ValuesDomain(("a", "b", None))),
        (ValuesDomain(("a", None)), ValuesDomain(("a", None))),
        (SeriesDomain(1, 3, "int"), SeriesDomain(1, 3, "int", nulls=True)),
        (TableDomain(4), None),
        (None, None),
    ],
)
def test_the_optional_side_of_an_outer_join(domain: Domain | None, after: Domain | None) -> None:
    """Rows that ON did not match are of many units: the column is NULL there, so it is constant no more."""
    made = nulled_column(column(1, constant=True, nullable=False, nulls=False, domain=domain))
    assert (made.constant, made.nullable, made.nulls, made.optional) == (False, True, True, True)
    assert made.domain == after
    assert made.id == 1
