"""A proxy whose planner, engine and noise are scripted.

A room whose tests take `stage` imports `stage` and `open_gate` in its conftest.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import pytest_asyncio

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.dataset import Dataset, words_of
from dpproxy.answers.plan_cache import PlanCache, private_names
from dpproxy.backends.base import BackendError, Runner
from dpproxy.errors import Refusal
from dpproxy.facade.cluster import Cluster
from dpproxy.facade.facade import Facade
from dpproxy.ledger.ledger import Ledger
from dpproxy.limits.session_limits import SessionLimits
from dpproxy.mechanisms.noise import Exact, Int64
from dpproxy.plan.model import Array, Input, Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.model import (
    Bounds,
    Budget,
    ColumnPolicy,
    ColumnRole,
    DuckDBBackend,
    Policy,
    QueryLimits,
    Role,
    TablePolicy,
    UnitPath,
    User,
)
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis, Key, Measurement
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.server.server import Server
from dpproxy.session.description import Settings
from dpproxy.sql.statements import SIGNALS, Statement
from dpproxy.sql.template import Dialect, Param, Template
from dpproxy.table_terms import TableName
from dpproxy.wire.scram import make_verifier

from . import patterns
from .wire_client import PASSWORD, Wire

VERIFIER = make_verifier(PASSWORD)
PEOPLE, SHOPS = TableName("public", "people"), TableName("public", "shops")


class NoNoise:
    """Releases what it is given, and says it costs what it was charged."""

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return values

    gaussian = laplace

    def entropy(self, size: int) -> bytes:
        return os.urandom(size)

    def loss(self, mechanism: str, scale: Fraction, l0: int, linf: int) -> Fraction:
        return Fraction(l0 * linf) / scale


@dataclass
class ScriptedEngine:
    """Answers every measurement with the same three groups; `started` is set when one runs, `gate` lets it end."""

    dialect: Dialect = "duckdb"
    asked: list[str] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Exception | None = None
    cancelled: int = 0

    def snapshot(self, tables: Sequence[CatalogTable]) -> AbstractAsyncContextManager[Runner]:
        return nullcontext(self)

    async def run(self, queries: Sequence[str]) -> Exact:
        self.asked.extend(queries)
        self.started.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure is not None:
            raise self.failure
        keys = pa.array(["e", 'n"\\', None])
        return Exact((pa.table({"k0": keys, "b0": pa.array(np.array([1, 20, 300], np.int64))}),))

    async def introspect(self) -> Catalog:
        raise NotImplementedError

    async def with_public_ranges(self, catalog: Catalog, public: frozenset[TableName]) -> Catalog:
        return catalog

    async def public_rows(self, table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
        return pa.table({"id": pa.array([1, 2], pa.int32())}).select(list(columns))

    async def public_states(self, tables: Sequence[CatalogTable]) -> Mapping[TableName, str]:
        return {t.name: "" for t in tables}

    def outdated(self) -> bool:
        return False

    async def number(self, query: str) -> int:
        return 0

    async def violations(self, checks: Sequence[str], aside: bool = False) -> tuple[int, ...]:
        return ()

    async def close(self) -> None:
        pass


COST = Loss(MICRO // 10)


def scripted_plan(statement: Statement, role: Role, settings: Settings, types: tuple[str, ...]) -> Plan:
    """`FORBIDDEN` in the text is refused at its place, `STAGED` needs a second measurement, `WRONG` another type;
    else one measurement by region. The statement's parameters reach the engine. Signals are planned as they are."""
    if any(name in statement.query for name in SIGNALS):
        return planning(policy(), catalog(), "duckdb")(statement, role, settings, types)
    if statement.kind in ("other", "prepare"):
        raise Refusal("0A000", "only queries")
    if "FORBIDDEN" in statement.query:
        raise Refusal("42501", "forbidden", statement.query.index("FORBIDDEN") + 1, hint="try something else")
    n = len(types)
    basis = Basis("n", 1, Fraction(1), "laplace", Fraction(10), COST)
    where = tuple(part for i, t in enumerate(types) for part in (" ", Param(i, t)))
    epsilon = f" epsilon {settings['dpproxy.epsilon']}"

    def measured(*more: str | Param) -> Measurement:
        query = Template("duckdb", ("by region", *where, epsilon, *more))
        return Measurement((query,), (Key("region", "text"),), (basis,), 1, True, None, COST, None)

    arrays = (Array("text", 0, 0), Array("int8", 0, 1))
    count = "m.n::int4 AS n" if "WRONG" in statement.query else "m.n"
    outer = f"SELECT m.region, {count} FROM unnest(${n + 1}::text[], ${n + 2}::int8[]) AS m(region, n) ORDER BY m.n"
    if "STAGED" not in statement.query:
        return Plan((measured(),), outer, n, arrays, (), COST, ("costs epsilon 0.1",))
    given = Input(f"(SELECT sum(x) FROM unnest(${n + 2}::int8[]) AS _(x))", "int8", (1,), (0,))
    second = measured(" above ", Param(n, "int8"))
    arrays += (Array("int8", 1, 1),)
    return Plan((measured(), second), outer, n, arrays, (given,), COST + COST, ())


