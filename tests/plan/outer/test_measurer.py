"""Each SELECT of private rows is measured where it stands, and nothing is measured twice."""

from __future__ import annotations

import plan_harness
import pytest
from noiseless_orders import NoiselessOrders

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog


@pytest.mark.parametrize(
    ("sql", "measurements"),
    [
        ("SELECT count(*) FROM orders UNION ALL SELECT count(*) + 1 FROM orders", 1),
        ("SELECT (SELECT count(*) FROM orders), count(*) FROM orders", 1),
        ("SELECT (SELECT count(*) FROM orders), status, count(*) FROM orders GROUP BY status ORDER BY 2", 2),
        ("WITH m AS (SELECT count(*) AS n FROM orders) SELECT a.n, b.n FROM m AS a, m AS b", 1),
        ("SELECT a.n, b.status FROM (SELECT count(*) AS n FROM orders) a, (SELECT DISTINCT status FROM orders) b ORDER BY 2", 2),
    ],
)
def test_what_is_measured_is_put_together(orders: NoiselessOrders, sql: str, measurements: int) -> None:
    assert len(orders.plan(sql).measurements) == measurements
    assert orders.released(sql) == orders.itself(sql)


@pytest.mark.parametrize("sql", ["SELECT 'x' FROM orders GROUP BY 'x'"])
def test_a_query_of_nothing_is_refused(shop_catalog: Catalog, sql: str) -> None:
    with pytest.raises(Refusal, match="neither keys nor aggregates"):
        plan_harness.plan(sql, shop_catalog)


def test_constants_and_own_tables_are_the_facades(shop_catalog: Catalog) -> None:
    """What is asked of the facade first is `now()`; a table of `dpproxy` is arrays beside those that are released."""
    made = plan_harness.plan("SELECT count(*), (SELECT count(*) FROM dpproxy.policy) FROM orders WHERE ts < now()", shop_catalog)
    assert len(made.measurements) == len(made.inputs) == 1
    assert {(a.virtual, a.measurement) for a in made.arrays} == {(None, 0), ("policy", None)}
