"""Rules of bounds hold for every value within them: whole numbers are tried one by one.

`test_facts` tries them on engines, with values of all types.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from dpproxy.plan.operations.catalogue import operation
from dpproxy.tree.interval import OPEN, Interval

OPERATIONS: dict[str, Callable[..., float | Fraction | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "square": lambda a: a * a,
    "/": lambda a, b: Fraction(a, b) if b else None,
    "int/": lambda a, b: math.trunc(a / b) if b else None,
    "%": lambda a, b: math.fmod(a, b) if b else None,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "least": min,
    "greatest": max,
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else None,
    "power": lambda a, b: a**b if a >= 0 and (a or b >= 0) else None,
}
ENDS = [(-5, -2), (-3, 4), (0, 3), (2, 7), (5, 5)]


def rule_of(op: str) -> Callable[[list[Interval]], Interval]:
    rule = operation(op).bound
    assert rule is not None
    return rule


def arity(op: str) -> int:
    return OPERATIONS[op].__code__.co_argcount if op not in ("least", "greatest", "abs") else 1 + (op != "abs")


def beyond(op: str, rule: Callable[[list[Interval]], Interval]) -> list[tuple[object, ...]]:
    """Arguments whose result is not within what the rule says of them."""
    found: list[tuple[object, ...]] = []
    for ends in itertools.product(ENDS, repeat=arity(op)):
        known = rule([Interval(Fraction(lo), Fraction(hi)) for lo, hi in ends])
        for values in itertools.product(*(range(lo, hi + 1) for lo, hi in ends)):
            result = OPERATIONS[op](*values)
            low, high = known.lo, known.hi
            if result is not None and ((low is not None and result < low) or (high is not None and result > high)):
                found.append((ends, values, result))
    return found


@pytest.mark.parametrize("op", OPERATIONS)
def test_results_are_within_the_rule(op: str) -> None:
    assert beyond(op, rule_of(op)) == []


@pytest.mark.parametrize("op", ["+", "*", "abs", "%"])
def test_a_rule_that_looks_at_one_argument_is_found(op: str) -> None:
    assert beyond(op, lambda parts: parts[0]) != []


@pytest.mark.parametrize("op", ["+", "-", "*", "neg", "floor", "date_add"])
def test_of_the_unknown_nothing_is_known(op: str) -> None:
    assert rule_of(op)([OPEN, OPEN]) == OPEN


def test_what_is_bounded_whatever_the_argument() -> None:
    fixed = {"month": (1, 12), "hour": (0, 23), "sin": (-1, 1), "sign": (-1, 1), "dow": (0, 6)}
    assert {op: rule_of(op)([OPEN]) for op in fixed} == {
        op: Interval(Fraction(lo), Fraction(hi)) for op, (lo, hi) in fixed.items()
    }
