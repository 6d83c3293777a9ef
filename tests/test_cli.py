"""The command line: what operators type, and how a proxy ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import duckdb
import psycopg
import pytest
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.policy.load import digest_of
from dpproxy.policy.people import parse_verifier
from dpproxy.serve.launch import launched

POLICY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 10, delta: 0, every: never }
tables:
  people: { unit: id, columns: { id: unit, region: { values: [east, west] } } }
roles:
  analyst: { budget: { epsilon: 5, delta: 0, every: year }, query: { epsilon: 0.5, max_epsilon: 1 } }
users:
  ada: { role: analyst, password: "VERIFIER" }
"""


def dpproxy(*arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("dpproxy")
    return subprocess.run([program, *arguments], input=input, capture_output=True, text=True, timeout=300)


def checked(policy: Path) -> tuple[int, str, str]:
    """What `policy check` says, in this process: exit code, standard output, standard error."""
    done = CliRunner().invoke(commands, ["policy", "check", str(policy)])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def verifier() -> str:
    """What the command prints of the password `sesame`."""
    found = dpproxy("policy", "password", input="sesame\n").stdout.strip()
    assert parse_verifier(found)
    return found


@pytest.fixture
def policy(tmp_path: Path, verifier: str) -> Path:
    with duckdb.connect(str(tmp_path / "town.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id, 'east' AS region FROM range(100) AS t(i)")
    (tmp_path / "town.yaml").write_text(POLICY.replace("VERIFIER", verifier))
    return tmp_path / "town.yaml"


def test_a_life(policy: Path) -> None:
    """Serve, ask, SIGTERM, look at the budget: charges are on the record, nothing is left running."""
    state = policy.parent / "state"
    with launched([policy], state) as proxy:
        dsn = f"host={proxy.host} port={proxy.port} user=ada password=sesame dbname=town"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SELECT count(*) FROM people")
            assert "role\tanalyst\tyear\t0.5\t5\t4.5" in dpproxy("budget", str(policy), "--state", str(state)).stdout
            home = Path((state / "facade.path").read_text())
            proxy.process.send_signal(signal.SIGTERM)
            assert proxy.process.wait(300) == 0
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
    assert not (home / "data").exists()
    assert not [p for p in Path("/proc").glob("[0-9]*/cwd") if os.path.realpath(p) == str(home / "data")]
    assert not [line for line in proxy.said if "SELECT" in line or "sesame" in line]
    done = dpproxy("budget", str(policy), "--state", str(state))
    _, role, dataset = (line.split("\t") for line in done.stdout.splitlines())
    assert role[1:7] == ["role", "analyst", "year", "0.5", "5", "4.5"]
    assert dataset[1:7] == ["dataset", "town", "never", "0.5", "10", "9.5"]
    with launched([policy], state, options=["--watch"]) as again:
        dsn = f"host={again.host} port={again.port} user=ada password=sesame dbname=town"
        with psycopg.connect(dsn, autocommit=True) as connection:
            answers = connection.execute("SELECT epsilon, measurements FROM dpproxy.answers").fetchall()
        old = digest_of(policy.read_text())
        policy.write_text(policy.read_text().replace("epsilon: 0.5, max", "epsilon: 0.25, max"))
        while not any("policy reloaded" in line for line in again.said):
            assert again.process.poll() is None
            time.sleep(0.02)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SELECT count(*) + 1 FROM people WHERE region = 'west'")
    assert answers == [(Decimal("0.5"), None)], "remembered from the ledger"
    charges = [json.loads(line) for line in dpproxy("ledger", "show", "--state", str(state)).stdout.splitlines()]
    charged = [(c["loss"]["epsilon"], c["policy"]) for c in charges if c["kind"] == "charge"]
    assert charged == [(500_000, old), (250_000, digest_of(policy.read_text()))]


def test_sigterm_is_heard_while_statements_are_planned(policy: Path) -> None:
    """Sixteen sessions ask for as much as may be planned; the second signal ends the patience with them."""
    pairs = ", ".join(f"corr(id + {i}, id * {i + 2})" for i in range(80))
    with launched([policy], policy.parent / "state") as proxy:
        dsn = f"host={proxy.host} port={proxy.port} user=ada password=sesame dbname=town"
        connections = [psycopg.connect(dsn, autocommit=True) for _ in range(16)]
        for i, connection in enumerate(connections):
            connection.pgconn.send_query(f"EXPLAIN SELECT {pairs}, sum(id - {i}) FROM people".encode())
        assert proxy.process.poll() is None
        for _ in range(2):
            proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(300) in (0, -signal.SIGTERM)
        for connection in connections:
            connection.close()


def test_policy_check(policy: Path) -> None:
    done = dpproxy("policy", "check", str(policy))
    assert (done.returncode, done.stdout) == (0, f"{policy}: ok\n")
    policy.write_text(policy.read_text().replace("region", "nowhere").replace("version: 1", "version: 1\ntypo: 2"))
    done = dpproxy("policy", "check", str(policy))
    assert done.returncode == 1
    assert f"{policy}:3:1: " in done.stderr


def test_serving_refuses_what_does_not_fit(policy: Path) -> None:
    policy.write_text(policy.read_text().replace("region:", "nowhere:"))
    done = dpproxy("serve", str(policy), "--listen", "127.0.0.1:0", "--state", str(policy.parent / "state"))
    assert done.returncode == 1
    assert "town.yaml:8:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_unit_with_two_rows_stops_the_start(policy: Path) -> None:
    with duckdb.connect(str(policy.parent / "town.duckdb")) as connection:
        connection.execute("INSERT INTO people VALUES (7, 'west')")
    done = dpproxy("serve", str(policy), "--listen", "127.0.0.1:0", "--state", str(policy.parent / "state"))
    assert done.returncode == 1
    assert "more than one row" in done.stderr


def test_a_path_over_a_key_that_repeats_stops_the_start(policy: Path) -> None:
    with duckdb.connect(str(policy.parent / "town.duckdb")) as connection:
        connection.execute("CREATE TABLE stays AS SELECT i // 2 AS stay, i AS id FROM range(10) AS t(i)")
        connection.execute("CREATE TABLE drugs AS SELECT 1 AS stay, 5 AS dose")
    stays = "  stays: { unit: id, bounds: { rows_per_group: 3, groups: 2 }, columns: { stay: key } }\n"
    drugs = "  drugs: { unit: { via: stays.stay }, bounds: { rows_per_group: 3, groups: 2 }, columns: { dose: {} } }\n"
    policy.write_text(policy.read_text().replace("roles:", f"{stays}{drugs}roles:"))
    code, out, said = checked(policy)
    assert (code, out) == (1, "")
    assert "`stays.stay`, on the path from `drugs` to its person, is not unique: up to 2 rows of `stays` share one value" in said
    done = dpproxy("serve", str(policy), "--listen", "127.0.0.1:0", "--state", str(policy.parent / "state"))
    assert done.returncode == 1
    assert "is not unique" in done.stderr


@pytest.mark.parametrize(
    ("backend", "column", "says"),
    [
        ("duckdb: nowhere.duckdb", 20, "nowhere.duckdb: No such file or directory"),
        ("duckdb: town.csv", 20, "CREATE TABLE town AS FROM 'town.csv'"),
        ('postgres: "postgresql://reader@127.0.0.1:1/town"', 22, "the data cannot be read: ConnectionRefusedError: "),
    ],
)
def test_data_that_cannot_be_had_are_one_line(policy: Path, backend: str, column: int, says: str) -> None:
    policy.with_name("town.csv").write_text("id,region\n1,east\n")
    policy.write_text(policy.read_text().replace("duckdb: town.duckdb", backend))
    done = dpproxy("serve", "--listen", "127.0.0.1:0", "--state", str(policy.parent / "state"), str(policy))
    for code, said in (checked(policy)[::2], (done.returncode, done.stderr)):
        assert (code, said.count("\n")) == (1, 1)
        assert f"{policy}:4:{column}: " in said
        assert says in said


def test_a_view_over_files_is_refused_before_anybody_pays_for_asking_it(policy: Path) -> None:
    with duckdb.connect(str(policy.with_name("town.duckdb"))) as connection:
        connection.execute(f"COPY people TO '{policy.parent}/people.parquet'; DROP TABLE people")
        connection.execute(f"CREATE VIEW people AS FROM '{policy.parent}/people.parquet'")
    code, _, said = checked(policy)
    assert (code, said.count("\n")) == (1, 1)
    assert f"{policy}:8:3: table `people` cannot be read: PermissionException: " in said
    assert "fix: copy what it reads into a table of the database" in said


def test_psql_and_schema() -> None:
    assert dpproxy("--version").stdout == f"dpproxy {version('dpproxy')}\n"
    assert "psql (PostgreSQL)" in dpproxy("psql", "--", "--version").stdout
    assert '"$schema"' in dpproxy("policy", "schema").stdout


def test_a_port_in_use_and_a_folder_that_cannot_be_made_are_one_line(policy: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = dpproxy("serve", str(policy), "--listen", f"127.0.0.1:{port}", "--state", str(policy.parent / "state"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"dpproxy: cannot listen on 127.0.0.1:{port}: ")
    done = dpproxy("serve", str(policy), "--state", str(policy / "state"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"dpproxy: no state directory at {policy / 'state'}: ")


def test_a_listen_address_is_read_before_anything_starts(policy: Path) -> None:
    done = dpproxy("serve", str(policy), "--listen", "nonsense")
    assert done.returncode == 1
    assert done.stderr == "dpproxy: `nonsense` is not HOST:PORT\n"
