"""A world that has everything: each person and row that declared values allow, and rows of values that are not declared.

Knows: DuckDB, a policy. Must not know: statements. What a statement's exact answer over it lists are the groups that there can be.
Instants are the first, the half and the last of each hour. `some` keeps rows by a hash, so that worlds differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import duckdb

from dpproxy.backends.duckdb import DuckDB
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import load_file
from dpproxy.policy.model import DuckDBBackend, Policy

POLICY = """
version: 1
dataset: everything
backend: { duckdb: everything.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1e12, delta: 0.5 }
tables:
  people:
    unit: id
    columns:
      id: unit
      country: { values: [AT, CH, DE] }
      plan: { values: [free, pro, team] }
  events:
    unit: person
    bounds: { rows_per_group: 100000, groups: all }
    columns:
      event: key
      person: unit
      kind: { values: [click, pro, view] }
      size: { range: [0, 9] }
      day: { range: [2024-01-30, 2024-02-03] }
      ts: { range: [2024-01-30, 2024-02-03] }
  kinds: { public: true }
  spans: { public: true }
  holidays: { public: true }
roles:
  analyst:
    budget: { epsilon: 1e12, delta: 0.4 }
    query: { epsilon: 1e6, max_epsilon: 1e7, delta: 0.0001 }
users: {}
"""

_PUBLIC = """
CREATE TABLE kinds (kind VARCHAR, label VARCHAR, rank INTEGER);
INSERT INTO kinds VALUES ('click', 'Click', 1), ('view', 'View', 2), ('pro', 'Cut', 3), ('gone', 'Gone', 4);
CREATE TABLE spans (lo INTEGER, hi INTEGER, name VARCHAR);
INSERT INTO spans VALUES (0, 3, 'low'), (4, 6, 'mid'), (7, 9, 'high'), (20, 30, 'none');
CREATE TABLE holidays (day DATE, name VARCHAR);
INSERT INTO holidays VALUES ('2024-01-31', 'one'), ('2024-02-02', 'two'), ('2025-01-01', 'far');
"""
_PEOPLE = """SELECT CAST(row_number() OVER () AS INTEGER) AS id, country, plan FROM (VALUES {countries}) c(country)
CROSS JOIN (VALUES {plans}) p(plan)"""
PLANS = ("free", "pro", "team", "!", "click", "gone", "view", "none", "zz")
DECLARED = {
    "country": "country IN ('AT', 'CH', 'DE')", "plan": "plan IN ('free', 'pro', 'team')", "kind": "kind IN ('click', 'pro', 'view')",
    "size": "size BETWEEN 0 AND 9", "day": "day BETWEEN '2024-01-30' AND '2024-02-03'",
    "ts": "ts >= '2024-01-30' AND ts < '2024-02-04'",
}  # fmt: skip
"""What is declared of a column."""
_VALUES = {
    "kind": ("VARCHAR", "SELECT * FROM (VALUES ('click'), ('pro'), ('view'), ('!'), ('free'), ('gone'), ('team'), ('zz'), (NULL)) t(kind)"),
    "size": ("INTEGER", "SELECT * FROM (SELECT CAST(unnest(range(-2, 12)) AS INTEGER) UNION ALL SELECT 20 UNION ALL SELECT 25 UNION ALL SELECT NULL) t(size)"),
    "day": ("DATE", "SELECT CAST(unnest(range(DATE '2024-01-26', DATE '2024-02-08', INTERVAL 1 DAY)) AS DATE) AS day"),
    "ts": ("TIMESTAMP", "SELECT h + o AS ts FROM (SELECT unnest(range(TIMESTAMP '2024-01-29', TIMESTAMP '2024-02-05', INTERVAL 1 HOUR)))"
           " a(h), (VALUES (INTERVAL 0 SECOND), (INTERVAL 30 MINUTE), (INTERVAL '59 minutes 59.999999 seconds')) b(o)"),
}  # fmt: skip


class World:
    """Databases that hold everything of some columns of events, made as they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("CREATE MACRO memory.main.to_char(t, _) AS strftime(t, '%Y-%m-%d')")
        self._made: set[str] = set()
        path = folder / "policy.yaml"
        path.write_text(POLICY)
        self.policy: Policy = load_file(path).policy
        self.catalog = asyncio.run(self._introspected(folder / "everything.duckdb"))

    async def _introspected(self, file: Path) -> Catalog:
        with duckdb.connect(str(file)) as connection:
            connection.execute(_PUBLIC)
            connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, country VARCHAR NOT NULL, plan VARCHAR NOT NULL)")
            events = ", ".join(f"{name} {type_}" for name, (type_, _) in _VALUES.items())
            connection.execute(f"CREATE TABLE events (event BIGINT PRIMARY KEY, person INTEGER NOT NULL, {events})")
        backend = DuckDB(DuckDBBackend(str(file)))
        found = await backend.with_public_ranges(
            await backend.introspect(), frozenset(t for t in self.policy.tables if self.policy.tables[t].kind.shown)
        )
        await backend.close()
        return found

    def use(self, columns: Iterable[str], some: int) -> None:
        """Read everything of these columns from now on, or the `some`-th part of it (0: all)."""
        name = "_".join((*sorted(columns), str(some)))
        if name not in self._made:
            self._make(name, frozenset(columns), some)
            self._made.add(name)
        self.connection.execute(f"USE memory.{name}")

    def exact(self, sql: str) -> list[tuple[object, ...]]:
        """Run an analyst's statement. Whole numbers are divided as PostgreSQL divides them."""
        return self.rows(sql.replace("to_char(", "memory.main.to_char(").replace("size / ", "size // "))

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = self.connection.execute(sql).fetchall()
        return found

    def _make(self, name: str, columns: frozenset[str], some: int) -> None:
        run = self.connection.execute
        run(f"CREATE SCHEMA {name}")
        run(f"USE memory.{name}")
        run(_PUBLIC)
        people = _PEOPLE.format(countries="('AT'), ('CH'), ('DE'), ('XX')", plans=", ".join(f"('{plan}')" for plan in PLANS))
        run(f"CREATE TABLE people AS {people}")
        parts = [f"({text}) AS {c}" for c, (_, text) in _VALUES.items() if c in columns]
        items = [f"{c}.{c}" if c in columns else f"CAST(NULL AS {type_}) AS {c}" for c, (type_, _) in _VALUES.items()]
        kept = f" WHERE hash(people.id, {', '.join(sorted(columns))}) % {some + 3} = {some}" if some else ""
        run(
            f"CREATE TABLE events AS SELECT CAST(row_number() OVER () AS BIGINT) AS event, people.id AS person, {', '.join(items)} "
            f"FROM people CROSS JOIN {' CROSS JOIN '.join(parts)}{kept}"
        )
