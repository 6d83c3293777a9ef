"""Columns of enumerated types have the order of their labels: statements answered with next to no noise, and PostgreSQL's rows.

The same tables are in DuckDB, in PostgreSQL, and in the PostgreSQL that says what statements mean.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from scratch_postgres import Scratch, scratch_server

from tests.worlds.town import Client, Town, town

LABELS = ("low", "medium", "high", "critical")
DATA = """
CREATE TYPE severity AS ENUM ('low', 'medium', 'high', 'critical');
CREATE TYPE kind AS ENUM ('b', 'a');
CREATE TYPE shade AS ENUM ('y', 'x');
CREATE TABLE people AS SELECT i AS id, CAST((ARRAY['low', 'medium', 'high', 'critical'])[1 + i % 4] AS severity) AS risk
    FROM generate_series(0, 299) AS t(i);
CREATE TABLE alerts AS SELECT i AS person, j AS n, CAST((ARRAY['b', 'a'])[1 + (i + j) % 2] AS kind) AS kind,
    CAST((ARRAY['low', 'medium', 'high', 'critical', NULL])[1 + (i + 2 * j) % 5] AS severity) AS sev,
    CAST((ARRAY['y', 'x'])[1 + i % 2] AS shade) AS shade
    FROM generate_series(0, 299) AS t(i), generate_series(0, 2) AS u(j) WHERE j <= i % 3;
CREATE TABLE scale (sev severity, points int);
INSERT INTO scale VALUES ('low', 1), ('medium', 2), ('high', 3), ('critical', 4);
"""
POLICY = """
version: 1
dataset: town
backend: BACKEND
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1000000000, delta: 1e-3, every: never }
tables:
  people:
    unit: id
    columns: { id: unit, risk: { values: [low, medium, high, critical] } }
  alerts:
    unit: person
    bounds: { rows: 3 }
    columns:
      person: unit
      n: { range: [0, 2] }
      kind: { values: [a, b] }
      sev: { values: [low, medium, high, critical], nulls: true }
      shade: {}
  scale: { public: true }
roles:
  analyst:
    budget: { epsilon: 1000000000, delta: 1e-4, every: never }
    query: { epsilon: 100000, max_epsilon: 100000, delta: 1e-7 }
users: { ada: { role: analyst, password: "VERIFIER" } }
"""
WITHIN = "SELECT worst, count(*) FROM ({}) AS x GROUP BY 1 ORDER BY 1"
STATEMENTS = (
    "SELECT sev, count(*) FROM alerts WHERE {} GROUP BY sev ORDER BY sev",
    "SELECT sev, count(*) FROM alerts WHERE {} GROUP BY 1 HAVING sev > 'low' ORDER BY 1 DESC",
    "SELECT sev::text, count(*) FROM alerts WHERE {} GROUP BY 1 ORDER BY 1",
    "SELECT kind, max(sev), min(sev), mode() WITHIN GROUP (ORDER BY kind) FROM alerts WHERE {} GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FILTER (WHERE {}) FROM alerts",
    WITHIN.format("SELECT person, max(sev) AS worst FROM alerts WHERE {} GROUP BY 1"),
    WITHIN.format("SELECT person, min(sev) FILTER (WHERE {}) AS worst FROM alerts GROUP BY 1"),
    WITHIN.format("SELECT max(sev) OVER (PARTITION BY person ORDER BY n) AS worst FROM alerts WHERE {}"),
    WITHIN.format(
        "SELECT first_value(sev) OVER (PARTITION BY person ORDER BY sev DESC NULLS LAST) AS worst FROM alerts WHERE {}"
    ),
    WITHIN.format("SELECT rank() OVER (PARTITION BY person ORDER BY kind, sev) AS worst FROM alerts WHERE {}"),
    WITHIN.format("SELECT DISTINCT ON (person) person, sev AS worst FROM alerts WHERE {} ORDER BY person, sev, n"),
    WITHIN.format("SELECT greatest(sev, 'medium') AS worst FROM alerts WHERE {}"),
    WITHIN.format("SELECT coalesce(nullif(sev, 'high'), 'low') AS worst FROM alerts WHERE {}"),
    WITHIN.format("SELECT CASE WHEN {} THEN sev ELSE 'critical'::severity END AS worst FROM alerts"),
    "SELECT p.risk, alerts.sev, count(*) FROM people p JOIN alerts ON p.id = person WHERE sev > p.risk AND {} GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT risk, count(*) FROM people WHERE risk >= (SELECT max(sev) FROM alerts WHERE person = id AND {}) GROUP BY 1 ORDER BY 1",
    "SELECT s.sev, sum(s.points) FROM alerts JOIN scale s ON s.sev >= alerts.sev AND s.points = 3 WHERE {} GROUP BY 1 ORDER BY 1",
    "SELECT e.s, count(person) FROM unnest(enum_range('low'::severity, 'high')) AS e(s) LEFT JOIN alerts ON sev = e.s GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM alerts WHERE sev IN (SELECT sev FROM alerts WHERE {} GROUP BY 1 HAVING sev > 'low' AND count(*) > 5)",
    "SELECT sev, kind, count(*) FROM alerts WHERE {} GROUP BY ROLLUP (sev, kind) ORDER BY 1, 2",
)


class Conditions:
    """Random conditions on columns of enumerated types of `alerts`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next(self) -> str:
        first = self._one()
        return first if self._random.random() < 0.6 else f"({first} {self._random.choice(('AND', 'OR'))} {self._one()})"

    def _one(self) -> str:
        pick = self._random.choice
        op, label, other = pick(("<", "<=", ">", ">=", "=", "<>")), pick(LABELS), pick(LABELS)
        column = "alerts.sev"
        return pick((
            f"{column} {op} '{label}'", f"'{label}'::severity {op} {column}", f"{column} BETWEEN '{label}' AND '{other}'",
            f"NOT {column} {op} '{label}'", f"{column} {op} ANY (ARRAY['{label}', '{other}']::severity[])",
            f"{column} {op} ALL ('{{{label},{other}}}'::severity[])", f"alerts.kind {pick(('<', '>='))} 'a'",
            f"({column}, alerts.n) {pick(('<', '>='))} ('{label}', 1)", f"least({column}, '{label}') {op} '{other}'",
            f"coalesce({column}, '{label}') {op} '{other}'", f"{column}::text {op} '{label}'", f"{column} IS NULL",
            f"{column} IN ('{label}', '{other}')", f"{column} {op} (CASE WHEN alerts.n = 1 THEN '{label}' ELSE '{other}' END)::severity",
        ))  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("original")) as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as owner:
            owner.execute(DATA)
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["duckdb", "postgres"])
async def served(
    request: pytest.FixtureRequest, original: Scratch, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Town]:
    backend = "{ duckdb: town.duckdb }" if request.param == "duckdb" else f'{{ postgres: "{original.dsn()}" }}'
    folder: Path = tmp_path_factory.mktemp(request.param)
    async with town(folder, DATA, POLICY.replace("BACKEND", backend)) as made:
        yield made


