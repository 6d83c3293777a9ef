"""A bench is made of a policy and a shape: nothing of the data is on it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpproxy.audit.bench import audit_bench
from dpproxy.audit.self_test import POLICY, SHAPE
from dpproxy.errors import OperatorError


def test_rows_of_the_data_are_not_taken(tmp_path: Path) -> None:
    (tmp_path / "planted.yaml").write_text(POLICY.read_text())
    with duckdb.connect(str(tmp_path / "other.duckdb")) as connection:
        connection.execute(SHAPE)
        connection.execute("INSERT INTO people VALUES (77777, 'north', 1, 1, 'a real person')")
    with audit_bench(tmp_path / "planted.yaml", tmp_path / "other.duckdb", 1, 1) as bench:
        names = bench.neighbours.run("SELECT name FROM main.people")["name"].to_pylist()
        assert len(names) > 5
        assert "a real person" not in names
        folder = bench.folder
    assert not folder.exists()


def test_without_a_shape_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "planted.yaml").write_text(POLICY.read_text())
    with pytest.raises(OperatorError, match=r"shape\.duckdb"), audit_bench(tmp_path / "planted.yaml", None, 1, 1):
        pass
