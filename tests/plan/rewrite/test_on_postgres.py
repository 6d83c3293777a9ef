"""What rules make of arrays, ordered values and casts has PostgreSQL's own rows: DuckDB reads some of these texts otherwise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest
from rewrite_cases import CHANGED, RuleCase

RULES = ("cast_keys", "first_rows", "parts_of_texts")
COUPONS = ("SAVE-10", "-", "", "a--b", "2024-02-30", "02", "x-02-y-z-w", "-a", "b-", "é-中", None)
PAGES = ("home", "help", "e", "", "elel", "hell", None)
TABLES = (
    "CREATE TEMP TABLE customers (customer_id int, score int, vip bool)",
    "INSERT INTO customers SELECT i, i % 7, i % 3 = 0 FROM generate_series(1, 40) AS i",
    "CREATE TEMP TABLE orders (order_id bigint, customer_id int, amount numeric(12, 2), qty int, status text, paid bool, coupon text, note text)",
    "CREATE TEMP TABLE visits (page text, secs float8)",
)


@pytest.fixture(scope="module")
def shop(postgres: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    for statement in ("DROP TABLE IF EXISTS pg_temp.customers, pg_temp.orders, pg_temp.visits", *TABLES):
        postgres.execute(statement)
    orders = [
        (i, i * i % 37 + 1, i % 11, i % 5, ("open", "paid", None)[i % 3], (True, False, None)[i % 7 % 3], COUPONS[i % len(COUPONS)],
         (COUPONS[i * 3 % len(COUPONS)] or "").replace("-", " "))
        for i in range(1, 120)
    ]  # fmt: skip
    with postgres.cursor() as cursor:
        cursor.executemany("INSERT INTO orders VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", orders)
        cursor.executemany("INSERT INTO visits VALUES (%s, %s)", [(PAGES[i % len(PAGES)], i % 4) for i in range(40)])
    return postgres


@pytest.mark.parametrize("case", [c for c in CHANGED if c.rule in RULES], ids=str)
def test_both_have_the_same_rows(case: RuleCase, shop: psycopg.Connection[Any]) -> None:
    before, after = (Counter(map(str, shop.execute(text).fetchall())) for text in (case.before, case.after))
    assert after == before
    assert before not in (Counter(), Counter(["(0,)"])), "the rows say nothing"
