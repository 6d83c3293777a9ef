"""A proxy with a prepared copy: the same answers as without, of the data that are served, and of no others."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.answers.plan_cache import plans_for
from dpproxy.backends.duckdb import DuckDB
from dpproxy.engines import literal
from dpproxy.engines.stored_stages import DATABASE
from dpproxy.policy.load import load_file, load_text
from dpproxy.policy.model import DuckDBBackend
from dpproxy.policy.people import make_verifier
from dpproxy.serve.extracts import folder_of
from dpproxy.serve.launch import Proxy, launched
from dpproxy.serve.prepared_copies import LARGE, SMALL, accelerator_of, least

from .test_reload import hang_up, said

POLICY = """
version: 1
dataset: town
backend: { duckdb: data.duckdb, threads: 1 }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1e11, delta: 0, every: never }
reuse_answers: off
accelerate:
  mode: on
  folder: elsewhere
  queries: ["SELECT shop, sum(paid) FROM visits WHERE paid > 30 GROUP BY shop"]
tables:
  people: { unit: id, columns: { id: unit, sex: { values: [F, M] } } }
  visits:
    unit: person
    bounds: { rows_per_group: 20, groups: all }
    columns:
      person: unit
      shop: { values: [bakery, books, tools] }
      paid: { range: [0, 50], resolution: 0.01 }
      seen: { range: [2024-01-01, 2024-12-31] }
roles: { analyst: { budget: { epsilon: 1e11, delta: 0, every: never }, query: { epsilon: 1e8, max_epsilon: 1e8 } } }
users: { ada: { role: analyst, password: "VERIFIER" } }
"""
VERIFIER = make_verifier("x")

STORED = [
    "SELECT shop, count(*), sum(paid) FROM visits GROUP BY shop ORDER BY 1",
    "SELECT count(*), avg(paid) FROM visits",
    "SELECT date_trunc('month', seen) AS month, count(*) FROM visits GROUP BY 1 ORDER BY 1",
    "SELECT shop, sum(paid) FROM visits WHERE paid > 30 GROUP BY shop ORDER BY 1",
]
FROM_DATA = [
    "SELECT shop, count(*) FROM visits WHERE paid > 20 GROUP BY shop ORDER BY 1",
    "SELECT p.sex, count(*) FROM visits v JOIN people p ON v.person = p.id GROUP BY 1 ORDER BY 1",
]


def make(path: Path, people: int) -> None:
    """Of which a third has 12 visits, and the others one."""
    new = path.with_name("new.duckdb")
    with duckdb.connect(str(new)) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT i AS id, ['F', 'M'][1 + i % 2] AS sex FROM range({people}) AS t(i)")
        connection.execute(
            "CREATE TABLE visits AS SELECT id AS person, ['bakery', 'books', 'tools'][1 + (id + j) % 3] AS shop, "
            "(id * 7 + j) % 5000 / 100.0 AS paid, TIMESTAMP '2024-01-15' + to_days(((id + j * 29) % 340)::INTEGER) AS seen "
            "FROM people, range(12) AS u(j) WHERE j = 0 OR id % 3 = 0"
        )
    os.replace(new, path)


def exact(path: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("copies")
    make(made / "data.duckdb", 600)
    (made / "town.yaml").write_text(POLICY.replace("VERIFIER", VERIFIER))
    return made


@pytest.fixture(scope="module")
def proxy(folder: Path) -> Iterator[Proxy]:
    with launched([folder / "town.yaml"], folder / "state", options=("--drain", "3")) as running:
        said(running, "prepared copy used")
        yield running


def files(folder: Path) -> set[Path]:
    return {path for path in (folder / "elsewhere").rglob("*") if path.is_file() and path.name != "lock"}


def answers(proxy: Proxy, statements: list[str]) -> list[list[tuple[object, ...]]]:
    with psycopg.connect(f"host={proxy.host} port={proxy.port} user=ada password=x dbname=town", autocommit=True) as connection:
        return [connection.execute(sql).fetchall() for sql in statements]  # type: ignore[call-overload]


def shapes(proxy: Proxy, statements: list[str]) -> list[str]:
    """What EXPLAIN says of where each statement is measured."""
    plans = ["\n".join(str(line) for (line,) in rows) for rows in answers(proxy, [f"EXPLAIN {sql}" for sql in statements])]
    return [plan.partition("Read from: ")[2].partition("\n")[0] for plan in plans]


def rounded(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [tuple(round(float(v), 2) if isinstance(v, int | float) or hasattr(v, "as_tuple") else v for v in row) for row in rows]


def test_answers_are_those_of_the_data(proxy: Proxy, folder: Path) -> None:
    """Of a proxy that has a copy, for statements that it answers from the copy and for others; the file is its owner's alone."""
    path = folder / "data.duckdb"
    for sql, rows in zip([*STORED, *FROM_DATA], answers(proxy, [*STORED, *FROM_DATA]), strict=True):
        assert rounded(rows) == rounded(exact(path, sql)), sql
    assert shapes(proxy, STORED) == [
        f"stored sums of {told}: bounded and added up"
        for told in ("visits by shop", "visits by unit", "visits by month of seen", "query 1 of the policy")
    ]
    assert all(told.startswith("rows: ") for told in shapes(proxy, FROM_DATA))
    found = files(folder)
    assert {file.suffix for file in found} == {".duckdb", ".json"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in found} == {0o600}
    assert not (folder / "state" / "copies").exists()


