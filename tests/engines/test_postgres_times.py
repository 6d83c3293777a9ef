"""Times in PostgreSQL: the ends of the calendar raise nothing, and within the years 1 to 9999 everything is as PostgreSQL has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_expressions import call, column, ref

from dpproxy.engines import postgres_casts as times
from dpproxy.engines.base import quote
from dpproxy.engines.postgres import Postgres
from dpproxy.errors import Refusal

Ask = Callable[[str], Any]
DATES = [
    "4713-01-01 BC",
    "0001-01-01 BC",
    "0001-01-01",
    "1970-01-01",
    "2024-02-29",
    "9999-12-31",
    "10000-01-01",
    "294276-12-31",
    "5874897-12-31",
    "infinity",
    "-infinity",
]
STAMPS = [
    "4713-01-01 00:00 BC",
    "3999-12-31 23:59 BC",
    "0001-01-01 00:00",
    "2024-02-29 12:34:56.789",
    "9999-12-31 23:59:59",
    "294276-12-31 23:59:59",
    "infinity",
    "-infinity",
]
USUAL_DATES, USUAL_STAMPS = ["0001-01-01", "1970-01-01", "2024-02-29"], ["0001-01-01 00:00", "2024-02-29 12:34:56.789"]
FIELDS = ["year", "month", "day", "quarter", "week", "isoyear", "dow", "doy"]


def date(text: str) -> str:
    return f"'{text}'::date"


def stamp(text: str) -> str:
    return f"'{text}'::timestamp"


SHIFTS = {"+": "date_add", "-": "date_sub"}
spelled = Postgres().of_texts


def part(field: str, text: str, type_: str) -> str:
    return Postgres().expr(call(field, ref(column(1, type_)), type_="int8"), {1: text})


def cut(unit: str, text: str) -> str:
    return spelled("trunc_time", f"'{unit}'", text)


def test_no_end_of_the_calendar_raises(ask_postgres: Ask) -> None:
    for text in DATES:
        ask_postgres(f"({times.date_to_timestamp(date(text))})::text")
        for field in FIELDS:
            ask_postgres(f"({part(field, date(text), 'date')})::text")
        for days in ("0", "-1000000", "1000000", "9223372036854775807"):
            for shift in SHIFTS.values():
                ask_postgres(f"({spelled(shift, date(text), quote(days) + '::bigint')})::text")
        for other in DATES:
            ask_postgres(f"({spelled('date_diff', date(text), date(other))})::text")
    for text in STAMPS:
        for unit in ("millennium", "century", "decade", "year", "week", "day", "hour"):
            ask_postgres(f"({cut(unit, stamp(text))})::text")
        for field in FIELDS:
            ask_postgres(f"({part(field, stamp(text), 'timestamp')})::text")
        for other in STAMPS:
            ask_postgres(f"({spelled('ts_diff', stamp(text), stamp(other))})::text")
        for sign in "+-":
            ask_postgres("(" + times.shift(sign, stamp(text), "'3999 years'::interval") + ")::text")
            for months, days, micros in ((12 * 9999, 0, 0), (-12 * 9999, 0, 0), (0, 3_000_000, 0), (0, 0, 10**17)):
                interval = times.interval_literal(f"{months} {days} {micros}")
                ask_postgres(f"({times.constant_shift(sign, stamp(text), interval, months, days, micros)})::text")


@pytest.mark.parametrize("text", USUAL_DATES)
def test_usual_dates_are_postgresqls(text: str, ask_postgres: Ask) -> None:
    for field in FIELDS:
        assert ask_postgres(f"{part(field, date(text), 'date')} = extract({field} FROM {date(text)})")
    assert ask_postgres(f"{spelled('date_add', date(text), '40::bigint')} = {date(text)} + 40")
    assert ask_postgres(f"{spelled('date_diff', date(text), date('1999-12-31'))} = {date(text)} - {date('1999-12-31')}")
    assert ask_postgres(f"{times.date_to_timestamp(date(text))} = {date(text)}::timestamp")


@pytest.mark.parametrize("text", USUAL_STAMPS)
def test_usual_instants_are_postgresqls(text: str, ask_postgres: Ask) -> None:
    for unit in ("century", "year", "quarter", "week", "hour"):
        assert ask_postgres(f"{cut(unit, stamp(text))} = date_trunc('{unit}', {stamp(text)})")
    noon = stamp("1999-12-31 10:00")
    assert ask_postgres(f"{spelled('ts_diff', stamp(text), noon)} = {stamp(text)} - {noon}")
    month = "'1 month 3 hours'::interval"
    shifted = times.shift("+", stamp(text), month)
    assert ask_postgres(f"{shifted} = {stamp(text)} + {month}")
    interval = times.interval_literal("1 -3 7200000001")
    assert ask_postgres(f"{interval} = '1 month -3 days 2 hours 1 microsecond'::interval")
    assert ask_postgres(f"{times.constant_shift('+', stamp(text), interval, 1, -3, 7200000001)} = {stamp(text)} + {interval}")


@pytest.mark.parametrize(("text", "found"), [("-1 2 -1500000", "-1 mons +2 days -00:00:01.5"), ("0 0 0", "00:00:00")])
def test_intervals_keep_their_signs(text: str, found: str, ask_postgres: Ask) -> None:
    assert ask_postgres(f"{times.interval_literal(text)}::text") == found


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("%Y-%m-%d %H:%M:%S", "2024-02-09 03:04:05"),
        ("%d/%m/%y", "09/02/24"),
        ("%b %Y", "Feb 2024"),
        ("%A %a %B", "Friday Fri February"),
    ],
)
def test_formats(pattern: str, found: str, ask_postgres: Ask) -> None:
    assert ask_postgres(times.formatted(stamp("2024-02-09 03:04:05"), pattern)) == found


@pytest.mark.parametrize("pattern", ["%j", "x", "%Y'||'", "%%"])
def test_other_formats_are_refused(pattern: str) -> None:
    with pytest.raises(Refusal):
        times.formatted("x", pattern)
