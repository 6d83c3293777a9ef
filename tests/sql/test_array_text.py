"""Arrays in PostgreSQL's text form: what PostgreSQL prints is taken apart into what was put in."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from dpproxy.sql.types import array_items

ITEMS = [
    ["a", "b c", None],
    ["NULL", "null", None],
    ['with "quotes"', "back\\slash", "comma, brace } {", ""],
    ["'", "\n", "\t", " padded "],
    ["é", "日本", "{}"],
    [],
]


@pytest.mark.parametrize("items", ITEMS)
def test_what_postgresql_prints(items: list[str | None], postgres: psycopg.Connection[Any]) -> None:
    found = postgres.execute("SELECT (%s::text[])::text", [items]).fetchone()
    assert found is not None
    assert array_items(found[0]) == items


def test_numbers_and_nulls() -> None:
    assert array_items(" {1,NULL,-2.5,nUlL} ") == ["1", None, "-2.5", None]


@pytest.mark.parametrize("text", ["{{1,2},{3,4}}", "1,2", "[2:3]={1,2}", "", "{1,2"])
def test_others_are_no_lists(text: str) -> None:
    with pytest.raises(ValueError, match="one-dimensional"):
        array_items(text)
