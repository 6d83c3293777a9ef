"""The same data have one name, whoever reads them; others have another."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.answers.data_identity import data_of
from dpproxy.policy.model import DuckDBBackend, Policy, PostgresBackend
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
