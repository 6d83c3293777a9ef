"""Divisors that may be 0 once noise is added: NULL instead of an error, and nothing else changes. Tried in an engine."""

from __future__ import annotations

import math

import duckdb
import pytest

from dpproxy.plan.outer.safe_division import with_safe_division
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.statements import parse


def written(expression: str) -> str:
    return to_sql(with_safe_division(parse(f"SELECT {expression}"))).removeprefix("SELECT ")


@pytest.mark.parametrize(
    "expression", ["a / b", "a % b", "mod(a, b)", "(a + 1) / (b * 2)", "a / (a / b)", "1 / greatest(b, 0)", "a / nullif(b, 1)"]
)
@pytest.mark.parametrize("b", [-2, 0, 1, 5])
def test_nothing_is_divided_by_zero(expression: str, b: int) -> None:
    found = written(expression)
    assert found.upper().count("NULLIF") > expression.upper().count("NULLIF")
    given = f"FROM (SELECT 4::int AS a, {b}::int AS b) t"
    engine = duckdb.connect()
    engine.execute("SET error_on_division_by_zero = true")
    after = engine.execute(f"SELECT {found} {given}").fetchone()
    assert after is not None
    try:
        before = engine.execute(f"SELECT {expression} {given}").fetchone()
        assert before is not None
        failed = before[0] is None or math.isinf(before[0])
    except duckdb.InvalidInputException:
        failed = True
    assert after == ((None,) if failed else before)


@pytest.mark.parametrize(
    "expression",
    ["a / 2", "a / 2.5", "a / (3)", "a / NULLIF(b, 0)", "a / GREATEST(b, 1)", "a / greatest(1e-9, b)", "a * b", "div(a, 7)"],
)
def test_what_is_never_zero_stays(expression: str) -> None:
    assert written(expression) == to_sql(parse(f"SELECT {expression}")).removeprefix("SELECT ")


@pytest.mark.parametrize(
    "expression", ["a / 0", "a / greatest(b, -1)", "a / nullif(b, 2)", "div(a, b)", "a / greatest(0, b)", "sum(a) / count(*)"]
)
def test_what_may_be_is_written_so(expression: str) -> None:
    assert "NULLIF(" in written(expression).replace("nullif(b, 2)", "")
    assert written(expression).endswith("0)") or ", 0))" in written(expression)
