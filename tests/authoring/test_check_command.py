"""`dpproxy policy check`: streams, exit codes, formats, and its time over a large policy."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dpproxy.authoring.checking import Depth, findings
from dpproxy.cli import policy_app

from .worlds import BASE, VERIFIER, make

RUN = CliRunner()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    make(tmp_path)
    path = tmp_path / "good.yaml"
    path.write_text(BASE.replace("VERIFIER", VERIFIER))
    return path


def test_exit_codes_and_streams(good: Path) -> None:
    done = RUN.invoke(policy_app, ["check", str(good)])
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{good}: ok\n", "")
    doubtful = good.with_name("doubtful.yaml")
    doubtful.write_text(
        good.read_text().replace("max_epsilon: 1 ", "max_epsilon: 10 ").replace("born: { range: [1920, 2010] }", "born: {}")
    )
    done = RUN.invoke(policy_app, ["check", str(doubtful)])
    assert (done.exit_code, done.stdout) == (0, f"{doubtful}: ok\n")
    assert done.stderr.startswith(f"{doubtful}:12:7: warning: ")
    assert RUN.invoke(policy_app, ["check", "--strict", str(doubtful)]).exit_code == 1
    assert RUN.invoke(policy_app, ["check", "--no-data", "--strict", str(doubtful)]).exit_code == 0
    wrong = good.with_name("wrong.yaml")
    wrong.write_text(good.read_text().replace("version: 1", "version: 9"))
    done = RUN.invoke(policy_app, ["check", str(wrong), str(good)])
    assert (done.exit_code, done.stdout) == (1, f"{good}: ok\n")
    assert done.stderr.startswith(f"{wrong}:1:10: this release")
    assert RUN.invoke(policy_app, ["check", "--format", "xml", str(good)]).exit_code == 2


def test_formats(good: Path) -> None:
    good.write_text(good.read_text().replace("[1920, 2010]", "[1960, 2010]"))
    done = RUN.invoke(policy_app, ["check", "--data", "--format", "json", str(good)])
    assert [(p["code"], p["exact"]) for p in json.loads(done.stdout)] == [("data-beyond-range", True)]
    done = RUN.invoke(policy_app, ["check", "--data", "--format", "sarif", str(good)])
    assert json.loads(done.stdout)["runs"][0]["results"][0]["ruleId"] == "data-beyond-range"
    done = RUN.invoke(policy_app, ["check", "--data", str(good)])
    assert "for the author alone, not for analysts" in done.stderr


def test_time_grows_as_the_number_of_tables(tmp_path: Path) -> None:
    """Of processor time, since machines of tests are busy: eight times the tables take not much more than eight times as long."""
    make(tmp_path)
    columns = ", ".join(f"value_{j} INTEGER" for j in range(8))
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        for i in range(200):
            connection.execute(f"CREATE TABLE visits_{i} (customer_id INTEGER, {columns})")

    def seconds(tables: int) -> float:
        path = tmp_path / f"p{tables}.yaml"
        path.write_text(_of_tables(tables))
        begun = time.process_time()
        assert asyncio.run(findings([path], Depth.SHAPES)) == ()
        return time.process_time() - begun

    seconds(25)  # what is imported and compiled once
    assert min(seconds(200) for _ in range(2)) < 16 * min(seconds(25) for _ in range(3))


def _of_tables(tables: int) -> str:
    text = "".join(
        f"  visits_{i}:\n    unit: customer_id\n    bounds: {{ rows_per_group: 10, groups: 5 }}\n    columns:\n      customer_id: unit\n"
        + "".join(f"      value_{j}: {{ range: [0, 100] }}\n" for j in range(8))
        for i in range(tables)
    )
    return BASE.replace("VERIFIER", VERIFIER).replace("roles:\n", f"{text}roles:\n")
