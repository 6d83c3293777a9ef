"""Answers without noise, beside those of plain SQL: one PostgreSQL holds the facade's empty tables and the real rows.

Knows: the facade, releases, the outer query. `Pair.answer` goes the way of an answer with a source of noise that adds
nothing; `Pair.plain` runs the analyst's SQL on a database of the same server that holds the same rows.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import shop_world
from plan_harness import queries

from dpproxy.answers.answer_parts import array_literal
from dpproxy.backends.base import Backend
from dpproxy.backends.duckdb import DuckDB
from dpproxy.backends.postgres import Postgres
from dpproxy.facade import ddl
from dpproxy.facade.cluster import plain
from dpproxy.facade.database import copy_chunks, fill
from dpproxy.mechanisms import exponential
from dpproxy.mechanisms.noise import Exact, Int64, Released, exact_loss
from dpproxy.mechanisms.release import release
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import DuckDBBackend, Policy, PostgresBackend
from dpproxy.privacy.measurement import Measurement
from dpproxy.session.outer_text import array_constant, with_literals
from dpproxy.sql.template import Dialect

Row = tuple[Any, ...]
RELATIVE = 1e-6
"""Columns without a resolution are summed on a grid of a millionth of their range; floats differ in the last digits."""


class NoNoise:
    """Adds nothing, and says of itself what real noise of that scale costs."""

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return values

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return values

    def truncated_laplace(self, scale: Fraction, reach: int, values: Int64) -> Int64:
        return values

    def entropy(self, size: int) -> bytes:
        raise AssertionError("no choice is left to chance here")

    def loss(self, mechanism: Any, scale: Fraction, l0: int, linf: int) -> Fraction:
        return exact_loss(mechanism, scale, l0, linf)


def best(runs: exponential.Runs, *_: object) -> Int64:
    """What a choice without chance falls on: the first point of the best run of each group."""
    found = np.flatnonzero(runs.gap == 0)
    firsts = found[np.searchsorted(runs.group[found], np.arange(runs.groups))]
    return np.asarray(runs.start[firsts], dtype=np.int64)


@dataclass(frozen=True)
class Outcome:
    """What a client would see."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]


