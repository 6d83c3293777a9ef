"""Windows tell equal rows apart by all their columns: what is made of one unit's rows depends on these rows alone."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog
from dpproxy.table_terms import TableName


def ordered_by(sql: str, catalog: Catalog) -> str:
    made = plan_harness.plan(sql, catalog)
    text = plan_harness.queries(made.measurements[0], plan_harness.values_of(made))[0]
    return text[text.index("PARTITION BY") :].split(")")[0]


@pytest.mark.parametrize("call", ["row_number()", "lag(qty)", "ntile(2)", "first_value(qty)"])
def test_by_place(call: str, shop_catalog: Catalog) -> None:
    sql = f"SELECT count(*) FROM (SELECT {call} OVER (PARTITION BY customer_id ORDER BY ts) AS x FROM orders) t WHERE x > 0"
    assert all(f'"{name}"' in ordered_by(sql, shop_catalog) for name in ("ts", "order_id", "amount", "note"))


def test_by_rank_needs_none(shop_catalog: Catalog) -> None:
    sql = "SELECT count(*) FROM (SELECT rank() OVER (PARTITION BY customer_id ORDER BY ts) AS x FROM orders) t WHERE x > 0"
    assert '"note"' not in ordered_by(sql, shop_catalog)


def test_groups_are_told_apart_by_their_keys(shop_catalog: Catalog) -> None:
    window = "row_number() OVER (PARTITION BY customer_id ORDER BY count(*))"
    sql = f"SELECT count(*) FROM (SELECT customer_id, category, {window} AS x FROM orders GROUP BY 1, 2) t WHERE x = 1"
    made = plan_harness.plan(sql, shop_catalog)
    text = plan_harness.queries(made.measurements[0], plan_harness.values_of(made))[0]
    assert '"note"' not in text


UNUSABLE = (
    "SELECT count(*) FROM (SELECT DISTINCT * FROM orders) t",
    "SELECT count(*) FROM (SELECT * FROM orders UNION ALL SELECT * FROM orders) t",
    "SELECT count(*) FROM (SELECT * FROM orders EXCEPT SELECT * FROM orders) t",
    "SELECT count(DISTINCT note) FROM orders",
    "SELECT count(*) FROM orders a JOIN orders b USING (customer_id, note)",
    "SELECT count(*) FROM orders a NATURAL JOIN orders b",
    "SELECT count(*) FROM (SELECT customer_id, first_value(note) OVER (PARTITION BY customer_id) AS n FROM orders) t",
    "SELECT count(*) FROM customers WHERE region IN (SELECT * FROM (SELECT note FROM orders) t)",
    "SELECT note, count(*) FROM orders GROUP BY ALL",
)


@pytest.mark.parametrize("sql", UNUSABLE)
def test_nothing_reads_what_nothing_can_be_made_of(sql: str, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal, match="note"):
        plan_harness.plan(sql, without_note(shop_catalog))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM (SELECT *, row_number() OVER (PARTITION BY customer_id) AS x FROM orders) t WHERE x = 1",
        "SELECT count(*) FROM (SELECT *, lag(qty) OVER (PARTITION BY customer_id ORDER BY ts) AS x FROM orders JOIN customers "
        "USING (customer_id)) t WHERE x > 0",
        "SELECT count(*) FROM (SELECT DISTINCT ON (customer_id) * FROM orders) t",
    ],
)
def test_an_order_does_without_what_nothing_can_be_made_of(sql: str, shop_catalog: Catalog) -> None:
    assert '"note"' not in ordered_by(sql, without_note(shop_catalog))


def without_note(catalog: Catalog) -> Catalog:
    """Orders have notes of a type of the engine's own."""
    found = next(t for t in catalog.tables.values() if t.source[1] == "orders")
    columns = tuple(replace(c, bounded=False) if c.name == "note" else c for c in found.columns)
    return replace(catalog, tables={**catalog.tables, found.name: replace(found, columns=columns)})


def test_ids_that_are_moments_tell_rows_apart_in_any_zone(shop_catalog: Catalog) -> None:
    orders = TableName("public", "orders")
    found, given = shop_catalog.tables[orders], plan_harness.policy()
    columns = tuple(replace(c, type="timestamptz") if c.name == "order_id" else c for c in found.columns)
    catalog = Catalog({orders: replace(found, columns=columns)})
    sql = "SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY customer_id) AS x, qty FROM orders) t WHERE x = qty"
    alone = replace(given, tables={orders: given.tables[orders]})
    made = plan_harness.plan(sql, catalog, alone, TimeZone="Europe/Paris")
    assert '"order_id"' in plan_harness.queries(made.measurements[0], plan_harness.values_of(made))[0]
