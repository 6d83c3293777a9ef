"""Columns made one by equalities: the same as walking from column to column."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from small_expressions import call, column, lit, ref, same

from dpproxy.plan.properties.equivalence import EquivalenceClasses, equal_to, equalities

COLUMNS = [column(i) for i in range(8)]
pairs = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12)


def reached(ids: set[int], edges: list[tuple[int, int]]) -> set[int]:
    while more := {y for a, b in edges for x, y in ((a, b), (b, a)) if x in ids} - ids:
        ids = ids | more
    return ids


@given(pairs, st.sets(st.integers(0, 7), max_size=3))
def test_all_that_is_reached_is_equal(edges: list[tuple[int, int]], ids: set[int]) -> None:
    conditions = [same(COLUMNS[a], COLUMNS[b]) for a, b in edges]
    assert equal_to(ids, conditions) == reached(ids, edges)


@given(pairs)
def test_classes(edges: list[tuple[int, int]]) -> None:
    classes = EquivalenceClasses((COLUMNS[a], COLUMNS[b]) for a, b in edges)
    for a in range(8):
        assert {b for b in range(8) if classes.find(b) == classes.find(a)} == reached({a}, edges)


def test_only_equalities_of_columns_of_one_kind() -> None:
    a, b, wide, text = COLUMNS[0], COLUMNS[1], column(20, "numeric"), column(21, "text")
    others = [
        call("<", ref(a), ref(b)),
        call("=", ref(a), lit("1")),
        call("or", same(a, b), same(b, a)),
        same(a, wide),  # compared as doubles, of which one stands for many numbers
        call("is_not_distinct", ref(a), ref(b)),
    ]
    assert equalities([*others, same(a, b), same(text, text)]) == [(a, b), (text, text)]
