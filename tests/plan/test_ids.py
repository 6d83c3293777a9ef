"""Ids of which doubles do not tell one from the next: who a row belongs to is never decided by doubles.

DuckDB computes with its wide numbers (DECIMAL, HUGEINT, UBIGINT) as doubles; 2**60 and 2**60 + 1 are one double. Were ids
compared so, a row would be of several units, and each of them would count it.
"""

from __future__ import annotations

import re
from dataclasses import replace

import grammar
import plan_harness
import pytest
import shop_world
from fixture_cases import ACCEPTED, Case, sampled
from hypothesis import HealthCheck, given, note, settings
from plan_harness import Sensitivity, Shop

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog, CatalogColumn
from dpproxy.policy.check import check
from dpproxy.table_terms import same_kind

TYPES = ("DECIMAL(19,0)", "HUGEINT", "UBIGINT")
SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def with_ids(found: Catalog, exact: str, *apart: str) -> Catalog:
    """The shop's catalog with ids of that type of DuckDB's; those of the tables `apart` stay as they are."""

    def column(table: str, known: CatalogColumn) -> CatalogColumn:
        changed = (table, known.name) in shop_world.IDS and table not in apart
        return replace(known, type="numeric", exact=exact) if changed else known

    tables = {n: replace(t, columns=tuple(column(n.name, c) for c in t.columns)) for n, t in found.tables.items()}
    return Catalog(tables)


@pytest.fixture(autouse=True)
def on_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_harness, "engine", "duckdb")


@pytest.fixture(scope="module")
def shops() -> dict[str, Shop]:
    return {type_: Shop(1, 4, type_) for type_ in TYPES}


@pytest.fixture(scope="module")
def usual() -> Shop:
    return Shop(1, 0)


JOINED = [c for c in ACCEPTED if re.search("customer_id|order_id|order_items", c.sql) and "_id::text" not in c.sql]


@pytest.mark.parametrize("case", sampled(JOINED, 2), ids=str)
def test_fixtures(case: Case, shops: dict[str, Shop], shop_catalog: Catalog) -> None:
    """Whatever is accepted with small ids is with large ones, and as private."""
    type_ = TYPES[len(case.sql) % len(TYPES)]
    made = case.plan(with_ids(shop_catalog, type_))
    assert Sensitivity(shops[type_]).problems(made, case.values) == []


def test_generated_queries(shops: dict[str, Shop], shop_catalog: Catalog) -> None:
    type_, shop = TYPES[0], shops[TYPES[0]]
    found = with_ids(shop_catalog, type_)
    assert not check(plan_harness.policy(), found)

    @settings(max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=SUPPRESSED)
    @given(grammar.statements())
    def every_query(sql: str) -> None:
        note(sql)
        try:
            made = plan_harness.plan(sql, found)
        except Refusal:
            return
        assert Sensitivity(shop).problems(made) == [], sql

    every_query()


ACROSS = (
    "SELECT region, count(*) FROM customers JOIN orders USING (customer_id) GROUP BY 1",
    "SELECT count(*) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id",
    "SELECT count(*) FROM customers c FULL JOIN orders o USING (customer_id)",
    "SELECT sum(quantity) FROM order_items",
    "SELECT sum(quantity) FROM order_items JOIN orders USING (order_id) WHERE status = 'paid'",
    "SELECT count(*) FROM customers WHERE customer_id IN (SELECT customer_id FROM orders WHERE qty > 3)",
    "SELECT count(*) FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id AND qty > 3)",
    "SELECT count(*) FROM order_items i WHERE EXISTS (SELECT 1 FROM orders o WHERE o.order_id = i.order_id AND qty > 3)",
    "SELECT avg(n) FROM (SELECT customer_id, least(count(*), 50) AS n FROM orders GROUP BY 1) t",
    "SELECT count(*) FROM (SELECT customer_id FROM customers UNION SELECT customer_id FROM orders) t",
    "SELECT count(*) FROM (SELECT customer_id FROM orders EXCEPT SELECT customer_id FROM visits) t",
    "SELECT count(*) FROM (SELECT customer_id, order_id FROM orders INTERSECT SELECT customer_id, order_id FROM orders) t",
    "SELECT count(DISTINCT customer_id), count(DISTINCT order_id) FROM orders",
)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("sql", ACROSS)
def test_rows_of_one_person(sql: str, type_: str, shops: dict[str, Shop], usual: Shop, shop_catalog: Catalog) -> None:
    """Accepted, private, and the same answer as with small ids."""
    shop = shops[type_]
    made = plan_harness.plan(sql, with_ids(shop_catalog, type_))
    assert Sensitivity(shop).problems(made) == []
    small = plan_harness.plan(sql, shop_catalog)
    for one, other in zip(made.measurements, small.measurements, strict=True):
        assert [shop.run(q).to_pylist() for q in plan_harness.queries(one, [])] == [
            usual.run(q).to_pylist() for q in plan_harness.queries(other, [])
        ]


def test_ids_of_two_kinds_are_refused(shop_catalog: Catalog) -> None:
    for apart in ("orders", "visits", "order_items"):
        problems = check(plan_harness.policy(), with_ids(shop_catalog, "HUGEINT", apart))
        assert problems
        assert all("compares" in str(p) and "HUGEINT" in str(p) for p in problems)


def test_what_is_compared_as_it_is() -> None:
    def column(type_: str, exact: str = "") -> CatalogColumn:
        return CatalogColumn("x", "x", type_, exact=exact)

    assert same_kind(column("int2"), column("int8"))
    assert same_kind(column("int8", "numeric"), column("numeric", "numeric"))
    assert same_kind(column("float8"), column("float8"))
    assert same_kind(column("text"), column("varchar"))
    assert not same_kind(column("int8"), column("float8"))
    assert not same_kind(column("int8", "numeric"), column("float8"))
    assert not same_kind(column("int8"), column("numeric", "HUGEINT"))
    assert not same_kind(column("numeric", "DECIMAL(19,0)"), column("numeric", "HUGEINT"))
    assert not same_kind(column("float4"), column("float8"))
