"""Plans over an extract of a PostgreSQL database: as private as over any DuckDB file, and they measure what PostgreSQL measures.

The shops are PostgreSQL's, one with all its trouble (numerics of 131,072 digits, the ends of its calendar, NaN), one without. Each is
extracted as the proxy does it; neighbours are made of the extract, since each of its rows is made of one row of the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import duckdb
import plan_harness
import pyarrow as pa
import pytest
import shop_world
from agreement import groups
from fixture_cases import ACCEPTED, Case, sampled
from plan_harness import NOBODY, SHUFFLED, Sensitivity, cells, queries, values_of
from postgres_shop import PostgresShop
from scratch_postgres import Scratch

from dpproxy.acceleration.copy_files import CopyFolder
from dpproxy.acceleration.extract_making import ExtractJob, make
from dpproxy.acceleration.extract_tables import Extract, extract_tables, held_catalog
from dpproxy.backends.postgres import Postgres
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import check
from dpproxy.policy.model import Policy, PostgresBackend
from dpproxy.table_terms import TableName


class ExtractShop:
    """A shop of PostgreSQL's, and its extract with its neighbours. `units` are those whose deletion is tried."""

    def __init__(self, server: Scratch, folder: Path, name: str, policy: Policy, most: int) -> None:
        self.database = PostgresShop(server, name, 3, 0, trouble=most > 0)
        self.database.connection.execute("ALTER SCHEMA public RENAME TO nothing; ALTER SCHEMA main RENAME TO public")
        job, self.theirs = asyncio.run(_job(server.dsn(name), folder, policy))
        make(job, lambda table, part: None)
        key = job.newest()
        assert key is not None
        held = held_catalog(job.tables)
        assert not check(policy, held)
        self.catalog = asyncio.run(_with_ranges(job.folder.database(key), held, policy))
        self.connection = duckdb.connect(str(job.folder.database(key)))
        self.connection.execute("SET TimeZone = 'UTC'")
        found = self.connection.execute("SELECT customer_id FROM customers UNION SELECT customer_id FROM orders").fetchall()
        everyone = sorted((unit for (unit,) in found if unit is not None), key=shop_world.telling)
        self.units: tuple[int | str, ...] = tuple(everyone[:most])
        for unit in self.units:
            mine = f"SELECT order_id FROM main.orders WHERE customer_id = {unit} AND order_id IS NOT NULL"
            self._neighbour(unit, f"customer_id IS DISTINCT FROM {unit}", f"order_id IS NULL OR order_id NOT IN ({mine})")
        somebodys = "SELECT order_id FROM main.orders WHERE customer_id IS NOT NULL"
        self._neighbour(NOBODY, "customer_id IS NOT NULL", f"order_id IN ({somebodys})")
        self._neighbour(SHUFFLED, "true", "true", " ORDER BY rowid DESC")

    def _neighbour(self, name: int | str, condition: str, items: str, order: str = "") -> None:
        kept = {"products": "true", "regions": "true", "order_items": items}
        self.connection.execute(f"CREATE SCHEMA beside_{name}")
        for table in shop_world.TABLES:
            rows = f"FROM main.{table} WHERE {kept.get(table, condition)}{order}"
            self.connection.execute(f"CREATE TABLE beside_{name}.{table} AS {rows}")

    def run(self, sql: str, unit: int | str | None = None) -> pa.Table:
        text = sql if unit is None else sql.replace('"main".', f'"beside_{unit}".')
        return self.connection.sql(text).to_arrow_table()

    def execute(self, sql: str) -> None:
        raise NotImplementedError

    def takes(self, sql: str) -> bool:
        return True

    def close(self) -> None:
        self.connection.close()
        self.database.close()


