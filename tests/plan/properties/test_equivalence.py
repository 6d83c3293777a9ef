"""Columns made one by equalities: the same as walking from column to column."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from small_expressions import call, column, lit, ref, same

from dpproxy.plan.properties.equivalence import EquivalenceClasses, equal_to, equalities, same_values, strict

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


def test_null_safe_equalities() -> None:
    """Plain where a side is never NULL; else one operator for both spellings. What only looks alike stays as it is."""
    a, b, c = ref(COLUMNS[0]), ref(COLUMNS[1]), ref(COLUMNS[2])
    none = call("and", call("is_null", b), call("is_null", a))
    spelled = call("or", call("=", a, b), none)
    safe, plain = call("is_not_distinct", a, b), call("=", a, b)
    assert strict([spelled, safe, call("or", none, call("=", a, b))], {1}) == [plain] * 3
    assert strict([spelled, safe], {2}) == [safe] * 2
    other = [
        call("or", call("=", a, c), none),
        call("or", call("<", a, b), none),
        call("or", call("=", a, b), call("is_null", a)),
    ]
    assert strict(other, {0, 1, 2}) == other
    assert same_values([spelled, plain, *other]) == [(COLUMNS[0], COLUMNS[1])] * 2
