"""Intervals as text: "months days microseconds", as literals hold them.

Knows: PostgreSQL's plain spellings of intervals. Must not know: data, engines.
"""

from __future__ import annotations

import re

from dpproxy.plan.operations.units import UNITS, unit_name
from dpproxy.plan.refusals import unsupported

MAX_INTERVAL_MONTHS = 12 * 10_000  # beyond it date arithmetic leaves the years engines can represent


def interval_text(value: str) -> str:
    """Write `1 year 2 days 03:00` as "months days microseconds". Raises ValueError for other spellings."""
    months = days = micros = 0
    rest = value.strip().lower()
    for match in re.finditer(r"([+-]?\d+)\s*([a-z]+?)s?(?=[\s\d+-]|$)|([+-]?)(\d{1,6}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?", rest):
        if match.group(2):
            unit = UNITS[unit_name(match.group(2))].interval
            count = int(match.group(1))
            months, days, micros = months + count * unit[0], days + count * unit[1], micros + count * unit[2]
        else:
            sign = -1 if match.group(3) == "-" else 1
            seconds = int(match.group(4)) * 3600 + int(match.group(5)) * 60 + int(match.group(6) or 0)
            micros += sign * (seconds * 10**6 + int((match.group(7) or "").ljust(6, "0")))
        rest = rest.replace(match.group(0), " ", 1)
    if rest.strip():
        raise ValueError(value)
    if abs(months) > MAX_INTERVAL_MONTHS or abs(days) > 4_000_000 or abs(micros) > 4_000_000 * 86400 * 10**6:
        raise unsupported("an interval of more than 10,000 years")
    return f"{months} {days} {micros}"