def policy() -> Policy:
    budget = Budget(1000 * MICRO, ATTO // 10**6)
    role = Role("analyst", budget, QueryLimits(MICRO // 10, MICRO, 0), None, temp_tables=True)
    columns = {"id": ColumnPolicy("id", ColumnRole.UNIT), "region": ColumnPolicy("region")}
    tables = {
        PEOPLE: TablePolicy(PEOPLE, UnitPath("id"), True, Bounds(1, 1), columns),
        SHOPS: TablePolicy(SHOPS, None, False, Bounds(1, 1), {}),
    }
    users = {"ada": User("ada", "analyst", VERIFIER)}
    return Policy("shop", DuckDBBackend("/x"), "person", PEOPLE, "id", budget, tables, {"analyst": role}, users)


def catalog() -> Catalog:
    people = (CatalogColumn("id", "id", "int4"), CatalogColumn("region", "region", "text"))
    return Catalog(
        {
            PEOPLE: CatalogTable(PEOPLE, ("main", "people"), people),
            SHOPS: CatalogTable(SHOPS, ("main", "shops"), people[:1]),
        }
    )


def scripted_dataset(engine: ScriptedEngine, ledger: Ledger, rules: Policy) -> Dataset:
    """Without stored answers; its literals are `value::type`."""
    plans = PlanCache(private_names(rules), scripted_plan, frozenset({"id", "region"}), frozenset({"people", "shops"}))
    noise, words = NoNoise(), words_of(plans.names)
    return Dataset(rules, catalog(), engine, ledger, plans, noise, lambda d, t, v: f"{v}::{t}", words)


@dataclass
class Stage:
    """The running proxy, and what stands behind it."""

    server: Server
    facade: Cluster
    dataset: Dataset
    engine: ScriptedEngine
    port: int

    async def connect(self, **options: str) -> Wire:
        wire = await Wire.open(self.port)
        await wire.login(**options)
        return wire

    def spent(self) -> int:
        """Micro-epsilon on the ledger."""
        from dpproxy.answers.standings import limit

        role = self.dataset.policy.roles["analyst"]
        at = dt.datetime.now(dt.UTC)
        return self.dataset.ledger.standing("shop", "role", "analyst", limit(role.budget), at).lifetime_epsilon


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    state = tmp_path_factory.mktemp("state")
    facade = Facade(connections=100)
    await patterns.start(facade, state)
    engine, rules = ScriptedEngine(), policy()
    rooms = await facade.open(rules, catalog(), engine.public_rows)
    cluster = rooms.server("analyst")
    assert isinstance(cluster, Cluster)
    ledger = SqliteLedger(state / "ledger.sqlite")
    dataset = scripted_dataset(engine, ledger, rules)
    server = Server({"shop": dataset}, lambda *_: cluster.endpoint, limits=SessionLimits(connections=60, connections_per_user=50))
    port = await server.listen("127.0.0.1", 0)
    yield Stage(server, cluster, dataset, engine, port)
    await server.stop(drain=0)
    await facade.stop()
    ledger.close()


@pytest.fixture(autouse=True)
def open_gate(request: pytest.FixtureRequest) -> None:
    if "stage" not in request.fixturenames:
        return
    stage: Stage = request.getfixturevalue("stage")
    stage.engine.gate.set()
    stage.engine.started.clear()
    stage.engine.failure = None
    stage.engine.asked.clear()


FAILURE = BackendError("row 4711 of people is bad")
