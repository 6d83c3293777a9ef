"""Making an extract: what is in it is one snapshot, and whatever goes wrong leaves what was there."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.acceleration import copy_making, extract_making
from dpproxy.acceleration.copy_files import CopyError, CopyFolder
from dpproxy.acceleration.extract_making import NUMBER, ExtractJob, make, moment
from dpproxy.acceleration.extract_tables import extract_tables
from dpproxy.backends.postgres import Postgres
from dpproxy.policy.load import load_text
from dpproxy.policy.model import PostgresBackend
from tests.acceleration.test_copy_process import children

POLICY = """
version: 1
dataset: town
backend: { postgres: "postgresql://reader@db/town" }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1, delta: 0, every: never }
tables:
  people: { unit: id, columns: { id: unit, name: {} } }
  visits: { unit: person, bounds: { rows_per_group: 1, groups: 1 }, columns: { person: unit, note: {}, paid: {} } }
  loads: { public: true }
roles: { analyst: { budget: { epsilon: 1, delta: 0 }, query: { epsilon: 1, max_epsilon: 1 } } }
users: {}
"""
SCHEMA = """
CREATE TABLE people (id int PRIMARY KEY, name text);
CREATE TABLE visits (person int, note text, paid numeric(10, 2)) PARTITION BY RANGE (person);
CREATE TABLE visits_1 PARTITION OF visits FOR VALUES FROM (0) TO (1000);
CREATE VIEW loads AS SELECT 7 AS number;
CREATE ROLE reader LOGIN;
GRANT SELECT (id, name) ON people TO reader;
GRANT SELECT ON visits, loads TO reader;
"""
NOTES = ["", "\\N", "NULL", 'a "quoted", one', "two\r\nlines\n", "tab\t\\.\\", "é\u2028\U0001f600", " ", None]
"""Texts that a reader of CSV may take for something else."""


def nothing(table: str, part: float) -> None:
    pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("town")) as running:
        with psycopg.connect(running.conninfo(), autocommit=True) as owner:
            owner.execute(SCHEMA)
            owner.execute("INSERT INTO people SELECT i, 'p' || i FROM generate_series(0, 99) AS i")
            with owner.cursor() as cursor:
                cursor.executemany("INSERT INTO visits VALUES (%s, %s, 1.5)", list(enumerate(NOTES)))
        yield running


@pytest.fixture
async def job(server: Scratch, tmp_path: Path) -> ExtractJob:
    folder = CopyFolder(tmp_path / "copies", "town", "data", tmp_path)
    folder.ready()
    config = PostgresBackend(server.dsn(user="reader"))
    backend = Postgres(config)
    try:
        tables = extract_tables(load_text(POLICY, "town.yaml", Path(".")), await backend.introspect(), await backend.numerics())
    finally:
        await backend.close()
    return ExtractJob(config, tables, "about", "monday", folder, 1 << 30)


def left(job: ExtractJob) -> set[str]:
    return {path.name for path in job.folder.path.iterdir()} - {"lock"}


def rows(job: ExtractJob, query: str) -> list[tuple[Any, ...]]:
    key = job.newest()
    assert key is not None
    found = job.folder.whole(key)
    assert found is not None
    assert left(job) == {f"{key}.duckdb", f"{key}.json"}
    with duckdb.connect(str(found.path), read_only=True) as connection:
        return connection.execute(query).fetchall()


def made(job: ExtractJob, told: Any = nothing) -> None:
    """In a thread of its own, as it has a loop of its own."""
    make(job, told)


async def test_what_it_holds(job: ExtractJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in batches of a few rows by a role that may read some columns alone."""
    monkeypatch.setattr(extract_making, "BATCH", 64)
    told: list[tuple[str, float]] = []
    await asyncio.to_thread(made, job, lambda table, part: told.append((table, part)))
    assert rows(job, "SELECT note, paid::VARCHAR FROM visits ORDER BY person") == [(note, "1.50") for note in NOTES]
    assert rows(job, "SELECT count(*), max(name) FROM people") == [(100, "p99")]
    assert rows(job, "SELECT * FROM loads") == [(7,)]
    assert {table for table, _ in told} == {"people", "visits", "loads"}
    assert all(0 <= part <= 1 for _, part in told)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in job.folder.path.iterdir() if path.name != "lock"}
    assert modes == {0o600}


