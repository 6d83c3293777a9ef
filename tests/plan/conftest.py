"""Fixtures of the planner's tests: the shop's catalog and a few troubled shops with all their neighbours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside the tests, in any import mode
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))  # the starter of scratch servers

import plan_harness

from dpproxy.policy.catalog import Catalog


@pytest.fixture(scope="session")
def shop_catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return plan_harness.catalog(tmp_path_factory.mktemp("shop"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests in long mode run only when asked for by name of the marker: `pytest -m long`."""
    if "long" not in config.option.markexpr:
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="long mode: pytest -m long"))
