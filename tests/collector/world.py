"""States and stores that tests of loading share, and a process of its own that loads, to be killed.

Knows: both engines. Must not know: what is right.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from dpproxy.collector.journal import Batch, State, Writer
from dpproxy.collector.loading import Store, load_sealed
from dpproxy.collector.stores import DuckDBStore, PostgresStore
from tests.collector.reports import tables

NOON = 1_790_000_000.0
TODAY = dt.date(2026, 9, 21)
TABLES_SQL = """
CREATE TABLE emoji (day date, region text, emoji_r integer, claim smallint);
CREATE TABLE coin (age smallint, ill boolean);
CREATE TABLE cells (day date, region text, mood text, n bigint);
CREATE TABLE bits (day date, word_r bigint, n bigint);
"""


def batch(number: int, table: str = "emoji", claim: int = 2, reports: list[list[Any]] | None = None) -> Batch:
    return Batch(f"{number:032x}", table, claim, reports or [["north", number]])


def write(folder: Path, *batches: Batch, now: float = NOON) -> State:
    """A state with one more sealed segment."""

    async def append() -> None:
        writer = Writer(State(folder), lambda: now)
        await asyncio.gather(*(writer.append(each) for each in batches))
        await writer.close()

    asyncio.run(append())
    return State(folder)


def load(state: State, store: Store, now: float = NOON) -> int:
    return asyncio.run(load_sealed(state, tables(), store, now))


class PostgresWorld:
    """A database of a scratch server, and its store."""

    def __init__(self, dsn: str) -> None:
        self.dsn, self.today = dsn, TODAY
        self.store: Store = PostgresStore(dsn, lambda: self.today)

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(query)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []


class DuckDBWorld:
    def __init__(self, path: Path) -> None:
        self.path, self.today = path, TODAY
        self.store: Store = DuckDBStore(path, lambda: self.today)

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(self.path) as connection:
            return connection.execute(query).fetchall()


World = PostgresWorld | DuckDBWorld


def main(kind: str, place: str, folder: str, number: str) -> None:
    """Load what waits in a folder, with a segment more where `number` is not 0."""
    world = DuckDBWorld(Path(place)) if kind == "duckdb" else PostgresWorld(place)
    state = State(Path(folder))
    if int(number):
        write(Path(folder), *(batch(n) for n in range(int(number))))
    print("loading", flush=True)
    load(state, world.store)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
