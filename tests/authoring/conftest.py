"""A small town: a policy, its data, and the bench on which questions are tried. Made once a worker; nothing changes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dpproxy.authoring.workbench import open_workbench
from dpproxy.review.verdicts import Bench
from tests.worlds.authored_town import town_data, town_text


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy's file, with its data beside it."""
    folder = tmp_path_factory.mktemp("town")
    town_data(folder / "town.duckdb")
    (folder / "town.yaml").write_text(town_text())
    return folder / "town.yaml"


@pytest.fixture(scope="session")
def bench(town: Path) -> Bench:
    return asyncio.run(open_workbench(town)).bench
