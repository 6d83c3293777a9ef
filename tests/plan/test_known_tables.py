"""Tables as trees name them: which are private, which columns are keys or never NULL, through WITH and views."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest
from sqlglot import exp

from dpproxy.plan.context import Context
from dpproxy.plan.known_tables import Cte, Env, KnownTables
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.statements import parse
from dpproxy.table_terms import TableName


@pytest.fixture
def known(shop_catalog: Catalog) -> KnownTables:
    policy = replace(plan_harness.policy(), views={TableName("public", "recent"): "SELECT region FROM customers"})
    return KnownTables(Context(policy, shop_catalog, policy.roles["analyst"], "duckdb"))


def table(name: str) -> exp.Table:
    found = parse(f"SELECT 1 FROM {name}").find(exp.Table)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "private"),
    [
        ("customers", True),
        ("public.orders", True),
        ("products", False),
        ("recent", True),
        ("nothing", False),
        ("elsewhere.customers", False),
        ('"Customers"', False),
        ("CUSTOMERS", True),
    ],
)
def test_private_tables(name: str, private: bool, known: KnownTables) -> None:
    assert known.private_table(table(name), {}) == private
    assert known.names_private(parse(f"SELECT 1 FROM products WHERE EXISTS (SELECT 1 FROM {name})"), {}) == private


def test_names_of_with_come_first(known: KnownTables) -> None:
    def env(per_unit: bool) -> Env:
        return {"customers": Cte("customers", parse("SELECT 1 AS a, b FROM t"), (), {}, per_unit)}

    assert not known.private_table(table("customers"), env(False))
    assert known.private_table(table("customers"), env(True))
    assert known.private_table(table("public.customers"), env(False)), "a schema names the table itself"
    assert known.columns_of(table("customers"), env(True)) == {"a", "b"}


@pytest.mark.parametrize(
    ("sql", "private"),
    [
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b", False),
        ("WITH a AS (SELECT * FROM customers), b AS (SELECT * FROM a) SELECT * FROM b", True),
        ("WITH customers AS (SELECT * FROM products) SELECT * FROM customers", False),
        ("WITH RECURSIVE a AS (SELECT 1 UNION SELECT * FROM a) SELECT * FROM a", False),
        (
            "WITH RECURSIVE a AS (SELECT 1 UNION SELECT * FROM b), b AS (SELECT * FROM a JOIN orders ON true) SELECT * FROM a",
            True,
        ),
    ],
)
def test_what_the_queries_of_with_read(sql: str, private: bool, known: KnownTables) -> None:
    tree = parse(sql)
    main = tree.copy()
    main.set("with_", None)
    assert known.of_tree(tree).reads_private(main) == private


def test_keys_of_public_tables(known: KnownTables) -> None:
    assert known.unique(table("regions"), "region") == any(
        c.most == 1
        for t in known.context.catalog.tables.values()
        for c in t.columns
        if (t.name.name, c.name) == ("regions", "region")
    )
    assert not known.unique(table("customers"), "customer_id"), "of private tables nothing is said here"
    assert not known.unique(table("products"), "nothing")
    catalog = known.context.catalog
    name = TableName("public", "products")
    keyed = replace(catalog.tables[name], unique=(("kind",),))
    context = replace(known.context, catalog=Catalog({**catalog.tables, name: keyed}))
    assert KnownTables(context).unique(table("products"), "kind")


def test_columns_that_are_never_null(known: KnownTables) -> None:
    assert known.filled(table("orders"), "customer_id"), "rows of nobody are left out of a scan"
    assert not known.filled(table("orders"), "category")
    assert not known.filled(table("products"), "product_id")
    assert not known.filled(table("nothing"), "x")


def test_columns_by_name(known: KnownTables) -> None:
    regions = known.columns_of(table("regions"))
    assert regions is not None
    assert "region" in regions
    assert known.columns_of(table("nothing")) is None
    star: Env = {"a": Cte("a", parse("SELECT * FROM regions"), (), {}, False)}
    assert known.columns_of(table("a"), star) is None
    renamed: Env = {"a": Cte("a", parse("SELECT 1, 2"), ("x", "y"), {}, False)}
    assert known.columns_of(table("a"), renamed) == {"x", "y"}
