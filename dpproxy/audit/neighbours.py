"""One invented database, and beside it the same without each unit in turn, in one DuckDB: generated SQL runs on any of them.

Knows: DuckDB, hostile rows. Must not know: statements, plans, the data of any policy. `nobody` lacks the rows that belong to no
unit, and `shuffled` has all rows in another order: on these two nothing at all may change. DuckDB is set up as `backends.duckdb`
sets it up for people's data; what is audited is its SQL, whatever engine the policy names.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from dpproxy.audit.hostile_rows import HostileTable, World
from dpproxy.authoring.sample_file import unique, write_table
from dpproxy.backends.duckdb import LOCKED_DOWN, set_for_measuring
from dpproxy.policy.catalog import CatalogTable
from dpproxy.policy.names import quote_name

WHOLE: Final = "whole"
NOBODY: Final = "nobody"
SHUFFLED: Final = "shuffled"
SAME: Final = (NOBODY, SHUFFLED)
"""Neighbours that lack nobody: no answer may differ on them."""


class Neighbours:
    """Holds the database and its neighbours. `names`: those that lack a unit, by the unit's name; then those that lack nobody."""

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
