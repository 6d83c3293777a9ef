"""DuckDB's operators and functions of constants: the values every engine gives, and NULL where DuckDB raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operation_cases import UNHEARD, VALUES
from small_expressions import call, lit

from dpproxy.engines.duckdb import DuckDB
from dpproxy.errors import Refusal
from dpproxy.plan.operations.interval_texts import MAX_INTERVAL_MONTHS
from dpproxy.sql.template import hole
from dpproxy.tree.expr import Hole

Ask = Callable[[str], Any]


def test_values(ask_duckdb: Ask) -> None:
    for expr, value in VALUES:
        found = ask_duckdb(DuckDB().expr(expr, {}))
        assert found == value or float(found) == value, expr


@pytest.mark.parametrize(
    "text",
    [
        DuckDB().expr(call("date_add", lit("2024-01-01", "date"), lit("2000000000"), type_="date"), {}),
        DuckDB().expr(
            call("ts_add", lit("9999-12-31", "timestamp"), lit(f"{MAX_INTERVAL_MONTHS} 0 0", "interval"), type_="timestamp"), {}
        ),
        DuckDB().expr(call("week", lit("4800-01-01 (BC)", "date"), type_="int4"), {}),
    ],
)
def test_the_ends_of_the_calendar(text: str, ask_duckdb: Ask) -> None:
    ask_duckdb(text)


def test_patterns_of_clients(ask_duckdb: Ask) -> None:
    """A client's pattern with an escape character is not followed: DuckDB has none by default."""
    text = DuckDB().expr(call("like", lit("a", "text"), Hole("text", 0)), {})
    for pattern, found in (("a%", True), ("b", False), ("a\\", None)):
        assert ask_duckdb(text.replace(hole(0, "text"), f"'{pattern}'")) is found


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        DuckDB().expr(UNHEARD, {})
    assert caught.value.sqlstate == "0A000"
