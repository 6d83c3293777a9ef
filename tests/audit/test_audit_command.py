"""The command: exit codes, files, what it is told wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dpproxy.audit.self_test import POLICY, SHAPE
from dpproxy.cli import commands


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "small.yaml").write_text(POLICY.read_text())
    with duckdb.connect(str(tmp_path / "shape.duckdb")) as connection:
        connection.execute(SHAPE)
    return tmp_path / "small.yaml"


def test_statements_of_a_file_into_a_report(policy: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.sql"
    asked.write_text("SELECT count(*) FROM people; SELECT note FROM orders")
    out = tmp_path / "report"
    arguments = ["audit", str(policy), "--statements", str(asked), "--neighbours", "2", "--minutes", "0", "--report", str(out)]
    done = CliRunner().invoke(commands, arguments)
    assert done.exit_code == 0, done.output
    assert "no proof" in done.output
    found = json.loads((out / "audit.json").read_text())
    assert [bool(r["refused"]) for r in found["replay"]] == [False, True]
    assert found["policy"] == "small.yaml"
    assert "no proof" in (out / "audit.txt").read_text()
    assert "<svg" in (out / "audit.html").read_text()


def test_a_policy_or_the_self_test_is_named() -> None:
    assert CliRunner().invoke(commands, ["audit"]).exit_code == 2
