"""What tests of outer queries share: orders whose statements PostgreSQL answers itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from noiseless_orders import NoiselessOrders

from dpproxy.policy.catalog import Catalog


@pytest.fixture
def orders(postgres: psycopg.Connection[Any], shop_catalog: Catalog) -> Iterator[NoiselessOrders]:
    made = NoiselessOrders(postgres, shop_catalog)
    yield made
    made.close()
