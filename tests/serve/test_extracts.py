"""A policy over PostgreSQL that wants an extract: which one is served, when another is made, and what stays when it cannot be."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server
from structlog.testing import capture_logs
from typer.testing import CliRunner

from dpproxy.acceleration import copy_making, extract_making
from dpproxy.acceleration.copy_making import Told
from dpproxy.acceleration.extract_tables import Extract
from dpproxy.authoring.checking import Depth, findings
from dpproxy.authoring.workbench import open_workbench
from dpproxy.backends.base import BackendError
from dpproxy.backends.postgres import Postgres
from dpproxy.cli import commands
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.people import make_verifier
from dpproxy.policy.problems import PolicyError
from dpproxy.serve import extracts
from dpproxy.serve.extracts import Data, open_data
from dpproxy.serve.launch import launched

from .test_reload import hang_up, said

POLICY = """
version: 1
dataset: town
backend: { postgres: "DSN" }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1e11, delta: 0, every: never }
REUSE
accelerate: { mode: extract, folder: elsewhere }
tables:
  people: { unit: id, columns: { id: unit, region: { values: [east, west] } } }
  visits:
    unit: person
    bounds: { rows_per_group: 20, groups: all }
    columns: { person: unit, shop: { values: [books, tools] }, paid: { range: [0, 50], resolution: 0.01 } }
  loads: { public: true }
roles: { analyst: { budget: { epsilon: 1e11, delta: 0, every: never }, query: { epsilon: 1e8, max_epsilon: 1e8 } } }
users: { ada: { role: analyst, password: "VERIFIER" } }
"""
VERIFIER = make_verifier("x")
QUERIED = "reuse_answers: { epoch: SELECT max(load) FROM loads }"
SCHEMA = """
CREATE TABLE people (id int PRIMARY KEY, region text, born date);
CREATE TABLE visits (person int REFERENCES people, shop text, paid numeric(6, 2));
CREATE TABLE loads (load int, tags text[]);
INSERT INTO people SELECT i, CASE WHEN i % 3 = 0 THEN 'east' ELSE 'west' END FROM generate_series(1, 300) AS i;
INSERT INTO visits SELECT id, CASE WHEN j = 1 THEN 'books' ELSE 'tools' END, id * 0.01 FROM people, generate_series(1, 2) AS j;
INSERT INTO loads VALUES (1, '{a}');
"""
ASKED = [
    "SELECT shop, count(*), sum(paid) FROM visits GROUP BY shop ORDER BY 1",
    "SELECT p.region, count(*) FROM visits v JOIN people p ON v.person = p.id GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM people WHERE id > 0",
    "SELECT load, tags FROM loads",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture
def town(server: Scratch) -> Scratch:
    """The tables, new."""
    run(server, "DROP TABLE IF EXISTS visits, people, persons, loads", SCHEMA)
    return server


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are made in a thread: a process of its own takes most of its time to begin."""

    async def made(job: copy_making.Work, told: Told, background: bool) -> None:
        job.folder.ready()
        await asyncio.to_thread(job.make, told)

    monkeypatch.setattr(copy_making, "made", made)


def run(server: Scratch, *statements: str) -> None:
    with psycopg.connect(server.conninfo(), autocommit=True) as owner:
        for statement in statements:
            owner.execute(statement.encode())


def exact(server: Scratch) -> list[list[tuple[Any, ...]]]:
    with psycopg.connect(server.conninfo(), autocommit=True) as owner:
        return [owner.execute(sql.encode()).fetchall() for sql in ASKED]


def write(folder: Path, server: Scratch, reuse: str = "reuse_answers: { epoch: monday }", old: str = "", new: str = "") -> Path:
    text = POLICY.replace("DSN", server.dsn()).replace("VERIFIER", VERIFIER).replace("REUSE", reuse)
    (folder / "town.yaml").write_text(text.replace(old, new) if old else text)
    return folder / "town.yaml"


def load(folder: Path, *arguments: Any) -> Loaded:
    return load_file(write(folder, *arguments))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "elsewhere").rglob("*.duckdb"))


