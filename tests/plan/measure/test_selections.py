"""MIN, MAX and percentiles of times are chosen among the times there can be: a day has no time of day."""

from __future__ import annotations

import re
from typing import Any

import plan_harness
import psycopg
import pytest

from dpproxy.policy.catalog import Catalog

DAY, HOUR = 86_400, 3_600


@pytest.mark.parametrize(
    ("value", "step"),
    [
        ("ts", 1),
        ("date_trunc('day', ts)", DAY),
        ("date_trunc('hour', ts)", HOUR),
        ("date_trunc('second', ts)", 1),
        ("ts::date::timestamp", DAY),
        ("CASE WHEN qty > 1 THEN date_trunc('day', ts) ELSE date_trunc('hour', ts) END", HOUR),
        ("coalesce(date_trunc('day', ts), '2024-01-01')", DAY),
        ("least(date_trunc('day', ts), '2024-01-01 12:00')", DAY // 2),
        ("least(date_trunc('day', ts), '2024-01-01 12:00:01')", 1),
        ("nullif(date_trunc('day', ts), '2024-01-01')", DAY),
    ],
)
def test_times_are_chosen_in_steps_they_have(shop_catalog: Catalog, value: str, step: int) -> None:
    for sql in (f"SELECT max({value}) FROM orders", f"SELECT max(v) FROM (SELECT {value} AS v FROM orders) AS o"):
        outer = plan_harness.plan(sql, shop_catalog).outer
        assert set(re.findall(r"'(\d+) second'", outer)) == {str(step)}, outer


@pytest.mark.parametrize("unit", ["week", "month", "quarter", "year"])
def test_what_is_chosen_of_starts_of_units_is_one(shop_catalog: Catalog, postgres: psycopg.Connection[Any], unit: str) -> None:
    """Whatever day is chosen, the answer is the start of its unit."""
    made = plan_harness.plan(f"SELECT min(date_trunc('{unit}', ts)) FROM orders", shop_catalog)
    for chosen in (0, 17, 100):
        arrays = [f"ARRAY[{chosen}]::{array.type}[]" for array in made.arrays]
        text = made.outer
        for number, array in enumerate(arrays, 1):
            text = text.replace(f"${number}", array)
        row = postgres.execute(text).fetchone()
        assert row is not None
        again = postgres.execute(f"SELECT date_trunc('{unit}', %s::timestamp)", row).fetchone()
        assert again == row
