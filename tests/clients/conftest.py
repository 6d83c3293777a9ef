"""A real proxy as its own process over a small DuckDB file, for real clients.

Epsilon is so large that the noise is nothing: what is tested here is what clients see, not privacy. 1,000 persons with
one to three visits each; every value is a function of the row's number, so answers are known.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import pytest

from dpproxy.facade.account import find_binaries
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import launched

from .matrix import pytest_configure

__all__ = ["pytest_configure"]
PASSWORD = "open sesame"

DATA = """
CREATE TABLE people (
    id INTEGER PRIMARY KEY, region VARCHAR, born DATE, income DECIMAL(10, 2), height DOUBLE, member BOOLEAN,
    joined TIMESTAMP, email VARCHAR
);
INSERT INTO people SELECT i, ['east', 'north', 'south', 'west'][1 + i % 4], DATE '1950-01-01' + (i * 20)::INTEGER,
    100 * (i % 50), 150 + i % 50, i % 2 = 0, TIMESTAMP '2020-01-01' + to_days((i % 365)::INTEGER), 'p' || i || '@example.org'
FROM range(1000) AS t(i);
CREATE TABLE visits (visit BIGINT PRIMARY KEY, person INTEGER REFERENCES people (id), shop INTEGER, paid DECIMAL(8, 2));
INSERT INTO visits SELECT i * 3 + j, i, 1 + (i + j) % 3, 10 + j FROM range(1000) AS t(i), range(3) AS u(j) WHERE j <= i % 3;
CREATE TABLE shops (id INTEGER PRIMARY KEY, name VARCHAR, opened DATE);
INSERT INTO shops VALUES (1, 'Łódź', '2001-01-01'), (2, 'b''s', NULL), (3, 'c', '2003-03-03');
"""

POLICY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1000000000, delta: 1e-3, every: never }
tables:
  people:
    unit: id
    columns:
      id: unit
      region: { values: [east, north, south, west] }
      born: { range: [1950-01-01, 2010-01-01] }
      income: { range: [0, 5000], resolution: 0.01 }
      height: { range: [100, 250], resolution: 1 }
      member: { values: [true, false] }
      joined: { range: [2020-01-01, 2021-01-01] }
      email: hidden
  visits:
    unit: person
    bounds: { rows_per_group: 3, groups: 3 }
    columns:
      visit: key
      person: unit
      shop: { values: [1, 2, 3] }
      paid: { range: [0, 20], resolution: 0.01 }
  shops:
    public: true
roles:
  analyst:
    budget: { epsilon: 100000000, delta: 1e-4, every: never }
    query: { epsilon: 1000, max_epsilon: 100000, delta: 1e-9 }
    temp_tables: true
  poor:
    budget: { epsilon: 1, delta: 0, every: never }
    query: { epsilon: 0.6, max_epsilon: 1 }
    tables: [people]
  browser:
    budget: { epsilon: 100000000, delta: 1e-4, every: never }
    query: { epsilon: 1000, delta: 1e-9 }
    previews: synthetic
users:
  ada: { role: analyst, password: "VERIFIER" }
  poor: { role: poor, password: "VERIFIER" }
  bo: { role: browser, password: "VERIFIER" }
"""

REGIONS = [("east", 250), ("north", 250), ("south", 250), ("west", 250)]
"""SELECT region, count(*) FROM people GROUP BY region ORDER BY region"""


@dataclass(frozen=True)
class Town:
    host: str
    port: int
    user: str = "ada"
    password: str = PASSWORD
    database: str = "town"
    pid: int = 0  # of the proxy

    @property
    def environment(self) -> dict[str, str]:
        """libpq's variables."""
        pairs = {"HOST": self.host, "PORT": str(self.port), "USER": self.user, "PASSWORD": self.password}
        return {f"PG{name}": value for name, value in {**pairs, "DATABASE": self.database}.items()}

    @property
    def dsn(self) -> str:
        return f"host={self.host} port={self.port} user={self.user} password='{self.password}' dbname={self.database}"


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        connection.execute(DATA)
    (folder / "town.yaml").write_text(POLICY.replace("VERIFIER", make_verifier(PASSWORD)))
    with launched([folder / "town.yaml"], folder / "state") as proxy:
        yield Town(proxy.host, proxy.port, pid=proxy.pid)


@pytest.fixture(scope="session")
def psql(town: Town) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script through the psql that ships with the facade; one unaligned line a row."""
    program = find_binaries().program("psql")

    def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
        environment = {"PGPASSWORD": town.password, "PATH": "/usr/bin:/bin", "PGCLIENTENCODING": "UTF8"}
        command = [program, "-X", "-q", "-A", "-t", "-h", town.host, "-p", str(town.port), "-U", town.user]
        return subprocess.run(
            [*command, *options, town.database], input=script, env=environment, capture_output=True, text=True, timeout=300
        )

    return run
