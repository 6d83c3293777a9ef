"""Amounts and times as pages write them: few digits, the same number of them, a unit.

Knows: numbers. Must not know: what they are of.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from dpproxy.amounts import MICRO

SPANS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def epsilon(millionths: int) -> str:
    """Write epsilon with three digits behind the point, which are enough to compare, and more where it is smaller than that."""
    if 0 < abs(millionths) < 500:
        return f"{millionths / MICRO:.6f}"
    return f"{millionths / MICRO:,.3f}"


def percent(part: float) -> str:
    """Write a part of 1."""
    return f"{part * 100:.1f} %" if 0 < part < 0.1 else f"{part * 100:.0f} %"


def moment(seconds: float) -> str:
    """Write a time since 1970, in UTC."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M}"


def exactly(seconds: float) -> str:
    """Write a time as HTML's `datetime` has it."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


def span(seconds: float) -> str:
    """Write how long something takes, in its largest unit."""
    for size, unit in SPANS:
        if seconds >= size:
            number = seconds / size
            return f"{number:.1f} {unit}" if number < 10 else f"{number:,.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def number(value: float) -> str:
    """Write a number of any size with four digits that count."""
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
