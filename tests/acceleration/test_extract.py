"""An extract as the engine: public rows in PostgreSQL's own spelling, types as they are in the database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpproxy.acceleration.extract_tables import Extract
from dpproxy.backends.base import BackendError
from dpproxy.facade.database import copy_chunks
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.table_terms import TableName

SHOPS = TableName("public", "shops")
COLUMNS = {
    "id": ("int4", "INTEGER", "7"),
    "a": ("numeric", "DECIMAL(38,9)", "10.500000000"),
    "b": ("numeric", "DECIMAL(38,9)", "100.000000000"),
    "c": ("numeric", "DECIMAL(10,2)", "1.50"),
    "d": ("date", "DATE", "0044-03-15 (BC)"),
    "e": ("timestamp", "TIMESTAMP", "0044-03-15 (BC) 01:02:03"),
    "f": ("timestamptz", "TIMESTAMPTZ", "infinity"),
    "g": ("text[]", "VARCHAR", "{a,b}"),
    "h": ("float8", "DOUBLE", "1.5"),
    "i": ("interval", "INTERVAL", "1 month -1 days"),
    "j": ("bool", "BOOLEAN", "true"),
    "k": ("numeric", "DECIMAL(38,0)", "100"),
}
TOLD = ["7", "10.5", "100", "1.50", "0044-03-15 BC", "0044-03-15 01:02:03 BC", "infinity", "{a,b}", "1.5", "1 month -1 day"]


@pytest.fixture
def table(tmp_path: Path) -> CatalogTable:
    items = ", ".join(f"CAST('{text}' AS {type_}) AS {name}" for name, (_, type_, text) in COLUMNS.items())
    with duckdb.connect(str(tmp_path / "x-1.duckdb")) as connection:
        connection.execute(f"CREATE TABLE shops AS SELECT {items}")
    columns = [
        CatalogColumn(name, name, type_, exact=held if type_ == "numeric" else "") for name, (type_, held, _) in COLUMNS.items()
    ]
    return CatalogTable(SHOPS, ("main", "shops"), tuple(columns))


async def test_it_is_as_in_the_database(tmp_path: Path, table: CatalogTable) -> None:
    backend = Extract(tmp_path / "x-1.duckdb", Catalog({SHOPS: table}), 4)
    assert backend.dialect == "duckdb"
    assert await backend.introspect() == Catalog({SHOPS: table})
    (row,) = list(copy_chunks(await backend.public_rows(table, list(COLUMNS), 10)))
    assert row.decode().rstrip("\n").split("\t") == [*TOLD, "true", "100"]
    known = await backend.with_public_ranges(Catalog({SHOPS: table}), frozenset({SHOPS}))
    assert known.tables[SHOPS].rows == 1
    assert known.tables[SHOPS].column("a") == replace(table.columns[1], public_range=("10.500000000", "10.500000000"), most=1)
    with pytest.raises(BackendError, match="no such column"):
        await backend.public_rows(table, ["nosuch"], 10)
    await backend.close()
