"""Interval arithmetic holds every value: tried on values within, and with ends nobody knows."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpproxy.tree import interval as iv
from dpproxy.tree.interval import OPEN, Interval, Limited

numbers = st.fractions(min_value=-50, max_value=50, max_denominator=8)
Two = Callable[[Interval, Interval], Interval]


@st.composite
def around(draw: st.DrawFn) -> tuple[Interval, Fraction]:
    """An interval, whose ends may be unknown, and a value in it."""
    lo, value, hi = sorted(draw(st.tuples(numbers, numbers, numbers)))
    return Interval(None if draw(st.booleans()) else lo, None if draw(st.booleans()) else hi), value


@st.composite
def closed(draw: st.DrawFn) -> tuple[Interval, Fraction]:
    lo, value, hi = sorted(draw(st.tuples(numbers, numbers, numbers)))
    return Interval(lo, hi), value


def holds(found: Interval, value: Fraction) -> bool:
    return (found.lo is None or found.lo <= value) and (found.hi is None or value <= found.hi)


@given(around(), around())
def test_what_two_values_make_is_within(a: tuple[Interval, Fraction], b: tuple[Interval, Fraction]) -> None:
    (x, p), (y, q) = a, b
    assert holds(iv.add(x, y), p + q)
    assert holds(iv.subtract(x, y), p - q)
    assert holds(iv.multiply(x, y), p * q)
    assert holds(iv.hull([x, y]), p)
    assert holds(iv.hull([x, y]), q)
    assert holds(iv.least([x, y]), min(p, q))
    assert holds(iv.greatest([x, y]), max(p, q))
    if q != 0:
        assert holds(iv.divide(x, y), p / q)
        if q.denominator == 1:
            assert holds(iv.divide(x, y, whole=True), p / q)


@given(around())
def test_what_one_value_makes_is_within(a: tuple[Interval, Fraction]) -> None:
    x, p = a
    assert holds(iv.negate(x), -p)
    assert holds(iv.absolute(x), abs(p))
    assert holds(iv.floor(x), Fraction(math.floor(p)))
    assert holds(iv.ceiling(x), Fraction(math.ceil(p)))
    for digits in (-1, 0, 2):
        unit = Fraction(10) ** -digits
        assert holds(iv.outward(x, digits), math.floor(p / unit) * unit)
        assert holds(iv.outward(x, digits), math.ceil(p / unit) * unit)


@given(around(), around())
def test_one_of_two_may_be_null(a: tuple[Interval, Fraction], b: tuple[Interval, Fraction]) -> None:
    """LEAST and GREATEST skip NULLs; a constant never is one."""
    (x, p), (y, _) = a, b
    if y.lo != y.hi or y.lo is None:
        assert holds(iv.least([x, y]), p)
        assert holds(iv.greatest([x, y]), p)


@given(closed(), closed())
def test_no_wider_than_it_must_be(a: tuple[Interval, Fraction], b: tuple[Interval, Fraction]) -> None:
    """The ends are reached by ends."""
    (x, _), (y, _) = a, b
    for made, op in ((iv.add, lambda p, q: p + q), (iv.multiply, lambda p, q: p * q), (iv.subtract, lambda p, q: p - q)):
        results = [op(p, q) for p in x.ends for q in y.ends]
        assert made(x, y).ends == (min(results), max(results))
    assert iv.hull([x, y]).ends == (min(x.ends[0], y.ends[0]), max(x.ends[1], y.ends[1]))
    assert x.magnitude == max(map(abs, x.ends))
    assert x.within(x.magnitude)
    assert not x.within(x.magnitude - Fraction(1, 100))


@given(around(), around())
def test_what_both_hold_they_hold_together(a: tuple[Interval, Fraction], b: tuple[Interval, Fraction]) -> None:
    (x, p), (y, _) = a, b
    assume(holds(y, p))
    both = iv.meet(x, y)
    assert holds(both, p)
    assert both in (iv.meet(y, x),)


def test_disjoint_ones_keep_the_first() -> None:
    low, high = Interval(Fraction(0), Fraction(1)), Interval(Fraction(2), Fraction(3))
    assert iv.meet(low, high) == low
    assert iv.meet(high, low) == high


def test_a_divisor_around_zero_bounds_nothing_unless_it_is_whole() -> None:
    ten, around_zero = Interval(Fraction(-10), Fraction(4)), Interval(Fraction(-1), Fraction(2))
    assert iv.divide(ten, around_zero) == OPEN
    assert iv.divide(ten, around_zero, whole=True).ends == (-10, 10)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (dt.date(1970, 1, 3), 2),
        (dt.datetime(1970, 1, 2, 0, 0, 1, 500000), Fraction(172803, 2)),
        (dt.datetime(1969, 12, 31, 23), -3600),
        (Decimal("0.1"), Fraction(1, 10)),
        (7, 7),
    ],
)
def test_bounds_of_policies(value: Decimal | int | dt.date, found: Fraction) -> None:
    assert iv.number(value) == found
    assert iv.interval(value, value).ends == (found, found)


def test_open_ones_have_no_ends() -> None:
    assert not OPEN.within(10**100)
    with pytest.raises(ValueError, match="not closed"):
        Interval(Fraction(1), None).ends  # noqa: B018


@pytest.mark.parametrize(
    ("fact", "held"),
    [
        (OPEN, (0, 10)),
        (Interval(Fraction(0), None), (0, 10)),
        (Interval(None, Fraction(40)), (0, 40)),
        (Interval(Fraction(20), None), (20, 30)),
        (Interval(None, Fraction(-5)), (-15, -5)),
        (Interval(Fraction(3), Fraction(400)), (3, 400)),
    ],
)
def test_values_are_held_at_facts_before_contribution_bounds(fact: Interval, held: tuple[int, int]) -> None:
    assert Limited(Interval(Fraction(0), Fraction(10))).met(fact).ends == held
