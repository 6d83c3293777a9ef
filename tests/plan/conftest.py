"""Fixtures of the planner's tests: the shop's catalog and a few troubled shops with all their neighbours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside the tests, in any import mode

import plan_harness

from dpproxy.policy.catalog import Catalog


@pytest.fixture(scope="session")
def shop_catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return plan_harness.catalog(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def shops() -> tuple[plan_harness.Shop, ...]:
    return tuple(plan_harness.Shop(seed) for seed in (1, 2))
