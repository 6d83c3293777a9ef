"""How far numbers go: the reach of an operation holds its results, and what is guarded raises nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.engines import postgres_numbers
from dpproxy.engines.postgres_numbers import FLOAT_LIMIT, NUMERIC_LIMIT, SCALE, Reach, TooFar

Ask = Callable[[str], Any]
numbers = st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**6).filter(lambda x: x != 0)


def holds(found: Reach, value: Fraction) -> bool:
    return value == 0 or Fraction(1, 10**found.low) <= abs(value) <= 10**found.high


@given(numbers, numbers)
def test_results_are_within(a: Fraction, b: Fraction) -> None:
    x, y = postgres_numbers.of_constant(a), postgres_numbers.of_constant(b)
    assert holds(x, a)
    assert holds(postgres_numbers.combined("*", "float8", x, y), a * b)
    assert holds(postgres_numbers.combined("/", "float8", x, y), a / b)
    assert holds(postgres_numbers.combined("*", "numeric", x, y), a * b)
    for op, value in (("+", a + b), ("-", a - b)):
        assert abs(value) <= 10 ** postgres_numbers.combined(op, "float8", x, y).high
    assert holds(postgres_numbers.hull([x, y]), a)
    assert holds(postgres_numbers.hull([x, y]), b)


@given(st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6), st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6))
def test_differences_of_doubles_are_zero_or_not_far_below(a: float, b: float) -> None:
    found = postgres_numbers.combined(
        "-", "float8", postgres_numbers.of_constant(Fraction(a)), postgres_numbers.of_constant(Fraction(b))
    )
    assert holds(found, Fraction(a - b))
    assert holds(
        postgres_numbers.anchored(postgres_numbers.of_constant(Fraction(a)), postgres_numbers.of_constant(Fraction(b))),
        Fraction(a - b),
    )


def test_beyond_the_limits_no_guard_is_enough() -> None:
    half = Reach(FLOAT_LIMIT // 2, FLOAT_LIMIT // 2)
    assert postgres_numbers.combined("*", "float8", half, half) == Reach(FLOAT_LIMIT, FLOAT_LIMIT)
    with pytest.raises(TooFar):
        postgres_numbers.combined("*", "float8", half, Reach(0, FLOAT_LIMIT // 2 + 1))
    with pytest.raises(TooFar):
        postgres_numbers.combined("*", "numeric", Reach(0, NUMERIC_LIMIT), Reach(0, 1))
    assert postgres_numbers.combined("*", "numeric", Reach(SCALE, 1), Reach(SCALE, 1)).low == SCALE, (
        "a numeric has no more places"
    )


VALUES = ["0", "1", "-1", "1e-200", "-1e-307", "1e200", "-1.7e308", "NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize("leaf", postgres_numbers.LEAVES["float8"])
def test_guarded_doubles_are_multiplied_without_raising(leaf: int, ask_postgres: Ask) -> None:
    factors = FLOAT_LIMIT // leaf
    rng = random.Random(leaf)
    for _ in range(20):
        texts = [postgres_numbers.guarded(f"'{rng.choice(VALUES)}'::float8", "float8", leaf)[0] for _ in range(factors)]
        ask_postgres(f"({' * '.join(texts)})::text")
    with pytest.raises(Exception, match="out of range"):
        ask_postgres("'1e200'::float8 * '1e200'::float8")


@pytest.mark.parametrize("value", [*VALUES, "1e150000"])
def test_guarded_numerics(value: str, ask_postgres: Ask) -> None:
    if "e-" in value:
        return
    text = postgres_numbers.guarded(
        f"({value.replace('1e150000', '10^50000::numeric * 10^50000')}::numeric)"
        if value == "1e150000"
        else f"'{value}'::numeric",
        "numeric",
        100,
    )[0]
    found = ask_postgres(f"({text} * {text})::float8::text") if value in ("0", "1", "-1") else ask_postgres(f"({text})::text")
    expected = {"1e200": "Infinity", "-1.7e308": "-Infinity", "1e150000": "Infinity", "-1": "1"}.get(value, value)
    assert found == expected


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("0", 0.0),
        ("1.5", 1.5),
        ("1e-400", 0.0),
        ("1e400", float("inf")),
        ("-1e400", float("-inf")),
        ("NaN", "nan"),
        ("Infinity", float("inf")),
    ],
)
def test_numerics_become_doubles(value: str, found: object, ask_postgres: Ask) -> None:
    ours = ask_postgres(postgres_numbers.narrowed(f"'{value}'::numeric"))
    assert ours == found or str(ours) == found


@pytest.mark.parametrize("leaf", postgres_numbers.LEAVES["float8"])
def test_a_size_that_is_looked_at_first_without_its_sign_is_the_same(leaf: int, ask_postgres: Ask) -> None:
    values = [*VALUES, "-0", f"1e{leaf}", f"-1e{leaf}", f"1e-{leaf}", f"-1e-{leaf}", f"1.1e{leaf}", f"0.9e-{leaf}", "5e-324"]
    column, expression = "x", "x" + " " * postgres_numbers.PLAIN
    rows = ", ".join(f"('{value}'::float8)" for value in values) + ", (NULL)"
    texts = [postgres_numbers.guarded(text, "float8", leaf)[0] for text in (column, expression)]
    assert [text.count(">=") for text in texts] == [1, 0]
    differ = f"({texts[0]})::text IS DISTINCT FROM ({texts[1]})::text"
    assert ask_postgres(f"(SELECT count(*) FROM (VALUES {rows}) AS v(x) WHERE {differ})") == 0
