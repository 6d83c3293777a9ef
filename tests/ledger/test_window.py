"""Windows on the UTC calendar."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.amounts import Window
from dpproxy.ledger.window import EPOCH, WINDOWS, end, start

moments = st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2200, 1, 1)).map(lambda t: t.replace(tzinfo=dt.UTC))


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("window", "begin", "finish"),
    [
        ("day", utc(2024, 2, 29), utc(2024, 3, 1)),
        ("week", utc(2024, 2, 26), utc(2024, 3, 4)),
        ("month", utc(2024, 2, 1), utc(2024, 3, 1)),
        ("quarter", utc(2024, 1, 1), utc(2024, 4, 1)),
        ("year", utc(2024, 1, 1), utc(2025, 1, 1)),
        ("never", EPOCH, None),
    ],
)
def test_leap_day(window: Window, begin: dt.datetime, finish: dt.datetime | None) -> None:
    at = utc(2024, 2, 29, 23, 59)
    assert (start(window, at), end(window, at)) == (begin, finish)


@given(moments, st.sampled_from(WINDOWS))
def test_windows_tile_time(at: dt.datetime, window: Window) -> None:
    begin, finish = start(window, at), end(window, at)
    assert begin <= at
    assert start(window, begin) == begin
    if finish is not None:
        assert at < finish
        assert start(window, finish) == finish
        assert start(window, finish - dt.timedelta(microseconds=1)) == begin


def test_other_zones_are_read_in_utc() -> None:
    at = dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert start("year", at) == utc(2023, 1, 1)
