"""Mutant: reports table taken as public. Each door through which rows of a public table reach analysts stays shut for reports.

A reports table is told from a public one by its kind alone, so that one wrong answer to one question would show every report. Each
door below says whether it stands open for the reports of policies/emoji.yaml; the mutant of `TableKind` opens each of them, so that
no door is here which cannot notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dpproxy.acceleration.extract_tables import extract_tables
from dpproxy.answers.plan_cache import known_to, private_names
from dpproxy.answers.public_tables import publics_of
from dpproxy.authoring.workbench import public_rows
from dpproxy.backends.duckdb import DuckDB
from dpproxy.facade import ddl
from dpproxy.facade.database import fill
from dpproxy.facade.ddl import Shown
from dpproxy.facade.sample import Size, sample
from dpproxy.kernel.leaves import leaves
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.grants import grants, private_tables
from dpproxy.policy.load import load_file
from dpproxy.policy.model import DuckDBBackend, Policy, PostgresBackend, TableKind, TablePolicy
from dpproxy.policy.report_columns import visible_catalog
from dpproxy.table_terms import TableName

from .test_database import Connection

POLICIES = Path(__file__).resolve().parents[2] / "policies"
REPORTS = TableName("public", "emoji_reports")
EMOJIS = TableName("public", "emojis")
SECRET = CatalogColumn("secret", "secret", "text")


@dataclass(frozen=True)
class World:
    policy: Policy
    catalog: Catalog

    @property
    def shown(self) -> Shown:
        return Shown(self.policy, self.catalog, self.policy.roles["analyst"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    path = tmp_path_factory.mktemp("emoji") / "emoji.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute((POLICIES / "schema/emoji.sql").read_text())
    policy = load_file(POLICIES / "emoji.yaml").policy

    async def known() -> Catalog:
        backend = DuckDB(DuckDBBackend(str(path)))
        try:
            return visible_catalog(policy, await backend.introspect())
        finally:
            await backend.close()

    return World(policy, asyncio.run(known()))


def copied(world: World) -> bool:
    """Its rows are asked of the backend, for the facade."""
    asked: list[TableName] = []

    async def rows(table: CatalogTable, columns: object, cap: int) -> pa.Table:
        asked.append(table.name)
        return pa.table({c.name: pa.array([], pa.string()) for c in table.columns})

    asyncio.run(fill(Connection(), world.shown, "emoji", rows, 3))
    return REPORTS in asked


def sampled(world: World) -> bool:
    """Its rows are asked of the backend, for an author's file of invented rows."""

    class Backend:
        async def public_rows(self, table: CatalogTable, names: object, most: int) -> str:
            return "rows"

    return REPORTS in asyncio.run(public_rows(world.policy, world.catalog, Backend()))  # type: ignore[arg-type]


def seen(world: World) -> bool:
    """A column that the policy does not list is one of the facade's."""
    names = {c.name for c in ddl.visible_columns(world.policy.tables[REPORTS], world.catalog.tables[REPORTS])}
    return names != {"day", "region", "emoji"}


def granted(world: World) -> bool:
    """The facade's role has the whole table's privilege."""
    text = "".join(ddl.grants_script(world.shown, "emoji", frozenset()))
    return 'GRANT SELECT, REFERENCES ON "public"."emoji_reports"' in text


def read_whole(world: World) -> bool:
    """The backend's role is to be granted all columns."""
    return 'GRANT SELECT ON "public"."emoji_reports"' in grants(world.policy, PostgresBackend("postgresql://r@h/d"))


def unexposed(world: World) -> bool:
    """No public table is held against it: a view of its rows might be one."""
    return REPORTS not in private_tables(world.policy)


def unread(world: World) -> bool:
    """A statement that names it is passed on to the facade unread."""
    return "emoji_reports" not in private_names(world.policy) or "emoji_reports" not in known_to(world.shown).private


def watched(world: World) -> bool:
    """What it holds is looked at before each answer, and its ranges are known, as a public table's are."""
    return REPORTS in {table.name for table in publics_of(world.policy, world.catalog)}


def extracted(world: World) -> bool:
    """Columns that nobody uses are copied as well."""
    whole = world.catalog.tables[REPORTS]
    wider = Catalog({**world.catalog.tables, REPORTS: CatalogTable(REPORTS, whole.source, (*whole.columns, SECRET))})
    held = next(t.held for t in extract_tables(world.policy, wider, {}) if t.held.name == REPORTS)
    return held.column("secret") is not None


def leaf(world: World) -> bool:
    """The kernel takes it for rows about nobody in a measurement."""
    found = leaves(world.policy, world.catalog).get(world.catalog.tables[REPORTS].source)
    return found is not None and not found.private and not getattr(found, "reports", False)


DOORS = (copied, sampled, seen, granted, read_whole, unexposed, unread, watched, extracted, leaf)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_door_is_shut(world: World, door: Callable[[World], bool]) -> None:
    assert not door(world)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_mutant_reports_table_taken_as_public(
    world: World, door: Callable[[World], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kind(table: TablePolicy) -> TableKind:
        return TableKind.PEOPLE if table.unit is not None else TableKind.PUBLIC

    monkeypatch.setattr(TablePolicy, "kind", property(kind))
    assert door(world), "it would not notice"


def test_invented_reports_are_of_the_reports_space(world: World) -> None:
    """Of a policy's shape: plain columns as declared, and reports that say nothing."""
    emojis = pa.table({"id": ["0", "1"], "name": ["a", "b"]})
    made = {
        shape.name: (shape, rows) for shape, rows in sample(world.policy, world.catalog, {EMOJIS: emojis}, Size(100, 2.0, 1.0, 7))
    }
    shape, rows = made[REPORTS]
    assert [c.name for c in shape.columns] == rows.column_names == ["day", "region", "emoji_r", "n"]
    assert rows.num_rows == 200
    assert {int(v) for v in rows["emoji_r"].to_pylist()} <= set(range(2863))
    assert set(rows["region"].to_pylist()) == {"north", "east", "south", "west"}
    assert set(rows["n"].to_pylist()) == {"1"}
