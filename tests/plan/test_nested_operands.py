"""What is nested in itself: an operand that stands several times in what is written is refused before it costs the engine minutes.

DuckDB's planner writes some operands again where no text shows it (its macros, lists of few items): EXPLAIN shows how often.
"""

from __future__ import annotations

from functools import partial

import plan_harness
import pytest

from dpproxy.engines.base import MAX_TEXT
from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.plan.bind.expressions import LARGEST
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.sql import effort

FORMS = {
    "nullif of an integer": ("qty", "nullif({}, 1)"),
    "nullif beside a fraction": ("qty", "nullif({}, 1.5)"),
    "nullif of a text": ("coupon", "nullif({}, 'a')"),
    "nullif of a day": ("due", "nullif({}, DATE '2024-01-01')"),
    "lists of two": ("qty", "({} IN (1, 2))::int"),
    "lists of four": ("qty", "({} NOT IN (1, 2, 3, 4))::int"),
    "lists of nine": ("qty", "({} IN (1, 2, 3, 4, 5, 6, 7, 8, 9))::int"),
    "fields": ("coupon", "split_part({}, '-', 1)"),
    "fields from the end": ("coupon", "split_part({}, '-', -1)"),
    "CASE of a value": ("qty", "CASE {} WHEN 1 THEN 2 WHEN 2 THEN 4 ELSE 3 END"),
    "BETWEEN": ("qty", "(({}) BETWEEN 1 AND 5)::int"),
    "overlay": ("coupon", "overlay({} PLACING 'a' FROM 2)"),
    "days as texts": ("due", "to_date({}::text, 'YYYY-MM-DD')"),
    "days": ("due", "({} + 1)"),
    "choices": ("qty", "greatest(coalesce({}, 1), 3)"),
}  # fmt: skip
DEEP = (1, 3, 6, 10, 14)


def nested(form: str, depth: int) -> str:
    value, around = FORMS[form]
    for _ in range(depth):
        value = around.format(value)
    return f"SELECT count(*) FROM orders WHERE ({value}) IS NOT NULL"


def planned(form: str, depth: int, catalog: Catalog) -> Plan | None:
    """None where it is refused as too complex, too much, or nested too deeply."""
    try:
        return plan_harness.plan(nested(form, depth), catalog)
    except Refusal as refusal:
        if not refusal.sqlstate.startswith("54"):
            raise
        return None


@pytest.mark.parametrize("form", FORMS)
def test_what_duckdb_plans_is_as_long_as_what_is_written(form: str, shop_catalog: Catalog) -> None:
    """But for casts, which it writes with long names of types."""
    shop, seen = plan_harness.Shop(0, 0), 0
    for made in (planned(form, depth, shop_catalog) for depth in DEEP):
        if made is None:
            continue
        (query,) = plan_harness.queries(made.measurements[0], plan_harness.values_of(made))
        if len(query) > 20_000:
            continue  # is as long as it may be: EXPLAIN takes seconds
        seen += 1
        told = "".join(shop.run(f"EXPLAIN (FORMAT JSON) {query}").column(1).to_pylist())
        assert len(told) < 8 * len(query) + 10_000, f"{len(query)} characters are planned as {len(told)}"
    assert seen >= 1


@pytest.mark.parametrize("form", ["CASE of a value", "BETWEEN", "overlay", "days as texts", "nullif beside a fraction"])
def test_planning_takes_few_steps(form: str, shop_catalog: Catalog) -> None:
    for depth in DEEP:
        _, steps = effort.counted(partial(planned, form, depth, shop_catalog))
        assert steps < effort.MOST / 4


def test_an_expression_that_is_written_too_often_is_refused(shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal, match="too complex over private tables") as caught:
        plan_harness.plan(nested("days as texts", 10), shop_catalog)
    assert caught.value.sqlstate == STATEMENT_TOO_COMPLEX
    assert LARGEST < MAX_TEXT
