"""Tests here may take the planner's shops."""

from tests.worlds.planning import (
    duckdb_engine,
    ends_in_order,
    engine,
    postgres,
    postgres_engine,
    scratch,
    shop_catalog,
    spark_engine,
)

__all__ = [
    "duckdb_engine",
    "ends_in_order",
    "engine",
    "postgres",
    "postgres_engine",
    "scratch",
    "shop_catalog",
    "spark_engine",
]
