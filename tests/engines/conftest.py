"""Engines without tables, which are asked what spellings make of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import psycopg
import pytest

from tests.worlds import spark_servers
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

__all__ = ["duckdb_engine", "ends_in_order", "engine", "postgres", "postgres_engine", "scratch", "shop_catalog", "spark_engine"]

Ask = Callable[[str], Any]
"""The one value of an expression; an error where the engine raises one."""


@pytest.fixture(scope="session")
def ask_postgres(postgres: psycopg.Connection[Any]) -> Ask:
    def ask(text: str) -> Any:
        found = postgres.execute(f"SELECT {text}".encode(), prepare=False).fetchone()
        assert found is not None
        return found[0]

    return ask


@pytest.fixture(scope="session")
def ask_duckdb() -> Iterator[Ask]:
    with duckdb.connect() as connection:

        def ask(text: str) -> Any:
            found = connection.execute(f"SELECT {text}").fetchone()
            assert found is not None
            return found[0]

        yield ask


@pytest.fixture(scope="session")
def sail_session() -> Iterator[Any]:
    """A session on Sail, prepared as the backend prepares it."""
    with spark_servers.sail() as address, spark_servers.session(address) as session:
        yield session


@pytest.fixture(scope="session")
def ask_spark(sail_session: Any) -> Ask:
    return lambda text: sail_session.sql(f"SELECT {text} AS x").toArrow().column(0)[0].as_py()