def test_other_data_have_another_copy(proxy: Proxy, folder: Path) -> None:
    """Of the same size and time; the copy before is gone when the new one is there."""
    path = folder / "data.duckdb"
    before, times = files(folder), path.stat()
    make(path, 603)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    hang_up(proxy, "prepared copy used")
    assert not before & files(folder)
    assert len(files(folder)) == 2
    events = {json.loads(line)["event"] for line in proxy.said if line.startswith("{")}
    assert {"prepared copy begun", "prepared copy made", "prepared copy used"} <= events
    for sql, rows in zip(STORED, answers(proxy, STORED), strict=True):
        assert rounded(rows) == rounded(exact(path, sql)), sql


async def test_plans_read_the_copy_once_it_is_there(tmp_path: Path) -> None:
    """And measure the same numbers, before any noise. A policy that wants no copy has it removed."""
    make(tmp_path / "data.duckdb", 90)
    (tmp_path / "town.yaml").write_text(POLICY.replace("VERIFIER", VERIFIER))
    loaded = load_file(tmp_path / "town.yaml")
    backend = DuckDB(DuckDBBackend(str(tmp_path / "data.duckdb")))
    catalog = await backend.introspect()
    plans = plans_for(loaded.policy, catalog, "duckdb", 7)
    accelerator = accelerator_of(loaded.policy, catalog, backend, plans, "record", 7, tmp_path)
    assert accelerator is not None

    def measured(sql: str) -> list[str]:
        (statement,) = plans.split(sql)
        plan = plans.plan(statement, loaded.policy.roles["analyst"], {}, ())
        return [text.render([], literal) for m in plan.measurements for text in m.queries]

    async def numbers() -> list[object]:
        return [table.to_pydict() for sql in STORED + FROM_DATA for table in (await backend.run(measured(sql)))._open()]

    assert not any(DATABASE in text for sql in STORED for text in measured(sql))
    before = await numbers()
    accelerator.start()
    assert (await accelerator.done()).state == "used"
    assert all(DATABASE in text for sql in STORED for text in measured(sql))
    assert not any(DATABASE in text for sql in FROM_DATA for text in measured(sql))
    assert await numbers() == before
    await accelerator.close()
    assert len(files(tmp_path)) == 2
    off = replace(loaded.policy, accelerate=replace(loaded.policy.accelerate, mode="off"))
    assert accelerator_of(off, catalog, backend, plans, "record", 7, tmp_path) is None
    assert files(tmp_path) == set()
    await backend.close()


def test_small_data_have_none_unless_somebody_made_it() -> None:
    """The bound is drawn for each ledger, within its range."""
    bounds = [least(str(number)) for number in range(200)]
    assert len(set(bounds)) == 200
    assert SMALL <= min(bounds) < SMALL * 1.1
    assert LARGE / 1.1 < max(bounds) <= LARGE
    assert least("7") == bounds[7]


def test_where_copies_are(tmp_path: Path) -> None:
    text = POLICY.replace("VERIFIER", VERIFIER)
    said = folder_of(load_text(text, "town.yaml", tmp_path), tmp_path / "state").path
    assert said.parent == tmp_path / "elsewhere"
    unsaid = folder_of(load_text(text.replace("  folder: elsewhere\n", ""), "town.yaml", tmp_path), tmp_path / "state").path
    assert unsaid.parent == tmp_path / "state" / "copies"
