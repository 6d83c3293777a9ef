"""`policy grants`: what it prints is enough for the proxy to read what the policy uses, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server
from typer.testing import CliRunner

from dpproxy.backends.base import BackendError
from dpproxy.backends.postgres import Postgres
from dpproxy.cli import policy_app
from dpproxy.errors import OperatorError
from dpproxy.policy.grants import grants
from dpproxy.policy.load import load_file
from dpproxy.policy.model import ColumnRole, PostgresBackend
from dpproxy.policy.problems import PolicyError
from dpproxy.serve.data_checks import checked_catalog
from dpproxy.table_terms import TableName

TABLES = """
CREATE SCHEMA "Care";
CREATE TABLE people (id int PRIMARY KEY, region text, email text, note text);
CREATE TABLE "Care".stays (stay int PRIMARY KEY, person int REFERENCES people, ward text, secret text);
CREATE TABLE drugs (stay int, dose int, kind int, batch text, mother int);
CREATE TABLE kinds (kind int PRIMARY KEY, label text, price int);
CREATE TABLE other (a int);
INSERT INTO people VALUES (1, 'east', 'e', 'n');
"""

CLUB = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE TABLE "Members" ("MemberID" int PRIMARY KEY, feels mood, share percent, age int CHECK (age >= 18 AND age <= 120),
  fee numeric(6, 2), email text, home inet);
CREATE TABLE courts (court int PRIMARY KEY, name text);
CREATE TABLE bookings (booking bigserial PRIMARY KEY, member int NOT NULL REFERENCES "Members", court int REFERENCES courts,
  kind char(1) CHECK (kind IN ('a', 'b')), at timestamptz, remark text) PARTITION BY RANGE (booking);
CREATE TABLE bookings_1 PARTITION OF bookings FOR VALUES FROM (1) TO (1000);
COMMENT ON COLUMN bookings.at IS 'when it begins: local time # of the court';
CREATE ROLE clerk LOGIN;
GRANT SELECT ON "Members", courts, bookings TO clerk;
"""

