"""A public table of a PostgreSQL that grows while it is served: nothing is cut in silence, and nothing charged for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched

POLICY = """
version: 1
dataset: town
backend: {{ postgres: "{dsn}" }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 1000000, delta: 0, every: never }}
tables:
  people: {{ unit: id, columns: {{ id: unit, region: {{ values: [east, west] }} }} }}
  loads: {{ public: true }}
roles: {{ analyst: {{ budget: {{ epsilon: 100000, delta: 0 }}, query: {{ epsilon: 1000, max_epsilon: 1000 }} }} }}
users: {{ ada: {{ role: analyst, password: "{verifier}" }} }}
"""
CROSS = "SELECT count(*), sum(weight) FROM people CROSS JOIN loads WHERE region <> '{}'"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Scratch]:
    with scratch_server(tmp_path / "server") as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as owner:
            owner.execute("CREATE TABLE people (id int PRIMARY KEY, region text); CREATE TABLE loads (load int, weight int)")
            owner.execute("INSERT INTO people SELECT i, 'east' FROM generate_series(1, 200) AS i")
            owner.execute("INSERT INTO loads VALUES (1, 1), (2, 1)")
        yield server


@pytest.fixture
def proxy(data: Scratch, tmp_path: Path) -> Iterator[Proxy]:
    (tmp_path / "town.yaml").write_text(POLICY.format(dsn=data.dsn(), verifier=make_verifier("x")))
    with launched([tmp_path / "town.yaml"], tmp_path / "state") as running:
        yield running


def ask(proxy: Proxy, sql: str) -> tuple[int, ...]:
    dsn = f"host={proxy.host} port={proxy.port} user=ada password=x dbname=town"
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(sql).fetchone()  # type: ignore[call-overload]
    assert row is not None
    return tuple(map(int, row))


def until_read_again(proxy: Proxy, sql: str) -> tuple[tuple[int, ...], int]:
    """The answer, and how often it was refused before, in words that say so."""
    for refused in range(1000):
        try:
            return ask(proxy, sql), refused
        except psycopg.OperationalError as error:
            if error.sqlstate == "40001" and "loads has changed" not in str(error):
                raise
    raise AssertionError("it was never read again")


def test_what_was_known_of_a_public_table_is_looked_at_again(proxy: Proxy, data: Scratch) -> None:
    """20 rows for 2, and heavier ones: it was 400 of 4,000, and a sum held within the old range."""
    assert ask(proxy, CROSS.format("a")) == (400, 400)
    with psycopg.connect(data.conninfo(), autocommit=True) as owner:
        owner.execute("INSERT INTO loads SELECT i, 7 FROM generate_series(3, 20) AS i")
    assert ask(proxy, CROSS.format("a")) == (400, 400), "what was stored is of the data it was measured on"
    (before,) = ask(proxy, "SELECT epsilon_spent FROM dpproxy.budget")
    found, refused = until_read_again(proxy, CROSS.format("b"))
    assert refused
    assert found == pytest.approx((4000, 200 * (2 + 18 * 7)), abs=9), "within noise"
    assert ask(proxy, "SELECT epsilon_spent FROM dpproxy.budget") == (before + 1000,), "refusals cost nothing"
    assert ask(proxy, "SELECT count(*) FROM loads") == (20,), "and so is the copy that is joined after"
    with psycopg.connect(data.conninfo(), autocommit=True) as owner:
        owner.execute("UPDATE loads SET weight = 9 WHERE load = 1")
    found, refused = until_read_again(proxy, CROSS.format("c"))
    assert refused
    assert found == pytest.approx((4000, 200 * (1 + 9 + 18 * 7)), abs=9)
    assert ask(proxy, "SELECT count(*) FROM people") == (200,)
