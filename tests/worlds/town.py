"""A proxy in this process over a small DuckDB file: real planner, engine, noise, ledger and stored answers, two roles."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from dpproxy.amounts import MICRO
from dpproxy.answers.dataset import Dataset
from dpproxy.answers.standings import limit
from dpproxy.backends.base import Backend, Runner
from dpproxy.facade.facade import Facade
from dpproxy.mechanisms.noise import Exact
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.load import load_file
from dpproxy.policy.people import make_verifier
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.reuse.store import AnswerStore
from dpproxy.serve.datasets import open_dataset
from dpproxy.server.server import Server
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName

from . import patterns

DATA = """
CREATE TABLE people AS SELECT i AS id, ['east', 'north', 'south', 'west'][1 + i % 4] AS region,
    ['F', 'M'][1 + (i // 4) % 2] AS sex, 100 * (i % 50) AS income FROM range(1000) AS t(i);
CREATE TABLE visits AS SELECT i * 3 + j AS visit, i AS person, 'shop ' || (i + j) % 3 AS shop, 10 + j AS paid
    FROM range(1000) AS t(i), range(3) AS u(j) WHERE j <= i % 3;
CREATE TABLE loads AS SELECT 1 AS load;
CREATE TABLE trips AS SELECT i AS person, (i + j) % 3 AS line
    FROM range(1000) AS t(i), range(40) AS u(j) WHERE j < CASE WHEN i % 10 = 0 THEN 40 ELSE 2 END;
"""

POLICY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1000, delta: 1e-3, every: year }
tables:
  people:
    unit: id
    columns:
      id: unit
      region: { values: [east, north, south, west] }
      sex: { values: [F, M] }
      income: { range: [0, 5000] }
  visits:
    unit: person
    bounds: { rows_per_group: 3, groups: 3 }
    columns: { visit: key, person: unit, shop: {}, paid: { range: [0, 20] } }
  trips:
    unit: person
    bounds: { rows: 4 }
    columns: { person: unit, line: { values: [0, 1, 2] } }
  loads:
    public: true
roles:
  analyst:
    budget: { epsilon: 100, delta: 1e-4, every: month, warn: [50, 90] }
    query: { epsilon: 1, max_epsilon: 10, delta: 1e-7 }
  other:
    budget: { epsilon: 100, delta: 1e-4, every: month }
    query: { epsilon: 1, max_epsilon: 10, delta: 1e-7 }
  frugal:
    budget: { epsilon: 2, delta: 1e-4, every: month }
    query: { epsilon: 0.5, max_epsilon: 2, delta: 1e-7 }
  curious:
    budget: { epsilon: 100, delta: 1e-4, every: month }
    query: { epsilon: 10, delta: 1e-7, measure_bounds: 0.3 }
users:
  ada: { role: analyst, password: "VERIFIER" }
  bob: { role: analyst, password: "VERIFIER" }
  cy: { role: other, password: "VERIFIER" }
  dee: { role: frugal, password: "VERIFIER" }
  fay: { role: curious, password: "VERIFIER" }
  eve: { role: analyst, password: "VERIFIER", budget: { epsilon: 3 } }
"""

VERIFIER = make_verifier("x")


@dataclass
class CountingBackend:
    """The engine, with what it was asked; `before` is awaited before each measurement."""

    inner: Backend
    asked: list[str] = field(default_factory=list)
    before: Callable[[], Awaitable[None]] | None = None
    snapshots: list[int] = field(default_factory=list)  # how much had been asked at the begin and end of each

    @property
    def dialect(self) -> Dialect:
        return self.inner.dialect

    @property
    def state(self) -> str:
        return self.inner.state

    def outdated(self) -> bool:
        return self.inner.outdated()

    async def public_states(self, tables: Sequence[CatalogTable]) -> Mapping[TableName, str]:
        return await self.inner.public_states(tables)

    async def introspect(self) -> Catalog:
        return await self.inner.introspect()

    async def with_public_ranges(self, catalog: Catalog, public: frozenset[TableName]) -> Catalog:
        return await self.inner.with_public_ranges(catalog, public)

    @asynccontextmanager
    async def snapshot(self, tables: Sequence[CatalogTable]) -> AsyncIterator[Runner]:
        self.snapshots.append(len(self.asked))
        async with self.inner.snapshot(tables):
            yield self
        self.snapshots.append(len(self.asked))

    async def run(self, queries: Sequence[str]) -> Exact:
        self.asked.extend(queries)
        if self.before is not None:
            await self.before()
        return await self.inner.run(queries)

    async def public_rows(self, table: CatalogTable, columns: Sequence[str], cap: int) -> Any:
        return await self.inner.public_rows(table, columns, cap)

    async def number(self, query: str) -> int:
        return await self.inner.number(query)

    async def violations(self, checks: Sequence[str], aside: bool = False) -> tuple[int, ...]:
        return await self.inner.violations(checks, aside)

    async def close(self) -> None:
        await self.inner.close()


Rows = list[tuple[Any, ...]]


class Client:
    """A session that remembers the notices of its last statement."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection
        self.notices: list[str] = []
        connection.add_notice_handler(lambda d: self.notices.append(d.message_primary or ""))

    async def ask(self, sql: str, *parameters: object) -> Rows:
        self.notices.clear()
        cursor = await self.connection.execute(sql, parameters or None)  # type: ignore[arg-type]
        return sorted(await cursor.fetchall(), key=str) if cursor.description else []

    async def explain(self, sql: str) -> str:
        return "\n".join(row[0] for row in await (await self.connection.execute(f"EXPLAIN {sql}")).fetchall())  # type: ignore[arg-type]


@dataclass
class Town:
    folder: Path
    facade: Facade
    ledger: SqliteLedger
    answers: AnswerStore
    datasets: dict[str, Dataset]
    server: Server
    port: int
    backend: CountingBackend

    @asynccontextmanager
    async def client(self, user: str = "ada") -> AsyncIterator[Client]:
        dsn = f"host=127.0.0.1 port={self.port} user={user} password=x dbname=town"
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            yield Client(connection)

    def spent(self, scope: str = "role", name: str = "analyst") -> Decimal:
        """Epsilon on the ledger, of all time, by basic composition."""
        rules = self.datasets["town"].policy
        at = dt.datetime.now(dt.UTC)
        standing = self.ledger.standing("town", scope, name, limit(rules.budget), at)  # type: ignore[arg-type]
        return Decimal(standing.lifetime_epsilon) / MICRO

    def account(self) -> dict[str, Decimal]:
        roles = {r: self.spent("role", r) for r in ("analyst", "other", "frugal")}
        return roles | {"all": self.spent("dataset", "town")}

    async def reopen(self, **policy: Any) -> None:
        """As after a restart with these fields of the policy changed: same ledger, same stored answers file."""
        self.answers.close()
        self.answers = AnswerStore(self.folder / "answers.sqlite")
        before = self.backend
        self.backend = await _open(self.folder, self.facade, self.ledger, self.answers, self.datasets, **policy)
        await before.close()


async def _open(
    folder: Path, facade: Facade, ledger: SqliteLedger, answers: AnswerStore, datasets: dict[str, Dataset], **policy: Any
) -> CountingBackend:
    loaded = load_file(folder / "town.yaml")
    loaded = replace(loaded, policy=replace(loaded.policy, **policy))
    dataset = await open_dataset(loaded, facade, ledger, answers)
    backend = CountingBackend(dataset.backend)
    datasets["town"] = replace(dataset, backend=backend)
    return backend


@asynccontextmanager
async def town(folder: Path, data: str = DATA, policy: str = POLICY) -> AsyncIterator[Town]:
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        connection.execute(data)
    (folder / "town.yaml").write_text(re.sub("VERIFIER", lambda _: VERIFIER, policy))
    facade = Facade(connections=300)
    await patterns.start(facade, folder)
    ledger, answers = SqliteLedger(folder / "ledger.sqlite"), AnswerStore(folder / "answers.sqlite")
    datasets: dict[str, Dataset] = {}
    backend = await _open(folder, facade, ledger, answers, datasets)
    server = Server(datasets, lambda dataset, role: dataset.endpoint(role))
    port = await server.listen("127.0.0.1", 0)
    made = Town(folder, facade, ledger, answers, datasets, server, port, backend)
    try:
        yield made
    finally:
        await server.stop(drain=0)
        await made.backend.close()
        await facade.stop()
        ledger.close()
        made.answers.close()
