"""What tests of reports share: one big shop and a PostgreSQL for outer queries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from accuracy_stage import Stage

from dpproxy.policy.catalog import Catalog


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory, shop_catalog: Catalog) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("reports"), shop_catalog)
    yield made
    made.close()
