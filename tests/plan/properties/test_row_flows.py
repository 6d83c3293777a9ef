"""Rows of joins: as many as there are in the worst data that the keys allow, found by trying."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from small_expressions import call, column, lit, ref, same

from dpproxy.plan.properties.row_flows import (
    AGAIN,
    FAR,
    Flow,
    distinct_parts,
    frame_width,
    is_hashed,
    is_looked_up,
    join_product,
    join_repetitions,
    outer_reads,
    parts_reading,
    reads_of,
    scans,
    subqueries,
    ties_of,
)
from dpproxy.tree.expr import Exists, Expr, Scalar
from dpproxy.tree.relation import Filter, Join, Scan

A, B, C, D = (column(i) for i in (1, 2, 3, 4))
NONE: frozenset[int] = frozenset()


def public(rows: int, *columns: int, keys: tuple[frozenset[int], ...] = (), most: dict[int, int] | None = None) -> Flow:
    return Flow(frozenset(columns), rows, False, keys, most or {})


def ids(*columns: int) -> frozenset[int]:
    return frozenset(columns)


def test_one_row_meets_one_of_a_key() -> None:
    leaf = public(100, 2, 3, keys=(ids(2),), most={3: 7})
    assert join_repetitions(leaf, ties_of([same(A, B)]), ids(1)) == (1, 0, True)
    assert join_repetitions(leaf, ties_of([same(A, C)]), ids(1)) == (7, 0, True)
    assert join_repetitions(leaf, ties_of([same(A, C)]), NONE) == (100, 0, False), "what it is equal to is not there yet"
    assert join_repetitions(leaf, [], ids(1)) == (100, 0, False)


def test_rows_of_a_person_are_joined_again() -> None:
    leaf = Flow(ids(2), 3, True, power=1)
    assert join_repetitions(leaf, [], ids(1)) == (3 * AGAIN, 1, False)
    assert join_repetitions(leaf, ties_of([same(A, B)]), ids(1)) == (3 * AGAIN, 1, True)
    keyed = Flow(ids(2), 3, True, (ids(2),), power=1)
    assert join_repetitions(keyed, ties_of([same(A, B)]), ids(1)) == (1, 0, True)
    assert join_repetitions(replace(leaf, power=2), [], ids(1)) == (3 * AGAIN**2, 2, False)
    assert join_repetitions(replace(leaf, power=0), [], ids(1)) == (3, 0, False), "a person has these and no more"


@pytest.mark.parametrize(
    ("start", "leaves", "conditions", "rows"),
    [
        (public(5, 1), [public(10, 2)], [], 50),
        (public(5, 1), [public(10, 2, keys=(ids(2),))], [same(A, B)], 5),
        (public(5, 1), [public(10, 2, keys=(ids(2),)), public(10, 3, keys=(ids(3),))], [same(A, B), same(B, C)], 5),
        (public(5, 1), [public(10, 3, keys=(ids(3),)), public(10, 2, keys=(ids(2),))], [same(A, B), same(B, C)], 5),
        (public(5, 1), [public(10, 2, most={2: 4})], [same(A, B)], 20),
        (None, [public(10, 2), public(3, 3)], [], 30),
        (public(10**9, 1), [public(10**9, 2)], [], FAR),
    ],
)
def test_products(start: Flow | None, leaves: list[Flow], conditions: list, rows: int) -> None:
    assert join_product(start, leaves, ties_of(conditions), NONE) == (rows, 0)


def test_products_are_never_below_the_worst_data() -> None:
    """Three relations of two rows over two values; each column is a key or not; every pair of columns is equal or not."""
    values = (1, 2)
    for keyed in itertools.product((False, True), repeat=3):
        tables = [[(1,), (2,)] if key else list(itertools.product(values, repeat=1)) for key in keyed]
        worst = [[(1,), (2,)] if key else [(1,), (1,)] for key in keyed]
        flows = [public(2, i + 1, keys=(ids(i + 1),) if key else ()) for i, key in enumerate(keyed)]
        for pairs in ([], [(0, 1)], [(1, 2)], [(0, 1), (1, 2)], [(0, 1), (0, 2)]):
            conditions = [same((A, B, C)[i], (A, B, C)[j]) for i, j in pairs]
            told, _ = join_product(flows[0], flows[1:], ties_of(conditions), NONE)
            for data in (tables, worst):
                found = sum(all(row[i] == row[j] for i, j in pairs) for row in itertools.product(*data))
                assert found <= told


def test_ties_go_both_ways() -> None:
    assert sorted(ties_of([same(A, B)])) == [(1, ids(2), False), (2, ids(1), False)]
    assert ties_of([call("=", ref(A), call("+", ref(B), ref(C), type_="int4"))]) == [(1, ids(2, 3), False)]
    assert ties_of([call("<", ref(A), ref(B)), call("or", same(A, B), same(A, C))]) == []


def test_what_is_computed_late_ties_nothing() -> None:
    assert ties_of([same(A, B), same(C, D)], ids(2)) == ties_of([same(C, D)])


def test_frames_that_begin_anew() -> None:
    assert frame_width("") == frame_width("RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW") == 1
    assert frame_width("ROWS BETWEEN 3 PRECEDING AND 4 FOLLOWING") == 8
    assert frame_width("ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING") == 3
    assert frame_width("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING") is None
    assert frame_width("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW") is None


def test_an_exists_that_is_a_join() -> None:
    scan = Scan((A, B), 1, ("m", "t"), ("a", "b"))

    def rows(*conditions: Expr) -> Filter:
        return Filter((A, B), scan, call("and", *conditions))

    assert is_looked_up(rows(same(A, C), call("<", ref(A), ref(B))), ids(3))
    assert not is_looked_up(rows(same(A, C), call("<", ref(B), ref(C))), ids(3))
    assert not is_looked_up(rows(call("=", call("+", ref(A), ref(C), type_="int4"), ref(B))), ids(3)), "no side by itself"
    assert not is_looked_up(rows(call("is_not_distinct", ref(A), ref(C))), ids(3)), "PostgreSQL has no hash of that"
    assert not is_looked_up(Join((A, B, D), "inner", scan, Scan((D,), 2, ("m", "u"), ("d",)), same(A, C)), ids(3)), "in ON"


def test_all_columns_and_tables_that_are_read() -> None:
    scan, other = Scan((A, B), 1, ("m", "t"), ("a", "b")), Scan((C,), 2, ("m", "u"), ("c",))
    inner = Exists("bool", Filter((C,), other, same(C, A)))
    assert reads_of(call("and", inner, same(B, D))) == ids(1, 2, 4)
    assert scans(Filter((A, B), scan, inner)) == [other, scan] or scans(Filter((A, B), scan, inner)) == [scan, other]


def test_what_is_looked_up() -> None:
    assert is_hashed(same(A, B))
    assert is_hashed(call("and", same(A, B), call("is_not_distinct", ref(A), ref(C))))
    assert not is_hashed(call("and", same(A, B), call("<", ref(A), ref(C))))
    assert not is_hashed(call("=", ref(A), Scalar("int4", Scan((D,), 1, ("m", "t"), ("d",)), ref(D))))


def test_columns_that_are_read_and_not_there() -> None:
    scan, other = Scan((A, B), 1, ("m", "t"), ("a", "b")), Scan((C,), 2, ("m", "u"), ("c",))
    assert outer_reads(Filter((A, B), scan, same(A, D))) == {4}
    assert outer_reads(Join((A, B, C), "inner", scan, other, same(A, C))) == NONE
    inner = Exists("bool", Filter((C,), other, call("and", same(C, A), same(C, D))))
    assert outer_reads(Filter((A, B), scan, inner)) == {4}
    assert parts_reading(Filter((A, B), scan, inner), ids(4)) == [same(C, D)]
    assert outer_reads(
        Filter((A, B), scan, call("=", ref(A), Scalar("int4", other, call("+", ref(C), ref(D), type_="int4"))))
    ) == {4}


def test_shared_parts_are_walked_once() -> None:
    """A tree of thirty levels, each of which uses the one below twice, has two to the thirtieth leaves."""
    expr = ref(A)
    for _ in range(30):
        expr = call("+", expr, expr, type_="int4")  # type: ignore[assignment]
    assert len(list(distinct_parts(expr))) == 31
    assert subqueries(expr) == []
    assert subqueries(call("and", lit("true", "bool"), Exists("bool", Scan((A,), 1, ("m", "t"), ("a",))))) != []
