"""A served file that is replaced, written over, changed in shape, or gone: what is answered, what is stored, what a reload does."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched

from .test_reload import alive, hang_up

POLICY = """
version: 1
dataset: town
backend: { duckdb: data.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1000000, delta: 0, every: never }
tables:
  people: { unit: id, columns: { id: unit, region: { values: [east, west] } } }
  loads: { public: true }
roles: { analyst: { budget: { epsilon: 100000, delta: 0, every: never }, query: { epsilon: 1000, max_epsilon: 1000 } } }
users: { ada: { role: analyst, password: "VERIFIER" } }
REUSE
"""
VERIFIER = make_verifier("x")
PEOPLE = "SELECT count(*) FROM people"
CROSS = "SELECT count(*) FROM people CROSS JOIN loads"


def make(path: Path, people: int, loads: int = 2, region: str = "'east'", rows: str = "") -> None:
    new = path.with_name("new.duckdb")
    with duckdb.connect(str(new)) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT i AS id, {region} AS region FROM range({people}) AS t(i)")
        connection.execute(f"CREATE TABLE loads AS SELECT i AS load FROM range({loads}) AS t(i); {rows}")
    os.replace(new, path)


DATASETS = {"town": "", "village": "reuse_answers: { epoch: reload at 03:00 }"}
"""Two that are served together, each over a file of its own, and how long each keeps answers."""


def files(folder: Path) -> list[Path]:
    """The policies of both, over a hundred people each."""
    found = []
    for name, reuse in DATASETS.items():
        (folder / name).mkdir()
        make(folder / name / "data.duckdb", 100)
        text = POLICY.replace("dataset: town", f"dataset: {name}").replace("VERIFIER", VERIFIER).replace("REUSE", reuse)
        (folder / name / "policy.yaml").write_text(text)
        found.append(folder / name / "policy.yaml")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("epochs")


@pytest.fixture(scope="module")
def proxy(folder: Path) -> Iterator[Proxy]:
    with launched(files(folder), folder / "state", options=("--drain", "3")) as running:
        yield running


@pytest.fixture
def data(proxy: Proxy, folder: Path) -> Path:
    """The town's file; both are new, and read."""
    for name in DATASETS:
        make(folder / name / "data.duckdb", 100)
    hang_up(proxy, "policy reloaded", 2)
    return folder / "town" / "data.duckdb"


def connect(proxy: Proxy, dataset: str = "town") -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(f"host={proxy.host} port={proxy.port} user=ada password=x dbname={dataset}", autocommit=True)


def ask(proxy: Proxy, sql: str, dataset: str = "town") -> int:
    with connect(proxy, dataset) as connection:
        row = connection.execute(sql).fetchone()  # type: ignore[call-overload]
    assert row is not None
    return int(row[0])


def spent(proxy: Proxy, dataset: str = "town") -> int:
    return ask(proxy, "SELECT epsilon_spent FROM dpproxy.budget", dataset)


def test_a_reload_reads_the_data_again(proxy: Proxy, data: Path, folder: Path) -> None:
    """The policy is what it was: the file, and the public table's copy and size, are not."""

    def answers(dataset: str) -> list[int]:
        return [ask(proxy, sql, dataset) for sql in (PEOPLE, CROSS, "SELECT count(*) FROM loads")]

    assert [answers(name) for name in DATASETS] == [[100, 200, 2]] * 2
    connections = [connect(proxy, name) for name in DATASETS]
    hang_up(proxy, "policy unchanged", 2)
    assert all(map(alive, connections)), "nothing changed"
    for name in DATASETS:
        make(folder / name / "data.duckdb", 40, loads=20)
    assert [ask(proxy, PEOPLE, name) for name in DATASETS] == [100, 100], "what was opened, until a reload"
    before = [spent(proxy, name) for name in DATASETS]
    hang_up(proxy, "policy reloaded", 2)
    assert not any(map(alive, connections))
    assert [answers(name) for name in DATASETS] == [[40, 800, 20]] * 2
    assert [spent(proxy, name) for name in DATASETS] == [amount + 2000 for amount in before]
    assert [ask(proxy, PEOPLE, name) for name in DATASETS] == [40, 40]
    assert [spent(proxy, name) for name in DATASETS] == [amount + 2000 for amount in before], "and kept"


def test_promises_are_held_against_what_is_read_then(proxy: Proxy, data: Path) -> None:
    """A person twice where the policy says once: what was there stays, whole."""
    make(data, 100, rows="INSERT INTO people VALUES (1, 'west')")
    hang_up(proxy, "policy not reloaded")
    assert ask(proxy, PEOPLE) == 100
    assert any("more than one row" in line for line in proxy.said)
    make(data, 50)
    hang_up(proxy, "policy reloaded")
    assert ask(proxy, PEOPLE) == 50


def test_another_shape(proxy: Proxy, data: Path) -> None:
    """A column of another type: nothing that was stored is of it. A column that is gone: no reload."""
    assert ask(proxy, PEOPLE) == 100
    make(data, 100, region="1")
    hang_up(proxy, "policy not reloaded")
    with duckdb.connect(str(data.with_name("new.duckdb"))) as connection:
        connection.execute("CREATE TABLE people (id int); CREATE TABLE loads (load int)")
    os.replace(data.with_name("new.duckdb"), data)
    hang_up(proxy, "policy not reloaded")
    assert ask(proxy, "SELECT count(*) FROM people WHERE region = 'east'") == 100, "the old data, whole"
    data.unlink()
    hang_up(proxy, "policy not reloaded")
    assert ask(proxy, PEOPLE) == 100


def test_a_file_written_over_is_refused_uncharged(proxy: Proxy, data: Path) -> None:
    """And read again at once."""
    assert ask(proxy, PEOPLE) == 100
    other = data.with_name("other.duckdb")
    make(other, 30)
    before, reloads = spent(proxy), sum("policy reloaded" in line for line in proxy.said)
    data.write_bytes(other.read_bytes())
    with pytest.raises(psycopg.Error) as refused:
        ask(proxy, "SELECT count(*) FROM people WHERE region = 'east'")
    assert refused.value.sqlstate == "40001"
    while sum("policy reloaded" in line for line in list(proxy.said)) == reloads:
        time.sleep(0.02)
    assert ask(proxy, "SELECT count(*) FROM people WHERE region = 'east'") == 30
    assert spent(proxy) == before + 1000


def test_after_a_restart(tmp_path: Path) -> None:
    """The same file: what was paid for is there. Another: it is not."""
    policies = files(tmp_path)
    paid: list[list[int]] = []
    for people in (100, 100, 60):
        if people == 60:
            for name in DATASETS:
                make(tmp_path / name / "data.duckdb", people)
        with launched(policies, tmp_path / "state") as proxy:
            assert [ask(proxy, PEOPLE, name) for name in DATASETS] == [people, people]
            paid.append([spent(proxy, name) for name in DATASETS])
    assert paid == [[1000, 1000], [1000, 1000], [2000, 2000]]
