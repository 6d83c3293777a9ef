"""Keys are found again by what they are, not by how they are written; what names people is none, and there are not too many."""

from __future__ import annotations

import plan_harness
import pytest
from noiseless_orders import NoiselessOrders

from dpproxy.errors import INSUFFICIENT_PRIVILEGE, PROGRAM_LIMIT_EXCEEDED, Refusal
from dpproxy.plan.outer.select_keys import MAX_KEYS
from dpproxy.policy.catalog import Catalog

STATEMENTS = (
    "SELECT upper(status) AS s, count(*) FROM orders GROUP BY upper(status) HAVING upper(status) <> 'VOID' ORDER BY s",
    "SELECT qty % 2 AS odd, count(*) FROM orders GROUP BY qty % 2 ORDER BY qty % 2 DESC",
    "SELECT o.status, o.qty FROM orders o GROUP BY status, o.qty ORDER BY 2 DESC, 1 OFFSET 1",
    "SELECT ( qty+1 ) * 2 AS twice, count(*) FROM orders o GROUP BY o.qty + 1 ORDER BY 1",
    "SELECT status, 'all', count(*) FROM orders GROUP BY status, 2 ORDER BY 1",
)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_it_is_the_statement_itself(orders: NoiselessOrders, sql: str) -> None:
    assert orders.released(sql) == orders.itself(sql)


def test_a_key_is_measured_once(shop_catalog: Catalog) -> None:
    made = plan_harness.plan(
        "SELECT o.status, count(*) FROM orders o GROUP BY status, o.status HAVING status > 'a'", shop_catalog
    )
    assert len(made.measurements[0].keys) == 1


@pytest.mark.parametrize(("sql", "state", "says"), [
    ("SELECT customer_id % 1000, count(*) FROM orders GROUP BY 1", INSUFFICIENT_PRIVILEGE,
     "`customer_id` identifies a single customer"),
    (f"SELECT count(*) FROM orders GROUP BY {', '.join(f'qty + {i}' for i in range(MAX_KEYS + 1))}", PROGRAM_LIMIT_EXCEEDED,
     f"more than {MAX_KEYS} keys"),
])  # fmt: skip
def test_what_is_no_key_is_refused(shop_catalog: Catalog, sql: str, state: str, says: str) -> None:
    with pytest.raises(Refusal) as refused:
        plan_harness.plan(sql, shop_catalog)
    assert (refused.value.sqlstate, says in refused.value.message) == (state, True), refused.value