async def seen(data: Data, sql: str = 'SELECT count(*) FROM "main"."people"') -> int:
    """What an extract says; it is closed."""
    assert isinstance(data.backend, Extract)
    (found,) = await data.backend.violations([sql])
    await data.backend.close()
    return found


async def epoch(data: Data) -> str:
    assert data.epoch is not None
    return await data.epoch.current(extracts.dt.datetime.now(extracts.dt.UTC))


@pytest.mark.long
def test_a_proxy_over_an_extract(town: Scratch, tmp_path: Path) -> None:
    """Answers are PostgreSQL's, of the moment of the extract, also while the server is away; other data are read when their epoch
    is another."""
    path = write(tmp_path, town, QUERIED)
    with launched([path], tmp_path / "state", options=("--drain", "3")) as proxy:
        dsn = f"host={proxy.host} port={proxy.port} user=ada password=x dbname=town"

        def answers() -> list[list[tuple[Any, ...]]]:
            with psycopg.connect(dsn, autocommit=True) as connection:
                return [connection.execute(sql.encode()).fetchall() for sql in ASKED]

        def spent() -> Any:
            with psycopg.connect(dsn, autocommit=True) as connection:
                return connection.execute("SELECT sum(epsilon_spent) FROM dpproxy.budget WHERE scope = 'role'").fetchone()

        said(proxy, "extract used")
        said(proxy, "prepared copy used")
        result = CliRunner().invoke(commands, ["admin", "status", "--state", str(tmp_path / "state")])
        (status,) = json.loads(result.stdout)["datasets"]
        assert (status["backend"], status["copy"]) == ("duckdb", "used")
        assert 0 <= time.time() - status["extract"] < 600
        with psycopg.connect(dsn, autocommit=True) as connection:
            explained = [line for (line,) in connection.execute(f"EXPLAIN {ASKED[0]}".encode())]
        of = dt.datetime.fromtimestamp(status["extract"], dt.UTC)
        assert f"  Data: an extract of the database as it was at {of:%Y-%m-%d %H:%M:%S} UTC" in explained
        first = exact(town)
        assert answers() == first
        charged = spent()
        run(town, "DELETE FROM visits WHERE person > 200; DELETE FROM people WHERE id > 200")
        hang_up(proxy, "policy unchanged")
        assert answers() == first
        assert spent() == charged
        run(town, "INSERT INTO loads VALUES (2, NULL)")
        hang_up(proxy, "extract used")
        second = exact(town)
        assert answers() == second
        assert spent() > charged
        town.wait(town.server.stop())
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                assert connection.execute("SELECT count(*) FROM people WHERE region = 'east'").fetchone() == (66,)
            hang_up(proxy, "policy not reloaded")
            assert answers()[2] == second[2]
        finally:
            town.wait(town.server.start())
        events = [json.loads(line) for line in proxy.said if line.startswith("{")]
        assert {"extract begun", "extract made", "extract used"} <= {event["event"] for event in events}


@pytest.mark.usefixtures("here")
async def test_an_epoch_has_one_extract(town: Scratch, tmp_path: Path) -> None:
    loaded, state = load(tmp_path, town), tmp_path / "state"
    data = await open_data(loaded, state)
    assert await epoch(data) == await epoch(Data(data.backend, data.epoch))
    assert (await epoch(data)).startswith("named monday ")
    assert await seen(data) == 300
    run(town, "DELETE FROM visits WHERE person > 200; DELETE FROM people WHERE id > 200")
    assert await seen(await open_data(loaded, state, anew=True)) == 300, "it is monday"
    assert data.watch is not None
    assert not await data.watch.outdated()
    other = await open_data(load(tmp_path, town, "reuse_answers: { epoch: tuesday }"), state)
    assert await seen(other) == 200
    assert len(files(tmp_path)) == 1
    assert await data.watch.outdated(), "what it watched is gone"
    (folder,) = (path.parent for path in files(tmp_path))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.usefixtures("here")