async def _job(dsn: str, folder: Path, policy: Policy) -> tuple[ExtractJob, Catalog]:
    """And the database's own catalog, with what is known of public tables."""
    config = PostgresBackend(dsn)
    backend = Postgres(config)
    try:
        catalog = await backend.introspect()
        tables = extract_tables(policy, catalog, await backend.numerics())
        known = await backend.with_public_ranges(catalog, _public(policy))
    finally:
        await backend.close()
    copies = CopyFolder(folder, "shop", "data", folder)
    copies.ready()
    return ExtractJob(config, tables, "about", "", copies, 1 << 30), known


async def _with_ranges(path: Path, held: Catalog, policy: Policy) -> Catalog:
    backend = Extract(path, held, 1)
    try:
        return await backend.with_public_ranges(held, _public(policy))
    finally:
        await backend.close()


def _public(policy: Policy) -> frozenset[TableName]:
    return frozenset(t.name for t in policy.tables.values() if t.kind.shown)


@pytest.fixture(scope="module")
def troubled(scratch: Scratch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtractShop]:
    made = ExtractShop(scratch, tmp_path_factory.mktemp("troubled"), "extracted", plan_harness.policy(), 4)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tame(scratch: Scratch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtractShop]:
    made = ExtractShop(scratch, tmp_path_factory.mktemp("tame"), "extracted_tame", plan_harness.policy(), 0)
    yield made
    made.close()


@pytest.mark.parametrize("case", sampled([c for c in ACCEPTED if c.policy == "shop"], 150), ids=str)
def test_no_unit_moves_an_answer_by_more_than_is_claimed(case: Case, troubled: ExtractShop) -> None:
    """And no value makes one fail."""
    made = case.plan(troubled.catalog)
    assert Sensitivity(troubled).problems(made, case.values) == []


COMPARED = [c for c in ACCEPTED if c.policy == "shop" and not c.types and c.role == "analyst" and c.exact in ("", "declared")]


@pytest.mark.long
@pytest.mark.parametrize("case", COMPARED, ids=str)
def test_what_is_measured_is_what_postgresql_measures(case: Case, tame: ExtractShop) -> None:
    """Before noise, with bounds that do not bind: which groups of a person are kept is each engine's own choice."""
    given = plan_harness.wide(plan_harness.policy())
    statement = plan_harness.statement(case.sql, given)
    settings = {"search_path": "public", **{name: str(value) for name, value in case.settings.items()}}
    theirs, ours = (
        planning(given, catalog, dialect)(statement, given.roles["analyst"], settings, ())
        for catalog, dialect in ((tame.theirs, "postgres"), (tame.catalog, "duckdb"))
    )
    assert len(theirs.measurements) == len(ours.measurements)
    values = values_of(theirs)
    for one, other in zip(theirs.measurements, ours.measurements, strict=True):
        assert [(b.linf, b.fine) for b in one.bases] == [(b.linf, b.fine) for b in other.bases]
        keys = len(one.keys)
        measured = tame.connection.sql(queries(other, values)[0]).fetchall()
        assert groups(measured, keys) == groups(cells(tame.database.run(queries(one, values)[0])), keys)


def test_the_trouble_is_there(troubled: ExtractShop) -> None:
    """What no DECIMAL holds is NULL; what DuckDB's calendar ends before is its last moment."""
    (asked,) = troubled.database.connection.execute(
        "SELECT ARRAY[count(*) FILTER (WHERE amount IN ('NaN', 'Infinity', '-Infinity') OR abs(amount) >= 1e29), "
        "count(*) FILTER (WHERE amount IS NULL), count(*) FILTER (WHERE ts > '294247-01-11' AND isfinite(ts))] FROM public.orders"
    ).fetchall()
    held = troubled.run(
        'SELECT count(*) FILTER (amount IS NULL), count(*) FILTER (ts = \'294247-01-10 04:00:54.775806\') FROM "main"."orders"'
    )
    lost, nulls, late = asked[0]
    assert min(lost, late) > 0
    assert list(held.to_pylist()[0].values()) == [lost + nulls, late]
