"""Columns of one value: what conditions make equal, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from small_expressions import call, column, lit, ref

from dpproxy.kernel.classes import Classes, compared, present

A, B, C = column(1), column(2), column(3)


def test_classes_grow_together() -> None:
    classes = Classes()
    classes.unite((1, 2))
    classes.unite((3, 4))
    assert classes.members(1) == {1, 2}
    assert classes.members(9) == {9}
    classes.unite((2, 3))
    assert classes.members(4) == {1, 2, 3, 4}
    assert classes.all() == (frozenset((1, 2, 3, 4)),)


def test_only_equality_makes_equal() -> None:
    assert compared(call("=", ref(A), ref(B))) == (A, B)
    for other in (call("<=", ref(A), ref(B)), call("=", ref(A), lit("1")), call("or", call("=", ref(A), ref(B)), ref(C))):
        assert compared(other) is None
    assert compared(call("is_not_distinct", ref(A), ref(B))) is None
    assert compared(call("=", ref(A), ref(replace(B, type="float8")))) is None, "one double stands for many numbers"


def test_what_is_compared_is_there() -> None:
    assert present(call("=", ref(A), ref(B))) == {1, 2}
    assert present(call("is_not_null", ref(C))) == {3}
    assert present(call("is_null", ref(C))) == frozenset()
