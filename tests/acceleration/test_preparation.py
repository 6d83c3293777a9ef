"""Which tables a policy's dashboards are worth."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import plan_harness
import pytest

from dpproxy.acceleration import preparation
from dpproxy.acceleration.preparation import MOST_GROUPS, stored_tables, unplanned
from dpproxy.engines.stored_stages import columns
from dpproxy.kernel.leaves import Unproven
from dpproxy.plan.context import StoredTable
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.table_terms import TableName
from dpproxy.tree.measured import Picked, StoredGroups, Sums, UnitGroups, Written

VISITS = TableName("public", "visits")


def only_visits(name: str = "shop") -> Policy:
    """Each set of keys is planned once for each aggregate: other tables would only take their time."""
    given = plan_harness.policy(name)
    return replace(given, tables=MappingProxyType({VISITS: given.tables[VISITS]}))


@pytest.fixture(scope="module")
def tables(shop_catalog: Catalog) -> tuple[StoredTable, ...]:
    return stored_tables(only_visits(), shop_catalog, "duckdb")


def test_each_set_of_keys_has_its_groups_and_what_they_add(tables: tuple[StoredTable, ...]) -> None:
    keys = ["month of day", "page", "month of day, page", "unit"]
    assert [table.label for table in tables] == [f"visits by {key}" for key in keys for _ in range(2)]
    assert [type(table.written.child) for table in tables] == [UnitGroups, Sums] * 4


def is_picked(table: StoredTable) -> bool:
    return isinstance(table.written.child, Sums) and isinstance(table.written.child.child, Picked)


def test_names_follow_from_what_tables_hold(tables: tuple[StoredTable, ...], shop_catalog: Catalog) -> None:
    again = stored_tables(only_visits(), shop_catalog, "duckdb")
    assert [(t.name, t.label, t.sql) for t in again] == [(t.name, t.label, t.sql) for t in tables]
    assert len({table.name for table in tables}) == len(tables)
    bounds = stored_tables(only_visits("whole"), shop_catalog, "duckdb")
    same = {table.name for table in tables} & {table.name for table in bounds}
    assert same == set(), "averages under `rows: n` are of other sums, which groups of units hold"
    other = stored_tables(only_visits(), shop_catalog, "duckdb", pick_key=7)
    assert {table.name for table in tables if not is_picked(table)} == {t.name for t in other} & {t.name for t in tables}


def test_tables_are_made_of_others_where_there_are_some(tables: tuple[StoredTable, ...]) -> None:
    """Only groups by keys that no other has are made of rows."""
    assert ['"visits"' in table.sql for table in tables] == [True, False] * 3 + [False, False]
    assert all(table.name not in other.sql for i, table in enumerate(tables) for other in tables[:i])


def test_a_table_made_otherwise_than_defined_is_none(shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups by more keys that nobody adds up: a unit would be in a group twice, and bounded twice."""
    made = preparation.from_groups

    def unsummed(*given: Any) -> tuple[StoredTable, Written]:
        table, tree = made(*given)
        child = tree.child
        return table, replace(tree, child=replace(child, summed=False)) if isinstance(child, StoredGroups) else tree

    monkeypatch.setattr(preparation, "from_groups", unsummed)
    with pytest.raises(Unproven, match="stored groups of one unit are taken for different ones"):
        stored_tables(only_visits(), shop_catalog, "duckdb")

    def of_others(*given: Any) -> tuple[StoredTable, Written]:
        table, tree = made(*given)
        sums = tree.child
        if isinstance(sums, Sums) and isinstance(sums.child, Picked):
            return table, replace(tree, child=replace(sums, child=replace(sums.child, most=2)))
        return table, tree

    monkeypatch.setattr(preparation, "from_groups", of_others)
    with pytest.raises(Unproven, match="made otherwise than it is defined"):
        stored_tables(only_visits(), shop_catalog, "duckdb")


def test_aggregates_share_columns(tables: tuple[StoredTable, ...]) -> None:
    """Rows, and of the one column its number, its sum with and without a centre, and squares: once, whatever is made of them."""
    groups, sums = tables[-2:]
    assert sorted(columns(groups.written)) == ["n0", "n2", "t3", "t4", "t5"]
    assert len(columns(sums.written)) == 7


def test_statements_of_the_operator(shop_catalog: Catalog) -> None:
    asked = [
        "SELECT page, sum(secs * secs) FROM visits WHERE page <> 'help' GROUP BY 1",
        "SELECT nonsense",
        "SELECT $1 FROM visits",
    ]
    more = stored_tables(only_visits(), shop_catalog, "duckdb", asked=asked)
    assert [table.label for table in more[8:]] == ["query 1 of the policy"] * 2
    assert dict(unplanned(only_visits(), shop_catalog, "duckdb", asked)) == {
        2: "it measures nothing of a private table",
        3: "answers are aggregates over many customers; this query returns rows of single customers",
    }


def test_tables_of_many_groups_are_not_made(shop_catalog: Catalog) -> None:
    given = only_visits()
    page = replace(given.tables[VISITS].columns["page"], values=tuple(map(str, range(MOST_GROUPS + 1))))
    visits = replace(given.tables[VISITS], columns=MappingProxyType({**given.tables[VISITS].columns, "page": page}))
    wide = stored_tables(replace(given, tables=MappingProxyType({VISITS: visits})), shop_catalog, "duckdb")
    assert {table.label for table in wide} == {"visits by unit", "visits by month of day"}
