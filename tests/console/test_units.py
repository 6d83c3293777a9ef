"""Amounts are written with few digits, the same number of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpproxy.console import figures


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (figures.epsilon, 1_500_000, "1.500"),
        (figures.epsilon, 0, "0.000"),
        (figures.epsilon, 12, "0.000012"),
        (figures.epsilon, 1_234_000_000, "1,234.000"),
        (figures.percent, 0.0, "0 %"),
        (figures.percent, 0.0345, "3.5 %"),
        (figures.percent, 0.5, "50 %"),
        (figures.moment, 0, "1970-01-01 00:00"),
        (figures.exactly, 0, "1970-01-01T00:00:00Z"),
        (figures.span, 0.4, "0 s"),
        (figures.span, 90, "1.5 min"),
        (figures.span, 36000, "10 h"),
        (figures.span, 5 * 86400, "5.0 d"),
        (figures.megabytes, 271_400_000, "271 MB"),
        (figures.number, 31_161_701.0, "31,161,701"),
        (figures.number, 93.25, "93.25"),
    ],
)
def test_amounts(write: Callable[[Any], str], value: float, text: str) -> None:
    assert write(value) == text
