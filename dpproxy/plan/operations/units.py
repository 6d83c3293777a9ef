"""Units of time: what `date_trunc` cuts to, what EXTRACT and intervals name, and how long each is.

Knows: the Gregorian calendar of the years 1 to 9999. Must not know: engines, expressions, time zones: moments are on the clock
that they are cut on. Every other list of parts of a date is made of this one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dpproxy.tree.interval import Interval

DAY = 86_400
"""Seconds."""
DAY_MICROS = DAY * 10**6
_MICRO = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
Start = Callable[[dt.date], dt.date]


@dataclass(frozen=True)
class Unit:
    """A unit of the clock has `micros`; one of the calendar has `days`, the fewest and the most. `interval`: months, days and
    microseconds of it in an interval. `words`: other names of one or of several. `start`: the first day of the one that a day is
    in. `cut`: whether moments are cut to it; all engines agree where one begins."""

    name: str
    interval: tuple[int, int, int]
    micros: int = 0
    days: tuple[int, int] = (0, 0)
    words: tuple[str, ...] = ()
    start: Start | None = None
    cut: bool = True

    @property
    def seconds(self) -> tuple[Fraction, Fraction]:
        """The shortest and the longest."""
        if self.micros:
            return Fraction(self.micros, 10**6), Fraction(self.micros, 10**6)
        return Fraction(self.days[0] * DAY), Fraction(self.days[1] * DAY)

    @property
    def of_days(self) -> bool:
        """Whether it begins at the beginning of a day."""
        return not self.micros


def _clock(name: str, micros: int, *words: str) -> Unit:
    return Unit(name, (0, 0, micros), micros, words=words)


def _calendar(name: str, months: int, days: tuple[int, int], start: Start | None, *words: str) -> Unit:
    """Centuries begin in year 1 for PostgreSQL, in year 0 for DuckDB: no moment is cut to one."""
    interval = (months, 0, 0) if months else (0, days[0], 0)
    return Unit(name, interval, days=days, words=words, start=start, cut=start is not None)


_UNITS = (
    _clock("microseconds", 1, "microsecond"),
    _clock("milliseconds", 1_000, "millisecond"),
    _clock("second", 10**6, "sec"),
    _clock("minute", 60 * 10**6, "min"),
    _clock("hour", 3_600 * 10**6, "hr", "h"),
    _calendar("day", 0, (1, 1), lambda day: day, "d"),
    _calendar("week", 0, (7, 7), lambda day: day - dt.timedelta(days=day.weekday())),
    _calendar("month", 1, (28, 31), lambda day: day.replace(day=1), "mon"),
    _calendar("quarter", 3, (90, 92), lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)),
    _calendar("year", 12, (365, 366), lambda day: day.replace(month=1, day=1)),
    _calendar("decade", 120, (3_652, 3_653), lambda day: day.replace(year=day.year // 10 * 10, month=1, day=1)),
    _calendar("century", 1_200, (36_524, 36_525), None, "centuries"),
    _calendar("millennium", 12_000, (365_242, 365_243), None, "millennia"),
)
UNITS = {unit.name: unit for unit in _UNITS}
_WORDS = {word: unit.name for unit in _UNITS for word in (unit.name, *unit.words)}
CUT = frozenset(unit.name for unit in _UNITS if unit.cut)
"""Units that moments are cut to."""


def unit_name(word: str) -> str:
    """Return the name of the unit that a word means, also in the plural; the word itself where it is none."""
    lower = word.lower()
    return _WORDS.get(lower) or _WORDS.get(lower.removesuffix("s"), lower)


def start_of(stamp: dt.datetime, unit: str) -> dt.datetime | None:
    """Return when the unit that a moment lies in began; None for units not known here. Raises ValueError before the year 1."""
    known = UNITS.get(unit)
    midnight = stamp.replace(hour=0, minute=0, second=0, microsecond=0)
    if known is None or not known.cut:
        return None
    if known.start is None:
        return midnight + (stamp - midnight) // _MICRO // known.micros * known.micros * _MICRO
    return dt.datetime.combine(known.start(stamp.date()), dt.time())


def cut(bound: Interval, unit: str) -> Interval:
    """Bound what is cut to `unit`, in seconds since 1970: from where the unit of the first moment begins to where that of the
    last one does. Outside of the calendar it may go back by a whole unit."""
    lo = None if bound.lo is None else _start(bound.lo, unit)
    hi = None if bound.hi is None else _start(bound.hi, unit)
    back = UNITS[unit].seconds[1] if unit in UNITS else Fraction(0)
    return Interval(bound.lo - back if lo is None and bound.lo is not None else lo, bound.hi if hi is None else hi)


def _start(seconds: Fraction, unit: str) -> Fraction | None:
    """None outside of the calendar."""
    try:
        start = start_of(_EPOCH + (seconds * 10**6).__floor__() * _MICRO, unit)
    except (OverflowError, ValueError):
        return None
    return None if start is None else Fraction((start - _EPOCH) // _MICRO, 10**6)
