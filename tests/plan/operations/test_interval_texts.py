"""Intervals as text: PostgreSQL's own reading of them."""

from __future__ import annotations

import duckdb
import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.operations.interval_texts import interval_text

TEXTS = [
    "1 day", "2 weeks", "1 year 2 months", "-3 days", "1 mon -1 day", "36 hours", "90 minutes", "1.5", "00:00:01.25", "-01:30", "1 year 2 days 03:00",
    "1 decade", "5 mins", "2 h", "1 quarter", "1 century", "10 ms", "", "1 d 2 h", "3 hrs", "2 millennium", "+4 days", "1 day -02:00:00.000001",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_they_are_read_as_an_engine_reads_them(text: str) -> None:
    try:
        months, days, micros = (int(x) for x in interval_text(text).split())
    except (ValueError, KeyError):
        assert text in ("1.5", "10 ms"), "refused, not misread"
        return
    if text == "":
        assert (months, days, micros) == (0, 0, 0)
        return
    sql = f"SELECT i = to_months({months}) + to_days({days}) + to_microseconds({micros}) FROM (SELECT INTERVAL '{text.removeprefix('+')}' AS i)"
    assert duckdb.connect().execute(sql).fetchone() == (True,)


@pytest.mark.parametrize("text", ["10001 years", "4000001 days", "96000024 hours 1 century 9999 years"])
def test_too_long_ones_are_refused(text: str) -> None:
    with pytest.raises(Refusal):
        interval_text(text)
    assert interval_text("10000 years") == "120000 0 0"
