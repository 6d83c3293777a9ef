"""A key that a policy lists, from the policy to the end: answered by it, checked at start, by `policy check`, at a reload, of an
extract; and a table that comes to break it is closed at the next epoch.

`items` has no key of the database. Without the listed one, rows of a person meet all others of theirs, and a join of three is
refused for the work it could take.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from scratch_postgres import Scratch, scratch_server
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import LaunchError, launched

from .test_live_claims import Client, load, wait
from .test_reload import hang_up

POLICY = """
version: 1
dataset: shop
backend: {{ {backend} }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 100000, delta: 0, every: never }}
tables:
  people: {{ unit: id, columns: {{ id: unit }} }}
  items:
    unit: {{ via: people.id, column: pid }}
    {keys}
    bounds: {{ rows_per_group: 3, groups: 1 }}
    columns: {{ pid: unit, line: key, price: {{ range: [0, 10] }} }}
  loads: {{ public: true }}
roles:
  analyst: {{ budget: {{ epsilon: 100000, delta: 0 }}, query: {{ epsilon: 1000, max_epsilon: 1000 }} }}
users: {{ ada: {{ role: analyst, password: "{verifier}" }} }}
{more}
"""
LISTED = "keys: [[pid, line]]"
DATA = """
CREATE TABLE people (id int PRIMARY KEY);
CREATE TABLE items (pid int, line int, price int);
CREATE TABLE loads (load int);
INSERT INTO people SELECT i FROM generate_series(1, 100) AS s(i);
INSERT INTO items SELECT i, j, 5 FROM generate_series(1, 100) AS s(i), generate_series(1, 2) AS t(j);
INSERT INTO items VALUES (1, NULL, 5), (1, NULL, 5);
INSERT INTO loads VALUES (1);
"""
"""Rows whose line is NULL meet none, and break nothing."""
BROKEN = "UPDATE items SET line = 1 WHERE pid = 7"
MENDED = "DELETE FROM items WHERE pid = 7; INSERT INTO items VALUES (7, 1, 5), (7, 2, 5)"
THREE = "SELECT count(*) FROM items a JOIN items b USING (pid, line) JOIN items c USING (pid, line)"
SAYS = "`items (pid, line)` is listed in `keys`, and up to 2 rows share its values"
QUERIED = "reuse_answers: { epoch: SELECT max(load) FROM loads }"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("shop")) as made:
        load(made, DATA)
        yield made


@pytest.fixture
def server(running: Scratch) -> Iterator[Scratch]:
    yield running
    load(running, f"{MENDED}; DELETE FROM loads; INSERT INTO loads VALUES (1)")


def file(folder: Path, *changes: str) -> None:
    """The data as a file that takes the place of what was there."""
    with duckdb.connect(str(folder / "new.duckdb")) as data:
        for statement in (DATA, *changes):
            data.execute(statement)
    (folder / "new.duckdb").replace(folder / "shop.duckdb")


def policy(folder: Path, server: Scratch | None, keys: str = LISTED, more: str = "") -> Path:
    backend = "duckdb: shop.duckdb" if server is None else f'postgres: "{server.dsn()}"'
    (folder / "shop.yaml").write_text(POLICY.format(backend=backend, keys=keys, verifier=make_verifier("x"), more=more))
    return folder / "shop.yaml"


def checked(path: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(commands, ["policy", "check", *options, str(path)])
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_it_is_held_against_the_data(engine: str, server: Scratch, tmp_path: Path) -> None:
    """At start, at a reload, and by `policy check` with and without exact counts."""
    file(tmp_path)
    path = policy(tmp_path, server if engine == "postgres" else None)
    with launched([path], tmp_path / "state") as proxy:
        client = Client(proxy)
        assert client.ask(THREE) == 200
        assert [checked(path, *options)[0] for options in ((), ("--data",), ("--no-data",))] == [0, 0, 0]
        file(tmp_path, BROKEN)
        load(server, BROKEN)
        path.write_text(path.read_text().replace("rows_per_group: 3", "rows_per_group: 4"))
        hang_up(proxy, "policy not reloaded")
        assert any(SAYS in line for line in proxy.said)
        policy(tmp_path, server if engine == "postgres" else None, keys="")
        hang_up(proxy, "policy reloaded")
        assert "to the power of 3" in str(Client(proxy).refusal(THREE))
    path = policy(tmp_path, server if engine == "postgres" else None)
    with pytest.raises(LaunchError, match="is listed in `keys`"), launched([path], tmp_path / "state"):
        pass
    for options in ((), ("--data",)):
        code, said = checked(path, *options)
        assert (code, SAYS in said, "remove it from `keys`, or add the columns" in said) == (1, True, True)
        assert ":11:" in said, "it says where the policy makes the claim"
    assert checked(path, "--no-data")[0] == 0


def test_a_load_that_breaks_it_closes_its_table(server: Scratch, tmp_path: Path) -> None:
    with launched([policy(tmp_path, server, more=QUERIED)], tmp_path / "state") as proxy:
        client = Client(proxy)
        assert client.ask(THREE) == 200
        before = client.spent()
        load(server, f"BEGIN; {BROKEN}; UPDATE loads SET load = 2; COMMIT")
        wait(proxy, client, "SELECT count(*) FROM items", "table closed")
        refused = client.refusal(THREE)
        assert refused.sqlstate == "55000"
        said = (
            "table items is closed: rows share the values of `items (pid, line)` in the data, and the policy lists it in `keys`"
        )
        assert str(refused.diag.message_primary).startswith(said)
        assert "no two rows of `items` are to share them" in str(refused)
        assert client.ask("SELECT count(*) FROM people") == 100
        assert client.spent() <= before + 2000, "what was refused was not charged"
        load(server, f"BEGIN; {MENDED}; UPDATE loads SET load = 3; COMMIT")
        wait(proxy, client, THREE, "table open again")
        assert client.ask(THREE) == 200


def test_a_key_of_the_database_with_fewer_columns_keeps_it(server: Scratch, tmp_path: Path) -> None:
    """`policy check` warns of one that only looks confirm, and of no other."""
    path = policy(tmp_path, server)
    assert "`items (pid, line)` is unique, and no key of the database keeps it so" in checked(path)[1]
    load(server, "ALTER TABLE items ADD CONSTRAINT kept UNIQUE (pid, line)")
    try:
        assert "no key of the database keeps" not in checked(path)[1]
    finally:
        load(server, "ALTER TABLE items DROP CONSTRAINT kept")


def test_an_extract_is_held_to_it(server: Scratch, tmp_path: Path) -> None:
    """One of data that break it is not served; what was extracted before stays."""
    path = policy(tmp_path, server, more=f"accelerate: extract\n{QUERIED}")
    with launched([path], tmp_path / "state") as proxy:
        client = Client(proxy)
        assert client.ask(THREE) == 200
        load(server, f"BEGIN; {BROKEN}; UPDATE loads SET load = 2; COMMIT")
        hang_up(proxy, "policy not reloaded")
        assert any(SAYS in line for line in proxy.said)
        assert client.ask(THREE) == 200
    assert checked(path)[0] == 1
    with pytest.raises(LaunchError, match="is listed in `keys`"), launched([path], tmp_path / "fresh"):
        pass
