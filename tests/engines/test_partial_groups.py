"""Groups made of a part of the rows are those that all rows make: of units with several rows, and of those with none, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import plan_harness
import pytest
from plan_harness import Row, as_ordered, queries, values_of
from postgres_shop import PostgresShop
from scratch_postgres import scratch_server

from dpproxy.engines import engine
from dpproxy.engines.postgres import LIMIT, MOST_ROWS, Postgres
from dpproxy.policy.catalog import Catalog
from dpproxy.tree.measured import Added, Counted

JOINED = "FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
BOTH = "SELECT 'order' AS kind, customer_id, qty FROM orders UNION ALL SELECT 'visit', customer_id, NULL FROM visits"

IN_PARTS = [
    f"SELECT c.region, count(*) {JOINED} GROUP BY 1",
    f"SELECT c.region, o.status, count(*), sum(o.qty), avg(o.weight) {JOINED} GROUP BY 1, 2",
    f"SELECT o.status, c.sex, count(*) FILTER (WHERE o.qty > 2), sum(o.amount) {JOINED} GROUP BY 1, 2",
    f"SELECT sum(o.qty), stddev(o.weight) {JOINED} WHERE o.status = 'open'",
    "SELECT c.sex, sum(o.qty) FROM customers c JOIN orders o USING (customer_id) GROUP BY 1",
    f"SELECT o.coupon, count(*) {JOINED} GROUP BY 1",
    f"SELECT kind, count(*) FROM ({BOTH}) t GROUP BY 1",
    f"SELECT kind, count(*) FROM ({BOTH}) t WHERE kind <> 'visit' GROUP BY 1",
]
AT_ONCE = [
    f"SELECT c.region, count(*) {JOINED} WHERE c.sex = 'F' GROUP BY 1",
    f"SELECT o.status, sum(o.qty * c.score) {JOINED} GROUP BY 1",
    f"SELECT c.region, count(DISTINCT o.category) {JOINED} GROUP BY 1",
    "SELECT o.status, count(*) FROM orders o JOIN visits v ON o.customer_id = v.customer_id GROUP BY 1",
    "SELECT status, count(*) FROM (SELECT status, customer_id FROM orders UNION ALL SELECT 'x', customer_id FROM visits) t GROUP BY 1",
    "SELECT kind, count(*) FROM (SELECT 'a' AS kind, customer_id FROM orders UNION ALL SELECT 'a', customer_id FROM visits) t GROUP BY 1",
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresShop]:
    """Some customers are there two or three times, in one region or in two."""
    with scratch_server(tmp_path_factory.mktemp("parts")) as server:
        made = PostgresShop(server, "parts", 3, most=0)
        made.execute("INSERT INTO main.customers SELECT * FROM main.customers WHERE customer_id % 3 = 0")
        made.execute("INSERT INTO main.customers SELECT * FROM main.customers WHERE customer_id % 6 = 0")
        made.execute(
            "INSERT INTO main.customers(customer_id, region, sex) SELECT customer_id, 'west', 'F' FROM main.customers"
            " WHERE customer_id % 5 = 0"
        )
        yield made
        made.close()


@pytest.fixture(autouse=True)
def on_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_harness, "engine", "postgres")


def texts(sql: str, catalog: Catalog) -> list[str]:
    made = plan_harness.plan(sql, catalog)
    return [text for m in made.measurements for text in queries(m, values_of(made))]


def answers(texts: list[str], shop: PostgresShop) -> list[list[Row]]:
    return [as_ordered(text, shop.run(text)) for text in texts]


def in_parts(text: str) -> bool:
    return "b AS MATERIALIZED (" in text or "AS r GROUP BY u UNION ALL SELECT u" in text


@pytest.mark.parametrize("sql", IN_PARTS)
def test_parts_make_the_groups_of_all_rows(
    sql: str, shop: PostgresShop, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = texts(sql, shop_catalog)
    monkeypatch.setattr(Postgres, "parts", False)
    whole = texts(sql, shop_catalog)
    assert all(map(in_parts, parts))
    assert not any(map(in_parts, whole))
    assert answers(parts, shop) == answers(whole, shop)


@pytest.mark.parametrize("sql", AT_ONCE)
def test_what_reads_more_of_the_other_rows_is_grouped_at_once(sql: str, shop_catalog: Catalog) -> None:
    assert not any(map(in_parts, texts(sql, shop_catalog)))


def test_who_is_there_twice_counts_twice(shop: PostgresShop, shop_catalog: Catalog) -> None:
    """A planted bug: the rows of the other side are not counted."""
    (text,) = texts(IN_PARTS[1], shop_catalog)
    broken = text.replace("count(*) AS many", "1::bigint AS many")
    assert broken != text
    assert answers([broken], shop) != answers([text], shop)


@pytest.mark.parametrize(
    ("total", "found", "many", "expected"),
    [
        (Counted(0), 2**60, 3, MOST_ROWS),
        (Counted(0), 2**60, 1, 2**60),
        (Counted(0), 7, 3, 21),
        (Added(0, -9, 9, 0), 2**61, 2**40, LIMIT),
        (Added(0, -9, 9, 0), -(2**61), 2**40, -LIMIT),
        (Added(0, -9, 9, 0), None, 2, None),
        (Added(0, -9, 9, 0), -7, 3, -21),
        (Added(0, -(2**40), 2**40, 0), 2**63, 2**62, 2**125),
        (Added(0, -(2**40), 2**40, 0), None, 2, None),
    ],
)
def test_what_is_there_several_times_never_overflows(
    total: Counted | Added, found: int | None, many: int, expected: Any, shop: PostgresShop
) -> None:
    narrow = isinstance(total, Counted) or total.hi < 2**31
    value = "NULL" if found is None else f"'{found}'"
    text = engine("postgres").repeated("x", "many", total)
    rows = f"(VALUES ({value}::{'bigint' if narrow else 'numeric'}, {many}::bigint)) AS v(x, many)"
    (row,) = shop.connection.execute(f"SELECT ({text})::text, pg_typeof({text})::text FROM {rows}".encode()).fetchall()
    assert row == (None if expected is None else str(expected), "bigint" if narrow else "numeric")
