"""Operations of constants, computed while planning as PostgreSQL computes them: times by the calendar, numbers exactly.

Knows: literals of dates, timestamps, intervals and numbers. Must not know: which operation uses which rule, clocks, engines,
columns. A rule has no value where it is not sure of PostgreSQL's: for years outside 1 to 9999, names of months, NULL.
"""

from __future__ import annotations

import calendar
import datetime as dt
import zoneinfo
from collections.abc import Callable, Sequence

from dpproxy.plan.operations.operation import FoldRule
from dpproxy.plan.operations.units import DAY_MICROS, start_of
from dpproxy.sql.types import INTEGERS, TIMES
from dpproxy.tree.expr import Expr, Lit

MICROSECOND = dt.timedelta(microseconds=1)
Interval = tuple[int, int, int]
"""Months, days, microseconds."""


def stamp_of(constant: Expr) -> dt.datetime | None:
    """Return a constant date (its midnight) or timestamp as a value; None for other expressions."""
    if not isinstance(constant, Lit) or constant.text is None or constant.type not in TIMES:
        return None
    try:
        return dt.datetime.fromisoformat(constant.text)
    except ValueError:
        return None


def literal(type_: str, stamp: dt.datetime, *, moving: bool = False) -> Lit:
    """Write a value as a constant of a type of time."""
    return Lit(type_, stamp.date().isoformat() if type_ == "date" else stamp.isoformat(sep=" "), moving)


def interval_of(constant: Expr) -> Interval | None:
    """Return a constant interval's months, days and microseconds."""
    if not isinstance(constant, Lit) or constant.type != "interval" or constant.text is None:
        return None
    months, days, micros = map(int, constant.text.split())
    return months, days, micros


# --- rules: the type of a call and its literals to a literal


def shifted(sign: int) -> FoldRule:
    """Fold a moment and an interval: months first, on the last day where a month is too short, then days, then time."""

    def rule(type_: str, literals: Sequence[Lit]) -> Lit | None:
        stamp, span = stamp_of(literals[0]), interval_of(literals[1])
        if stamp is None or span is None:
            return None
        months, days, micros = (sign * part for part in span)
        return literal(type_, _months_later(stamp, months) + dt.timedelta(days=days) + micros * MICROSECOND)

    return rule


def _months_later(stamp: dt.datetime, months: int) -> dt.datetime:
    year, month = divmod(stamp.year * 12 + stamp.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueError(year)
    return stamp.replace(year=year, month=month + 1, day=min(stamp.day, calendar.monthrange(year, month + 1)[1]))


def day_shifted(sign: int) -> FoldRule:
    def rule(_: str, literals: Sequence[Lit]) -> Lit | None:
        stamp, days = stamp_of(literals[0]), literals[1]
        if stamp is None or days.type not in INTEGERS or days.text is None:
            return None
        return literal("date", stamp + sign * dt.timedelta(days=int(days.text)))

    return rule


def days_between(_: str, literals: Sequence[Lit]) -> Lit | None:
    later, earlier = stamp_of(literals[0]), stamp_of(literals[1])
    return None if later is None or earlier is None else Lit("int4", str((later - earlier).days))


def time_between(_: str, literals: Sequence[Lit]) -> Lit | None:
    """Fold a difference of moments: days and a time of less than a day, both of one sign."""
    later, earlier = stamp_of(literals[0]), stamp_of(literals[1])
    if later is None or earlier is None:
        return None
    micros = (later - earlier) // MICROSECOND
    days, rest = divmod(abs(micros), DAY_MICROS)
    sign = 1 if micros >= 0 else -1
    return Lit("interval", f"0 {sign * days} {sign * rest}")


def cut(type_: str, literals: Sequence[Lit]) -> Lit | None:
    stamp = stamp_of(literals[1])
    start = None if stamp is None else start_of(stamp, literals[0].text or "")
    return None if start is None else literal(type_, start)


def field(value: Callable[[dt.datetime], int]) -> FoldRule:
    def rule(_: str, literals: Sequence[Lit]) -> Lit | None:
        stamp = stamp_of(literals[0])
        return None if stamp is None else Lit("int8", str(value(stamp)))

    return rule


_PRINTED = {"%Y": "{0.year:04}", "%m": "{0.month:02}", "%d": "{0.day:02}", "%H": "{0.hour:02}", "%M": "{0.minute:02}",
            "%S": "{0.second:02}"}  # fmt: skip


def printed(_: str, literals: Sequence[Lit]) -> Lit | None:
    """Fold strftime() of digits; names of months and days are the engine's."""
    stamp, pattern = stamp_of(literals[0]), literals[1].text or ""
    for code, form in _PRINTED.items():
        pattern = pattern.replace(code, form)
    return None if stamp is None or "%" in pattern else Lit("text", pattern.format(stamp))


def from_utc(type_: str, literals: Sequence[Lit]) -> Lit | None:
    stamp, zone = stamp_of(literals[0]), zoneinfo.ZoneInfo(literals[1].text or "")
    return None if stamp is None else literal(type_, stamp.replace(tzinfo=dt.UTC).astimezone(zone).replace(tzinfo=None))


def to_utc(type_: str, literals: Sequence[Lit]) -> Lit | None:
    """Fold a zone's time: what clocks show twice is the second time; what they skip is counted on from the time before."""
    stamp, zone = stamp_of(literals[0]), zoneinfo.ZoneInfo(literals[1].text or "")
    if stamp is None:
        return None
    first, second = (stamp.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    before, after = first.utcoffset(), second.utcoffset()
    assert before is not None
    assert after is not None
    return literal(type_, stamp - min(before, after))


def date_of_numbers(_: str, literals: Sequence[Lit]) -> Lit | None:
    year, month, day = (int(a.text or "") for a in literals)
    return literal("date", dt.datetime(year, month, day))


def compared(test: Callable[[dt.datetime, dt.datetime], bool]) -> FoldRule:
    def rule(_: str, literals: Sequence[Lit]) -> Lit | None:
        a, b = map(stamp_of, literals)
        return None if a is None or b is None else Lit("bool", "true" if test(a, b) else "false")

    return rule
