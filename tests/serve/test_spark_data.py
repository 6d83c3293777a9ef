"""A whole proxy over data behind Spark Connect: answers, charges, what is asked again, cancels, time-outs, a server that is lost.

On Sail, which is killed and started again. The long mode also cancels and loses slow statements, and asks Spark itself (`scripts/spark`),
whose server is not stopped here.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpproxy.errors import AFTER_CHARGE
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched
from tests.worlds import spark_servers

POLICY = """
version: 1
dataset: town
backend: {{ spark: "{address}" }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 1000, delta: 1e-3, every: never }}
tables:
  people: {{ unit: id, columns: {{ id: unit, region: {{ values: [east, west] }}, age: {{ range: [0, 100] }}, street: {{}} }} }}
  visits: {{ unit: person, bounds: {{ rows_per_group: 1, groups: 2 }}, columns: {{ person: unit, shop: {{ values: [a, b] }} }} }}
  slow: {{ unit: person, bounds: {{ rows: 3 }}, columns: {{ person: unit, n: {{ range: [0, 9] }} }} }}
  shops: {{ public: true }}
roles:
  analyst: {{ budget: {{ epsilon: 1000, delta: 1e-3 }}, query: {{ epsilon: 5, max_epsilon: 10, delta: 1e-6 }} }}
users: {{ ada: {{ role: analyst, password: "{verifier}" }} }}
"""
PEOPLE = 2000
TABLES = """
CREATE TABLE people (id INT, region STRING, age INT, street STRING) USING parquet LOCATION '{folder}/people';
CREATE TABLE visits (person INT, shop STRING) USING parquet LOCATION '{folder}/visits';
CREATE TABLE shops (shop STRING, city STRING) USING parquet LOCATION '{folder}/shops';
CREATE VIEW slow AS SELECT CAST(a.id % 2000 AS INT) AS person, CAST(b.id % 10 AS INT) AS n
  FROM range(0, 30000) AS a JOIN range(0, 100000) AS b ON a.id % 7 + b.id % 11 = 1 WHERE a.id * b.id % 13 = 5
"""
NEW = itertools.count(1000)


def fill(folder: Path) -> str:
    """Write the town's rows; return the statements that make tables of them."""
    ids = list(range(PEOPLE))
    rows = {
        "people": {
            "id": pa.array(ids, pa.int32()),
            "region": ["east" if i % 4 else "west" for i in ids],
            "age": pa.array([i % 90 for i in ids], pa.int32()),
            "street": [f"street {i % 5}" if i % 50 else f"lane {i}" for i in ids],
        },
        "visits": {"person": pa.array([i for i in ids for _ in (1, 2)], pa.int32()), "shop": ["a", "b"] * PEOPLE},
        "shops": {"shop": ["a", "b"], "city": ["Ulm", "Bonn"]},
    }
    for name, columns in rows.items():
        (folder / name).mkdir()
        pq.write_table(pa.table(columns), folder / name / "rows.parquet")
    return TABLES.format(folder=folder)


@dataclass
class World:
    proxy: Proxy
    sail: spark_servers.SailProcess | None

    def dsn(self) -> str:
        return f"host={self.proxy.host} port={self.proxy.port} user=ada password=sesame dbname=town"