async def test_rows_of_a_person_lie_together(job: ExtractJob, server: Scratch) -> None:
    """Whatever their order in PostgreSQL; a table that is nobody's is as it arrives, and nothing is left of the way there."""
    with psycopg.connect(server.conninfo(), autocommit=True) as owner:
        owner.execute("CREATE TABLE strewn AS SELECT * FROM visits; DELETE FROM visits")
        owner.execute("INSERT INTO visits SELECT i * 7 % 100, i, i FROM generate_series(1, 1000) AS i")
        try:
            await asyncio.to_thread(made, job)
        finally:
            owner.execute("DELETE FROM visits; INSERT INTO visits SELECT * FROM strewn; DROP TABLE strewn")
    found = [person for (person,) in rows(job, "SELECT person FROM visits ORDER BY rowid")]
    assert found == sorted(found)
    assert len(found) == 1000
    assert {table.held.source[1]: table.order for table in job.tables} == {"people": "id", "visits": "person", "loads": ""}


async def test_the_last_one_holds(job: ExtractJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of another epoch, or after another, is another; a query tells the epoch of the snapshot that is read."""
    await asyncio.to_thread(made, job)
    first = job.newest()
    assert first is not None
    assert job.there()
    assert abs(moment(first).timestamp() - os.stat(job.folder.database(first)).st_mtime) < 60
    again = replace(job, after=first)
    assert not again.there()
    await asyncio.to_thread(made, again)
    assert again.newest() == job.newest() != first
    asked = replace(job, query="SELECT max(number) FROM loads", numbered=f"version {NUMBER} x", epoch="version 6 x")
    await asyncio.to_thread(made, asked)
    last = replace(asked, epoch="version 7 x").newest()
    assert last is not None
    assert asked.newest() == last, "it was overtaken while it was made, and holds for a while"
    manifest = job.folder.manifest(last)
    assert manifest is not None
    assert (manifest.epoch, manifest.overtaken) == ("version 7 x", True)
    in_time = replace(asked, epoch="version 7 x", after=last)
    await asyncio.to_thread(made, in_time)
    assert in_time.newest() is not None
    assert asked.newest() is None, "what was made in time ends with its epoch, however long it took"
    await asyncio.to_thread(made, asked)
    assert asked.newest() is not None
    monkeypatch.setattr(extract_making, "LEAST_HELD", 0.0)
    monkeypatch.setattr(extract_making, "SHARE", 0)
    assert asked.newest() is None, "the data are of another epoch than they were"
    assert job.newest() is None
    assert len(left(job)) == 2


async def test_all_tables_are_of_one_moment(job: ExtractJob, server: Scratch) -> None:
    """What is written while it is read is in no table of it; a table that is to be rewritten waits."""
    loop, written, waiting = asyncio.get_running_loop(), [], []

    def write(table: str, part: float) -> None:
        if table == "people" and not written:
            written.append(psycopg.connect(server.conninfo(), autocommit=True))
            written[0].execute("INSERT INTO people VALUES (500, 'late'); INSERT INTO visits VALUES (500, 'late', 1)")
            truncating = psycopg.connect(server.conninfo(), autocommit=True)
            truncating.execute("SET lock_timeout = '1ms'")
            try:
                truncating.execute("TRUNCATE visits")
            except psycopg.errors.LockNotAvailable as error:
                waiting.append(error)
            truncating.close()

    try:
        await loop.run_in_executor(None, made, job, write)
    finally:
        written[0].execute("DELETE FROM people WHERE id = 500; DELETE FROM visits WHERE person = 500")
        written[0].close()
    assert waiting, "it is locked before it is read"
    assert rows(job, "SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM visits)") == [(100, len(NOTES))]


async def test_a_partition_that_comes_in_the_middle(job: ExtractJob, server: Scratch) -> None:
    """Filled and attached behind the snapshot, which has none of its rows: nothing is made of it."""
    attach = "ALTER TABLE visits ATTACH PARTITION visits_2 FOR VALUES FROM (1000) TO (2000)"

    def come(table: str, part: float) -> None:
        with psycopg.connect(server.conninfo(), autocommit=True) as owner:
            if table == "people" and owner.execute("SELECT to_regclass('visits_2')").fetchone() == (None,):
                owner.execute("CREATE TABLE visits_2 (LIKE visits)")
                owner.execute("INSERT INTO visits_2 VALUES (1500, 'late', 1)")
                owner.execute(attach.encode())

    try:
        with pytest.raises(CopyError, match="tables were replaced while they were read"):
            await asyncio.to_thread(made, job, come)
        assert not job.there()
        await asyncio.to_thread(made, job)
        assert rows(job, "SELECT count(*) FROM visits") == [(len(NOTES) + 1,)]
    finally:
        with psycopg.connect(server.conninfo(), autocommit=True) as owner:
            owner.execute("DROP TABLE IF EXISTS visits_2")


async def test_the_epoch_may_be_told_by_a_table_that_nobody_lists(job: ExtractJob, server: Scratch) -> None:
    """It is locked as the others are, so that it is of the same snapshot."""
    with psycopg.connect(server.conninfo(), autocommit=True) as owner:
        owner.execute("CREATE TABLE marks AS SELECT 9 AS mark; GRANT SELECT ON marks TO reader")
    asked = replace(job, query="SELECT max(mark) FROM marks", numbered=f"version {NUMBER} x", epoch="version 9 x")
    await asyncio.to_thread(made, asked)
    assert asked.there()


@pytest.mark.parametrize("trouble", ["disk", "full", "changed", "rows", "away", "grants"])
async def test_what_goes_wrong_leaves_what_was_there(
    trouble: str, job: ExtractJob, server: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(made, job)
    before, told = job.newest(), nothing
    wanted = replace(job, after=before or "")
    if trouble == "disk":
        wanted, says = replace(wanted, disk=1000), "it takes more disk than it may: 1,000 bytes"
    elif trouble == "full":
        monkeypatch.setattr(extract_making, "free", lambda path: 1 << 20)
        says = "less than 268,435,456 bytes free"
    elif trouble == "changed":
        other = replace(job.tables[0], source=replace(job.tables[0].source, primary_key=("name",)))
        wanted, says = replace(wanted, tables=(other,)), "the tables were changed"
    elif trouble == "rows":
        monkeypatch.setattr(extract_making._Target, "rows", lambda self, table: 98)
        says = "of table people not all rows arrived"
    elif trouble == "grants":
        wanted = replace(wanted, backend=PostgresBackend(server.dsn(user="nobody")))
        says = "the extract was not made: 28"
    else:
        says = "the extract was not made"

        def told(table: str, part: float) -> None:
            if table == "visits":
                with psycopg.connect(server.conninfo(), autocommit=True) as owner:
                    owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'")

    with pytest.raises(CopyError, match=says):
        await asyncio.to_thread(made, wanted, told)
    assert job.newest() == before
    assert rows(job, "SELECT count(*) FROM people") == [(100,)]


async def test_killed_in_the_middle(job: ExtractJob, server: Scratch) -> None:
    """When two tables are written, and the third waits for a lock that somebody holds."""
    await asyncio.to_thread(made, job)
    again = replace(job, after=job.newest() or "")
    waiting = replace(job.tables[2], query="SELECT 7 FROM pg_advisory_xact_lock(1)")
    wanted = replace(again, tables=(*job.tables[:2], waiting))
    with psycopg.connect(server.conninfo()) as owner:
        owner.execute("SELECT pg_advisory_lock(1)")
        making = asyncio.ensure_future(copy_making.made(wanted, nothing, True))
        while not await asyncio.to_thread(_waits, server):
            await asyncio.sleep(0.02)
        (process,) = children()
        assert any(name.endswith(".making") for name in left(job))
        os.kill(process, signal.SIGKILL)
        with pytest.raises(CopyError, match="the process that made it ended"):
            await making
    assert not wanted.there()
    assert rows(job, "SELECT count(*) FROM people") == [(100,)]
    await copy_making.made(again, nothing, True)
    assert again.there()


def _waits(server: Scratch) -> bool:
    with psycopg.connect(server.conninfo(), autocommit=True) as owner:
        query = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND wait_event_type = 'Lock'"
        row = owner.execute(query).fetchone()
    return row is not None and row[0] > 0
