"""The sample shop fits its policy, and looks like a shop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpproxy import demo

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    path = tmp_path_factory.mktemp("shop") / "shop.duckdb"
    steps: list[int] = []
    demo.make_shop(path, lambda _what, done, _all: steps.append(done))
    assert steps == list(range(len(demo.STEPS)))
    assert [left.name for left in path.parent.iterdir()] == ["shop.duckdb"]
    with duckdb.connect(str(path), read_only=True) as database:
        yield database


def one(shop: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    (row,) = shop.execute(sql).fetchall()
    return tuple(row)


def test_how_many(shop: duckdb.DuckDBPyConnection) -> None:
    counts = [one(shop, f"SELECT count(*) FROM {table}")[0] for table in ("customers", "orders", "products")]
    assert counts[0] == 50_000
    assert 990_000 < counts[1] < 1_010_000
    assert counts[2] == 200
    low, high, orders = one(
        shop, "SELECT min(n), max(n), count(*) FROM (SELECT count(*) AS n FROM order_items GROUP BY order_id)"
    )
    assert (low, high, orders) == (1, 3, counts[1])


def test_few_customers_own_many_orders(shop: duckdb.DuckDBPyConnection) -> None:
    top, middle, customers = one(
        shop, "SELECT max(n), median(n), count(*) FROM (SELECT count(*) AS n FROM orders GROUP BY customer_id)"
    )
    assert top > 100 * middle
    assert customers == 50_000


def test_values_lie_in_the_policys_ranges(shop: duckdb.DuckDBPyConnection) -> None:
    assert one(
        shop,
        """SELECT bool_and(region IN ('north', 'south', 'east', 'west')), bool_and(sex IN ('F', 'M')),
                  bool_and(birth_year BETWEEN 1920 AND 2010), bool_and(income BETWEEN 0 AND 500000),
                  bool_and(signup BETWEEN DATE '2020-01-01' AND DATE '2026-12-31') FROM customers""",
    ) == (True, True, True, True, True)
    inside, clamped = one(
        shop,
        """SELECT bool_and(ts BETWEEN TIMESTAMP '2024-01-01' AND TIMESTAMP '2026-12-31'), avg((amount > 1000)::INT)
           FROM orders""",
    )
    assert inside
    assert clamped < 1e-3
    assert one(shop, "SELECT count(DISTINCT category), min(amount) > 0 FROM orders") == (6, True)


def test_an_order_costs_what_its_items_cost_and_comes_after_the_signup(shop: duckdb.DuckDBPyConnection) -> None:
    wrong = one(
        shop,
        """SELECT count(*) FROM orders JOIN (
               SELECT order_id, sum(quantity * price) AS cost, count(DISTINCT category) AS kinds, min(category) AS kind
               FROM order_items JOIN products USING (product_id) GROUP BY order_id) USING (order_id)
           WHERE amount <> cost OR kinds <> 1 OR kind <> category""",
    )
    early = one(shop, "SELECT count(*) FROM orders JOIN customers USING (customer_id) WHERE ts < signup")
    assert (wrong, early) == ((0,), (0,))


def test_there_is_something_to_see(shop: duckdb.DuckDBPyConnection) -> None:
    spring, winter = one(
        shop,
        """SELECT count(*) FILTER (month(ts) IN (4, 5)), count(*) FILTER (month(ts) IN (11, 12))
           FROM orders WHERE category = 'garden'""",
    )
    assert spring > 5 * winter
    incomes = dict(shop.execute("SELECT region, avg(income) FROM customers GROUP BY region").fetchall())
    assert incomes["west"] > 1.3 * incomes["south"]
    amounts = dict(
        shop.execute("SELECT region, avg(amount) FROM orders JOIN customers USING (customer_id) GROUP BY region").fetchall()
    )
    assert amounts["west"] > 1.2 * amounts["south"]


def test_keys_are_declared(shop: duckdb.DuckDBPyConnection) -> None:
    found = shop.execute(
        "SELECT table_name, constraint_type FROM duckdb_constraints() WHERE constraint_type LIKE '%KEY' ORDER BY ALL"
    ).fetchall()
    assert [tuple(row) for row in found] == [
        ("customers", "PRIMARY KEY"),
        ("order_items", "FOREIGN KEY"),
        ("order_items", "FOREIGN KEY"),
        ("orders", "FOREIGN KEY"),
        ("orders", "PRIMARY KEY"),
        ("products", "PRIMARY KEY"),
    ]
