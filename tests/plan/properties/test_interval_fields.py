"""Intervals as text and their fields: PostgreSQL's own reading of them, and bounds that hold the fields of all of them."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest
from small_expressions import between, call, lit, ref
from small_expressions import column as made_column

from dpproxy.errors import Refusal
from dpproxy.plan.properties.interval_fields import INTERVAL_PARTS, interval_part, interval_text, times_unit
from dpproxy.tree.interval import OPEN

TEXTS = [
    "1 day", "2 weeks", "1 year 2 months", "-3 days", "1 mon -1 day", "36 hours", "90 minutes", "1.5", "00:00:01.25", "-01:30", "1 year 2 days 03:00",
    "1 decade", "5 mins", "2 h", "1 quarter", "1 century", "10 ms", "", "1 d 2 h", "+4 days", "1 day -02:00:00.000001",
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


@pytest.mark.parametrize(
    ("unit", "field", "found"),
    [
        ("0 2 0", "day", (-6, 10)),
        ("0 0 5400000000", "hour", (-5, 8)),  # an hour and a half, outwards
        ("0 1 0", "epoch", (-3 * 86400, 5 * 86400)),
        ("0 -2 0", "day", (-10, 6)),
    ],
)
def test_fields_of_multiples(unit: str, field: str, found: tuple[int, int]) -> None:
    known = times_unit(between(-3, 5), lit(unit, "interval"), field)
    assert known.ends == found
    _, days, micros = (int(x) for x in unit.split())
    for n in range(-3, 6):
        value = {"day": Fraction(n * days), "hour": Fraction(n * micros, 3600 * 10**6), "epoch": Fraction(n * days * 86400)}[
            field
        ]
        assert known.ends[0] <= value <= known.ends[1]


@pytest.mark.parametrize(("unit", "field"), [("1 0 0", "day"), ("0 1 0", "month"), ("0 1 0", "minute")])
def test_months_and_other_fields_are_open(unit: str, field: str) -> None:
    assert times_unit(between(0, 5), lit(unit, "interval"), field) == OPEN
    assert times_unit(OPEN, lit("0 1 0", "interval"), "day") == OPEN


def test_fields_of_differences() -> None:
    stamp = ref(made_column(1, "timestamp"))
    difference = call("ts_diff", stamp, stamp, type_="interval")
    bound, span = interval_part("day", difference, between(-2 * 86400, 10 * 86400), True, OPEN)
    assert bound.ends == (-2, 10)
    assert span.ends == (-3_660_000, 3_660_000)
    assert interval_part("hour", difference, OPEN, True, OPEN)[0].ends == (-23, 23)
    assert interval_part("month", difference, OPEN, True, OPEN)[0].ends == (0, 0), "days are not carried into months"


def test_fields_of_any_interval() -> None:
    some = ref(made_column(1, "interval"))
    assert interval_part("minute", some, OPEN, False, OPEN)[0].ends == (-59, 59)
    bound, span = interval_part("day", some, OPEN, False, OPEN)
    assert (bound, span.ends) == (OPEN, (-INTERVAL_PARTS["day"], INTERVAL_PARTS["day"]))
    aged = call("age", some, some, type_="interval")
    assert interval_part("year", aged, between(0, 3 * 365 * 86400), False, OPEN)[0].ends == (0, 3)
