"""The SQL of the start-up check: what it counts in data, whose names it quotes, what it refuses to be made for."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, TableName
from dpproxy.policy.uniqueness import doubtful_steps, repetition_checks, unique_tables, uniqueness_checks

from .good import GOOD, catalog, loaded

WEIRD = GOOD.replace("    bounds: { rows_per_group: 20, groups: all }\n", "    unique: true\n")


def test_uniqueness_counts_the_units_with_two_rows() -> None:
    file = loaded(WEIRD)
    assert [str(t) for t in unique_tables(file.policy)] == ["customers", "order_items"]
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE customers AS SELECT * FROM (VALUES (1), (2), (2), (3), (3), (3), (NULL), (NULL)) t(CUSTOMER_ID)"
    )
    connection.execute(
        "CREATE TABLE orders AS SELECT * FROM (VALUES (10, 1), (11, 1), (12, 2), (13, NULL)) t(ORDER_ID, CUSTOMER_ID)"
    )
    connection.execute("CREATE TABLE order_items AS SELECT * FROM (VALUES (10), (11), (12), (13), (13)) t(ORDER_ID)")
    checks = uniqueness_checks(file.policy, catalog(), "duckdb")
    assert [connection.execute(q).fetchone() for q in checks] == [(2,), (1,)]


def test_uniqueness_quotes_names() -> None:
    data = catalog()
    name = TableName("public", "customers")
    odd = CatalogTable(name, ('my "schema"', "Customers; DROP"), (CatalogColumn("customer_id", 'Cust "id"', "int8"),))
    sql = uniqueness_checks(loaded().policy, Catalog({**data.tables, name: odd}), "postgres")[0]
    assert 'FROM "my ""schema"""."Customers; DROP" AS t0' in sql
    assert 't0."Cust ""id"""' in sql
    assert "`main`.`customers`" in uniqueness_checks(loaded().policy, data, "spark")[0]


def test_uniqueness_needs_a_policy_that_fits() -> None:
    with pytest.raises(ValueError, match="no table customers"):
        uniqueness_checks(loaded().policy, Catalog({}), "duckdb")
    with pytest.raises(ValueError, match="dialect"):
        uniqueness_checks(loaded().policy, catalog(), "oracle")


def test_a_path_over_a_key_that_repeats_is_doubtful() -> None:
    file, data, orders = loaded(), catalog(), TableName("public", "orders")
    found = [(str(table), str(step.target), step.target_column) for table, step in doubtful_steps(file.policy, data)]
    assert found == [("order_items", "orders", "order_id")]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE orders AS SELECT * FROM (VALUES (1), (1), (1), (2), (2), (3), (NULL), (NULL)) t(ORDER_ID)")
    (check_,) = repetition_checks(file.policy, data, "duckdb")
    assert connection.execute(check_).fetchone() == (2,)
    for keys in ({"primary_key": ("order_id",)}, {"unique": (("order_id",),)}):
        keyed = Catalog({**data.tables, orders: replace(data.tables[orders], **keys)})
        assert doubtful_steps(file.policy, keyed) == ()
        assert repetition_checks(file.policy, keyed, "duckdb") == ()
    composite = Catalog({**data.tables, orders: replace(data.tables[orders], primary_key=("order_id", "customer_id"))})
    assert doubtful_steps(file.policy, composite)
