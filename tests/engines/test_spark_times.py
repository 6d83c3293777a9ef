"""Dates and moments on Sail, beside Python's calendar, before 1970 too."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from small_expressions import call, column, ref

from dpproxy.engines import spark_times as times
from dpproxy.engines.spark import Spark
from dpproxy.errors import Refusal
from dpproxy.plan.operations.catalogue import CATALOGUE
from dpproxy.plan.operations.operation import By

MOMENTS = [
    dt.datetime(y, m, d, 23, 59, 58, us)
    for y, m, d, us in [
        (2, 1, 1, 0), (1582, 10, 4, 999), (1969, 12, 28, 123456), (1969, 12, 31, 999999), (1970, 1, 1, 1), (2000, 2, 29, 500000),
        (2020, 12, 31, 0), (2021, 1, 3, 7), (2024, 12, 29, 0), (2024, 12, 30, 250000), (9999, 12, 31, 999999),
    ]
]  # fmt: skip
ROWS = ", ".join(f"(TIMESTAMP_NTZ'{m.strftime('%Y').rjust(4, '0')}{m:-%m-%d %H:%M:%S.%f}')" for m in MOMENTS)


def columns(session: Any, texts: list[str]) -> list[list[Any]]:
    items = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
    found = session.sql(f"SELECT {items} FROM (VALUES {ROWS}) AS t(x)").toArrow()
    return [column.to_pylist() for column in found.columns]


def test_what_is_beyond_the_calendar_is_told_apart(sail_session: Any) -> None:
    values = (9 * 10**18, -9 * 10**18, 9 * 10**18 + 1)
    rows = ", ".join(f"({value}L)" for value in values)
    texts = times.numbered("m", "timestamp"), times.numbered("d", "date")
    items = "CAST(timestamp_micros(x) AS TIMESTAMP_NTZ) AS m, date_add(DATE'1970-01-01', CAST(x % 100000000 AS INT)) AS d"
    found = sail_session.sql(
        f"SELECT {texts[0]} AS a, {texts[1]} AS b FROM (SELECT {items} FROM (VALUES {rows}) AS t(x)) AS s"
    ).toArrow()
    assert found.column(0).to_pylist() == list(values)
    assert found.column(1).to_pylist() == [0, 0, 1]


def test_parts(sail_session: Any) -> None:
    wanted = {
        "year": lambda m: m.year, "quarter": lambda m: (m.month + 2) // 3, "month": lambda m: m.month, "day": lambda m: m.day,
        "doy": lambda m: m.timetuple().tm_yday, "week": lambda m: m.isocalendar().week, "dow": lambda m: m.isoweekday() % 7,
        "isodow": lambda m: m.isoweekday(), "hour": lambda m: m.hour, "minute": lambda m: m.minute,
        "isoyear": lambda m: m.isocalendar().year,
    }  # fmt: skip
    rows = [row for row in CATALOGUE.values() if isinstance(row.spark, By) and row.spark.method == "part"]
    assert set(wanted) == {row.name for row in rows}
    found = columns(
        sail_session, [Spark().expr(call(name, ref(column(1, "timestamp")), type_="int8"), {1: "x"}) for name in wanted]
    )
    for (name, value), parts in zip(wanted.items(), found, strict=True):
        assert parts == [value(m) for m in MOMENTS], name


def test_cutting(sail_session: Any) -> None:
    def cut(m: dt.datetime, unit: str) -> dt.datetime | None:
        match unit:
            case "milliseconds":
                return m.replace(microsecond=m.microsecond // 1000 * 1000)
            case "second":
                return m.replace(microsecond=0)
            case "hour":
                return m.replace(minute=0, second=0, microsecond=0)
            case "week":
                return dt.datetime.combine(m.date() - dt.timedelta(m.weekday()), dt.time())
            case "decade":
                return dt.datetime(m.year - m.year % 10, 1, 1) if m.year >= 10 else None
        return dt.datetime(m.year, m.month if unit == "month" else (m.month - 1) // 3 * 3 + 1 if unit == "quarter" else 1, 1)

    units = ["milliseconds", "second", "hour", "week", "month", "quarter", "year", "decade"]
    for unit, starts in zip(units, columns(sail_session, [times.cut_to(u, "x") for u in units]), strict=True):
        assert starts == [cut(m, unit) for m in MOMENTS], unit
    with pytest.raises(Refusal, match="century"):
        times.cut_to("century", "x")


def test_shifts_and_formats(sail_session: Any) -> None:
    texts = [
        times.shift("-", "x", "0 1 1500000"),
        times.formatted("x", "timestamp", "%Y/%m/%d %H:%M:%S %b %a"),
        times.second("x"),
    ]
    shifted, formatted, seconds = columns(sail_session, texts)
    assert shifted[1:] == [m - dt.timedelta(days=1, seconds=1.5) for m in MOMENTS[1:]]
    assert formatted == [f"{m.year:04}/{m:%m/%d %H:%M:%S %b %a}" for m in MOMENTS]
    assert seconds == [58 + m.microsecond / 10**6 for m in MOMENTS]
    with pytest.raises(Refusal, match="4,000 years"):
        times.shift("+", "x", "96000 0 0")
    with pytest.raises(Refusal, match="%j"):
        times.formatted("x", "timestamp", "%j")


def test_differences(sail_session: Any) -> None:
    at = dt.datetime(1999, 12, 31, 12, 30, 15, 250000)
    literal = f"TIMESTAMP_NTZ'{at}'"
    days, hours, epoch = columns(sail_session, [times.part_of_difference(n, "x", literal) for n in ("day", "hour", "epoch")])
    micros = [(m - at) // dt.timedelta(microseconds=1) for m in MOMENTS]
    assert days == [abs(u) // times.DAY * (1 if u > 0 else -1) for u in micros]
    assert hours == [abs(u) % times.DAY // 3_600_000_000 * (1 if u > 0 else -1) for u in micros]
    assert epoch == [float(u) / 1e6 for u in micros]


def test_beyond_the_calendar_there_is_nothing(sail_session: Any) -> None:
    far = "date_add(DATE'9999-12-31', 1000)"
    texts = [
        times.part("year({0})", far, "date"),
        times.moment(far, "date"),
        Spark().of_texts("date_add", far, "1"),
        times.days_between(far, far),
    ]
    texts += [times.from_numbers("2023", "2", "29"), times.from_epoch("CAST('NaN' AS DOUBLE)"), times.epoch(far, "date")]
    found = sail_session.sql(f"SELECT {', '.join(f'{t} AS c{i}' for i, t in enumerate(texts))}").toArrow()
    assert [column[0].as_py() for column in found.columns] == [None] * len(texts)
