"""Time functions of the allow-list: the same times as PostgreSQL computes, and parts of them under other engines' names."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from constant_calls import Args, call, ours, theirs

from dpproxy.errors import Refusal
from dpproxy.plan.functions import times

LEAP, LATE, EARLY = ("date", "2024-02-29"), ("timestamp", "2024-03-31 23:59:58"), ("timestamp", "1999-12-31 06:30:00")
CALLS: list[tuple[str, Args]] = [
    ("age", (LATE, EARLY)), ("age", (EARLY, LATE)), ("date_part", (("text", "year"), LATE)), ("date_part", (("text", "dow"), LEAP)),
    ("date_part", (("text", "week"), LATE)), ("date_part", (("text", "epoch"), EARLY)), ("isfinite", (LEAP,)), ("isfinite", (LATE,)),
    ("make_date", (("int4", "2024"), ("int4", "2"), ("int4", "29"))), ("make_date", (("int4", "2023"), ("int4", "2"), ("int4", "29"))),
    ("make_timestamp", (("int4", "2024"), ("int4", "2"), ("int4", "29"), ("int4", "10"), ("int4", "30"), ("int4", "5"))),
    ("date_bin", (("interval", "0 7 0"), LATE, EARLY)), ("date_bin", (("interval", "0 0 900000000"), LATE, EARLY)),
]  # fmt: skip
BORROWED = ["year", "quarter", "month", "day", "hour", "minute"]
"""What MySQL and DuckDB call parts of a time."""


@pytest.mark.parametrize(("name", "args"), CALLS)
def test_they_are_postgresqls(name: str, args: Args, postgres: psycopg.Connection[Any]) -> None:
    written = tuple((t, _spelled(x) if t == "interval" and x is not None else x) for t, x in args)
    found, expected = ours(call(name, args), postgres), theirs(name, written, postgres)
    assert found == expected or (found is not None and expected is not None and float(found) == float(expected))


def _spelled(interval: str) -> str:
    """An interval's constant is "months days microseconds"."""
    months, days, micros = interval.split()
    return f"{months} months {days} days {micros} microseconds"


@pytest.mark.parametrize("name", BORROWED)
@pytest.mark.parametrize("of", [LATE, EARLY])
def test_parts_under_other_names(name: str, of: tuple[str, str], postgres: psycopg.Connection[Any]) -> None:
    assert ours(call(name, (of,)), postgres) == theirs("date_part", (("text", name), of), postgres)


def test_dates_from_their_parts(postgres: psycopg.Connection[Any]) -> None:
    parts: Args = (("int4", "2024"), ("int4", "2"), ("int4", "29"))
    assert ours(call("date_from_parts", parts), postgres) == "2024-02-29"


def test_every_function_is_tried() -> None:
    tried = {*BORROWED, "date_from_parts", *(name for name, _ in CALLS)}
    assert set(times.FUNCTIONS) <= tried


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("date_part", (("text", "fortnight"), LATE)),
        ("date_part", (("text", "year"), ("text", "x"))),
        ("year", (("int4", "3"),)),
        ("date_bin", (("interval", "1 0 0"), LATE, EARLY)),
        ("age", (LATE, EARLY, LATE)),
        ("make_date", (("int4", "2024"), ("int4", "2"))),
    ],
)
def test_what_is_refused(name: str, args: Args) -> None:
    with pytest.raises(Refusal):
        call(name, args)
