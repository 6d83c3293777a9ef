"""What the reading role is granted: run in PostgreSQL, it can read what the policy uses and nothing else."""

from __future__ import annotations

from dataclasses import replace

from dpproxy.policy.grants import grants, used_columns
from dpproxy.policy.model import PostgresBackend

from .good import GOOD, loaded, table

BACKEND = PostgresBackend("postgresql://us%65r@host/shop%20db")


def test_the_columns_that_are_used() -> None:
    used = used_columns(loaded().policy)
    assert used[table("customers")] == {"customer_id", "region", "sex", "birth_year", "signup"}  # email is hidden
    assert used[table("orders")] == {"order_id", "customer_id", "ts", "amount", "category"}  # the unit's id is not listed
    assert used[table("order_items")] == {"order_id", "product_id", "quantity"}


def test_what_a_path_goes_over_is_used_though_hidden() -> None:
    policy = loaded(
        GOOD.replace("order_id: key\n", "order_id: hidden\n").replace("customer_id: unit", "customer_id: hidden")
    ).policy
    assert {"order_id", "customer_id"} <= used_columns(policy)[table("orders")]
    assert "customer_id" in used_columns(policy)[table("customers")]


def test_what_a_key_refers_to_is_used() -> None:
    text = GOOD.replace("product_id: key", "product_id: { references: orders.order_id }")
    policy = loaded(text.replace("via: orders.order_id", "via: orders.customer_id")).policy
    orders = policy.tables[table("orders")]
    bare = replace(orders, columns={name: c for name, c in orders.columns.items() if name != "order_id"})
    assert "order_id" in used_columns(replace(policy, tables={**policy.tables, orders.name: bare}))[orders.name]


def test_the_script() -> None:
    lines = grants(loaded().policy, BACKEND).splitlines()
    assert 'GRANT CONNECT ON DATABASE "shop db" TO "user";' in lines
    assert 'GRANT USAGE ON SCHEMA "public" TO "user";' in lines
    assert 'GRANT SELECT ("birth_year", "customer_id", "region", "sex", "signup") ON "public"."customers" TO "user";' in lines
    assert 'GRANT SELECT ON "public"."products" TO "user";' in lines
    assert not any("email" in line for line in lines)


def test_a_public_table_that_hides_columns_says_so() -> None:
    text = GOOD.replace("    public: true\n", "    public: true\n    columns: { cost: hidden }\n")
    lines = grants(loaded(text).policy, BACKEND).splitlines()
    assert any(line.startswith('-- to withhold "cost"') for line in lines)


def test_names_are_quoted_and_addresses_read() -> None:
    for dsn, role, database in (
        ("postgresql://host/db?user=re%22ader", '"re""ader"', '"db"'),
        ("postgresql://ada:secret@host", '"ada"', '"ada"'),
        ("postgresql:///?dbname=x", '"reader"', '"x"'),
    ):
        script = grants(loaded().policy, PostgresBackend(dsn))
        assert f"GRANT CONNECT ON DATABASE {database} TO {role};" in script
        assert "secret" not in script
