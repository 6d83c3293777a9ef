"""Spark's constants, and the types in which numbers are computed."""

from __future__ import annotations

from typing import Any

import pytest
from small_expressions import between, column, ref

from dpproxy.engines.spark import Spark
from dpproxy.engines.spark_types import WIDE, double, narrowest, quote, representation, whole, widest
from dpproxy.errors import Refusal

TEXTS = [
    "",
    "it's",
    "a\\b",
    "\\",
    "\\'",
    "' OR 1=1 --",
    "${x}",
    '"',
    "\n\t\r",
    "\\u0041",
    "é\u4e2d\U0001f600",
    "%_",
    "\\\\%",
    ":a ?",
    "${env:HOME} \\${env:HOME}",
]


def test_texts_come_back_as_they_are(ask_spark: Any) -> None:
    assert ask_spark(f"array({', '.join(map(quote, TEXTS))})") == TEXTS
    with pytest.raises(Refusal, match="NUL"):
        quote("\x00")


def test_no_literal_asks_for_a_variable_of_the_server() -> None:
    assert "${" not in quote("a\\${env:HOME}${${")


def test_numbers_come_back_as_they_are(ask_spark: Any) -> None:
    doubles = [0.1, -2.5e-300, 1e308, 2.0**53 + 2]
    assert ask_spark(f"array({', '.join(map(double, doubles))})") == doubles
    assert int(ask_spark(whole(10**30))) == 10**30


def test_widths() -> None:
    assert narrowest(between(-(2**63) + 1, 2**63 - 1)) == "BIGINT"
    assert narrowest(between(0, 2**63)) == WIDE == widest(["BIGINT", WIDE])
    assert narrowest(between(0, 10**38)) == "DOUBLE" == widest(["BIGINT", "DOUBLE", WIDE])
    with pytest.raises(Refusal, match="a value of type uuid"):
        representation(ref(column(1, "uuid")))


@pytest.mark.parametrize("day", ["infinity", "10000-01-01", "0044-03-15 BC"])
def test_days_beyond_the_calendar_are_no_days(day: str) -> None:
    assert Spark().literal("date", day) == "CAST(NULL AS DATE)"