async def rows(client: Client, sql: str, *parameters: object) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Rows in their order, and types by their sizes of names: groups of no row are left out."""
    cursor = await client.connection.execute(sql, parameters or None)  # type: ignore[arg-type]
    return [row for row in await cursor.fetchall() if row[-1] not in (0, None) or len(row) == 1], [
        column.type_code for column in cursor.description or ()
    ]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_rows_and_their_order_are_postgresqls(served: Town, original: Scratch, statement: str) -> None:
    conditions = Conditions(STATEMENTS.index(statement))
    with psycopg.connect(original.conninfo(), autocommit=True) as postgres:
        async with served.client() as client:
            for _ in range(4):
                sql = statement.replace("{}", conditions.next())
                expected = [row for row in postgres.execute(sql).fetchall() if row[-1] not in (0, None) or len(row) == 1]  # type: ignore[arg-type]
                assert (await rows(client, sql))[0] == expected, sql


@pytest.mark.asyncio(loop_scope="module")
async def test_clients_see_the_type_and_give_parameters_of_it(served: Town) -> None:
    async with served.client() as client:
        (catalogued,) = await client.ask("SELECT 'severity'::regtype::oid::int8, enum_range(NULL::severity)::text")
        assert catalogued[1] == "{low,medium,high,critical}"
        _, types = await rows(client, "SELECT sev, max(sev), count(*) FROM alerts GROUP BY 1")
        assert types == [catalogued[0], catalogued[0], 20]
        high = await client.ask("SELECT count(*) FROM alerts WHERE sev >= 'high'")
        assert await client.ask("SELECT count(*) FROM alerts WHERE sev >= %s", "high") == high
        assert await client.ask("SELECT count(*) FROM alerts WHERE sev = ANY (%s)", ["high", "critical"]) == high


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("sql", ["SELECT count(*) FROM alerts WHERE shade > 'y'", "SELECT max(shade) FROM alerts",
                                 "SELECT count(*) FROM (SELECT DISTINCT ON (person) shade FROM alerts ORDER BY person, shade) AS x"])  # fmt: skip
async def test_the_order_of_labels_that_are_not_published_is_refused_and_the_type_is_text(served: Town, sql: str) -> None:
    async with served.client() as client:
        with pytest.raises(
            psycopg.errors.FeatureNotSupported, match="the order of an enumerated type whose labels are not published"
        ):
            await client.ask(sql)
        assert await client.ask("SELECT shade, count(*) FROM alerts GROUP BY 1") == [("x", 300), ("y", 300)]
        assert await client.ask("SELECT typname FROM pg_type WHERE typname = 'shade'") == []