class Pair:
    """A facade and a database with rows, on one server. Measurements run on a DuckDB file or on that database.

    `changes` is SQL that changes the shop first."""

    def __init__(self, state: Path, policy: Policy, dialect: Dialect = "duckdb", seed: int = 3, changes: str = "") -> None:
        self.dialect = dialect
        path = state / "shop.duckdb"
        self._data = duckdb.connect(str(path))
        shop_world.fill(self._data, seed, trouble=False)
        self._data.execute(f"SET TimeZone = 'UTC'; {changes}")
        self._data.close()
        self._loop = asyncio.new_event_loop()
        (state / "facade").mkdir()
        self._facade = plain(state / "facade")
        self._backend: Backend = DuckDB(DuckDBBackend(str(path)))
        self.catalog: Catalog = self._loop.run_until_complete(self._start(policy))
        place = {"host": str(Path(self._facade.socket).parent), "user": "postgres", "autocommit": True}
        with psycopg.connect(**place, dbname="postgres") as admin:
            (self._user,) = admin.execute("SELECT current_user").fetchone() or ("",)
            admin.execute("CREATE DATABASE plain")
        self._front = psycopg.connect(**place, dbname=policy.dataset)
        self._plain = psycopg.connect(**place, dbname="plain")
        self._load()
        for connection in (self._front, self._plain):
            connection.execute("SET search_path = public")
        self.set_zone("UTC")
        if dialect == "postgres":
            self._loop.run_until_complete(self._to_postgres(f"postgresql://{self._user}@/plain?host={place['host']}", policy))

    def set_zone(self, zone: str) -> None:
        """The time zone of the sessions from now on."""
        for connection in (self._front, self._plain):
            connection.execute(f"SET TimeZone = '{zone}'")

    async def _to_postgres(self, dsn: str, policy: Policy) -> None:
        await self._backend.close()
        self._backend = Postgres(PostgresBackend(dsn))
        public = frozenset(t.name for t in policy.tables.values() if t.kind.shown)
        self.catalog = await self._backend.with_public_ranges(await self._backend.introspect(), public)

    async def _start(self, policy: Policy) -> Catalog:
        await self._facade.start()
        public = frozenset(t.name for t in policy.tables.values() if t.kind.shown)
        catalog = await self._backend.with_public_ranges(await self._backend.introspect(), public)
        await self._facade.execute(f"CREATE DATABASE {ddl.quoted(policy.dataset)} TEMPLATE template0")
        shown = ddl.Shown(policy, catalog, next(iter(policy.roles.values())))
        await self._facade.execute("".join(ddl.role_script(shown)))
        async with self._facade.connected(policy.dataset) as connection:
            await fill(connection, shown, policy.dataset, self._backend.public_rows, 10**6)
        return catalog

    def close(self) -> None:
        self._front.close()
        self._plain.close()
        self._loop.run_until_complete(self._backend.close())
        self._loop.run_until_complete(self._facade.stop())
        self._loop.close()

    def _load(self) -> None:
        for table in self.catalog.tables.values():
            columns = ", ".join(f"{ddl.quoted(c.name)} {c.type}" for c in table.columns)
            self._plain.execute(f"CREATE TABLE {ddl.qualified(table.name)} ({columns})")
            names = [c.name for c in table.columns]
            rows = self._loop.run_until_complete(self._backend.public_rows(table, names, 10**6))
            with self._plain.cursor().copy(f"COPY {ddl.qualified(table.name)} FROM STDIN") as copy:
                for chunk in copy_chunks(rows.select(names)):
                    copy.write(chunk)
        for table, key in (("customers", "customer_id"), ("products", "product_id"), ("orders", "order_id")):
            self._plain.execute(f"ALTER TABLE {table} ADD PRIMARY KEY ({key})")

    def plain(self, sql: str, parameters: Sequence[str | None] = ()) -> Outcome:
        return self._outcome(self._plain, _filled(sql, parameters))

    def answer(self, made: Plan, parameters: Sequence[str | None] = ()) -> tuple[Outcome, list[Released]]:
        """The answer without noise and without thresholds, and what was released on the way."""
        literals: dict[int, str] = {i + 1: _constant(v) for i, v in enumerate(parameters)}
        values: list[str | None] = [*parameters, *[None] * len(made.inputs)]
        released: list[Released] = []
        known: set[int] = set()
        for number in range(len(made.measurements) + 1):
            ready = [i for i, g in enumerate(made.inputs) if i not in known and set(g.measurements) <= set(range(number))]
            for i in ready:
                values[made.parameters + i] = self._input(made.inputs[i].sql, made.inputs[i].type, literals)
            known.update(ready)
            if number < len(made.measurements):
                released.append(self._released(made.measurements[number], values))
                literals |= _arrays(made, number, released[-1])
        return self._outcome(self._front, with_literals(made.outer, literals)), released

    def _input(self, sql: str, type_: str, literals: dict[int, str]) -> str | None:
        cast = "text" if type_.startswith("rows(") else type_
        text = with_literals(f"SELECT (({sql})::{cast})::text", literals)
        row = self._front.execute(text.encode(), prepare=False).fetchone()
        assert row is not None
        return row[0] if row[0] is None else str(row[0])

    def _released(self, measurement: Measurement, values: Sequence[str | None]) -> Released:
        open_ = replace(measurement, threshold=None, top=None, dense=True, l0=measurement.reach)
        tables = self._loop.run_until_complete(self._backend.run(queries(measurement, values)))
        assert isinstance(tables, Exact)
        with mock.patch.object(exponential, "choose", best), mock.patch.object(exponential, "extreme_rank", return_value=1):
            return release(open_, tables, NoNoise())

    @staticmethod
    def _outcome(connection: psycopg.Connection[Any], sql: str) -> Outcome:
        cursor = connection.execute(sql.encode(), prepare=False)
        names = tuple(c.name for c in cursor.description or ())
        return Outcome(names, tuple(tuple(map(_cell, row)) for row in cursor.fetchall()))


def _filled(sql: str, parameters: Sequence[str | None]) -> str:
    return with_literals(sql, {i + 1: _constant(v) for i, v in enumerate(parameters)})


def _constant(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def _arrays(made: Plan, number: int, released: Released) -> dict[int, str]:
    columns: tuple[pa.Array | Int64, ...] = (*released.keys, *released.values)
    return {
        made.parameters + 1 + i: array_constant(array_literal(columns[array.column]), array.type)
        for i, array in enumerate(made.arrays)
        if array.measurement == number
    }


def _cell(value: Any) -> Any:
    """Numbers as floats, instants as naive UTC, so that types do not hide equal values."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, list):
        return tuple(map(_cell, value))
    return value


def same_cell(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=RELATIVE, abs_tol=1e-4) or (one != one and other != other)
    return bool(one == other)


def difference(ours: Outcome, theirs: Outcome, *, ordered: bool) -> str:
    """Empty when both show the same."""
    if ours.names != theirs.names:
        return f"columns {ours.names} for {theirs.names}"
    if len(ours.rows) != len(theirs.rows):
        return f"{len(ours.rows)} rows for {len(theirs.rows)}: {_sample(ours)} for {_sample(theirs)}"
    mine, left = list(ours.rows), list(theirs.rows)
    if not ordered:
        mine, left = sorted(mine, key=_order), sorted(left, key=_order)
    for one, other in zip(mine, left, strict=True):
        if len(one) != len(other) or not all(map(same_cell, one, other)):
            return f"{one} for {other}"
    return ""


def _sample(outcome: Outcome) -> list[Row]:
    return sorted(outcome.rows, key=_order)[:3]


def _order(row: Row) -> tuple[str, ...]:
    return tuple(f"{round(c, 4) + 0.0:.4f}" if isinstance(c, float) else repr(c) for c in row)  # -0 beside 0
