"""Functions that other engines have, on a real PostgreSQL: each prints what Python's of the same name does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from scratch_postgres import scratch_server

from dpproxy.facade.foreign_functions import DATES
from dpproxy.sql.translation import FIELDS, PARTS

TIMES = (dt.datetime(2024, 2, 29, 0, 5, 9), dt.datetime(2021, 1, 3, 13, 45, 59), dt.datetime(1999, 12, 31, 12, 0))


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection[Any]]:
    with (
        scratch_server(tmp_path_factory.mktemp("functions")) as server,
        psycopg.connect(server.conninfo(), autocommit=True) as made,
    ):
        made.execute(DATES.encode())
        yield made


def one(connection: psycopg.Connection[Any], sql: str, *values: object) -> Any:
    (row,) = connection.execute(sql.encode(), values)
    return row[0]


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_each_field_prints_the_same(connection: psycopg.Connection[Any], field: str) -> None:
    for time in TIMES:
        assert one(connection, "SELECT strftime(%s::timestamp, %s)", time, f"%{field}") == time.strftime(f"%{field}")


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%H:%M and %S %%", 'Q"%d"', "year\\%y'", "DD %d MM", ""])
def test_texts_between_are_themselves(connection: psycopg.Connection[Any], form: str) -> None:
    expected = TIMES[0].strftime(form) or None
    assert one(connection, "SELECT strftime(%s::timestamp, %s)", TIMES[0], form) == expected
    assert one(connection, "SELECT strftime(%s::text, %s::timestamp)", form, TIMES[0]) == expected


@pytest.mark.parametrize("form", ["%Q", "%Y %f"])
def test_what_cannot_be_printed_is_an_error(connection: psycopg.Connection[Any], form: str) -> None:
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match=f"strftime cannot print %{form[-1]}"):
        one(connection, "SELECT strftime(%s::timestamp, %s)", TIMES[0], form)


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_a_date(connection: psycopg.Connection[Any], part: str) -> None:
    time = TIMES[1]
    expected = (time.month + 2) // 3 if part == "quarter" else getattr(time, part)
    assert one(connection, f"SELECT {part}(%s::timestamp)", time) == expected
    assert one(connection, f"SELECT {part}(%s::date)", time.date()) == (0 if part in ("hour", "minute") else expected)


def test_a_date_from_its_parts(connection: psycopg.Connection[Any]) -> None:
    assert one(connection, "SELECT date_from_parts(2024, 2, 29)") == dt.date(2024, 2, 29)
    assert one(connection, "SELECT date_from_parts(2024, NULL, 29)") is None
