"""The same data have one name, whoever reads them; others have another."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.answers.data_identity import data_of, file_of
from dpproxy.ledger.ledger import LedgerError
from dpproxy.policy.model import DuckDBBackend, Policy, PostgresBackend
from dpproxy.records.sqlite import SqliteLedger
from tests.worlds.scripted import policy


def over(dsn: str) -> Policy:
    return replace(policy(), backend=PostgresBackend(dsn))


SAME = [
    "postgresql://reader@db/shop",
    "postgres://other:secret@db:5432/shop",
    "postgresql://reader@DB/shop?sslmode=require",
    "postgresql:///shop?host=db&user=x",
]
OTHERS = ["postgresql://reader@db/clinic", "postgresql://reader@db:5433/shop", "postgresql://reader@elsewhere/shop"]


@pytest.mark.parametrize("dsn", SAME)
def test_who_connects_does_not_matter(dsn: str) -> None:
    assert data_of(over(dsn)) == data_of(over(SAME[0]))


@pytest.mark.parametrize("dsn", OTHERS)
def test_other_databases_are_others(dsn: str) -> None:
    assert data_of(over(dsn)) != data_of(over(SAME[0]))


def test_a_file_by_any_path(tmp_path: Path) -> None:
    os.symlink(tmp_path / "shop.duckdb", tmp_path / "link.duckdb")
    one, link, other = (
        replace(policy(), backend=DuckDBBackend(str(tmp_path / f"{n}.duckdb"))) for n in ("shop", "link", "other")
    )
    assert data_of(one) == data_of(replace(link, dataset="renamed")) != data_of(other)
    assert data_of(replace(one, unit_column="household")) != data_of(one)


def test_a_file_by_any_name(tmp_path: Path) -> None:
    """Its links and where it is moved to are the same file; a copy, and what takes its place, are others."""
    (tmp_path / "shop.duckdb").write_bytes(b"rows")
    os.link(tmp_path / "shop.duckdb", tmp_path / "hard.duckdb")
    os.symlink(tmp_path / "shop.duckdb", tmp_path / "soft.duckdb")
    shutil.copy(tmp_path / "shop.duckdb", tmp_path / "copy.duckdb")

    def file(name: str) -> str:
        return file_of(replace(policy(), backend=DuckDBBackend(str(tmp_path / f"{name}.duckdb"))))

    known = file("shop")
    assert known == file("hard") == file("soft") != file("copy")
    os.rename(tmp_path / "shop.duckdb", tmp_path / "moved.duckdb")
    assert file("moved") == known
    (tmp_path / "moved.duckdb").write_bytes(b"other rows")
    assert file("moved") == file("hard") != known
    assert file("gone") == file_of(over(SAME[0])) == ""


def test_a_hard_link_under_a_new_name_begins_no_new_budget(tmp_path: Path) -> None:
    (tmp_path / "shop.duckdb").write_bytes(b"rows")
    os.link(tmp_path / "shop.duckdb", tmp_path / "store.duckdb")
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def named(dataset: str) -> str:
        rules = replace(policy(), dataset=dataset, backend=DuckDBBackend(str(tmp_path / f"{dataset}.duckdb")))
        return ledger.name(dataset, data_of(rules), at, file_of(rules))

    assert named("shop") == "shop"
    with pytest.raises(LedgerError, match="the data of dataset `store` were charged as `shop`"):
        named("store")
    ledger.close()
