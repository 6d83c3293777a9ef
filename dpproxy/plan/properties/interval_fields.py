"""Intervals: how large they and their fields are.

Knows: intervals as "months days microseconds". Must not know: data, engines. Of multiples of a constant interval the fields are
multiplied one by one and not carried.
"""

from __future__ import annotations

import re
from fractions import Fraction

from dpproxy.plan.refusals import unsupported
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import Call, Expr, Lit
from dpproxy.tree.interval import OPEN, Interval

INTERVAL_PARTS = {"year": 200_000_000, "month": 11, "day": 2**31, "hour": 2_600_000_000, "minute": 59, "second": 60}
"""How large fields of any interval are; hours are not carried into days, nor days into months."""
_DIFFERENCES = {"ts_diff": {"year": 0, "month": 0, "day": 3_660_000, "hour": 23}, "age": {"year": 10_000, "day": 31, "hour": 23}}
"""Of differences of timestamps of the years 1 to 9999."""
_LENGTHS = {("ts_diff", "day"): 86400, ("age", "year"): 365 * 86400}  # seconds at least
MICROSECOND = Fraction(1, 10**6)
"""The grid of differences of timestamps, which have days and a time of less than a day; no other interval has a grid."""


def interval_part(op: str, arg: Expr, seconds: Interval, difference: bool, number: Interval) -> tuple[Interval, Interval]:
    """Return the bound and the span of a field of an interval of so many seconds. `number`: of how many units it is the
    multiple."""
    if isinstance(arg, Call) and arg.op == "interval_times":
        known = times_unit(number, arg.args[1], op)
        if known.closed:
            return known, Interval(Fraction(-INTERVAL_PARTS[op]), Fraction(INTERVAL_PARTS[op]))
    made = "ts_diff" if difference else arg.op if isinstance(arg, Call) else ""
    most = _DIFFERENCES.get(made, {}).get(op, INTERVAL_PARTS[op])
    span = Interval(Fraction(-most), Fraction(most))
    per = _LENGTHS.get((made, op))
    if per is not None:
        length = Interval(Fraction(per), Fraction(per))
        return iv.meet(span, iv.outward(iv.divide(seconds, length))), span
    return (span if made in _DIFFERENCES or most < 100 else OPEN), span


def times_unit(number: Interval, unit: Expr, field: str) -> Interval:
    """Bound a field, or the seconds (`epoch`), of so many units; open for what a unit of months or another field may be."""
    if not isinstance(unit, Lit) or unit.text is None or not number.closed:
        return OPEN
    months, days, micros = (int(x) for x in unit.text.split())
    sizes = {"day": Fraction(days), "hour": Fraction(micros, 3600 * 10**6), "epoch": days * 86400 + Fraction(micros, 10**6)}
    if months or field not in sizes:
        return OPEN
    found = iv.multiply(number, Interval(sizes[field], sizes[field]))
    return found if field == "epoch" else iv.outward(found)


def lasting(length: Interval) -> Interval:
    """Bound the seconds (`epoch`) of intervals that compare as of such a length. A year has 365 days and a quarter there, and
    compares as 360."""
    low, high = length.ends
    return Interval(min(low, low * _YEAR), max(high, high * _YEAR))


_YEAR = Fraction(1461, 1440)
_UNITS = {
    "microsecond": (0, 0, 1), "millisecond": (0, 0, 1000), "second": (0, 0, 10**6), "minute": (0, 0, 60 * 10**6),
    "hour": (0, 0, 3600 * 10**6), "day": (0, 1, 0), "week": (0, 7, 0), "month": (1, 0, 0), "quarter": (3, 0, 0),
    "year": (12, 0, 0), "decade": (120, 0, 0), "century": (1200, 0, 0),
    "sec": (0, 0, 10**6), "min": (0, 0, 60 * 10**6), "mon": (1, 0, 0), "h": (0, 0, 3600 * 10**6), "d": (0, 1, 0),
}  # fmt: skip

MAX_INTERVAL_MONTHS = 12 * 10_000  # beyond it date arithmetic leaves the years engines can represent


def interval_text(value: str) -> str:
    """Write `1 year 2 days 03:00` as "months days microseconds". Raises ValueError for other spellings."""
    months = days = micros = 0
    rest = value.strip().lower()
    for match in re.finditer(r"([+-]?\d+)\s*([a-z]+?)s?(?=[\s\d+-]|$)|([+-]?)(\d{1,6}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?", rest):
        if match.group(2):
            unit = _UNITS[match.group(2)]
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
