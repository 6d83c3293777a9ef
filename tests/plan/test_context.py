"""What a plan is made under: tables by the session's path and the role's rights, and numbers that do not run out unnoticed."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.context import MAX_SCANS, Context, Counter, Settings
from dpproxy.policy.catalog import Catalog
from dpproxy.table_terms import TableName

ORDERS, OTHER = TableName("public", "orders"), TableName("elsewhere", "orders")


def context(catalog: Catalog, *path: str, tables: frozenset[TableName] | None = None) -> Context:
    policy = plan_harness.policy()
    orders = policy.tables[ORDERS]
    both = {**policy.tables, OTHER: replace(orders, name=OTHER)}
    policy = replace(
        policy, tables=both, views={TableName("public", "recent"): "SELECT 1", TableName("elsewhere", "recent"): "SELECT 2"}
    )
    role = replace(policy.roles["analyst"], tables=tables)
    return Context(policy, catalog, role, "duckdb", Settings(search_path=path or ("public",)))


@pytest.mark.parametrize(
    ("path", "schema", "found"),
    [
        (("public",), "", ORDERS),
        (("elsewhere",), "", OTHER),
        (("elsewhere", "public"), "", OTHER),
        (("nowhere", "public", "elsewhere"), "", ORDERS),
        (("public",), "elsewhere", OTHER),
        (("nowhere",), "", None),
        (("public",), "nowhere", None),
        ((), "", ORDERS),
    ],
)
def test_tables_are_found_along_the_path(
    path: tuple[str, ...], schema: str, found: TableName | None, shop_catalog: Catalog
) -> None:
    table = context(shop_catalog, *path).find(schema, "orders")
    assert (table.name if table is not None else None) == found


def test_views_are_too_and_are_a_roles_right(shop_catalog: Catalog) -> None:
    assert context(shop_catalog).view("", "recent") == "SELECT 1"
    assert context(shop_catalog, "elsewhere", "public").view("", "recent") == "SELECT 2"
    assert context(shop_catalog).view("", "orders") is None
    with pytest.raises(Refusal) as caught:
        context(shop_catalog, tables=frozenset({ORDERS})).view("", "recent")
    assert caught.value.sqlstate == "42501"


def test_a_role_may_see_some_tables(shop_catalog: Catalog) -> None:
    customers = TableName("public", "customers")
    assert context(shop_catalog).allowed(customers)
    some = context(shop_catalog, tables=frozenset({ORDERS}))
    assert [some.allowed(name) for name in (ORDERS, customers, TableName("public", "nothing"))] == [True, False, False]


def test_numbers_are_unique_and_scans_are_bounded() -> None:
    counter = Counter()
    assert len({counter.column() for _ in range(2000)}) == 2000
    assert len({counter.scan() for _ in range(MAX_SCANS)}) == MAX_SCANS
    with pytest.raises(Refusal) as caught:
        counter.scan()
    assert caught.value.sqlstate == "54001"


def test_remembered_columns_make_no_other_context(shop_catalog: Catalog) -> None:
    """Plans are kept by their context."""
    one, other = context(shop_catalog), context(shop_catalog)
    one.table_columns[ORDERS] = None  # type: ignore[assignment]
    assert one == other
    assert one != replace(other, pick_key=1)
