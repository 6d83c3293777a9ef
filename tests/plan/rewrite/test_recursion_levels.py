"""Recursive queries and their levels: generated ones have the same rows in DuckDB and in PostgreSQL, whose recursion is the measure."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import plan_harness
import psycopg
import pytest

from dpproxy.plan.context import Context
from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite import recursion_levels
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.statements import parse

ORDERS = [(i, i % 4 + 1, (i * 5) % 9) for i in range(1, 25)]
TABLES = (
    "CREATE TEMP TABLE orders (order_id int, customer_id int, qty int)",
    f"INSERT INTO orders VALUES {', '.join(map(str, ORDERS))}, (25, 1, NULL)",
    "CREATE TEMP TABLE products (product_id int, parent int)",
    "INSERT INTO products VALUES (1, NULL), (2, 1), (3, 1), (4, 2), (5, 4), (6, 5), (7, 5), (8, 9), (9, 8)",
)
FIRST = (
    "SELECT customer_id, qty AS x, {begins} AS depth FROM orders",
    "SELECT o.customer_id, o.qty - 1 AS x, {begins} AS depth FROM orders o WHERE o.qty > 2",
)
SECOND = (
    "SELECT r.customer_id, r.x - 2, {next} FROM r WHERE {limit} AND r.x > 0",
    "SELECT customer_id, x / 2, {next} FROM r WHERE {limit}",
    "SELECT o.customer_id, o.qty, {next} FROM orders o JOIN r ON o.customer_id = r.customer_id AND o.qty = r.x + 4 WHERE o.qty < 8 AND {limit}",
    "SELECT r.customer_id, p.parent, {next} FROM r JOIN products p ON p.product_id = r.x WHERE {limit} AND p.parent IS NOT NULL",
    "SELECT r.customer_id, p.parent + r.depth, {next} FROM r LEFT JOIN products p ON p.product_id = r.x WHERE ({limit})",
)
LIMITS = (
    "r.depth < {k}",
    "{k} > r.depth",
    "r.depth <= {k}",
    "(r.depth + 1 <= {k})",
    "{k} >= 2 + depth",
    "depth < {k} AND r.depth < {more}",
)


def generated(dice: random.Random) -> str:
    """A recursive query of a few levels."""
    begins, by = dice.choice((0, 1, 7)), dice.choice((1, 1, 2))
    steps = dice.randrange(5)
    limit = dice.choice(LIMITS)
    added = 1 if "+ 1" in limit else 2 if "2 +" in limit else 0
    k = max(begins + by * steps + added - int("=" in limit), 0)  # the depth that is the first to end it
    parts = (dice.choice(FIRST), dice.choice(("UNION", "UNION ALL")), dice.choice(SECOND))
    text = f"WITH RECURSIVE r AS ({' '.join(parts)}) SELECT customer_id, depth, x FROM r"
    said = dice.choice((f"r.depth + {by}", f"{by} + depth"))
    return text.format(begins=begins, next=said, limit=limit.format(k=k, more=k + 1))


def levels(sql: str, catalog: Catalog) -> str:
    policy, tree = plan_harness.policy(), parse(sql)
    tables = KnownTables(Context(policy, catalog, policy.roles["analyst"], "duckdb"))
    assert recursion_levels.apply(tree, tables.of_tree(tree)), sql
    return to_sql(tree)


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect(config={"threads": 1})
    made.execute("SET integer_division = true")  # as PostgreSQL divides
    for text in TABLES:
        made.execute(text)
    return made


@pytest.fixture
def server(postgres: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    for text in ("DROP TABLE IF EXISTS pg_temp.orders, pg_temp.products", *TABLES):
        postgres.execute(text.encode())
    return postgres


@pytest.mark.parametrize("seed", range(3))
def test_levels_are_the_recursion(
    seed: int, engine: duckdb.DuckDBPyConnection, server: psycopg.Connection[Any], shop_catalog: Catalog
) -> None:
    dice, sizes = random.Random(seed), Counter[int]()
    for _ in range(60):
        sql = generated(dice)
        written = levels(sql, shop_catalog)
        told = Counter(server.execute(sql.encode()).fetchall())
        assert Counter(server.execute(written.encode()).fetchall()) == told, sql
        assert Counter(engine.execute(sql).fetchall()) == told, sql
        assert Counter(engine.execute(written).fetchall()) == told, sql
        sizes[len({depth for _, depth, _ in told})] += 1
    assert len(sizes) >= 4, "the statements have few levels"


@pytest.mark.parametrize(
    ("limit", "most"), [("depth < 11", True), ("depth < 12", False), ("depth <= 10", True), ("depth <= 11", False)]
)
def test_at_most_ten_steps(limit: str, most: bool, shop_catalog: Catalog) -> None:
    policy = plan_harness.policy()
    tree = parse(
        "WITH RECURSIVE r AS (SELECT customer_id, 1 AS depth FROM orders UNION ALL SELECT customer_id, depth + 1 FROM r "
        f"WHERE {limit}) SELECT count(*) FROM r"
    )
    tables = KnownTables(Context(policy, shop_catalog, policy.roles["analyst"], "duckdb")).of_tree(tree)
    assert recursion_levels.apply(tree, tables) is most


def test_copies_of_long_queries_are_not_written(shop_catalog: Catalog) -> None:
    """Neither of one with a long condition, nor of many."""
    policy = plan_harness.policy()
    many = ", ".join(
        f"r{i} AS (SELECT customer_id, 1 AS depth FROM orders UNION ALL SELECT customer_id, depth + 1 FROM r{i} WHERE depth < 11 AND "
        f"{' AND '.join(['customer_id > 1'] * 25)})"
        for i in range(30)
    )
    tree = parse(f"WITH RECURSIVE {many} SELECT count(*) FROM r0")
    tables = KnownTables(Context(policy, shop_catalog, policy.roles["analyst"], "duckdb")).of_tree(tree)
    assert recursion_levels.apply(tree, tables)
    assert sum(1 for _ in tree.walk()) < 2 * recursion_levels.MOST_NODES
    assert "dpproxy_level1_11" in to_sql(tree)
    assert "r29 AS (SELECT customer_id, 1 AS depth" in to_sql(tree)


def test_one_within_another(shop_catalog: Catalog) -> None:
    inner = "WITH RECURSIVE q AS (SELECT customer_id, 1 AS d FROM orders UNION ALL SELECT customer_id, d + 1 FROM q WHERE d < 2)"
    outer = "SELECT t.customer_id, 1 AS depth FROM ({} SELECT * FROM q) t UNION ALL SELECT customer_id, depth + 1 FROM r WHERE depth < 3"
    made = plan_harness.plan(f"WITH RECURSIVE r AS ({outer.format(inner)}) SELECT count(*) FROM r", shop_catalog)
    assert [basis.linf for measurement in made.measurements for basis in measurement.bases] == [18]
