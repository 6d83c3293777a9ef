"""Windows tell equal rows apart by all their columns: what is made of one unit's rows depends on these rows alone."""

from __future__ import annotations

import plan_harness
import pytest

from dpproxy.policy.catalog import Catalog


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