POLICY = """
version: 1
dataset: care
backend: {{ postgres: "postgresql://reader@/postgres?host={host}" }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 10, delta: 0, every: never }}
tables:
  people: {{ unit: id, columns: {{ id: unit, region: {{ values: [east, west] }}, email: hidden }} }}
  '"Care".stays': {{ unit: person, bounds: {{ rows_per_group: 3, groups: 2 }}, columns: {{ stay: key, ward: {{}} }} }}
  drugs: {{ unit: {{ via: '"Care".stays.stay' }}, bounds: {{ rows_per_group: 3, groups: 2 }}, columns: {{ dose: {{ range: [0, 10] }} }} }}
  kinds: {{ public: true, columns: {{ price: hidden }} }}
roles:
  analyst: {{ budget: {{ epsilon: 5, delta: 0, every: year }}, query: {{ epsilon: 0.5, max_epsilon: 1 }} }}
users: {{}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("grants")) as running:
        with psycopg.connect(running.conninfo(), autocommit=True) as connection:
            connection.execute(TABLES)
            connection.execute("CREATE ROLE reader LOGIN; REVOKE ALL ON SCHEMA public FROM PUBLIC")
            connection.execute("CREATE DATABASE club")
        with psycopg.connect(running.conninfo("club"), autocommit=True) as connection:
            connection.execute(CLUB)
        yield running


def test_a_draft_of_a_server_fits_it(server: Scratch, tmp_path: Path) -> None:
    """Keys, types, constraints and comments are read, names with capitals come out as they are, and the draft passes check."""
    out = tmp_path / "club.yaml"
    done = CliRunner().invoke(policy_app, ["init", server.dsn("club", "clerk"), "--out", str(out), "--yes", "--public", "courts"])
    assert done.exit_code == 0, done.exception
    policy = load_file(out).policy
    members, bookings = TableName("public", "Members"), TableName("public", "bookings")
    assert (policy.dataset, policy.unit_table, policy.unit_column) == ("club", members, "MemberID")
    columns = policy.tables[members].columns
    assert (columns["feels"].values, columns["share"].range, columns["age"].range) == (("sad", "ok"), (0, 100), (18, 120))
    assert (columns["fee"].resolution, columns["email"].role) == (Decimal("0.01"), ColumnRole.HIDDEN)
    assert policy.tables[bookings].columns["kind"].values == ("a", "b")
    assert set(map(str, policy.tables)) == {"Members", "bookings", "courts"}, "of a partitioned table the whole"
    text = out.read_text()
    assert "# home: left out, of type inet, which has no bounds" in text
    assert "court: {}  # names a row of `courts`" in text
    assert "more exact; when it begins: local time # of the court" in text
    checked = CliRunner().invoke(policy_app, ["check", str(out)])
    others = [line for line in checked.stderr.splitlines() if not line.endswith("[open-decision]")]
    assert (checked.exit_code, others) == (0, []), checked.stderr


@pytest.mark.parametrize(
    ("database", "user", "says"),
    [
        ("nowhere", "clerk", 'database "nowhere" does not exist; see that the server runs'),
        ("club", "nobody", 'role "nobody" does not exist; see that the server runs'),
        ("template1", "postgres", "there is no table here that may be read; fix: name another database, or GRANT SELECT"),
    ],
)
def test_servers_that_cannot_be_drafted(server: Scratch, tmp_path: Path, database: str, user: str, says: str) -> None:
    with pytest.raises(OperatorError) as caught:
        CliRunner().invoke(
            policy_app, ["init", server.dsn(database, user), "-o", str(tmp_path / "x.yaml"), "-y"], catch_exceptions=False
        )
    assert says in str(caught.value)


def test_an_address_with_a_password_is_not_told_again(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as caught:
        CliRunner().invoke(policy_app, ["init", "postgresql://ada:sesame@127.0.0.1:1/x", "-y"], catch_exceptions=False)
    assert "127.0.0.1" in str(caught.value)
    assert "sesame" not in str(caught.value)


async def test_grants_are_enough_and_not_too_much(server: Scratch, tmp_path: Path) -> None:
    file = tmp_path / "care.yaml"
    file.write_text(POLICY.format(host=server.home))
    loaded = load_file(file)
    assert isinstance(loaded.policy.backend, PostgresBackend)
    backend = Postgres(loaded.policy.backend)
    with pytest.raises(PolicyError, match="may not read table `people`; fix: grant it: `dpproxy policy grants FILE`"):
        await checked_catalog(loaded, backend)
    script = grants(loaded.policy, loaded.policy.backend)
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(script.encode())
    await checked_catalog(loaded, backend)
    used = ["SELECT id, region FROM people", 'SELECT stay, person, ward FROM "Care".stays', "SELECT stay, dose FROM drugs"]
    for query in used:
        await backend.run([query.replace("FROM ", "FROM public.") if "Care" not in query else query])
    for column, table in (
        ("email", "public.people"),
        ("note", "public.people"),
        ("secret", '"Care".stays'),
        ("kind", "public.drugs"),
    ):
        with pytest.raises(BackendError, match="42501"):
            await backend.run([f"SELECT {column} FROM {table}"])
    with pytest.raises(BackendError, match="42501"):
        await backend.run(["SELECT * FROM public.other"])
    await backend.close()


def test_what_is_printed(server: Scratch, tmp_path: Path) -> None:
    file = tmp_path / "care.yaml"
    file.write_text(POLICY.format(host=server.home))
    policy = load_file(file).policy
    script = grants(policy, PostgresBackend("postgresql://db/sales?user=re%22ader"))
    assert 'GRANT CONNECT ON DATABASE "sales" TO "re""ader";' in script
    assert 'GRANT USAGE ON SCHEMA "Care" TO "re""ader";' in script
    assert 'GRANT SELECT ("person", "stay", "ward") ON "Care"."stays" TO "re""ader";' in script
    assert "batch" not in script
    assert "email" not in script
    assert grants(policy, PostgresBackend("postgresql://me@db")).count('TO "me"') == script.count('TO "re""ader"')


async def test_a_view_whose_tables_are_out_of_reach_is_no_table_to_ask(server: Scratch, tmp_path: Path) -> None:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE far (id int PRIMARY KEY, region text)")
        connection.execute("CREATE VIEW near WITH (security_invoker) AS SELECT * FROM far")
        connection.execute("CREATE ROLE looker LOGIN; GRANT USAGE ON SCHEMA public TO looker; GRANT SELECT ON near TO looker")
        connection.execute("INSERT INTO far VALUES (1, 'east')")
    file = tmp_path / "near.yaml"
    lines = [line for line in POLICY.format(host=server.home).splitlines() if "stays" not in line and "kinds" not in line]
    text = "\n".join(lines).replace("people", "near").replace("reader@", "looker@").replace(", email: hidden", "")
    file.write_text(text)
    loaded = load_file(file)
    assert isinstance(loaded.policy.backend, PostgresBackend)
    backend = Postgres(loaded.policy.backend)
    with pytest.raises(PolicyError, match=r":8:3: table `near` cannot be read: 42501 permission denied for table far; fix: "):
        await checked_catalog(loaded, backend)
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("GRANT SELECT ON far TO looker")
    await checked_catalog(loaded, backend)
    await backend.close()
