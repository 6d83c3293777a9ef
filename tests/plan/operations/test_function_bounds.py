"""Intervals of logarithms, exponentials, roots and powers hold every value, and not much more."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from dpproxy.plan.operations import function_bounds
from dpproxy.tree.interval import OPEN, Interval

ENDS = [Fraction(x) for x in ("-50", "-2", "-1/3", "0", "1/1000", "1/2", "1", "7", "1000", "500000")]
INTERVALS = [Interval(a, b) for a, b in itertools.combinations(ENDS, 2)]


def inside(a: Interval, n: int = 40) -> list[float]:
    lo, hi = map(float, a.ends)
    return [*(lo + (hi - lo) * i / n for i in range(n)), hi]


def value(f: Callable[..., float], *x: float) -> float | None:
    """NULL where the generated SQL has none."""
    try:
        found = f(*x)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    return found if isinstance(found, float) and math.isfinite(found) else None


def holds(found: Interval, values: list[float | None]) -> bool:
    low = -math.inf if found.lo is None else float(found.lo)
    high = math.inf if found.hi is None else float(found.hi)
    return all(v is None or low - 1e-12 * (1 + abs(v)) <= v <= high + 1e-12 * (1 + abs(v)) for v in values)


@pytest.mark.parametrize(
    ("rule", "f"),
    [
        (function_bounds.logarithm, math.log),
        (lambda a: function_bounds.logarithm(a, 10), math.log10),
        (function_bounds.exponential, math.exp),
        (function_bounds.root, math.sqrt),
    ],
)
def test_values_of_a_rising_function_lie_within_its_interval(
    rule: Callable[[Interval], Interval], f: Callable[..., float]
) -> None:
    for a in INTERVALS:
        assert holds(rule(a), [value(f, x) for x in inside(a)]), a


def test_powers_lie_within_their_interval() -> None:
    exponents = [*INTERVALS, *(Interval(Fraction(n), Fraction(n)) for n in range(-3, 6))]
    for a, b in itertools.product(INTERVALS, exponents):
        found = function_bounds.power(a, b)
        values = [value(lambda x, y: x**y, x, y) for x in inside(a, 8) for y in inside(b, 8)]
        assert holds(found, values), (a, b, found)


@pytest.mark.parametrize("grid", [Fraction(1), Fraction(1, 100)])
def test_quotients_by_numbers_on_a_grid(grid: Fraction) -> None:
    for a, b in itertools.product(INTERVALS, INTERVALS):
        steps = {math.ceil(x / float(grid)) * float(grid) for x in inside(b)}
        divisors = [y for y in steps if y and float(b.ends[0]) <= y <= float(b.ends[1])]
        assert holds(function_bounds.quotient(a, b, grid), [x / y for x in inside(a) for y in divisors]), (a, b)


def test_what_is_bounded_and_how_closely() -> None:
    half, seven = Fraction(1, 2), Fraction(7)
    assert function_bounds.logarithm(Interval(Fraction(1), Fraction(500001))) == Interval(Fraction(0), Fraction("13.1224"))
    assert function_bounds.logarithm(function_bounds.positive(Interval(Fraction(0), seven), Fraction(1))).lo == 0
    assert function_bounds.logarithm(Interval(Fraction(0), seven)).lo is None
    assert function_bounds.exponential(Interval(Fraction(-100000), Fraction(0))).hi == 1
    assert function_bounds.exponential(Interval(Fraction(0), Fraction(100))).hi is None
    assert function_bounds.root(Interval(Fraction(-4), Fraction(500000))) == Interval(Fraction(0), Fraction("707.107"))
    assert function_bounds.power(Interval(Fraction(-3), Fraction(2)), Interval(Fraction(2), Fraction(2))) == Interval(
        Fraction(0), Fraction(9)
    )
    assert function_bounds.power(Interval(Fraction(-3), Fraction(2)), Interval(half, half)) == OPEN
    assert function_bounds.power(Interval(half, Fraction(2)), Interval(Fraction(-1), Fraction(-1))) == Interval(half, Fraction(2))
    assert function_bounds.power(Interval(Fraction(0), seven), Interval(Fraction(-1), Fraction(1))) == OPEN
    assert function_bounds.quotient(Interval(seven, seven), Interval(Fraction(0), Fraction(10)), None) == OPEN
    assert function_bounds.quotient(Interval(seven, seven), Interval(Fraction(0), Fraction(10)), half) == Interval(
        Fraction(7, 10), Fraction(14)
    )
