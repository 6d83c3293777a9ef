"""Public tables that show private rows, by every road PostgreSQL has: found at the start, each by its name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))  # the starter of scratch servers

from scratch_postgres import Scratch, scratch_server

from dpproxy.policy.grants import exposures, private_tables, unseen
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.people import make_verifier
from dpproxy.policy.problems import PolicyError
from dpproxy.serve.data_checks import checked_catalog, doubts, open_backend

POLICY = """
version: 1
dataset: town
backend: {{ postgres: "{dsn}" }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 1000, delta: 0, every: never }}
tables:
  people: {{ unit: id, columns: {{ id: unit }} }}
  {table}: {rules}
roles:
  analyst: {{ budget: {{ epsilon: 100, delta: 0 }}, query: {{ epsilon: 0.5, max_epsilon: 1 }} }}
users: {{ ada: {{ role: analyst, password: "{verifier}" }} }}
"""
SCHEMA = """
CREATE TABLE people (id int PRIMARY KEY);
CREATE TABLE towns (name text);
CREATE VIEW harmless AS SELECT name FROM towns;
CREATE VIEW "Every One" AS SELECT id FROM people;
CREATE VIEW deeper AS SELECT count(*) AS n FROM "Every One" WHERE id IN (SELECT length(name) FROM towns);
CREATE MATERIALIZED VIEW kept AS SELECT id FROM people;
CREATE VIEW below_where AS SELECT name FROM towns WHERE EXISTS (SELECT FROM people);
CREATE TABLE child () INHERITS (people);
CREATE TABLE parent (id int);
ALTER TABLE people INHERIT parent;
CREATE VIEW of_child AS SELECT * FROM child;
CREATE TABLE guarded (name text);
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE VIEW of_guarded AS SELECT name FROM guarded;
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE elsewhere (name text) SERVER nowhere;
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("town")) as running:
        with psycopg.connect(running.conninfo(), autocommit=True) as owner:
            for statement in SCHEMA.split(";"):
                owner.execute(statement.encode())
        yield running


def policy(folder: Path, server: Scratch, table: str, rules: str = "{ public: true }") -> Loaded:
    text = POLICY.format(dsn=server.dsn(), table=table, rules=rules, verifier=make_verifier("x"))
    (folder / "town.yaml").write_text(text)
    return load_file(folder / "town.yaml")


async def told(loaded: Loaded) -> list[tuple[str, str]]:
    """The code and the words of what is said of the rows of a policy's tables."""
    backend = open_backend(loaded)
    try:
        problems = await doubts(loaded, await checked_catalog(loaded, backend), backend)
    except PolicyError as error:
        problems = error.problems
    finally:
        await backend.close()
    return [(p.code, p.what) for p in problems if p.code in ("shown-rows", "unseen-rows")]


@pytest.mark.parametrize("table", ['"Every One"', "deeper", "kept", "below_where", "child", "parent", "of_child"])
async def test_a_public_table_of_private_rows_stops_the_start(table: str, server: Scratch, tmp_path: Path) -> None:
    name = table.strip('"')
    ((code, what),) = await told(policy(tmp_path, server, f"'{name}'"))
    assert code == "shown-rows"
    assert what.startswith(f"public table `{name}` shows rows of private table `people`")


@pytest.mark.parametrize("table", ["towns", "harmless"])
async def test_others_do_not(table: str, server: Scratch, tmp_path: Path) -> None:
    assert await told(policy(tmp_path, server, table)) == []


async def test_a_private_view_is_private(server: Scratch, tmp_path: Path) -> None:
    private = "{ unit: id, bounds: { rows_per_group: 1, groups: 1 }, columns: { id: unit } }"
    assert await told(policy(tmp_path, server, "of_child", private)) == []


@pytest.mark.parametrize("table", ["guarded", "of_guarded"])
async def test_rows_that_a_policy_chooses_are_a_warning(table: str, server: Scratch, tmp_path: Path) -> None:
    ((code, what),) = await told(policy(tmp_path, server, table))
    assert code == "unseen-rows"
    assert what.startswith(f"row-level security chooses which rows of `{table}`")


async def test_foreign_rows_are_seen_to_be_foreign(server: Scratch, tmp_path: Path) -> None:
    """The catalog says so; no wrapper that could be read comes with every server."""
    loaded = policy(tmp_path, server, "elsewhere")
    backend = open_backend(loaded)
    catalog = await backend.introspect()
    asked = unseen(loaded.policy, catalog, "postgres")
    assert await backend.violations([query for _, query in asked]) == (0, 1)
    await backend.close()


async def test_other_engines_are_not_asked(server: Scratch, tmp_path: Path) -> None:
    loaded = policy(tmp_path, server, "towns")
    backend = open_backend(loaded)
    catalog = await backend.introspect()
    await backend.close()
    assert exposures(loaded.policy, catalog, "duckdb") == unseen(loaded.policy, catalog, "duckdb") == ()
    assert [str(t) for t in private_tables(loaded.policy)] == ["people"]
    assert [str(t) for t, _ in exposures(loaded.policy, catalog, "postgres")] == ["towns"]
