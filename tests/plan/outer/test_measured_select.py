"""A measured SELECT over what is released without noise is what PostgreSQL makes of the statement itself on the same rows."""

from __future__ import annotations

import plan_harness
import pytest
from noiseless_orders import NoiselessOrders

from dpproxy.errors import GROUPING_ERROR, Refusal
from dpproxy.policy.catalog import Catalog

STATEMENTS = (
    "SELECT count(*) FROM orders",
    "SELECT 2 * count(*) + 1 AS n, 'x' AS w, count(*) FILTER (WHERE qty > 2) FROM orders WHERE status <> 'void'",
    "SELECT status, count(*) * 2 AS d FROM orders GROUP BY 1 HAVING count(*) > 1 ORDER BY count(*) DESC, 1 LIMIT 1",
    "SELECT upper(status) || '!' AS s, count(*) FROM orders GROUP BY status ORDER BY 2 DESC",
    "SELECT DISTINCT status FROM orders ORDER BY status DESC",
    "SELECT status AS s, CASE WHEN count(*) > 2 THEN 'many' WHEN qty = 1 THEN 'one' ELSE status END FROM orders GROUP BY s, qty ORDER BY 1, 2",
    "SELECT status, rank() OVER (ORDER BY count(*) DESC), sum(count(*)) OVER (), lag(status) OVER w FROM orders GROUP BY status "
    "WINDOW w AS (ORDER BY status) ORDER BY 1",
    "SELECT t.status, n FROM (SELECT status, count(*) AS n FROM orders GROUP BY status) t WHERE n > 2 ORDER BY 1",
    "SELECT status, (SELECT max(x) FROM generate_series(1, 9) AS g(x) WHERE x < length(o.status)) FROM orders o GROUP BY status ORDER BY 1",
    "SELECT status, count(*), (SELECT count(*) FROM orders) AS total FROM orders GROUP BY status ORDER BY 1",
    "SELECT status, qty, count(*) FROM orders GROUP BY 1, 2 ORDER BY count(*) DESC, qty, status",
    "SELECT count(*) AS status FROM orders GROUP BY orders.status ORDER BY status",
)  # fmt: skip


@pytest.mark.parametrize("sql", STATEMENTS)
def test_it_is_the_statement_itself(orders: NoiselessOrders, sql: str) -> None:
    assert orders.released(sql) == orders.itself(sql)


@pytest.mark.parametrize(
    ("sql", "state", "says"),
    [
        ("SELECT status, count(*) FROM orders", GROUPING_ERROR, '"status" must appear in the GROUP BY clause'),
        ("SELECT orders.*, count(*) FROM orders GROUP BY status", GROUPING_ERROR, "a whole row"),
        ("SELECT sum(row_number() OVER ()) FROM orders", "42803", "window"),
    ],
)
def test_what_is_neither_key_nor_aggregate_is_refused(shop_catalog: Catalog, sql: str, state: str, says: str) -> None:
    with pytest.raises(Refusal) as refused:
        plan_harness.plan(sql, shop_catalog)
    assert (refused.value.sqlstate, says in refused.value.message) == (state, True), refused.value
