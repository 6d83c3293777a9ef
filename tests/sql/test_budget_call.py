"""Snowflake's function over the budget is the table that answers it, wherever a table may stand, and nowhere else."""

from __future__ import annotations

import pytest

from dpproxy.sql.privacy_clauses import NAME, as_table
from dpproxy.sql.virtual_tables import VIRTUAL_TABLES

CALL = "SNOWFLAKE.DATA_PRIVACY.ESTIMATE_REMAINING_DP_AGGREGATES"
TABLE = f"dpproxy.{NAME}"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (f"SELECT * FROM TABLE({CALL}('my_table'));", f"SELECT * FROM {TABLE};"),
        (f"select r.budget_spent from table ( {CALL.lower()} ( 't' ) ) as r", f"select r.budget_spent from {TABLE} as r"),
        (f"SELECT * FROM {CALL}('t') x, TABLE({CALL}(t)) y", f"SELECT * FROM {TABLE} x, {TABLE} y"),
        (f"SELECT * FROM {NAME}('t')", f"SELECT * FROM {TABLE}"),
    ],
)
def test_calls(text: str, written: str) -> None:
    assert as_table(text) == written


@pytest.mark.parametrize("text", [f"SELECT * FROM {TABLE}", f"SELECT '{CALL}(x)'", f"SELECT 1 -- {CALL}('t')", "SELECT 1"])
def test_what_is_no_call_stays(text: str) -> None:
    assert as_table(text) == text


def test_the_table_is_there() -> None:
    assert NAME in VIRTUAL_TABLES
