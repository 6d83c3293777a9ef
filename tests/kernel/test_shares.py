"""Shares of a unit: how joins multiply them, and what is read where."""

from __future__ import annotations

import pytest
from small_expressions import call, column, lit, ref, same

from dpproxy.kernel.shares import Share, Size, free_reads, is_lookup, joined, met, outputs, parts, reads_of, renamed, ties_of
from dpproxy.tree.expr import Exists, InQuery, Scalar
from dpproxy.tree.relation import Filter, Project, Scan

A, B, C, D = (column(i) for i in (1, 2, 3, 4))
MINE, OTHERS = Scan((A, B), 1, ("m", "t"), ("a", "b")), Scan((C,), 2, ("m", "u"), ("c",))


def ids(*columns: int) -> frozenset[int]:
    return frozenset(columns)


ROWS = Share(ids(1, 2), True, Size(1), (ids(1),))
OTHER = Share(ids(3, 4), True, Size(1))
PUBLIC = Share(ids(3, 4), False, Size(0, 100), (ids(3),), {4: 7})


def test_sizes() -> None:
    assert Size(1, 2) * Size(1, 3) == Size(2, 6)
    assert Size(1, 2) + Size(0, 3) == Size(1, 5)
    assert max(Size(1, 50), Size(2, 1)) == Size(2, 1), "the power counts first"


@pytest.mark.parametrize(
    ("sources", "conditions", "around", "size"),
    [
        ([ROWS], [], ids(), Size(1)),
        ([ROWS], [same(A, D)], ids(4), Size(0)),
        ([ROWS], [same(A, D)], ids(), Size(1)),
        ([ROWS, OTHER], [], ids(), Size(2)),
        ([ROWS, OTHER], [same(A, C)], ids(), Size(1)),
        ([ROWS, OTHER], [same(B, C)], ids(), Size(2)),
        ([ROWS, PUBLIC], [same(B, C)], ids(), Size(1)),
        ([ROWS, PUBLIC], [same(B, D)], ids(), Size(1, 7)),
        ([ROWS, PUBLIC], [call("<", ref(B), ref(D))], ids(), Size(1, 100)),
    ],
)
def test_joins(sources: list[Share], conditions: list, around: frozenset[int], size: Size) -> None:
    assert joined(sources, conditions, around, {}).size == size


def test_what_is_computed_late_ties_nothing() -> None:
    assert joined([ROWS, OTHER], [same(A, C)], ids(), {1: Size(1)}).size == Size(2)
    assert ties_of([same(A, B)], {2: Size()}) == []
    assert met(PUBLIC, ties_of([same(A, D)], {}), ids(1)) == (False, Size(0, 7))


def test_renamed_rows() -> None:
    found = renamed(ROWS, ids(4), (ref(A),), Project((D,), MINE, (ref(A),)))
    assert (found.columns, found.keys) == (ids(4), (ids(4),))


def test_what_a_subquery_reads_around_it() -> None:
    inner = Exists("bool", Filter((C,), OTHERS, same(C, D)))
    assert free_reads(inner) == ids(4)
    assert free_reads(Scalar("int4", OTHERS, call("+", ref(C), ref(A), type_="int4"))) == ids(1)
    chosen = InQuery("bool", (ref(A),), OTHERS, (call("+", ref(C), ref(B), type_="int4"),))
    assert free_reads(chosen) == ids(2), "what is compared is read outside"
    assert outputs(chosen) == chosen.columns
    assert free_reads(Filter((A, B), MINE, inner)) == ids(4), "a subquery of a subquery"
    assert reads_of(call("and", inner, chosen)) == ids(1, 2, 4)
    assert MINE in parts(Filter((A, B), MINE, inner))
    assert OTHERS in parts(Filter((A, B), MINE, inner))


def test_lookups() -> None:
    assert is_lookup(same(A, D), ids(4), ("=",))
    assert is_lookup(call("=", call("+", ref(D), lit("1"), type_="int4"), ref(A)), ids(4), ("=",))
    assert not is_lookup(call("=", call("+", ref(A), ref(D), type_="int4"), ref(B)), ids(4), ("=",))
    assert not is_lookup(call("=", ref(D), lit("1")), ids(4), ("=",))
    assert not is_lookup(call("is_not_distinct", ref(A), ref(D)), ids(4), ("=",))
