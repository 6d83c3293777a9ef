"""Times rounded down to a unit: where it begins for one moment, and for all moments of an interval.

Knows: the Gregorian calendar of the years 1 to 9999. Must not know: data, engines, time zones: moments are on the clock they are
cut on. Bounds are in seconds since 1970.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction

from dpproxy.tree import interval as iv
from dpproxy.tree.interval import Interval

_MICRO = dt.timedelta(microseconds=1)
_CLOCK_UNITS = {"microseconds": 1, "milliseconds": 1000, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6}
_SECONDS = {
    "microseconds": 0, "milliseconds": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400,
    "month": 31 * 86400, "quarter": 92 * 86400, "year": 366 * 86400, "decade": 3653 * 86400,
}  # fmt: skip
"""How far truncation may go back, in years that the calendar here does not have."""
_FIRST = dt.datetime(1970, 1, 1)


def start_of(stamp: dt.datetime, unit: str) -> dt.datetime | None:
    """Return when the unit that a moment lies in began; None for units not known here. Raises ValueError before the year 1."""
    midnight = stamp.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in _CLOCK_UNITS:
        return midnight + (stamp - midnight) // _MICRO // _CLOCK_UNITS[unit] * _CLOCK_UNITS[unit] * _MICRO
    starts: dict[str, Callable[[], dt.datetime]] = {
        "day": lambda: midnight,
        "week": lambda: midnight - dt.timedelta(days=midnight.weekday()),
        "month": lambda: midnight.replace(day=1),
        "quarter": lambda: midnight.replace(month=(stamp.month - 1) // 3 * 3 + 1, day=1),
        "year": lambda: midnight.replace(month=1, day=1),
        "decade": lambda: midnight.replace(year=stamp.year // 10 * 10, month=1, day=1),
    }
    return starts[unit]() if unit in starts else None


def truncated(bound: Interval, unit: str) -> Interval:
    """Bound what is rounded down to `unit`: from where the unit of the first moment begins to where that of the last one does."""
    lo = None if bound.lo is None else _start(bound.lo, unit)
    hi = None if bound.hi is None else _start(bound.hi, unit)
    return Interval(
        bound.lo - _SECONDS[unit] if lo is None and bound.lo is not None else lo,
        bound.hi if hi is None else hi,
    )


def _start(seconds: Fraction, unit: str) -> Fraction | None:
    """None outside of the calendar."""
    try:
        start = start_of(_FIRST + (seconds * 10**6).__floor__() * _MICRO, unit)
    except (OverflowError, ValueError):
        return None
    return None if start is None else Fraction((start - _FIRST) // _MICRO, 10**6)


def years(bound: Interval, type_: str) -> Interval:
    """Calendar years reached by days or seconds since 1970."""
    per = Fraction(1) if type_ == "date" else Fraction(86400)

    def year(x: Fraction) -> Fraction:
        days = min(max((x / per).__floor__(), -719162), 2932896)
        return Fraction((iv.EPOCH + dt.timedelta(days=days)).year)

    lo, hi = bound.ends
    return Interval(year(lo), year(hi))
