"""Constants without a type take the one their neighbour asks for; what is not spelled plainly is left to the facade."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.functions.operators import NotPlain, as_text, check_count, coerce, literal_text, number_literal, typed_literal
from dpproxy.tree.expr import Hole, Lit

PLAIN = [
    ("int4", " 42 ", "42"), ("numeric", "1.50", "1.50"), ("float8", "-1e10", "-1e10"), ("bool", "YES", "true"), ("bool", "0", "false"),
    ("date", "2024-02-29", "2024-02-29"), ("date", "2024-02-29 00:00:00", "2024-02-29"), ("timestamp", "2024-02-29T12:30", "2024-02-29 12:30:00"),
    ("time", "09:30", "09:30:00"), ("interval", "1 day", "0 1 0"), ("text", " as it is ", " as it is "), ("uuid", "x", "x"),
]  # fmt: skip
NOT_PLAIN = [
    ("date", "yesterday"), ("date", "Jan 5, 2024"), ("date", "2024-02-30"), ("int4", "four"), ("numeric", "NaN"), ("bool", "maybe"),
    ("date", "2024-02-29 12:00"), ("timestamptz", "2024-02-29 12:30+02"), ("time", "9.30 pm"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "text", "value"), PLAIN)
def test_plain_constants(type_: str, text: str, value: str) -> None:
    assert typed_literal(type_, text) == Lit(type_, value)


@pytest.mark.parametrize(("type_", "text"), NOT_PLAIN)
def test_what_only_postgresql_can_read(type_: str, text: str) -> None:
    with pytest.raises(NotPlain) as caught:
        typed_literal(type_, text)
    assert (caught.value.type, caught.value.text) == (type_, text)


def test_only_what_has_no_type_takes_one() -> None:
    assert coerce(Lit("unknown", "7"), "int4") == Lit("int4", "7")
    assert coerce(Hole("unknown", 3), "date") == Hole("date", 3)
    assert coerce(Lit("int4", "7"), "text") == Lit("int4", "7")
    assert coerce(Lit("unknown", None), "date") == Lit("date", None)


def test_what_must_be_known_beforehand() -> None:
    assert literal_text(Lit("text", "day"), "the unit") == "day"
    for unknown in (Lit("text", None), Hole("text", 0)):
        with pytest.raises(Refusal, match="the unit that is not a constant"):
            literal_text(unknown, "the unit")


def test_refusals_name_the_function() -> None:
    with pytest.raises(Refusal, match="`left` with 3 arguments"):
        check_count("left", [Lit("int4", "1")] * 3, 1, 2)
    check_count("left", [Lit("int4", "1")] * 2, 1, 2)
    with pytest.raises(Refusal, match="`left` of int4"):
        as_text(Lit("int4", "1"), "`left`")


@pytest.mark.parametrize(
    ("text", "type_"),
    [("7", "int4"), ("2147483648", "int8"), ("9223372036854775808", "numeric"), ("1.50", "numeric"), ("1e3", "numeric")],
)
def test_numbers_have_the_type_that_holds_them(text: str, type_: str) -> None:
    assert number_literal(text) == Lit(type_, text)


def test_a_number_of_more_digits_than_python_makes_one_of() -> None:
    """The finding: of 4,301 digits the planner failed, as if the fault were ours."""
    assert number_literal("9" * 5_000) == Lit("numeric", "9" * 5_000)
