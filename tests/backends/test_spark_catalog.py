"""Spark's types as PostgreSQL's, and the queries that read public tables. `test_spark` reads a real catalog."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dpproxy.backends import spark_catalog
from dpproxy.backends.base import BackendError
from dpproxy.policy.catalog import SPELLINGS, CatalogTable
from dpproxy.table_terms import TableName

TYPES = {
    "boolean": ("bool", True), "smallint": ("int2", True), "bigint": ("int8", True), "decimal(38,0)": ("numeric", True),
    "varchar(9)": ("text", True), "char(3)": ("text", False), "timestamp": ("timestamptz", True), "binary": ("text", False),
    "array<int>": ("text", False), "string collate utf8_binary": ("text", True), "string collate UTF8_LCASE": ("text", False),
}  # fmt: skip


@pytest.mark.parametrize("native", TYPES)
def test_types(native: str) -> None:
    column = spark_catalog._column("A", native)
    assert (column.name, column.source) == ("a", "A")
    assert (column.type, column.bounded) == TYPES[native]


def test_a_collation_of_several_spellings_is_no_key() -> None:
    assert spark_catalog._column("a", "string collate unicode_ci").reason == SPELLINGS


def test_names_are_quoted() -> None:
    columns = tuple(spark_catalog._column(name, "int") for name in ("a`b", "c"))
    table = CatalogTable(TableName("public", "t"), ("default", "t"), columns)
    assert spark_catalog.public_rows(table, ["a`b"], 5) == "SELECT `a``b` AS `a``b` FROM `default`.`t` LIMIT 6"
    with pytest.raises(BackendError, match="no such column"):
        spark_catalog.public_rows(table, ["x"], 5)


class Listed:
    """A session that lists two tables and can describe one."""

    def sql(self, text: str) -> Any:
        if text == "SELECT * FROM `default`.`gone`":
            raise LookupError(text)
        field = SimpleNamespace(name="ID", dataType=SimpleNamespace(simpleString=lambda: "int"), nullable=False)
        found = {"SHOW DATABASES": {"namespace": ["default"]}}.get(
            text, {"namespace": ["default"] * 3, "name": ["t", "gone", "v"], "temporary": [False, False, True]}
        )
        return SimpleNamespace(toArrow=lambda: pa.table(found), schema=SimpleNamespace(fields=[field]))


def test_tables_that_cannot_be_described_are_not_there() -> None:
    (table,) = spark_catalog.introspected(Listed(), LookupError).tables.values()
    assert table.name == TableName("public", "t")
    assert [c.nullable for c in table.columns] == [True], "Spark says that it is not, and keeps no NULL out of files"
    with pytest.raises(LookupError):
        spark_catalog.introspected(Listed(), KeyError)
