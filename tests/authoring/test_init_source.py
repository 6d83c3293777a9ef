"""Sources: each kind is described; what cannot be read says what to name instead."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from dpproxy.authoring.init_command import SourceError, describe
from dpproxy.authoring.schema_facts import Facts
from dpproxy.table_terms import TableName


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "Shop.duckdb")) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        connection.execute(
            "CREATE TABLE people (id INTEGER, feels mood, paid DECIMAL(8, 2), age INTEGER CHECK (age BETWEEN 0 AND 120))"
        )
        connection.execute(f"COPY (SELECT 1 AS id, 'x' AS region) TO '{tmp_path / 'visits.parquet'}'")
        connection.execute(f"COPY (SELECT 1 AS id, 'x' AS region) TO '{tmp_path / 'stays.csv'}'")
    return tmp_path


def test_a_database(folder: Path) -> None:
    found = describe(str(folder / "Shop.duckdb"), folder, {})
    assert (found.name, found.backend, found.made) == ("shop", "{ duckdb: Shop.duckdb }", None)
    assert found.facts == {
        ("main", "people", "feels"): Facts(("sad", "ok")),
        ("main", "people", "paid"): Facts(resolution=Decimal("0.01"), largest=Decimal("999999.99")),
        ("main", "people", "age"): Facts(low=Decimal(0), high=Decimal(120)),
    }


@pytest.mark.parametrize(("file", "table"), [("visits.parquet", "visits"), ("stays.csv", "stays")])
def test_files_become_databases(folder: Path, file: str, table: str) -> None:
    found = describe(str(folder / file), folder, {})
    assert found.made == folder / f"{table}.duckdb"
    assert [c.name for c in found.catalog.tables[TableName("public", table)].columns] == ["id", "region"]
    with pytest.raises(SourceError, match="which exists; name that instead"):
        describe(str(folder / file), folder, {})


def test_what_is_none(folder: Path) -> None:
    (folder / "bad.csv.duckdb").write_text("no database")
    (folder / "bad.parquet").write_text("no parquet")
    for source, says in (
        ("nowhere.duckdb", "no such file"),
        ("bad.csv.duckdb", "not a valid DuckDB"),
        ("bad.parquet", "cannot read it"),
    ):
        with pytest.raises(SourceError, match=says):
            describe(str(folder / source), folder, {})
    assert not (folder / "bad.duckdb").exists()
