"""Spellings: what a scalar means, and which spellings are nobody's business to guess."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.amounts import ATTO, MICRO
from dpproxy.policy import scalars
from dpproxy.policy.problems import START
from dpproxy.policy.tree import Scalar


def plain(text: str) -> Scalar:
    return Scalar(text, True, START)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("on", "on"), ("y", "y"), ("1:30", "1:30"), ("12e", "12e"), ("a", "a"), (".", "."),
        ("e5", "e5"), ("-", "-"),
        ("true", True), ("FALSE", False), ("null", None), ("~", None), ("", None),
        ("0", 0), ("-7", -7), ("+3", 3), ("9" * 38, int("9" * 38)),
        ("1.50", Decimal("1.5")), (".5", Decimal("0.5")), ("1e-6", Decimal("0.000001")), ("2.", Decimal(2)),
        ("2024-02-29", dt.date(2024, 2, 29)), ("2023-02-29", "2023-02-29"),
        ("2024-01-01T10:00:00", dt.datetime(2024, 1, 1, 10)),
        ("2024-01-01 10:00:00.5+02:00", dt.datetime(2024, 1, 1, 8, 0, 0, 500000)),
        ("1e999999999", "1e999999999"), ("9" * 39, "9" * 39), ("1e-39", "1e-39"),
    ],
)  # fmt: skip
def test_plain_values(text: str, value: object) -> None:
    found = scalars.value(plain(text))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["1", "true", "null", "2024-01-01", ""])
def test_quoted_is_text(text: str) -> None:
    assert scalars.value(Scalar(text, False, START)) == text


@pytest.mark.parametrize("text", ["010", "-01", "0x10", "0o7", "0b1", "1_000", ".inf", "-.INF", ".NaN", "00"])
def test_ambiguous(text: str) -> None:
    assert scalars.is_ambiguous(plain(text))
    assert not scalars.is_ambiguous(Scalar(text, False, START))
    assert scalars.decimal(plain(text)) is None


@pytest.mark.parametrize("text", ["0", "0.5", "10", "-1", "1e3", "2020-01-01", "abc", "0a"])
def test_not_ambiguous(text: str) -> None:
    assert not scalars.is_ambiguous(plain(text))


@given(st.decimals(min_value=0, max_value=10**12, allow_nan=False, allow_infinity=False, places=21))
def test_amounts_never_round_up(amount: Decimal) -> None:
    micro, atto = scalars.micro(amount), scalars.atto(amount)
    exact = Fraction(amount)
    assert Fraction(micro, MICRO) <= exact < Fraction(micro + 1, MICRO)
    assert Fraction(atto, ATTO) <= exact < Fraction(atto + 1, ATTO)


@pytest.mark.parametrize(
    ("text", "time"),
    [("50ms", 50), ("10s", 10_000), ("2m", 120_000), ("1h", 3_600_000), ("1d", 86_400_000), ("1w", 604_800_000)],
)
def test_durations(text: str, time: int) -> None:
    assert scalars.milliseconds(text) == time


@pytest.mark.parametrize("text", ["", "0s", "1", "s", "1 d", "1D", "-1s", "1.5h", "9999999999d", "1y", "１s"])
def test_not_durations(text: str) -> None:
    assert scalars.milliseconds(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 days", dt.timedelta()),
        ("30 days", dt.timedelta(days=30)),
        ("1 Week 2 hours", dt.timedelta(days=7, hours=2)),
        ("-1 day", dt.timedelta(days=-1)),
        ("1 day -30 min", dt.timedelta(hours=23, minutes=30)),
        ("90seconds", None),
        ("2 months", None),
        ("1 day 2", None),
        ("days", None),
        ("", None),
        ("999999999 days", None),
        ("999999999 weeks 999999999 weeks", None),
    ],
)
def test_lengths_of_intervals(text: str, expected: dt.timedelta | None) -> None:
    assert scalars.length(plain(text)) == expected
    if expected is not None:
        assert scalars.length(plain(scalars.length_text(expected))) == expected
