"""A file of invented rows is one that the policy's proxy, checks and tests take for the data; half of one is never seen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dpproxy.authoring.workbench import open_workbench, write_sample
from dpproxy.cli import commands
from dpproxy.errors import OperatorError
from dpproxy.facade.sample import Size
from dpproxy.policy.problems import PolicyError
from dpproxy.review.verdicts import Answered, Bench


def test_the_command(town: Path, tmp_path: Path) -> None:
    out = tmp_path / "sample.duckdb"
    done = CliRunner().invoke(commands, ["policy", "sample", str(town), str(out), "--units", "200", "--rows", "2"])
    assert done.exit_code == 0, done.output
    assert "people: 200 rows" in done.output
    assert "shops: 3 rows" in done.output
    with duckdb.connect(str(out), read_only=True) as database:
        assert database.execute("SELECT count(*), count(DISTINCT id) FROM people").fetchone() == (200, 200)
        keys = "SELECT constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
        assert database.execute(keys).fetchall() == [(["id"],)]
    made = asyncio.run(open_workbench(town, out)).bench
    assert isinstance(made.verdict("analyst", "SELECT region, avg(income) FROM people GROUP BY region"), Answered)
    again = CliRunner().invoke(commands, ["policy", "sample", str(town), str(out)])
    assert isinstance(again.exception, PolicyError)


def test_what_fails_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    def stop(what: str, done: int, of: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_sample(tmp_path / "x.duckdb", bench.policy, bench.catalog, {}, Size(units=10), stop)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be written"):
        write_sample(tmp_path / "nowhere" / "x.duckdb", bench.policy, bench.catalog, {}, Size(units=1))