async def test_without_an_epoch_it_holds_until_somebody_says_so(town: Scratch, tmp_path: Path) -> None:
    loaded, state = load(tmp_path, town, ""), tmp_path / "state"
    first = await open_data(loaded, state)
    named = await epoch(first)
    run(town, "DELETE FROM visits WHERE person > 200; DELETE FROM people WHERE id > 200")
    again = await open_data(loaded, state)
    assert (await epoch(again), await seen(again)) == (named, 300)
    arguments = ["prepare", str(tmp_path / "town.yaml"), "--state", str(state)]
    result = await asyncio.to_thread(CliRunner().invoke, commands, arguments)
    assert result.exit_code == 0, result.output
    assert "extract: " in result.output
    assert "made: " in result.output
    assert first.watch is not None
    assert await first.watch.outdated()
    assert await seen(first) == 300, "who has it open goes on with it"
    last = await open_data(loaded, state)
    assert (await epoch(last) != named, await seen(last)) == (True, 200)


@pytest.mark.usefixtures("here")
async def test_tables_of_another_shape_have_another_extract(town: Scratch, tmp_path: Path) -> None:
    loaded, state = load(tmp_path, town), tmp_path / "state"
    data = await open_data(loaded, state)
    await data.backend.close()
    run(town, "ALTER TABLE visits ALTER COLUMN paid TYPE numeric(7, 3)")
    assert data.watch is not None
    assert await data.watch.outdated()
    other = await open_data(loaded, state)
    kinds = [c.exact for t in (await other.backend.introspect()).tables.values() for c in t.columns if c.name == "paid"]
    assert (kinds, await seen(other)) == (["DECIMAL(7,3)"], 300)


@pytest.mark.usefixtures("here")
async def test_a_damaged_one_is_made_again(town: Scratch, tmp_path: Path) -> None:
    loaded, state = load(tmp_path, town), tmp_path / "state"
    await seen(await open_data(loaded, state))
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert await seen(await open_data(loaded, state)) == 300
    assert path not in files(tmp_path)


@pytest.mark.usefixtures("here")
async def test_a_folder_that_others_read_is_refused(town: Scratch, tmp_path: Path) -> None:
    loaded, state = load(tmp_path, town), tmp_path / "state"
    await seen(await open_data(loaded, state))
    (path,) = files(tmp_path)
    os.chmod(path.parent, 0o755)
    with pytest.raises(BackendError, match="its owner alone"):
        await open_data(loaded, state)


@pytest.mark.usefixtures("here")
async def test_a_policy_that_wants_none_has_it_removed(town: Scratch, tmp_path: Path) -> None:
    state = tmp_path / "state"
    await seen(await open_data(load(tmp_path, town), state))
    data = await open_data(load(tmp_path, town, "", "mode: extract", "mode: off"), state)
    assert isinstance(data.backend, Postgres)
    assert files(tmp_path) == []


