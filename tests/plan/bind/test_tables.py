"""Foreign keys of the backend that name somebody else: they fix nobody's rows, and no join along them is answered with nothing."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog, ForeignKey
from dpproxy.table_terms import TableName

CUSTOMERS, ORDERS = TableName("public", "customers"), TableName("public", "orders")


def with_key(found: Catalog, table: TableName, column: str, target: TableName, to: str) -> Catalog:
    changed = replace(found.tables[table], foreign_keys=(ForeignKey((column,), target, (to,)),))
    return replace(found, tables={**found.tables, table: changed})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM orders o JOIN customers c ON c.customer_id = o.qty",
        "SELECT sum(o.amount) FROM orders o WHERE o.qty IN (SELECT customer_id FROM customers WHERE vip)",
        "SELECT avg(n) FROM (SELECT qty, count(*) AS n FROM orders GROUP BY qty) t JOIN customers c ON c.customer_id = t.qty",
    ],
)
def test_a_second_reference_to_persons_is_somebody_else(sql: str, shop_catalog: Catalog) -> None:
    found = with_key(shop_catalog, ORDERS, "qty", CUSTOMERS, "customer_id")
    with pytest.raises(Refusal) as caught:
        plan_harness.plan(sql, found)
    assert caught.value.sqlstate == "0A000"


def test_the_own_reference_to_the_person_is_the_unit(shop_catalog: Catalog) -> None:
    found = with_key(shop_catalog, ORDERS, "customer_id", CUSTOMERS, "customer_id")
    made = plan_harness.plan("SELECT count(*) FROM orders o JOIN customers c ON c.customer_id = o.customer_id", found)
    assert [m.l0 for m in made.measurements] == [1]
