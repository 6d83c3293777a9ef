"""Rationals as decimals: what is written is the rational itself where decimals can say it, else the nearest double."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.sql.types import MAX_DIGITS, decimal


@given(st.integers(-(10**30), 10**30), st.integers(0, MAX_DIGITS))
def test_decimals_are_exact_and_shortest(digits: int, places: int) -> None:
    value = Fraction(digits, 10**places)
    text = decimal(value)
    assert Fraction(text) == value
    assert re.fullmatch(r"-?\d+(\.\d*[1-9])?", text), "no exponent, no zeros behind"


@given(st.fractions().filter(lambda f: (f * 10**MAX_DIGITS).denominator != 1))
def test_others_are_the_nearest_double(value: Fraction) -> None:
    assert float(decimal(value)) == float(value)


@pytest.mark.parametrize(
    ("value", "text"), [("1/8", "0.125"), ("-1/20", "-0.05"), ("7", "7"), ("-0.001", "-0.001"), ("1/1024", "0.0009765625")]
)
def test_some(value: str, text: str) -> None:
    assert decimal(Fraction(value)) == text
    assert Decimal(text) == Decimal(Fraction(value).numerator) / Fraction(value).denominator