@pytest.fixture(scope="module", params=["sail", pytest.param("spark", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, sail = tmp_path_factory.mktemp("town"), None
    statements = fill(folder)
    if request.param == "sail":
        sail = spark_servers.SailProcess()
        sail.start()
        address = sail.address
        (folder / "tables.sql").write_text(statements)
        program, env = (
            [sys.executable, str(Path(spark_servers.__file__).with_name("sail_proxy.py"))],
            {"DPPROXY_TEST_TABLES": str(folder / "tables.sql")},
        )
    else:
        address, program, env = spark_servers.spark(), [], {}
        with spark_servers.session(address) as session:
            for text in (*(f"DROP TABLE IF EXISTS {t}" for t in ("people", "visits", "shops")), "DROP VIEW IF EXISTS slow"):
                session.sql(text)
            for text in statements.split(";"):
                session.sql(text)
    (folder / "town.yaml").write_text(POLICY.format(address=address, verifier=make_verifier("sesame")))
    try:
        with launched([folder / "town.yaml"], folder / "state", program=program, env=env) as proxy:
            yield World(proxy, sail)
    finally:
        if sail is not None:
            sail.kill()


@pytest.fixture
def client(world: World) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(world.dsn(), autocommit=True) as connection:
        yield connection
        assert connection.execute("SELECT 1").fetchone() == (1,), "the session lives on"


def counted(connection: psycopg.Connection[Any]) -> int:
    """The answer to a question never asked before: no stored answer is one to it."""
    row = connection.execute(f"SELECT count(*) FROM people WHERE region <> 'x{next(NEW)}'".encode()).fetchone()
    assert row is not None
    return int(row[0])


def spent(connection: psycopg.Connection[Any]) -> float:
    return float(connection.execute("SELECT sum(epsilon_spent) FROM dpproxy.budget WHERE scope = 'role'").fetchone()[0])  # type: ignore[index]


def slow() -> bytes:
    return f"SELECT count(*) FROM slow WHERE n <> {next(NEW)}".encode()


def begun(connection: psycopg.Connection[Any], before: float) -> None:
    """Wait until something is charged: it is measured then."""
    deadline = time.monotonic() + 300
    while spent(connection) == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("sql", "expected", "tolerance"),
    [
        ("SELECT region, count(*) FROM people GROUP BY 1 ORDER BY 1", [("east", 1500), ("west", 500)], 30),
        ("SELECT region, avg(age) FROM people GROUP BY 1 ORDER BY 1", [("east", 44.4), ("west", 44.0)], 3),
        ("SELECT c.city, count(*), count(DISTINCT person) FROM visits v JOIN shops c USING (shop) GROUP BY 1 ORDER BY 1",
         [("Bonn", 2000, 2000), ("Ulm", 2000, 2000)], 60),
        ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FROM people", [(44,)], 3),
        ("SELECT street, count(*) FROM people GROUP BY 1 ORDER BY 1", [("street 0", 360), *((f"street {i}", 400) for i in range(1, 5))], 30),
        ("SELECT city FROM shops ORDER BY 1", [("Bonn",), ("Ulm",)], 0),
        ("SELECT upper(left(street, 6)) AS s, count(*) FROM people GROUP BY 1 HAVING count(*) > 100", [("STREET", 1960)], 30),
    ],
)  # fmt: skip
def test_answers(sql: str, expected: list[tuple[Any, ...]], tolerance: float, client: psycopg.Connection[Any]) -> None:
    found = client.execute(sql.encode()).fetchall()
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        for cell, value in zip(row, wanted, strict=True):
            assert cell == value if isinstance(value, str) else float(cell) == pytest.approx(value, abs=tolerance)


def test_what_was_asked_is_free_and_what_spark_would_get_wrong_is_refused(client: psycopg.Connection[Any]) -> None:
    first = spent(client)
    sql = "SELECT region, count(*) FROM people WHERE age > 17 GROUP BY 1"
    answer = client.execute(sql).fetchall()
    assert spent(client) == pytest.approx(first + 5, abs=0.1)
    assert client.execute(sql).fetchall() == answer
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="not supported on Spark"):
        client.execute("SELECT count(*) FROM people WHERE exp(age) > 3")
    assert spent(client) == pytest.approx(first + 5, abs=0.1)


@pytest.mark.long
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_whoever_waits_no_longer_hears_it_at_once(how: str, world: World, client: psycopg.Connection[Any]) -> None:
    before = spent(client)
    with psycopg.connect(world.dsn(), autocommit=True) as asking:
        if how == "timeout":
            asking.execute("SET statement_timeout = '1s'")
        asking.pgconn.send_query(slow())
        begun(client, before)
        if how == "cancel":
            asking.cancel()
        states = [r.error_field(psycopg.pq.DiagnosticField.SQLSTATE) for r in iter(asking.pgconn.get_result, None)]
        assert states == [b"57014"]
    assert 1800 < counted(client) < 2200, "others are answered meanwhile"


def test_a_server_that_is_away(world: World, client: psycopg.Connection[Any]) -> None:
    if world.sail is None:
        pytest.skip("the server is not this test's to stop")
    assert 1800 < counted(client) < 2200
    before = spent(client)
    world.sail.kill()
    try:
        with pytest.raises(psycopg.Error) as caught:
            counted(client)
        assert caught.value.sqlstate == "57P03"
    finally:
        world.sail.start()
    assert spent(client) == pytest.approx(before), "nothing is charged that cannot begin"
    assert 1800 < counted(client) < 2200


@pytest.mark.long
def test_a_server_that_is_lost_under_a_statement(world: World, client: psycopg.Connection[Any]) -> None:
    """What was charged is told as lost, once; the server that comes up again is asked by new sessions."""
    if world.sail is None:
        pytest.skip("the server is not this test's to stop")
    before, heard = spent(client), []

    def ask() -> None:
        with psycopg.connect(world.dsn(), autocommit=True) as asking:
            try:
                asking.execute(slow())
            except psycopg.Error as error:
                heard.append(error.diag.message_primary)

    thread = threading.Thread(target=ask)
    thread.start()
    begun(client, before)
    world.sail.kill()
    thread.join(300)
    world.sail.start()
    assert heard == [AFTER_CHARGE.told]
    assert 1800 < counted(client) < 2200
