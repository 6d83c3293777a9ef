"""A whole proxy over data in PostgreSQL, while that server restarts, is away, is locked, and changes its tables.

Whatever happens there, a client hears one sentence, its session lives on, and what ran on the server is ended.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.errors import Refusal
from dpproxy.policy.load import load_file
from dpproxy.policy.people import make_verifier
from dpproxy.serve.data_checks import checked_catalog, open_backend, table_access
from dpproxy.serve.launch import launched
from dpproxy.table_terms import TableName

POLICY = """
version: 1
dataset: town
backend: {{ postgres: "{dsn}" }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 1000, delta: 0, every: never }}
tables:
  people: {{ unit: id, columns: {{ id: unit, region: {{ values: [east, west] }}, age: {{ range: [0, 100] }} }} }}
roles:
  analyst: {{ budget: {{ epsilon: 1000, delta: 0 }}, query: {{ epsilon: 0.5, max_epsilon: 10 }} }}
users: {{ ada: {{ role: analyst, password: "{verifier}" }} }}
"""
DATA = """
CREATE ROLE reader LOGIN;
CREATE TABLE persons (id int PRIMARY KEY, region text, age int);
CREATE FUNCTION gate() RETURNS bool LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN true; END';
CREATE VIEW people AS SELECT id, region, age FROM persons WHERE gate();
INSERT INTO persons SELECT i, 'east', i % 90 FROM generate_series(1, 1000) AS i;
GRANT SELECT ON people TO reader;
"""
"""Whoever has the lock that `gate` asks for holds a measurement up while it runs."""
NEW = itertools.count(1000)


def count() -> str:
    """A question never asked before: no stored answer is one to it."""
    return f"SELECT count(*) FROM people WHERE region <> 'x{next(NEW)}'"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("town")) as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as owner:
            owner.execute(DATA)
        yield server


@pytest.fixture(scope="module")
def dsn(data: Scratch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "town.yaml").write_text(POLICY.format(dsn=data.dsn(user="reader"), verifier=make_verifier("sesame")))
    with launched([folder / "town.yaml"], folder / "state") as proxy:
        yield f"host={proxy.host} port={proxy.port} user=ada password=sesame dbname=town"


@pytest.fixture
def client(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection
        assert connection.execute("SELECT 1").fetchone() == (1,), "the session lives on"


def counted(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(count().encode()).fetchone()
    assert row is not None
    return int(row[0])


def spent(connection: psycopg.Connection[Any]) -> float:
    return float(connection.execute("SELECT sum(epsilon_spent) FROM dpproxy.budget WHERE scope = 'role'").fetchone()[0])  # type: ignore[index]


def busy(data: Scratch) -> int:
    """Statements of the proxy that wait for a lock there. (Embedded servers do not say which statements run.)"""
    with psycopg.connect(data.conninfo(), autocommit=True) as owner:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpproxy' AND wait_event_type = 'Lock'"
        return int(owner.execute(query).fetchone()[0])  # type: ignore[index]


def test_a_restart_between_statements_is_not_noticed(data: Scratch, client: psycopg.Connection[Any]) -> None:
    assert 900 < counted(client) < 1100
    data.restart()
    assert 900 < counted(client) < 1100


def test_a_restart_under_a_statement_is_not_noticed(data: Scratch, client: psycopg.Connection[Any]) -> None:
    """It waits for a lock when its server goes down, and is asked again of the one that comes up."""
    found: list[int] = []
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(data.conninfo()) as owner:  # it ends with the server
        owner.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        asking = threading.Thread(target=lambda: found.append(counted(client)))
        asking.start()
        wait_until(lambda: busy(data) == 1)
        data.restart()
        asking.join(30)
    assert 900 < found[0] < 1100


def test_a_server_that_is_away(data: Scratch, client: psycopg.Connection[Any]) -> None:
    before = spent(client)
    data.wait(data.server.stop())
    try:
        with pytest.raises(psycopg.Error) as caught:
            counted(client)
        assert caught.value.sqlstate == "57P03"
    finally:
        data.wait(data.server.start())
    assert spent(client) == pytest.approx(before), "nothing is charged that cannot begin"
    assert 900 < counted(client) < 1100


@pytest.mark.parametrize("how", ["cancel", "gone"])
def test_what_is_ended_here_goes_on_there(how: str, data: Scratch, client: psycopg.Connection[Any], dsn: str) -> None:
    before, sql = spent(client), count()
    with psycopg.connect(data.conninfo()) as owner, psycopg.connect(dsn, autocommit=True) as asking:
        owner.execute("SELECT pg_advisory_xact_lock(1)")
        asking.pgconn.send_query(sql.encode())
        wait_until(lambda: busy(data) == 1)
        if how == "cancel":
            asking.cancel()
            while asking.pgconn.get_result():
                pass
        else:
            asking.pgconn.finish()
        assert busy(data) == 1
    assert 900 < client.execute(sql).fetchone()[0] < 1100  # type: ignore[index]
    assert spent(client) == pytest.approx(before + 0.5), "asking again is free"


def test_an_answer_is_of_a_whole_load(data: Scratch, client: psycopg.Connection[Any]) -> None:
    """It waits for the load, and is charged when that is through."""
    before, found = spent(client), list[int]()
    with psycopg.connect(data.conninfo(), autocommit=True) as owner:
        with owner.transaction():
            owner.execute("TRUNCATE persons")
            owner.execute("INSERT INTO persons SELECT i, 'east', i % 90 FROM generate_series(1, 3000) AS i")
            asking = threading.Thread(target=lambda: found.append(counted(client)))
            asking.start()
            wait_until(lambda: busy(data) == 1)
        asking.join(300)
        assert 2900 < found[0] < 3100
        assert spent(client) == pytest.approx(before + 0.5)
        owner.execute("DELETE FROM persons WHERE id > 1000")


def test_who_leaves_while_a_load_is_open_pays_nothing(data: Scratch, client: psycopg.Connection[Any], dsn: str) -> None:
    before = spent(client)
    with psycopg.connect(data.conninfo()) as owner, psycopg.connect(dsn, autocommit=True) as asking:
        owner.execute("LOCK TABLE persons IN ACCESS EXCLUSIVE MODE")
        asking.pgconn.send_query(count().encode())
        wait_until(lambda: busy(data) == 1)
        asking.cancel()
        while asking.pgconn.get_result():
            pass
    assert spent(client) == pytest.approx(before)


CHANGES = {
    "a column": ("ALTER TABLE people RENAME age TO years", "ALTER TABLE people RENAME years TO age"),
    "a table": ("ALTER TABLE people RENAME TO persons_seen", "ALTER TABLE persons_seen RENAME TO people"),
    "a right": ("REVOKE SELECT ON people FROM reader", "GRANT SELECT ON people TO reader"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_cannot_be_answered_any_more(what: str, data: Scratch, client: psycopg.Connection[Any]) -> None:
    """It is refused before each charge, until it is there again."""
    before, (change, undo) = spent(client), CHANGES[what]
    with psycopg.connect(data.conninfo(), autocommit=True) as owner:
        owner.execute(change.encode())
        try:
            for _ in range(3):
                with pytest.raises(psycopg.Error, match="the data are not as the policy describes them") as caught:
                    client.execute(f"SELECT avg(age) FROM people WHERE region <> 'x{next(NEW)}'".encode())
                assert caught.value.sqlstate == "55000"
            assert spent(client) == pytest.approx(before)
            if what == "a column":
                assert 900 < counted(client) < 1100
        finally:
            owner.execute(undo.encode())
    assert 0 <= float(client.execute("SELECT avg(age) FROM people").fetchone()[0]) <= 100  # type: ignore[index]


async def test_what_a_look_sees_of_tables(data: Scratch, tmp_path: Path) -> None:
    """Names, kinds of columns and rights, of what the policy uses alone; a table of its own each time, as others ask `people`."""
    (tmp_path / "town.yaml").write_text(
        POLICY.format(dsn=data.dsn(user="reader"), verifier=make_verifier("x")).replace("people", "looked")
    )
    loaded = load_file(tmp_path / "town.yaml")
    with psycopg.connect(data.conninfo(), autocommit=True) as owner:
        owner.execute("CREATE TABLE looked (id int PRIMARY KEY, region text, age int); GRANT SELECT ON looked TO reader")
        backend = open_backend(loaded)
        name = TableName("public", "looked")
        access = table_access(loaded.policy, await checked_catalog(loaded, backend), backend)
        try:
            for change, closed in (
                ("ALTER TABLE looked ADD other int", False),
                ("ALTER TABLE looked ALTER age TYPE text", True),
                ("ALTER TABLE looked ALTER age TYPE int USING age::int", False),
                ("ALTER TABLE looked RENAME age TO years", True),
                ("ALTER TABLE looked RENAME years TO age", False),
                ("REVOKE SELECT ON looked FROM reader", True),
                ("GRANT SELECT ON looked TO reader", False),
                ("DROP TABLE looked", True),
            ):
                owner.execute(change.encode())
                await access.failed()
                with pytest.raises(Refusal) if closed else contextlib.nullcontext():
                    await access.check([name])
        finally:
            await access.close()
            await backend.close()


def wait_until(done: Any) -> None:
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