@pytest.mark.usefixtures("here")
async def test_another_epoch_is_noticed(town: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And made ready, before anybody is told; while it cannot be made, what there is stays."""
    monkeypatch.setattr(extracts, "EVERY", 0.02)
    monkeypatch.setattr(extracts, "RETRY", 0.05)
    loaded, state, changed = load(tmp_path, town, QUERIED), tmp_path / "state", asyncio.Event()
    data = await open_data(loaded, state)
    assert data.watch is not None
    with capture_logs() as lines:
        data.watch.start(changed.set)
        run(town, "INSERT INTO loads VALUES (2); ALTER TABLE people RENAME TO persons")
        while not any(line["event"] == "no extract" for line in lines):
            await asyncio.sleep(0.02)
    assert any("the backend has no table `people`" in line.get("problem", "") for line in lines)
    assert not changed.is_set()
    run(town, "ALTER TABLE persons RENAME TO people")
    await asyncio.wait_for(changed.wait(), 60)
    await data.watch.close()
    assert await data.watch.outdated()
    assert await seen(data) == 300
    assert (await epoch(await open_data(loaded, state))).startswith("version 2 ")


@pytest.mark.usefixtures("here")
async def test_an_epoch_that_is_faster_than_extracts(town: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time that it is asked for it is another. An extract is used all the same, as of its snapshot; it holds; and there is
    one line of the log."""
    monkeypatch.setattr(extracts, "EVERY", 0.02)
    monkeypatch.setattr(extracts, "RETRY", 0.02)
    run(town, "CREATE SEQUENCE IF NOT EXISTS moves")
    state, changed, looks = tmp_path / "state", asyncio.Event(), 0
    loaded = load(tmp_path, town, "reuse_answers: { epoch: SELECT max(load) FROM loads }")

    async def told(self: Postgres, query: str) -> int:
        """The next number, which is there by then."""
        nonlocal looks
        looks += 1
        await asyncio.to_thread(run, town, "UPDATE loads SET load = load + 1")
        return looks

    monkeypatch.setattr(Postgres, "number", told)
    with capture_logs() as lines:
        data = await open_data(loaded, state)
        assert data.watch is not None
        (made,) = files(tmp_path)
        assert (await epoch(data)).startswith("version ")
        assert data.watch.overtaken
        data.watch.start(changed.set)
        before = looks
        while looks < before + 3:
            await asyncio.sleep(0.02)
        assert not changed.is_set(), "it holds"
        assert not await data.watch.outdated()
        again = await open_data(loaded, state)
        assert again.watch is not None
        assert (files(tmp_path), await epoch(again)) == ([made], await epoch(data))
        again.watch.start(changed.set)
        await again.backend.close()
        monkeypatch.setattr(extract_making, "LEAST_HELD", 0.0)
        monkeypatch.setattr(extract_making, "SHARE", 0)
        await asyncio.wait_for(changed.wait(), 60)
        await asyncio.gather(data.watch.close(), again.watch.close())
    assert [line["event"] for line in lines].count("extract overtaken") == 1
    assert made not in files(tmp_path), "another was made once the first had held for its time"
    await data.backend.close()


@pytest.mark.usefixtures("here")
async def test_an_extract_holds_for_a_while_whatever_the_epoch(
    town: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that making takes a tenth of the time; then the data are read again."""
    loaded, state, changed = load(tmp_path, town, QUERIED), tmp_path / "state", asyncio.Event()
    monkeypatch.setattr(extract_making, "SHARE", 10**6)
    monkeypatch.setattr(extracts, "RETRY", 0.0)
    data = await open_data(loaded, state)
    watch, made = data.watch, files(tmp_path)
    assert watch is not None
    run(town, "INSERT INTO loads VALUES (2)")
    moved = extracts._epoch(loaded, extracts.open_backend(loaded), watch._source.shape)
    assert await watch._looked(moved, changed.set) is None
    assert (files(tmp_path), changed.is_set()) == (made, False)
    monkeypatch.setattr(extract_making, "SHARE", 0)
    assert await watch._looked(moved, changed.set) is None
    assert changed.is_set()
    await data.backend.close()


@pytest.mark.usefixtures("here")
async def test_a_view_of_people_is_not_extracted_as_public(town: Scratch, tmp_path: Path) -> None:
    """In an extract it is a table like any other: what it is made of is known of the database alone."""
    run(town, "CREATE VIEW shown AS SELECT id AS load FROM people")
    try:
        loaded = load(tmp_path, town, "", "  loads: {", "  shown: { public: true }\n  loads: {")
        with pytest.raises(PolicyError, match="public table `shown` shows rows of private table `people`"):
            await open_data(loaded, tmp_path / "state")
        assert files(tmp_path) == []
    finally:
        run(town, "DROP VIEW shown")


async def test_what_does_not_fit_an_extract(town: Scratch, tmp_path: Path) -> None:
    """A key of `numeric` without places may become another one's."""
    run(town, "ALTER TABLE visits DROP CONSTRAINT visits_person_fkey, ALTER COLUMN person TYPE numeric")
    path = write(tmp_path, town)
    problems = [problem for problem in await findings([path], Depth.SHAPES) if problem.severity == "error"]
    assert [problem.what for problem in problems] == [
        "the unit of `visits` compares `visits.person` (numeric, DECIMAL(38,9)) with `people.id` (int4), in an extract"
    ]
    with pytest.raises(PolicyError, match="in an extract"):
        await open_data(load_file(path), tmp_path / "state")
    assert files(tmp_path) == []


async def test_questions_are_tried_as_the_extract_would_answer_them(town: Scratch, tmp_path: Path) -> None:
    bench = (await open_workbench(write(tmp_path, town))).bench
    assert bench.dialect == "duckdb"
    assert not (tmp_path / "elsewhere").exists()
