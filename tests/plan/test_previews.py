"""Which queries are previews, and that what becomes of them has nothing of the data in it."""

from __future__ import annotations

import json
from dataclasses import replace

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy, Previews
from dpproxy.privacy.loss import ZERO
from dpproxy.table_terms import TableName

VIEWS = {
    TableName("public", "northerners"): "SELECT customer_id, region FROM customers WHERE region = 'north'",
    TableName(
        "public", "busy"
    ): "SELECT n.customer_id, o.amount FROM northerners n JOIN orders o ON o.customer_id = n.customer_id",
}


def rules(previews: Previews) -> Policy:
    shop = plan_harness.policy()
    return replace(shop, roles={name: replace(role, previews=previews) for name, role in shop.roles.items()}, views=VIEWS)


def planned(sql: str, catalog: Catalog, previews: Previews, types: tuple[str, ...] = ()) -> Plan:
    return plan_harness.plan(sql, catalog, rules(previews), types=types)


SHOWN = [
    "SELECT * FROM customers",
    "SELECT * FROM public.customers AS c LIMIT 10",
    'SELECT * FROM "shop"."public"."customers" LIMIT 10 OFFSET 5',
    "TABLE orders",
    "SELECT 1 FROM orders LIMIT 1",
    "SELECT * FROM customers WHERE true AND (1 = 1) LIMIT 5",
    "SELECT region, upper(name) AS n, income / 12 FROM customers ORDER BY n DESC, income LIMIT 5",
    "SELECT c.*, c.region FROM customers c",
    "SELECT * FROM (SELECT * FROM customers) AS q LIMIT 10",
    "SELECT q.region FROM (SELECT region FROM customers LIMIT 100) q",
    "WITH q AS (SELECT * FROM orders), r AS (SELECT amount FROM q) SELECT * FROM r LIMIT 3",
    "WITH customers AS (SELECT region FROM customers) SELECT * FROM customers LIMIT 3",
    "WITH s AS (SELECT region FROM customers LIMIT 2) SELECT row_to_json(f) FROM s AS f",
    "SELECT row_to_json(q) FROM (SELECT * FROM customers) q",
    "SELECT * FROM northerners LIMIT 2",
    "SELECT * FROM busy",
    "COPY (SELECT * FROM customers LIMIT 2) TO STDOUT",
    "DECLARE c CURSOR FOR SELECT * FROM customers",
    "EXPLAIN SELECT * FROM customers",
]

NOT_SHOWN = [
    "SELECT * FROM customers WHERE region = 'north'",
    "SELECT 1 FROM customers WHERE name = 'Ann' LIMIT 1",
    "SELECT * FROM (SELECT * FROM customers WHERE income > 5) q",
    "SELECT * FROM customers WHERE 1 = 1 AND vip",
    "SELECT * FROM customers WHERE income = income",
    "SELECT * FROM customers WHERE NULL",
    "WITH q AS (SELECT * FROM customers WHERE vip) SELECT * FROM q",
    "SELECT * FROM northerners WHERE region = 'north'",
    "SELECT EXISTS (SELECT * FROM customers)",
    "SELECT array_agg(name) FROM customers",
    "SELECT count(*) FROM (SELECT * FROM customers LIMIT 10) q",
    "SELECT customer_id, count(*) FROM orders GROUP BY customer_id",
    "SELECT DISTINCT name, customer_id FROM customers",
    "SELECT DISTINCT ON (region) * FROM customers",
    "SELECT * FROM customers JOIN orders USING (customer_id)",
    "SELECT * FROM orders, products",
    "SELECT *, (SELECT title FROM products LIMIT 1) FROM customers",
    "SELECT * FROM customers ORDER BY (SELECT 1)",
    "SELECT *, row_number() OVER (ORDER BY income) FROM customers",
    "SELECT * FROM customers UNION ALL SELECT * FROM customers",
    "SELECT * FROM customers TABLESAMPLE SYSTEM (10)",
    "SELECT * FROM customers FOR UPDATE",
    "SELECT c FROM customers c",
    "SELECT row_to_json(c) FROM customers c",
    "SELECT row_to_json(n) FROM northerners n",
    "SELECT ctid, region FROM customers",
    "SELECT a FROM customers AS c (a)",
    "SELECT l.x FROM customers c, LATERAL (SELECT c.region AS x) l",
    "WITH RECURSIVE q AS (SELECT * FROM customers) SELECT * FROM q",
    "CREATE TEMP TABLE t AS SELECT * FROM customers",
    "SELECT * INTO TEMP t FROM customers",
]


@pytest.mark.parametrize("previews", ["empty", "synthetic"])
@pytest.mark.parametrize("sql", SHOWN)
def test_previews_measure_nothing(sql: str, previews: Previews, shop_catalog: Catalog) -> None:
    made = planned(sql, shop_catalog, previews)
    assert (made.measurements, made.inputs, made.loss) == ((), (), ZERO)
    assert made.preview.startswith("preview: ")
    assert bool(made.arrays) == (previews == "synthetic")
    assert all(array.measurement is None and array.invented is not None for array in made.arrays)
    with pytest.raises(Refusal):
        planned(sql, shop_catalog, "refuse")


@pytest.mark.parametrize("previews", ["empty", "synthetic"])
@pytest.mark.parametrize("sql", NOT_SHOWN)
def test_whatever_makes_an_answer_out_of_rows_is_none(sql: str, previews: Previews, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal) as usual:
        planned(sql, shop_catalog, "refuse")
    with pytest.raises(Refusal) as still:
        planned(sql, shop_catalog, previews)
    assert (still.value.sqlstate, still.value.message) == (usual.value.sqlstate, usual.value.message)


def test_what_is_answered_is_answered_as_ever(shop_catalog: Catalog) -> None:
    for sql in ("SELECT DISTINCT region FROM customers", "SELECT count(*) FROM customers", "SELECT * FROM customers LIMIT 0"):
        usual, now = (planned(sql, shop_catalog, previews) for previews in ("refuse", "synthetic"))
        assert (now.outer, now.preview, len(now.measurements)) == (usual.outer, "", len(usual.measurements))


def test_invented_rows_take_the_place_of_every_private_table(shop_catalog: Catalog) -> None:
    made = planned("SELECT * FROM busy LIMIT $1", shop_catalog, "synthetic", ("int8",))
    assert {array.invented[0].name for array in made.arrays if array.invented} == {"customers", "orders"}
    assert "FROM customers" not in made.outer
    assert made.outer.count("UNNEST(CAST($2 AS") == 1, "behind the client's own parameter"
    assert "email" not in made.outer, "hidden columns are not even invented"
    own = planned("WITH customers AS (SELECT region FROM customers) SELECT * FROM customers", shop_catalog, "synthetic")
    assert own.outer.endswith("SELECT * FROM customers"), "the query of that name"
    assert own.outer.count("UNNEST") == 1


def test_explain_says_what_it_is(shop_catalog: Catalog) -> None:
    lines = planned("EXPLAIN SELECT * FROM customers", shop_catalog, "synthetic").explain
    assert any("invented" in line for line in lines)
    (text,) = planned("EXPLAIN (FORMAT JSON) SELECT * FROM customers", shop_catalog, "empty").explain
    told = json.loads(text)[0]["Privacy Plan"]
    assert "not shown" in told["Preview"]
    assert (told["Measurements"], told["Charge"]["Epsilon"]) == ([], 0)
