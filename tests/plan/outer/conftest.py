"""What tests of outer queries share: orders whose statements PostgreSQL answers itself, and a big shop for errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from accuracy_stage import Stage
from noiseless_orders import NoiselessOrders

from dpproxy.policy.catalog import Catalog


@pytest.fixture
def orders(postgres: psycopg.Connection[Any], shop_catalog: Catalog) -> Iterator[NoiselessOrders]:
    made = NoiselessOrders(postgres, shop_catalog)
    yield made
    made.close()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory, shop_catalog: Catalog) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("accuracy"), shop_catalog)
    yield made
    made.close()
