"""Number functions of the allow-list: the same numbers as PostgreSQL computes, NULL where it raises."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from constant_calls import Args, is_postgresqls, is_refused

from dpproxy.plan.functions import numbers

CALLS: list[tuple[str, Args]] = [
    ("width_bucket", (("numeric", '5.35'), ("numeric", '0.024'), ("numeric", '10.06'), ("int4", '5'),)),
    ("width_bucket", (("numeric", '-1'), ("numeric", '0'), ("numeric", '10'), ("int4", '5'),)),
    ("width_bucket", (("float8", '10'), ("float8", '0'), ("float8", '10'), ("int4", '5'),)),
    ("width_bucket", (("numeric", 'NaN'), ("numeric", '0'), ("numeric", '10'), ("int4", '5'),)),
    ("div", (("numeric", '9'), ("numeric", '4'),)),
    ("div", (("numeric", '-9.5'), ("numeric", '2'),)),
    ("div", (("numeric", '1'), ("numeric", '0'),)),
    ("cbrt", (("float8", '27'),)),
    ("log", (("numeric", '2'), ("numeric", '64'),)),
    ("log", (("float8", '100'),)),
    ("degrees", (("float8", '0.5'),)),
    ("radians", (("float8", '45'),)),
    ("pi", ()),
    ("sin", (("float8", '1'),)),
    ("cos", (("float8", '1'),)),
    ("tan", (("float8", '1'),)),
    ("cot", (("float8", '1'),)),
    ("asin", (("float8", '0.5'),)),
    ("asin", (("float8", '2'),)),
    ("acos", (("float8", '0.5'),)),
    ("atan", (("float8", '2'),)),
    ("atan2", (("float8", '1'), ("float8", '-2'),)),
    ("num_nulls", (("int4", '1'), ("text", None), ("text", 'x'),)),
    ("num_nonnulls", (("int4", '1'), ("text", None), ("text", 'x'),)),
]  # fmt: skip
REFUSED: list[tuple[str, Args, str]] = [
    ("width_bucket", (("numeric", '1'), ("numeric", '0'), ("numeric", '10'), ("int4", '0'),), "2201G"),
    ("width_bucket", (("numeric", '1'), ("numeric", '10'), ("numeric", '10'), ("int4", '3'),), "0A000"),
    ("sin", (("float8", '1'), ("float8", '2'),), "0A000"),
    ("div", (("float8", '1'), ("float8", '2'),), "0A000"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), CALLS)
def test_they_are_postgresqls(name: str, args: Args, postgres: psycopg.Connection[Any]) -> None:
    is_postgresqls(name, args, postgres)


@pytest.mark.parametrize(("name", "args", "sqlstate"), REFUSED)
def test_what_is_refused(name: str, args: Args, sqlstate: str) -> None:
    is_refused(name, args, sqlstate)


def test_every_function_is_tried() -> None:
    assert set(numbers.FUNCTIONS) - {numbers.FIRST} <= {name for name, _ in CALLS}
