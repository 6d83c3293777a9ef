"""What the session needs of an engine.

Knows: coroutines, Arrow, `Exact`. Must not know: noise, budgets, clients. A backend runs only SQL that was generated
from a checked plan (`Template.render`), read-only, and in one snapshot a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

import pyarrow as pa

from dpproxy.errors import OperatorError
from dpproxy.mechanisms.noise import Exact
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName

COUNTED = 1_000_000
"""Rows of a public table up to which it is counted at start how many of them share a value of each column."""


_MEASURING = ThreadPoolExecutor(32, thread_name_prefix="measured")
T = TypeVar("T")


async def in_measuring_thread(work: Callable[[], T]) -> T:
    """Run in a thread what is done to measured rows: reading them, adding noise. It may take long, depending on data; so it is
    kept from the threads of `asyncio.to_thread`, where others' questions wait."""
    return await asyncio.get_running_loop().run_in_executor(_MEASURING, work)


class BackendError(OperatorError):
    """The engine failed. The text is for the operator's log only, never for a client."""


class Locked(BackendError):
    """Tables are locked: whoever loads them is not through."""


class Unreadable(BackendError):
    """A table, a column or a right that a statement needs is not there. It depends on no row."""


class Runner(Protocol):
    """Runs measurements. Cancelling the task that awaits `run` interrupts the engine's statement."""

    async def run(self, queries: Sequence[str]) -> Exact:
        """Run a measurement's queries in one snapshot, in order. Raises BackendError."""
        ...


class Backend(Runner, Protocol):
    """Runs one engine over its data."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def state(self) -> str:
        """Name the data that are open; empty where they may change while they are."""
        ...

    def outdated(self) -> bool:
        """Return whether opening the data anew would open other data, as far as that can be told without asking the engine."""
        ...

    def choose_by(self, key: int) -> None:
        """Keep the key by which a unit's groups are chosen, where generated SQL reads it rather than holding it."""
        ...

    async def public_states(self, tables: Sequence[CatalogTable]) -> Mapping[TableName, str]:
        """Name what is in these PUBLIC tables now. Raises BackendError, also where the data are not what was opened."""
        ...

    async def introspect(self) -> Catalog:
        """Return names, types and keys of every table; no statistics. Raises BackendError."""
        ...

    async def with_public_ranges(self, catalog: Catalog, public: frozenset[TableName]) -> Catalog:
        """Return the catalog with `public_range` filled for the orderable columns of the tables named in `public`, and their
        sizes: `rows` and `most`."""
        ...

    @property
    def places(self) -> int:
        """Return how many `snapshot`s there may be at once: as many run without waiting for each other."""
        ...

    def snapshot(self, tables: Sequence[CatalogTable]) -> AbstractAsyncContextManager[Runner]:
        """Return a place to run, for the measurements of one statement, which all see the data as the first of them does, in one
        committed state. `tables` are all that they read, each with those columns alone.

        No row is read by entering it, but what could keep them from running is met then, before they are charged: whoever
        is within does not wait for a connection, a thread or a load any more. Raises Locked, Unreadable, BackendError.
        """
        ...

    async def public_rows(self, table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
        """Return at most `cap` + 1 rows of a PUBLIC table, columns by their catalog names."""
        ...

    async def violations(self, checks: Sequence[str], aside: bool = False) -> tuple[int, ...]:
        """Run an operator's checks (generated SQL that returns one integer each: how many violations). They run where no
        measurement can be in their way, as does whatever else is no measurement. `aside`: they may read whole tables, and are not
        in the way of that either."""
        ...

    async def number(self, query: str) -> int:
        """Run the operator's query of one integer, as it is in a policy. Names without a schema are of the schema that tables of
        the policy are in when it names none. Raises BackendError."""
        ...

    async def close(self) -> None: ...


def whole_number(told: object) -> int:
    """Return what the operator's query of one integer says. Raises BackendError."""
    try:
        return int(told)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        raise BackendError("the query does not return a number") from None


def columns_of(table: CatalogTable, names: Sequence[str]) -> list[CatalogColumn]:
    """Return a public table's columns of these names. Raises BackendError for one the table has not."""
    found = [table.column(name) for name in names]
    known = [column for column in found if column is not None]
    if len(known) < len(found):
        raise BackendError("a public table has no such column")
    return known
