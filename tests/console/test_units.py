"""Amounts are written with few digits, the same number of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpproxy.console import units


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (units.epsilon, 1_500_000, "1.500"),
        (units.epsilon, 0, "0.000"),
        (units.epsilon, 12, "0.000012"),
        (units.epsilon, 1_234_000_000, "1,234.000"),
        (units.percent, 0.0, "0 %"),
        (units.percent, 0.0345, "3.5 %"),
        (units.percent, 0.5, "50 %"),
        (units.moment, 0, "1970-01-01 00:00"),
        (units.exactly, 0, "1970-01-01T00:00:00Z"),
        (units.span, 0.4, "0 s"),
        (units.span, 90, "1.5 min"),
        (units.span, 36000, "10 h"),
        (units.span, 5 * 86400, "5.0 d"),
        (units.megabytes, 271_400_000, "271 MB"),
        (units.number, 31_161_701.0, "31,161,701"),
        (units.number, 93.25, "93.25"),
    ],
)
def test_amounts(write: Callable[[Any], str], value: float, text: str) -> None:
    assert write(value) == text
