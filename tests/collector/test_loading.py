"""Segments come into a store once: batches sent twice, loads that stop anywhere, stores that are gone, cells, days that are over."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from scratch_postgres import scratch_server

from dpproxy.collector.journal import State
from dpproxy.collector.loading import KEPT_SECONDS, Load, Names, StoreError, permuted
from dpproxy.collector.stores import PostgresStore
from dpproxy.collector.tables import ReportTable
from tests.collector.reports import EMOJI
from tests.collector.world import NOON, TABLES_SQL, TODAY, DuckDBWorld, PostgresWorld, World, batch, load, write

ROOT = Path(__file__).resolve().parents[2]
LOADING = (sys.executable, "-m", "tests.collector.world")


class Memory:
    """A store in memory that may fail before or after a segment is durable."""

    def __init__(self) -> None:
        self.numbers: set[tuple[str, int]] = set()
        self.rows: list[Any] = []
        self.fails = ""

    async def columns(self, tables: Iterable[ReportTable]) -> Mapping[str, frozenset[str]]:
        return {str(table.name): frozenset({*table.columns, "claim", "n"}) for table in tables}

    async def load(self, collector: str, loads: Iterable[Load]) -> AsyncIterator[int]:
        for each in loads:
            if self.fails == "before":
                raise StoreError("the server is gone")
            if (collector, each.segment) not in self.numbers:
                self.numbers.add((collector, each.segment))
                self.rows += [row for rows in each.rows for row in rows.rows]
            if self.fails == "after":
                raise StoreError("the server is gone")
            yield each.segment


@pytest.fixture
def memory() -> Memory:
    return Memory()


def test_a_batch_sent_twice_counts_once(tmp_path: Path, memory: Memory) -> None:
    state = write(tmp_path, batch(1), batch(2), batch(1))
    write(tmp_path, batch(2), batch(3))
    assert load(state, memory) == 2
    write(tmp_path, batch(3), batch(4))
    assert load(state, memory) == 1
    assert sorted(row[2] for row in memory.rows) == [1, 2, 3, 4]
    assert state.sealed() == []


def test_names_are_forgotten_after_48_hours(tmp_path: Path, memory: Memory) -> None:
    state = write(tmp_path, batch(1))
    load(state, memory)
    for hours, kept in ((47, 1), (49, 2)):
        write(tmp_path, batch(1))
        load(state, memory, NOON + hours * 3600)
        assert len(memory.rows) == kept
    names = Names(tmp_path / "names.sqlite")
    names.forget(NOON + 49 * 3600 + KEPT_SECONDS + 1)
    assert names.first(99, [f"{1:032x}"], NOON) == {f"{1:032x}"}


@pytest.mark.parametrize("fails", ["before", "after"])
def test_a_load_that_stops_is_done_again_and_counts_once(tmp_path: Path, memory: Memory, fails: str) -> None:
    state = write(tmp_path, batch(1), batch(2))
    write(tmp_path, batch(2), batch(3))
    memory.fails = fails
    for _ in range(3):
        with pytest.raises(StoreError, match="is gone"):
            load(state, memory)
    assert len(state.sealed()) == 2
    memory.fails = ""
    assert load(state, memory) == 2
    assert sorted(row[2] for row in memory.rows) == [1, 2, 3]


def test_a_table_that_the_policy_has_no_more_keeps_its_segment(tmp_path: Path, memory: Memory) -> None:
    state = write(tmp_path, batch(1, table="gone"))
    with pytest.raises(StoreError, match="no table gone any more"):
        load(state, memory)
    assert len(state.sealed()) == 1


def test_rows_come_in_an_order_that_says_nothing(tmp_path: Path, memory: Memory) -> None:
    load(write(tmp_path, *(batch(n) for n in range(500))), memory)
    order = [row[2] for row in memory.rows]
    assert sorted(order) == list(range(500))
    assert sum(abs(a - b) == 1 for a, b in itertools.pairwise(order)) < 20


def test_permutations_are_uniform() -> None:
    """Of three rows each of six orders, within five standard deviations."""
    seen = Counter(tuple(permuted([(1,), (2,), (3,)])) for _ in range(6000))
    assert len(seen) == 6
    assert all(abs(n - 1000) < 5 * (6000 * 5 / 36) ** 0.5 for n in seen.values())


# Stores.


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scratch_server(tmp_path_factory.mktemp("reports")) as running:
        yield running.dsn()


@pytest.fixture(params=["postgres", "duckdb"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "duckdb":
        world: World = DuckDBWorld(tmp_path / "reports.duckdb")
    else:
        world = PostgresWorld(request.getfixturevalue("server"))
        world.sql("DROP TABLE IF EXISTS emoji, coin, cells, bits, dpproxy_loads")
    world.sql(TABLES_SQL)
    return world


def test_rows_have_the_columns_types(tmp_path: Path, world: World) -> None:
    state = write(
        tmp_path / "state",
        batch(1, reports=[["north", 7], ["south", 0]]),
        batch(2, claim=1, reports=[["north", 9]]),
        batch(3, "coin", 1, [[44, True], [0, False]]),
    )
    assert load(state, world.store) == 1
    day = dt.date(2026, 9, 21)
    assert sorted(world.sql("SELECT * FROM emoji")) == [(day, "north", 7, 2), (day, "north", 9, 1), (day, "south", 0, 2)]
    assert sorted(world.sql("SELECT * FROM coin")) == [(0, False), (44, True)]
    assert world.sql("SELECT segment FROM dpproxy_loads") == [(1,)]


def test_cells_add_to_what_is_there(tmp_path: Path, world: World) -> None:
    for first in (0, 100):
        reports = [["north", EMOJI[n % 3]] for n in range(10)]
        state = write(tmp_path / "state", batch(first, "cells", 1, reports), batch(first + 1, "bits", 1, [["0:3"], ["1:8001"]]))
        load(state, world.store)
    day = dt.date(2026, 9, 21)
    assert sorted(world.sql("SELECT * FROM cells")) == sorted((day, "north", EMOJI[n], 8 if n == 0 else 6) for n in range(3))
    assert sorted(world.sql("SELECT word_r, n FROM bits")) == [(0, 2), (1, 2), (16, 2), (31, 2), (32, 2), (33, 2)]


def test_days_that_are_over_go(tmp_path: Path, world: World) -> None:
    load(write(tmp_path / "state", batch(1)), world.store)
    world.today = TODAY + dt.timedelta(days=90)
    load(write(tmp_path / "state", batch(2), now=NOON + 86400), world.store)
    assert [row[0] for row in world.sql("SELECT emoji_r FROM emoji ORDER BY 1")] == [1, 2]
    world.today += dt.timedelta(days=1)
    load(write(tmp_path / "state", batch(3), now=NOON + 86400), world.store)
    assert [row[0] for row in world.sql("SELECT emoji_r FROM emoji ORDER BY 1")] == [2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP TABLE coin", "the store has no table coin"),
        ("ALTER TABLE emoji DROP COLUMN region", "emoji has no column region"),
        ("ALTER TABLE emoji DROP COLUMN claim", "needs a column `claim`"),
        ("ALTER TABLE bits DROP COLUMN n", "bits has no column n"),
        ("ALTER TABLE emoji ALTER COLUMN region TYPE date USING NULL", "region|date|DATE"),
    ],
)
def test_a_table_that_does_not_fit_is_named_and_takes_nothing(tmp_path: Path, world: World, change: str, message: str) -> None:
    state = write(tmp_path / "state", batch(1))
    world.sql(change)
    with pytest.raises(StoreError, match=message):
        load(state, world.store)
    assert len(state.sealed()) == 1
    assert world.sql("SELECT count(*) FROM emoji") == [(0,)]


def test_a_server_that_is_gone_is_named(tmp_path: Path) -> None:
    state = write(tmp_path, batch(1))
    with pytest.raises(StoreError, match="PostgreSQL: "):
        load(state, PostgresStore(f"postgresql://x@localhost/x?host={tmp_path}", lambda: TODAY))
    assert len(state.sealed()) == 1


def test_two_collectors_share_a_store(tmp_path: Path, world: World) -> None:
    for folder in ("one", "other"):
        load(write(tmp_path / folder, batch(1)), world.store)
    assert world.sql("SELECT count(*) FROM emoji") == [(2,)]


def test_a_reader_of_the_file_keeps_the_old_one(tmp_path: Path) -> None:
    world = DuckDBWorld(tmp_path / "reports.duckdb")
    world.sql(TABLES_SQL)
    with duckdb.connect(world.path, read_only=True) as reader:
        subprocess.run([*LOADING, "duckdb", world.path, tmp_path / "state", "5"], cwd=ROOT, check=True)
        assert reader.execute("SELECT count(*) FROM emoji").fetchall() == [(0,)]
    assert world.sql("SELECT count(*) FROM emoji") == [(5,)]


def test_a_file_that_somebody_writes_is_left_alone(tmp_path: Path) -> None:
    world = DuckDBWorld(tmp_path / "reports.duckdb")
    world.sql(TABLES_SQL)
    state = write(tmp_path / "state", batch(1))
    (tmp_path / "reports.duckdb.wal").touch()
    with pytest.raises(StoreError, match="somebody writes to"):
        load(state, world.store)
    assert [path.name for path in tmp_path.glob(".*")] == []


# Kills: a process loads segments that share batches, and is killed at any moment.


def loads_killed(world: World, folder: Path, segments: int, delays: Iterable[float]) -> None:
    """Segments of ten batches, of which five stand in the one before, too."""
    for number in range(segments):
        write(folder, *(batch(5 * number + n) for n in range(10)))
    place = str(world.path) if isinstance(world, DuckDBWorld) else world.dsn
    kind = "duckdb" if isinstance(world, DuckDBWorld) else "postgres"
    for delay in delays:
        command = [*LOADING, kind, place, folder, "0"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    load(State(folder), world.store)
    counts = Counter(row[0] for row in world.sql("SELECT emoji_r FROM emoji"))
    assert counts == Counter(range(5 * segments + 5))


def test_kills_while_loading_lose_and_double_nothing(tmp_path: Path, world: World) -> None:
    loads_killed(world, tmp_path / "state", 6, (0.01, 0.05))


@pytest.mark.long
def test_fifty_kills_while_loading_lose_and_double_nothing(
    tmp_path: Path, world: World, progress: Callable[[int, int], None]
) -> None:
    for number in range(10):
        loads_killed(world, tmp_path / f"state{number}", 20, [0.01 + 0.03 * n for n in range(5)])
        world.sql("DELETE FROM emoji")
        progress(number + 1, 10)
