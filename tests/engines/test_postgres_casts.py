"""Casts that raise in PostgreSQL: where its own gives a value ours gives that value or NULL, where it raises ours gives NULL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from dpproxy.engines import postgres_casts as casts

Ask = Callable[[str], Any]
TEXTS = [
    "1", " 7 ", "-32769", "32767", "32768", "2147483648", "9223372036854775807", "9223372036854775808", "1" * 41, "1.5", "-0.5", ".5", "5.", "1e3", "1e99", "1e400",
    "abc", "", " ", "0x1F", "1_000", "--1", "+3", "NaN", "nan", "inf", "-Infinity", "infinit", "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29",
    "2024-2-3", "2024-13-01", "2024-04-31", "0001-01-01", "0000-01-01", "9999-12-31", "10000-01-01", "2024-01-01 23:59:59.999999", "2024-01-01 24:00:00", "2024-01-01T1:02",
    "2024-01-01 10:60", "Jan 5, 2024", "today", "now", "infinity", "2024-01-01 10:00+02", "t", "TRUE", " yes ", "of", "o", "2", "off", "nO",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc99", "١٢", "1\u00a0", "x" * 2000,
]  # fmt: skip
FROM_TEXT = {
    "int2": lambda t: casts.text_to_int(t, "int2"),
    "int4": lambda t: casts.text_to_int(t, "int4"),
    "int8": lambda t: casts.text_to_int(t, "int8"),
    "numeric": lambda t: casts.text_to_number(t, "numeric"),
    "float8": lambda t: casts.text_to_number(t, "float8"),
    "date": casts.text_to_date,
    "timestamp": casts.text_to_timestamp,
    "uuid": casts.text_to_uuid,
    "bool": casts.text_to_bool,
}
NARROWER = {("float8", "1e400"), ("date", "Jan 5, 2024")}


def theirs(ask: Ask, value: str, type_: str) -> str | None:
    try:
        found: str = ask(f"({value}::{type_})::text")
    except psycopg.Error:
        return None
    return found


@pytest.mark.parametrize("type_", FROM_TEXT)
def test_texts(type_: str, ask_postgres: Ask) -> None:
    read = 0
    for text in TEXTS:
        quoted = f"'{text}'::text"
        ours = ask_postgres(f"({FROM_TEXT[type_](quoted)})::text")
        plain = theirs(ask_postgres, quoted, type_)
        assert ours in (None, plain), text
        read += ours is not None
    assert read >= 2, "usual spellings are read"


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("int4", "12"),
        ("numeric", "1.50"),
        ("date", "2024-02-29"),
        ("timestamp", "2024-02-29 12:00"),
        ("bool", "off"),
        ("float8", "-Infinity"),
    ],
)
def test_what_is_usual_is_read(type_: str, text: str, ask_postgres: Ask) -> None:
    quoted = f"'{text}'::text"
    assert ask_postgres(f"({FROM_TEXT[type_](quoted)}) = '{text}'::{type_}")


NUMBERS = [
    "0",
    "0.5",
    "1.5",
    "2.5",
    "-0.5",
    "-1.5",
    "32767.4",
    "32767.5",
    "-32768.5",
    "-32768.6",
    "2147483647.5",
    "9223372036854774784",
    "9223372036854775808",
    "1e300",
    "NaN",
    "Infinity",
    "-Infinity",
]


@pytest.mark.parametrize("type_", ["int2", "int4", "int8"])
@pytest.mark.parametrize(("source", "cast"), [("float8", casts.float_to_int), ("numeric", casts.numeric_to_int)])
def test_numbers_are_rounded_as_postgresql_rounds_them(
    type_: str, source: str, cast: Callable[[str, str], str], ask_postgres: Ask
) -> None:
    if source == "numeric" and type_ == "int8":
        numbers = [n for n in NUMBERS if n != "9223372036854775808"]
    else:
        numbers = NUMBERS
    for number in numbers:
        value = f"'{number}'::{source}"
        assert ask_postgres(f"({cast(value, type_)})::text") == theirs(ask_postgres, value, type_), number


@pytest.mark.parametrize("type_", ["int2", "int4"])
def test_whole_numbers(type_: str, ask_postgres: Ask) -> None:
    top = casts.RANGES[type_]
    for number in (0, top - 1, top, -top, -top - 1):
        value = f"'{number}'::bigint"
        assert ask_postgres(f"({casts.int_to_int(value, type_)})::text") == theirs(ask_postgres, value, type_)


@pytest.mark.parametrize("number", ["1.1", "1e-45", "1e-30", "3.3e38", "1e300", "-1e300", "NaN", "-Infinity", "0"])
def test_singles(number: str, ask_postgres: Ask) -> None:
    ours = ask_postgres(casts.to_float4(f"'{number}'::float8"))
    plain = theirs(ask_postgres, f"'{number}'::float8", "float4::float8")
    expected = (
        float(number) * float("inf")
        if plain is None and abs(float(number)) > 1
        else 0.0
        if plain is None or number == "1e-45"
        else float(plain)
    )
    assert str(ours) == str(expected)


@pytest.mark.parametrize("text", TEXTS)
def test_uuids_of_the_clients(text: str, ask_postgres: Ask) -> None:
    assert casts.is_uuid(text) == (ask_postgres(casts.text_to_uuid(f"'{text}'::text")) is not None)
