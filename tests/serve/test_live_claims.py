"""Rows of a PostgreSQL server that come to break a claim: found at the next epoch, refused uncharged, and answered when they are right."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import LaunchError, Proxy, launched

from .test_reload import hang_up

POLICY = """
version: 1
dataset: shop
backend: {{ postgres: "{dsn}" }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 100000, delta: 0, every: never }}
tables:
  people: {{ unit: id, columns: {{ id: unit }} }}
  orders:
    unit: {{ via: people.id, column: pid }}
    bounds: {{ rows_per_group: 3, groups: 1 }}
    columns: {{ pid: unit, ref: key }}
  items:
    unit: {{ via: orders.ref }}
    bounds: {{ rows_per_group: 3, groups: 1 }}
    columns: {{ ref: key, price: {{ range: [0, 10] }} }}
  loads: {{ public: true }}
roles:
  analyst: {{ budget: {{ epsilon: 100000, delta: 0 }}, query: {{ epsilon: 1000, max_epsilon: 1000 }} }}
users: {{ ada: {{ role: analyst, password: "{verifier}" }} }}
reuse_answers: {{ epoch: "SELECT max(load) FROM public.loads" }}
{more}
"""
DATA = """
CREATE TABLE people (id int PRIMARY KEY);
CREATE TABLE orders (pid int, ref int);
CREATE TABLE items (ref int, price int);
CREATE TABLE loads (load int);
INSERT INTO people SELECT i FROM generate_series(1, 501) AS i;
INSERT INTO orders SELECT i, i FROM generate_series(1, 501) AS i;
INSERT INTO items SELECT i, 5 FROM generate_series(1, 501) AS i;
INSERT INTO loads VALUES (1);
"""
SHARED = "BEGIN; UPDATE orders SET ref = 0 WHERE pid <= 500; INSERT INTO loads SELECT max(load) + 1 FROM loads; COMMIT"
MENDED = "BEGIN; UPDATE orders SET ref = pid; INSERT INTO loads SELECT max(load) + 1 FROM loads; COMMIT"
ITEMS, ORDERS, PEOPLE = (f"SELECT count(*) FROM {table}" for table in ("items", "orders", "people"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("shop")) as made:
        load(made, DATA)
        yield made


@pytest.fixture
def server(running: Scratch) -> Iterator[Scratch]:
    """With right data at the begin of each test."""
    yield running
    load(running, MENDED)


def written(server: Scratch, folder: Path, more: str = "") -> Path:
    text = POLICY.format(dsn=server.dsn(), verifier=make_verifier("x"), more=more)
    (folder / "shop.yaml").write_text(text)
    return folder / "shop.yaml"


def load(server: Scratch, sql: str) -> None:
    with psycopg.connect(server.conninfo(), autocommit=True) as owner:
        owner.execute(sql.encode())


class Client:
    def __init__(self, proxy: Proxy) -> None:
        where = f"host={proxy.host} port={proxy.port} user=ada password=x dbname=shop"
        self._connection = psycopg.connect(where, autocommit=True)

    def ask(self, sql: str) -> int:
        row = self._connection.execute(sql.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def refusal(self, sql: str) -> psycopg.Error:
        with pytest.raises(psycopg.Error) as refused:
            self.ask(sql)
        return refused.value

    def spent(self) -> int:
        return self.ask("SELECT epsilon_spent FROM dpproxy.budget WHERE scope = 'role'")


def test_a_load_that_breaks_a_claim_closes_its_table(server: Scratch, tmp_path: Path) -> None:
    with launched([written(server, tmp_path)], tmp_path / "state") as proxy:
        client = Client(proxy)
        assert [client.ask(sql) for sql in (ITEMS, ORDERS, PEOPLE)] == [501, 501, 501]
        load(server, SHARED)
        before = client.spent()
        wait(proxy, client, ITEMS, "table closed")
        refused = client.refusal(ITEMS)
        assert refused.sqlstate == "55000"
        said = "table orders is closed: `orders.ref` is not unique in the data, and the path from `items` leads over it"
        assert str(refused.diag.message_primary).startswith(said)
        assert "Nothing was charged. The table opens again once its data are right: `ref` is to be unique in `orders`" in str(
            refused
        )
        assert client.refusal(ORDERS).sqlstate == "55000"
        assert any("up to 500 rows of `orders` share one value" in line for line in proxy.said)
        told = client.ask(PEOPLE)
        assert (told, client.spent()) == (501, before + 1000), "people have an answer of the new epoch; nothing else was charged"
        load(server, MENDED)
        wait(proxy, client, ITEMS, "table open again")
        assert client.ask(ITEMS) == 501


def wait(proxy: Proxy, client: Client, sql: str, event: str) -> None:
    """Ask until the log says it: the epoch is asked for once a second, beside the statements."""
    before = sum(event in line for line in proxy.said)
    while sum(event in line for line in list(proxy.said)) == before:
        with contextlib.suppress(psycopg.errors.ObjectNotInPrerequisiteState):
            client.ask(sql)


def test_a_start_and_a_reload_refuse_it(server: Scratch, tmp_path: Path) -> None:
    path = written(server, tmp_path)
    with launched([path], tmp_path / "state") as proxy:
        load(server, SHARED)
        path.write_text(path.read_text().replace("rows_per_group: 3", "rows_per_group: 2"))
        hang_up(proxy, "policy not reloaded")
        assert any("up to 500 rows of `orders` share one value" in line for line in proxy.said)
    with pytest.raises(LaunchError, match="up to 500 rows of `orders` share one value"), launched([path], tmp_path / "state"):
        pass


def test_an_extract_of_it_is_not_served(server: Scratch, tmp_path: Path) -> None:
    """What was extracted before stays; and none of the database as it is now can be begun with."""
    path = written(server, tmp_path, "accelerate: extract")
    with launched([path], tmp_path / "state") as proxy:
        client = Client(proxy)
        assert client.ask(ITEMS) == 501
        load(server, SHARED)
        hang_up(proxy, "policy not reloaded")
        assert any("up to 500 rows of `orders` share one value" in line for line in proxy.said)
        assert client.ask(ITEMS) == 501
    with pytest.raises(LaunchError, match="up to 500 rows of `orders` share one value"), launched([path], tmp_path / "fresh"):
        pass


def test_a_key_of_the_database_needs_no_look(server: Scratch, tmp_path: Path) -> None:
    """Whoever would break it is refused by PostgreSQL; a key that is gone is noticed, and the data are opened anew."""
    load(server, "ALTER TABLE orders ADD CONSTRAINT one UNIQUE (ref)")
    with launched([written(server, tmp_path)], tmp_path / "state") as proxy:
        assert not any("no key of the database keeps" in line for line in proxy.said)
        client = Client(proxy)
        assert client.ask(ITEMS) == 501
        with pytest.raises(psycopg.errors.UniqueViolation):
            load(server, SHARED)
    load(server, "ALTER TABLE orders DROP CONSTRAINT one")
    with launched([written(server, tmp_path)], tmp_path / "state") as proxy:
        assert any("`orders.ref` is unique, and no key of the database keeps it so" in line for line in proxy.said)
