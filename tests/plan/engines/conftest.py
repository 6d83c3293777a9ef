"""Engines without tables, which are asked what spellings make of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import psycopg
import pytest

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
