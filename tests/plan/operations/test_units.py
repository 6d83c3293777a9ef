"""Times rounded down: as DuckDB rounds them, and bounds that hold the rounding of whatever lies within them."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.plan.operations.bounds import years
from dpproxy.plan.operations.units import CUT, UNITS, cut, start_of, unit_name
from dpproxy.tree.interval import Interval

FIRST, MICRO = dt.datetime(1970, 1, 1), dt.timedelta(microseconds=1)
STAMPS = st.datetimes(dt.datetime(11, 1, 1), dt.datetime(9999, 12, 31))
NAMES = st.sampled_from(sorted(CUT))
CALENDAR = st.sampled_from(sorted(unit for unit in CUT if UNITS[unit].of_days))
DUCKDB = duckdb.connect()


def seconds(stamp: dt.datetime) -> Fraction:
    return Fraction((stamp - FIRST) // MICRO, 10**6)


@given(STAMPS, NAMES)
def test_units_begin_where_duckdb_says(stamp: dt.datetime, unit: str) -> None:
    ((expected,),) = DUCKDB.execute("SELECT date_trunc(?, ?::TIMESTAMP)::TIMESTAMP", [unit, stamp]).fetchall()
    assert start_of(stamp, unit) == expected


@given(STAMPS, STAMPS, STAMPS, NAMES)
def test_what_lies_within_is_rounded_within(a: dt.datetime, b: dt.datetime, c: dt.datetime, unit: str) -> None:
    least, middle, most = sorted((a, b, c))
    start, bound = start_of(middle, unit), cut(Interval(seconds(least), seconds(most)), unit)
    assert start is not None
    assert bound.lo is not None
    assert bound.hi is not None
    assert bound.lo <= seconds(start) <= bound.hi
    ends = (seconds(start_of(end, unit) or FIRST) for end in (least, most))
    assert (bound.lo, bound.hi) == tuple(ends), "no wider than it must be"


def test_months_of_a_range_begin_within_it() -> None:
    january, december = seconds(dt.datetime(2023, 1, 1)), seconds(dt.datetime(2023, 12, 1))
    assert cut(Interval(january, december + 86400), "month") == Interval(january, december)
    assert cut(Interval(None, None), "month") == Interval(None, None)


@pytest.mark.parametrize("unit", sorted(CUT))
def test_before_the_calendar_bounds_go_back_by_a_whole_unit(unit: str) -> None:
    ancient = Fraction(-(10**12))
    lo = cut(Interval(ancient, None), unit).lo
    assert lo == ancient - UNITS[unit].seconds[1]
    assert cut(Interval(None, ancient), unit) == Interval(None, ancient)


def test_a_decade_that_begins_before_the_first_year() -> None:
    first = seconds(dt.datetime(5, 6, 7))
    assert cut(Interval(first, first), "decade") == Interval(first - 3653 * 86400, first)


def test_years_of_days_and_of_seconds() -> None:
    leap = Interval(Fraction(dt.date(2023, 12, 31).toordinal() - 719163), Fraction(dt.date(2024, 12, 31).toordinal() - 719163))
    assert years(leap, "date") == Interval(Fraction(2023), Fraction(2024))
    assert years(Interval(Fraction(0), Fraction(366 * 86400)), "timestamp") == Interval(Fraction(1970), Fraction(1971))


@given(STAMPS, CALENDAR)
def test_no_unit_is_shorter_or_longer_than_said(stamp: dt.datetime, unit: str) -> None:
    fewest, most = UNITS[unit].days
    start = start_of(stamp.replace(year=min(stamp.year, 9900)), unit)
    assert start is not None
    after = start_of(start + dt.timedelta(days=most), unit)
    assert after is not None
    assert fewest <= (after - start).days <= most


def test_words_of_units() -> None:
    words = {"HOURS": "hour", "mins": "minute", "sec": "second", "mon": "month", "d": "day", "millisecond": "milliseconds"}
    assert {word: unit_name(word) for word in words} == words
    assert {unit_name(name) for name in UNITS} == set(UNITS)
    assert unit_name("dow") == "dow", "what is no unit stays as it is"
