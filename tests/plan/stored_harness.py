"""Stored tables beside the shop of `plan_harness` and beside each of its neighbours, and plans that are read from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import plan_harness
from fixture_cases import Case
from plan_harness import Shop

from dpproxy.acceleration.preparation import stored_tables
from dpproxy.engines import literal
from dpproxy.engines.stored_stages import DATABASE, table
from dpproxy.plan.context import StoredTable
from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.privacy.measurement import Measurement


def opened(shop: Shop) -> Shop:
    """The shop, with a place for stored tables beside it and each neighbour."""
    shop.execute(f"ATTACH ':memory:' AS {DATABASE}")
    for schema in schemas(shop):
        shop.create(f'CREATE SCHEMA IF NOT EXISTS {DATABASE}."{schema}"')
    return shop


def schemas(shop: Shop) -> list[str]:
    beside = [f"beside_{unit}" for unit in (*shop.units, plan_harness.NOBODY, plan_harness.SHUFFLED, plan_harness.EMPTY)]
    return ["main", *beside]


def prepare(shop: Shop, tables: Sequence[StoredTable], asked: str) -> None:
    """Make the tables that a text reads, and those they are made of, beside the database and beside each of its neighbours."""
    needed: list[StoredTable] = []
    for made in reversed(tables):
        if made.name in asked:
            needed.insert(0, made)
            asked += made.sql
    for made in needed:
        for schema in schemas(shop):
            text = f"CREATE TABLE IF NOT EXISTS {table(made.name)} AS {made.sql}"
            shop.create(text.replace('"main".', f'"{schema}".'))


def tables_of(case: Case, given: Policy, catalog: Catalog, asked: Sequence[str] = ()) -> tuple[StoredTable, ...]:
    """The tables that the policy is worth, of those that a statement names, and those of `asked`."""
    named = {n for n in given.tables if n.name in case.sql}
    ways = {step.target for n in named for step in (given.tables[n].unit.steps if given.tables[n].unit is not None else ())}
    used = replace(given, tables={n: t for n, t in given.tables.items() if n in named | ways})
    return stored_tables(used, catalog, "duckdb", asked=asked)


def read(case: Case, given: Policy, catalog: Catalog, tables: Sequence[StoredTable]) -> Plan:
    found = planning(given, catalog, "duckdb", 0, tables)
    settings = {"search_path": '"$user", public', **case.settings}
    return found(plan_harness.statement(case.sql, given), given.roles[case.role], settings, case.types)


def texts(m: Measurement, values: Sequence[str | None]) -> list[str]:
    first = m.threshold.first if m.threshold is not None else None
    own = [text.render(values, literal) for text in m.queries]
    return own if first is None else [*own, first.query.render(values, literal)]


def is_read(made: Plan) -> bool:
    return any(DATABASE in text for m in made.measurements for text in texts(m, [None] * 20))
