"""What an audit works on: a policy over invented rows, and its neighbours. The policy's own backend tells names, types and
the rows of public tables, and nothing else of it is read.

Knows: files, backends, policies. Must not know: what is done with them.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import pyarrow as pa

from dpproxy.audit.hostile_rows import HostileTable, World, world
from dpproxy.authoring.workbench import on_shape, open_workbench, public_rows, unique, write_table
from dpproxy.backends.duckdb import LOCKED_DOWN, set_for_measuring
from dpproxy.ledger.ledger import Ledger
from dpproxy.mechanisms import key_rounds
from dpproxy.mechanisms import release as door
from dpproxy.mechanisms.noise import Exact, FoundGroups, Noise, Released
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.names import quote_name
from dpproxy.privacy.measurement import Measurement
from dpproxy.review.verdicts import Bench
from dpproxy.serve.data_checks import fitting_catalog, open_backend
from dpproxy.table_terms import TableName

# One invented database, and beside it the same without each unit in turn, in one DuckDB: generated SQL runs on any of them.
#
# Knows: DuckDB, hostile rows. Must not know: statements, plans, the data of any policy. `nobody` lacks the rows that belong to
# no unit, and `shuffled` has all rows in another order: on these two nothing at all may change. DuckDB is set up as
# `backends.duckdb` sets it up for people's data; what is audited is its SQL, whatever engine the policy names.


WHOLE: Final = "whole"
NOBODY: Final = "nobody"
SHUFFLED: Final = "shuffled"
SAME: Final = (NOBODY, SHUFFLED)
"""Neighbours that lack nobody: no answer may differ on them."""


class Neighbours:
    """The database and its neighbours. `names`: those that lack a unit, by the unit's name; then those that lack nobody."""

    def __init__(self, world: World, most: int) -> None:
        options = dict(LOCKED_DOWN) | {"threads": 1}
        self._connection = duckdb.connect(":memory:", config=options)
        set_for_measuring(self._connection)
        self.names: tuple[str, ...] = (*world.units[:most], *SAME)
        self._now = ""
        for name in (WHOLE, *self.names):
            self._connection.execute(f"ATTACH ':memory:' AS {_database(name)}")
            self._use(name)
            fill(self._connection, tables_without(world, name))

    def run(self, sql: str, name: str = WHOLE) -> pa.Table:
        """Run a generated statement on the database, or on a neighbour. Raises duckdb.Error."""
        self._use(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a copy of few rows; a relation would be planned twice
            return self._connection.execute(sql).to_arrow_table()

    def close(self) -> None:
        """Forget all of them."""
        self._connection.close()

    def _use(self, name: str) -> None:
        if name != self._now:
            self._connection.execute(f"USE {_database(name)}")
            self._now = name


def tables_without(world: World, name: str) -> Iterable[tuple[CatalogTable, pa.Table]]:
    """Yield the tables of a neighbour. Its keys are those of the whole database, so that no catalog differs."""
    for table in world.tables:
        yield _keyed(table), _rows(table, name)


def fill(connection: duckdb.DuckDBPyConnection, tables: Iterable[tuple[CatalogTable, pa.Table]]) -> None:
    """Write tables into the database that a connection uses."""
    for shape, rows in tables:
        write_table(connection, shape, rows)


def write_file(path: Path, world: World, name: str) -> None:
    """Write a neighbour as a file of its own, as a policy names one."""
    with duckdb.connect(str(path)) as connection:
        fill(connection, tables_without(world, name))


def _rows(table: HostileTable, name: str) -> pa.Table:
    if name == WHOLE:
        return table.rows
    if name == SHUFFLED:
        return table.rows if table.owners is None else table.rows.take(pa.array(range(table.rows.num_rows - 1, -1, -1)))
    return table.without(None if name == NOBODY else name)


def _keyed(table: HostileTable) -> CatalogTable:
    shape = table.shape
    kept = shape.primary_key and unique(table.rows, shape.primary_key)
    return shape if kept else replace(shape, primary_key=())


def _database(name: str) -> str:
    return quote_name(f"beside {name}")


@dataclass(frozen=True)
class AuditBench:
    """What there is for one audit. `whole`, `without`: files of the invented rows, with and without the outlier."""

    loaded: Loaded
    world: World
    neighbours: Neighbours
    bench: Bench
    other: Bench
    whole: Path
    without: Path
    folder: Path


@contextmanager
def audit_bench(policy: Path, shape: Path | None, seed: int, most: int) -> Iterator[AuditBench]:
    """Make the invented rows; they are gone when the body ends. `shape`: a DuckDB file of the policy's shape, instead of its own
    backend; `most`: how many units are left out in turn. Raises PolicyError, BackendError, OSError."""
    loaded = load_file(policy)
    catalog, publics = asyncio.run(_shape(on_shape(loaded, shape)))
    made = world(loaded.policy, catalog, publics, seed)
    with TemporaryDirectory(prefix="dpproxy-audit-") as name:
        folder = Path(name)
        whole, without = folder / "whole.duckdb", folder / "without.duckdb"
        for path, which in ((whole, WHOLE), (without, made.units[1])):
            write_file(path, made, which)
        bench, other = (asyncio.run(open_workbench(policy, path)).bench for path in (whole, without))
        neighbours = Neighbours(made, most)
        try:
            yield AuditBench(loaded, made, neighbours, bench, other, whole, without, folder)
        finally:
            neighbours.close()


async def _shape(loaded: Loaded) -> tuple[Catalog, Mapping[TableName, pa.Table]]:
    backend = open_backend(loaded)
    try:
        catalog = await fitting_catalog(loaded, backend)
        return catalog, await public_rows(loaded.policy, catalog, backend)
    finally:
        await backend.close()


# What is audited: how statements are planned, the door, what draws noise, the ledger. In production dpproxy itself; a bug is
# planted by putting something else in one place.
#
# Knows: types of the planner and of the door. Must not know: data, what is done with a subject.


Release = Callable[[Measurement, Exact, Noise, FoundGroups | None], Released]
FirstRelease = Callable[[Measurement, Exact, Noise], FoundGroups]


def _unchanged(plan: Plan) -> Plan:
    return plan


def _as_it_is(ledger: Ledger) -> Ledger:
    return ledger


@dataclass(frozen=True)
class Statement:
    """What is asked: by a role, with settings of its session. `shape`: what kind of statement it is, for the report."""

    role: str
    sql: str
    shape: str = "given"
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Subject:
    """What is audited. `changed`: what becomes of a plan before it is run; `ledger`: what stands before the ledger."""

    changed: Callable[[Plan], Plan] = _unchanged
    release: Release = door.release
    found_first: FirstRelease = key_rounds.found_first
    noise: Noise = field(default_factory=DefaultNoise)
    ledger: Callable[[Ledger], Ledger] = _as_it_is

    def planned(self, bench: Bench, asked: Statement) -> Plan | None:
        """Return the plan of a statement; None where it reads no private table. Raises Refusal."""
        settings: Mapping[str, str | None] = dict(asked.settings)
        plan = bench.planned(asked.role, asked.sql, settings)
        return None if plan is None else self.changed(plan)
