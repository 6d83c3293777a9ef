"""A PostgreSQL of the tests' own, which is asked what texts mean."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpproxy.facade.cluster import plain


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection[Any]]:
    loop, facade = asyncio.new_event_loop(), plain(tmp_path_factory.mktemp("postgres"))
    loop.run_until_complete(facade.start())
    place = str(Path(facade.socket).parent)
    with psycopg.connect(host=place, user="postgres", dbname="postgres", autocommit=True) as connection:
        yield connection
    loop.run_until_complete(facade.stop())
    loop.close()
