"""Shapes of tables: their columns by name, tables in order."""

from __future__ import annotations

from dpproxy.policy.catalog import CatalogColumn, CatalogTable
from dpproxy.table_terms import TableName


def column(type_: str, exact: str = "") -> CatalogColumn:
    return CatalogColumn("x", "X", type_, exact=exact)


def test_tables_and_their_columns() -> None:
    name = TableName("public", "t")
    table = CatalogTable(name, ("main", "t"), (column("int4"),))
    assert table.column("x") == column("int4")
    assert table.column("X") is None
    assert sorted([TableName("b", "a"), TableName("a", "z"), TableName("a", "b")])[0] == TableName("a", "b")
