"""Bounds that may cut something are named, others are not."""

from __future__ import annotations

import plan_harness
import pytest

from dpproxy.policy.catalog import Catalog

ROWS, IN_GROUP, GROUPS = "`rows_per_group`: 3 rows of a customer", " in a group", "`groups`: 2 groups of a customer"
PER_PERSON, HELD = (
    "SELECT customer_id, count(*) AS n FROM orders GROUP BY 1",
    "`rows_per_group: 3` of orders, which holds {} at {}",
)
HIDDEN = "`rows_per_group: 3` of orders, beyond which noise may hide {}"


@pytest.mark.parametrize(
    ("sql", "cuts"),
    [
        ("SELECT sum(qty) FROM orders", (ROWS, "`range` of qty")),
        ("SELECT status, sum(qty) FROM orders GROUP BY 1", (ROWS + IN_GROUP, GROUPS, "`range` of qty")),
        ("SELECT sum(CASE WHEN qty > 3 THEN 1 ELSE 0 END) FROM orders", (ROWS,)),
        ("SELECT sum((qty > 3)::int) FROM orders", (ROWS,)),
        ("SELECT sum(least(greatest(qty, 0), 5)) FROM orders", (ROWS,)),
        ("SELECT sum(least(qty, 5)) FROM orders", (ROWS, "`range` of qty")),
        ("SELECT sum(qty) FROM orders WHERE qty BETWEEN 1 AND 9", (ROWS,)),
        ("SELECT sum(qty) FROM orders WHERE qty BETWEEN 1 AND 90", (ROWS, "`range` of qty")),
        ("SELECT sum(qty) FROM orders WHERE qty > 1", (ROWS, "`range` of qty")),
        ("SELECT count(*) FROM customers", ()),
        ("SELECT avg(income) FROM customers", ("`range` of income",)),
        ("SELECT max(income) FROM customers WHERE income BETWEEN 0 AND 100", ()),
        ("SELECT count(DISTINCT customer_id) FROM orders", ()),
        ("SELECT status, count(*) FROM (SELECT customer_id, status FROM orders GROUP BY 1, 2) AS t GROUP BY 1", (GROUPS,)),
        ("SELECT n, count(*) FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY 1) AS t GROUP BY 1", ()),
        (f"SELECT avg(n), sum(n) FROM ({PER_PERSON}) t", (HIDDEN.format("n"),)),
        (f"SELECT max(n) FROM ({PER_PERSON}) t", (HELD.format("n", "6144"),)),
        (f"SELECT avg(least(n, 40)), sum(n) FILTER (WHERE n < 9) FROM ({PER_PERSON}) t WHERE n < 90", ()),
        (f"SELECT sum(n + 1) FROM ({PER_PERSON} HAVING count(*) > 20) t", (HIDDEN.format("n"),)),
        (
            "SELECT avg((SELECT count(*) FROM orders o WHERE o.customer_id = c.customer_id)) FROM customers c",
            (HIDDEN.format("count"),),
        ),
        ("SELECT avg(n) FROM (SELECT customer_id, count(*) AS n FROM customers GROUP BY 1) t", ()),
    ],
)
def test_what_may_be_cut(sql: str, cuts: tuple[str, ...], shop_catalog: Catalog) -> None:
    assert plan_harness.plan(sql, shop_catalog).cuts == cuts
