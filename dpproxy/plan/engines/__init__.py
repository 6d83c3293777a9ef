"""One file an engine: how the planner's expressions are spelled there, always total (no value can raise)."""

from __future__ import annotations

from dpproxy.plan.engines.base import Engine
from dpproxy.plan.engines.duckdb import DuckDB
from dpproxy.plan.model import Dialect


def engine(dialect: Dialect) -> Engine:
    """The spelling of a dialect. Raises ValueError for one we do not have."""
    if dialect == "duckdb":
        return DuckDB()
    raise ValueError(f"no engine for dialect {dialect}")
