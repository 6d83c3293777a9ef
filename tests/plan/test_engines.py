"""Literals of the engines: a client's text becomes the value that PostgreSQL reads in it, or is refused before anything runs."""

from __future__ import annotations

import json

import duckdb
import pytest

from dpproxy.engines import MANY_ROWS, engine, literal
from dpproxy.plan.properties.text_growth import PARAMETER
from dpproxy.sql.template import Dialect

DIALECTS: tuple[Dialect, ...] = ("duckdb", "postgres", "spark")


@pytest.mark.parametrize(
    ("type_", "text", "as_text"),
    [
        ("int4", " 7 ", "7"), ("int8", "-9223372036854775808", "-9223372036854775808"), ("text", "a'b\\", "a'b\\"), ("bool", "yes", "true"), ("date", "2024-02-29", "2024-02-29"),
        ("float8", "NaN", "nan"), ("float8", "-Infinity", "-inf"), ("int4", None, None), ("text", None, None), ("text", "", ""),
    ],
)  # fmt: skip
def test_values(type_: str, text: str | None, as_text: str | None) -> None:
    assert duckdb.connect().execute(f"SELECT CAST({literal('duckdb', type_, text)} AS VARCHAR)").fetchone() == (as_text,)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("int4", "x"),
        ("int4", "1; DROP"),
        ("date", "2024-02-30"),
        ("bool", "maybe"),
        ("text", "x" * (PARAMETER + 1)),
        ("int4[]", "{{1}}"),
        ("int4[]", "1"),
    ],
)
def test_what_is_no_value_is_refused(type_: str, text: str, dialect: Dialect) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whichever it is, its message is PostgreSQL's to give
        literal(dialect, type_, text)


def test_arrays_are_lists_of_items() -> None:
    assert duckdb.connect().execute(f"SELECT 2 IN ({literal('duckdb', 'int4[]', '{1,2}')})").fetchone() == (True,)
    assert duckdb.connect().execute(f"SELECT 2 IN ({literal('duckdb', 'int4[]', '{}')})").fetchone() == (None,)
    assert duckdb.connect().execute(f"SELECT 2 IN ({literal('duckdb', 'int4[]', None)})").fetchone() == (None,)


@pytest.mark.parametrize("count", [0, 1, 3, MANY_ROWS])
def test_rows(count: int) -> None:
    rows = [[str(i), f"it's {i}", None if i % 2 else "t"] for i in range(count)]
    text = literal("duckdb", "rows(int8,text,bool)", json.dumps(rows))
    found = duckdb.connect().execute(f"SELECT * FROM {text} AS r(a, b, c)").fetchall()
    assert found == [(i, f"it's {i}", None if i % 2 else True) for i in range(count)]


def test_session_times_have_no_zone() -> None:
    assert literal("duckdb", "timestamptz", "2024-01-01 10:00:00+05:30") == literal(
        "duckdb", "timestamptz", "2024-01-01 10:00:00"
    )


def test_engines_by_their_dialect() -> None:
    assert [engine(d).dialect for d in DIALECTS] == list(DIALECTS)
    with pytest.raises(ValueError, match="oracle"):
        engine("oracle")  # type: ignore[arg-type]
