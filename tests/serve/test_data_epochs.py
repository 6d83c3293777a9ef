"""A served file that is replaced, written over, changed in shape, or gone: what is answered, what is stored, what a reload does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.policy.password import make_verifier
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
PEOPLE = "SELECT count(*) FROM people"
CROSS = "SELECT count(*) FROM people CROSS JOIN loads"


def make(path: Path, people: int, loads: int = 2, region: str = "'east'", rows: str = "") -> None:
    new = path.with_name("new.duckdb")
    with duckdb.connect(str(new)) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT i AS id, {region} AS region FROM range({people}) AS t(i)")
        connection.execute(f"CREATE TABLE loads AS SELECT i AS load FROM range({loads}) AS t(i); {rows}")
    os.replace(new, path)


@pytest.fixture
def data(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Its parameter says how long answers are kept."""
    make(tmp_path / "data.duckdb", 100)
    (tmp_path / "town.yaml").write_text(
        POLICY.replace("VERIFIER", make_verifier("x")).replace("REUSE", getattr(request, "param", ""))
    )
    return tmp_path / "data.duckdb"


@pytest.fixture
def proxy(data: Path) -> Iterator[Proxy]:
    with launched([data.with_name("town.yaml")], data.parent / "state", options=("--drain", "3")) as running:
        yield running


def connect(proxy: Proxy) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(f"host={proxy.host} port={proxy.port} user=ada password=x dbname=town", autocommit=True)


def ask(proxy: Proxy, sql: str) -> int:
    with connect(proxy) as connection:
        row = connection.execute(sql).fetchone()  # type: ignore[call-overload]
    assert row is not None
    return int(row[0])


def spent(proxy: Proxy) -> int:
    return ask(proxy, "SELECT epsilon_spent FROM dpproxy.budget")


KEPT = pytest.mark.parametrize("data", ["", "reuse_answers: { epoch: reload at 03:00 }"], indirect=True)


@KEPT
def test_a_reload_reads_the_data_again(proxy: Proxy, data: Path) -> None:
    """The policy is what it was: the file, and the public table's copy and size, are not."""
    assert [ask(proxy, sql) for sql in (PEOPLE, CROSS, "SELECT count(*) FROM loads")] == [100, 200, 2]
    ada = connect(proxy)
    hang_up(proxy, "policy unchanged")
    assert alive(ada), "nothing changed"
    make(data, 40, loads=20)
    assert ask(proxy, PEOPLE) == 100, "what was opened, until a reload"
    before = spent(proxy)
    hang_up(proxy, "policy reloaded")
    assert not alive(ada)
    assert [ask(proxy, sql) for sql in (PEOPLE, CROSS, "SELECT count(*) FROM loads")] == [40, 800, 20]
    assert spent(proxy) == before + 2000
    assert ask(proxy, PEOPLE) == 40
    assert spent(proxy) == before + 2000, "and kept"


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


@KEPT
def test_after_a_restart(data: Path) -> None:
    """The same file: what was paid for is there. Another: it is not."""
    paid: list[Decimal | int] = []
    for people in (100, 100, 60):
        if people == 60:
            make(data, people)
        with launched([data.with_name("town.yaml")], data.parent / "state") as proxy:
            assert ask(proxy, PEOPLE) == people
            paid.append(spent(proxy))
            proxy.process.send_signal(signal.SIGTERM)
            proxy.process.wait(300)
    assert paid == [1000, 1000, 2000]
