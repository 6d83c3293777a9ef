"""Tests here may take the planner's shops; those in long mode run when asked for by name of the marker."""

import pytest

from tests.worlds.planning import (
    duckdb_engine,
    ends_in_order,
    engine,
    orders,
    postgres,
    postgres_engine,
    scratch,
    shop_catalog,
    spark_engine,
    stage,
)

__all__ = [
    "duckdb_engine",
    "ends_in_order",
    "engine",
    "orders",
    "postgres",
    "postgres_engine",
    "scratch",
    "shop_catalog",
    "spark_engine",
    "stage",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests in long mode run only when asked for by name of the marker: `pytest -m long`."""
    if "long" not in config.option.markexpr:
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="long mode: pytest -m long"))
