"""A bench needs the shape of the data alone: the policy's own, or that of a file that stands for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import duckdb
import pytest

from dpproxy.authoring.workbench import open_workbench
from dpproxy.policy.problems import PolicyError
from dpproxy.review.verdicts import Answered
from tests.worlds.authored_town import town_data, town_text


def test_another_file_of_the_same_shape(tmp_path: Path) -> None:
    """The policy's own data are not there at all."""
    town_data(tmp_path / "shape.duckdb")
    (tmp_path / "town.yaml").write_text(town_text())
    with pytest.raises(PolicyError):
        asyncio.run(open_workbench(tmp_path / "town.yaml"))
    made = asyncio.run(open_workbench(tmp_path / "town.yaml", tmp_path / "shape.duckdb"))
    assert isinstance(made.bench.verdict("analyst", "SELECT count(*) FROM people"), Answered)


def test_a_policy_that_does_not_fit_its_data(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "town.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id INT)")
    (tmp_path / "town.yaml").write_text(town_text())
    with pytest.raises(PolicyError, match="region"):
        asyncio.run(open_workbench(tmp_path / "town.yaml"))
