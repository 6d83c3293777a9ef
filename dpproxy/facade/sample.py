"""Invented rows of a policy's shape: units, what belongs to them, values that are declared. Nothing is taken from private data.

Knows: a policy, a catalog, rows of public tables. Must not know: private rows, files. Declared values come up in falling shares,
numbers in the lower part of their range more often than in the upper, as most things do; texts that nobody declared are a few
invented words. Units differ in activity: a lognormal distribution whose `skew` is the deviation of the logarithm (0: all alike;
1: the busiest percent of units has about a tenth of the rows; 2: more than a third). Rows depend on the arguments alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpproxy.local.spaces import Space
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.joined_keys import stored
from dpproxy.policy.model import ColumnPolicy, ColumnRole, Policy, ReleasedList, TableKind, TablePolicy
from dpproxy.policy.report_columns import CLAIM, NUMBER
from dpproxy.table_terms import TableName

Places = npt.NDArray[np.int64]
"""Numbers of rows, or of units."""

WORDS = 30  # different texts of a column that declares none
NULLS = 0.05  # part of the rows of a column whose NULLs are a group
_DAYS = (dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31))
_DAY = len("2024-01-01")
_INTEGERS = ("int2", "int4", "int8")
_NUMBERS = (*_INTEGERS, "numeric", "float4", "float8")
_TIMES = ("date", "timestamp", "timestamptz")


@dataclass(frozen=True)
class Size:
    """How much is invented. `rows`: of one unit, in the mean, in tables that hold several."""

    units: int = 10_000
    rows: float = 10.0
    skew: float = 1.0
    seed: int = 1


@dataclass
class _Made:
    """A private table as far as it is made: `owners[i]` is the unit of row i."""

    owners: Places
    columns: dict[str, list[Any]] = field(default_factory=dict)


def sample(
    policy: Policy, catalog: Catalog, publics: Mapping[TableName, pa.Table], size: Size
) -> Iterator[tuple[CatalogTable, pa.Table]]:
    """Yield the tables of a policy as the backend has them, columns by their catalog names; keys of several columns are there as
    well. `publics`: the public tables' rows, which are taken over."""
    for name, rows in publics.items():
        yield catalog.tables[name], rows
    maker = _Maker(policy, catalog, publics, size)
    for table in _in_order(policy):
        yield stored(catalog.tables[table.name]), maker.table(table)
    for table in policy.of_kind(TableKind.REPORTS):
        yield stored(catalog.tables[table.name]), maker.reports(table)


def _by_last(shape: CatalogTable, column: CatalogColumn) -> CatalogColumn:
    """A key of several columns with the type of the last that is no day: by that one alone its invented rows differ."""
    last = next((shape.column(part.column) for part in reversed(column.parts) if not part.day), None)
    return replace(column, type=last.type) if last is not None else column


def _told_apart(shape: CatalogTable, columns: dict[str, list[Any]]) -> None:
    """Give the parts of keys of several columns their values: the last one is the key's, all others are the same in all rows."""
    for column in shape.columns:
        whole = [part.column for part in column.parts if not part.day]
        for name in whole[:-1]:
            known = shape.column(name)
            columns[name] = [identifier(known.type if known is not None else "text", 0)] * len(columns[column.name])
        if whole:
            columns[whole[-1]] = columns[column.name]


def _shown(column: CatalogColumn, columns: Mapping[str, list[Any]]) -> list[Any]:
    """The values of a column; of a key of several columns the text that stands for them (`policy.joined_keys`)."""
    if not column.parts:
        return columns[column.name]
    parts = [[str(v)[: _DAY if part.day else None] for v in columns[part.column]] for part in column.parts]
    return [":".join([f"{len(text)}:{text}" for text in row]) for row in zip(*parts, strict=True)]


def rows_of_own_keys(table: TablePolicy, columns: Mapping[str, Sequence[Any]]) -> list[int]:
    """Return the places of rows that are left where, of those that share the values of a listed key, only the first stays."""
    number = len(next(iter(columns.values()), ()))
    left, seen = [], set[tuple[Any, ...]]()
    for row in range(number):
        keys = {(key, *(columns[name][row] for name in key)) for key in table.keys if all(name in columns for name in key)}
        values = {key for key in keys if None not in key}
        if seen.isdisjoint(values):
            left.append(row)
            seen |= values
    return left


def _in_order(policy: Policy) -> Iterator[TablePolicy]:
    """Private tables, each after the one that its path to the unit leads to."""
    waiting = [t for t in policy.tables.values() if t.unit is not None]
    done: set[TableName] = set()
    while waiting:
        ready = [t for t in waiting if t.unit is not None and (not t.unit.steps or t.unit.steps[0].target in done)]
        if not ready:
            raise ValueError("paths to the unit go round in a circle")
        yield from sorted(ready, key=lambda t: (not t.one, str(t.name)))
        done |= {t.name for t in ready}
        waiting = [t for t in waiting if t.name not in done]


class _Maker:
    def __init__(self, policy: Policy, catalog: Catalog, publics: Mapping[TableName, pa.Table], size: Size) -> None:
        self._policy, self._catalog, self._publics, self._size = policy, catalog, publics, size
        self._random = np.random.default_rng(size.seed)
        busy = np.exp(size.skew * self._random.standard_normal(size.units))
        self._activity = busy / busy.mean()
        self._made: dict[TableName, _Made] = {}

    def table(self, table: TablePolicy) -> pa.Table:
        """Make the rows of one table, and remember them for those that refer to it."""
        assert table.unit is not None
        shape, steps = self._catalog.tables[table.name], table.unit.steps
        parent = self._made[steps[0].target] if steps else None
        rows = self._rows_of(table, parent)
        made = self._made[table.name] = _Made(parent.owners[rows] if parent else rows)
        for column in (_by_last(shape, c) for c in shape.columns):
            if steps and parent and column.name == steps[0].column:
                values = [parent.columns[steps[0].target_column][i] for i in rows]
            elif not steps and column.name == table.unit.column:
                values = [identifier(column.type, int(n)) for n in made.owners]
            else:
                values = self._column(shape, column, table.columns.get(column.name), made.owners)
            made.columns[column.name] = values
        _told_apart(shape, made.columns)
        first = rows_of_own_keys(table, made.columns)
        made.owners = made.owners[first]
        made.columns = {name: [values[i] for i in first] for name, values in made.columns.items()}
        return pa.table(
            {
                column.name: pa.array([None if v is None else str(v) for v in _shown(column, made.columns)], pa.string())
                for column in shape.columns
            }
        )

    def reports(self, table: TablePolicy) -> pa.Table:
        """Make reports of which every device had a value of its own at random: all that they show is the mechanism's noise."""
        shape, rows = self._catalog.tables[table.name], max(int(self._size.units * self._size.rows), 1)
        made = {column.name: column.randomised for column in table.columns.values() if column.randomised is not None}
        columns = {}
        for column in shape.columns:
            held = column.reports or column
            if column.name in made and column.reports is not None:
                values = self._reported(made[column.name].claims[-1][1].space, table.columns[column.name], rows)
            elif column.name == CLAIM:
                values = [max(number for m in made.values() for number, _ in m.claims)] * rows
            elif column.name == NUMBER:
                values = [1] * rows
            else:
                values = self._column(shape, column, table.columns.get(column.name), np.arange(rows))
            columns[held.name] = pa.array([None if v is None else str(v) for v in values], pa.string())
        return pa.table(columns)

    def _reported(self, space: Space, policy: ColumnPolicy, rows: int) -> list[Any]:
        match space.form:
            case "boolean":
                return list(self._random.random(rows) < 0.5)
            case "value":
                listed = policy.values or self._listed(policy)
                return [listed[i] for i in self._random.integers(0, len(listed), rows)] if listed else [None] * rows
            case "number":
                return self._numbers("float8", policy, rows)
            case "integer" | "bits":
                return [int(i) for i in self._random.integers(0, space.size, rows)]
            case _:
                assert_never(space.form)

    def _listed(self, policy: ColumnPolicy) -> list[Any]:
        values = policy.randomised.values if policy.randomised is not None else None
        rows = self._publics.get(values.table) if isinstance(values, ReleasedList) else None
        return rows[values.column].to_pylist() if rows is not None and isinstance(values, ReleasedList) else []

    def _rows_of(self, table: TablePolicy, parent: _Made | None) -> Places:
        """For each row of a table its unit, or its row of the table that its path leads to."""
        if parent is not None:
            children = 1 + self._random.poisson(max(self._size.rows / 4, 0.5), len(parent.owners))
            return np.repeat(np.arange(len(parent.owners)), 1 if table.one else children)
        if table.one:
            return np.arange(self._size.units)
        return np.repeat(np.arange(self._size.units), self._random.poisson(self._activity * self._size.rows))

    def _column(self, shape: CatalogTable, column: CatalogColumn, policy: ColumnPolicy | None, owners: Places) -> list[Any]:
        rows = len(owners)
        if policy is None or policy.role is ColumnRole.HIDDEN:
            return [None if column.nullable else _blank(column.type)] * rows
        if policy.references is not None:
            return self._of_same_unit(policy.references, owners)
        drawn = self._from_public(shape, column, rows)
        if drawn is None and policy.role is not ColumnRole.PLAIN:
            return [identifier(column.type, n) for n in range(rows)]
        values = drawn if drawn is not None else self._values(column, policy, rows)
        if not policy.nulls or not column.nullable:
            return values
        return [None if gone else v for v, gone in zip(values, self._random.random(rows) < NULLS, strict=True)]

    def _of_same_unit(self, target: tuple[TableName, str], owners: Places) -> list[Any]:
        """A row of the unit's own in another table, where it has one."""
        made = self._made.get(target[0])
        if made is None:
            return [None] * len(owners)
        theirs = dict(zip(made.owners.tolist(), made.columns[target[1]], strict=True))
        return [theirs.get(int(owner)) for owner in owners]

    def _from_public(self, shape: CatalogTable, column: CatalogColumn, rows: int) -> list[Any] | None:
        """Values of a public table's key, where a foreign key, or the key's own name, leads there."""
        for name, table in self._publics.items():
            target = self._catalog.tables[name]
            refers = any(key.columns == (column.name,) and key.target == name for key in shape.foreign_keys)
            alone = (column.name,) in (target.primary_key, *target.unique)
            if table.num_rows and (refers or (alone and column.name.lower() not in ("id", "name"))):
                key = next((k.target_columns[0] for k in shape.foreign_keys if k.columns == (column.name,)), column.name)
                values: list[Any] = table[key].to_pylist()
                return [values[i] for i in self._falling(len(values), rows)]
        return None

    def _values(self, column: CatalogColumn, policy: ColumnPolicy, rows: int) -> list[Any]:
        if policy.values is not None:
            return [policy.values[i] for i in self._falling(len(policy.values), rows)]
        if column.type in _NUMBERS:
            return self._numbers(column.type, policy, rows)
        if column.type in _TIMES:
            return self._times(column.type, policy, rows)
        if column.type == "bool":
            return list(self._random.random(rows) < 0.3)
        if column.type in ("text", "varchar", "bpchar", "name", "citext"):
            return [f"{column.name} {i + 1}" for i in self._falling(WORDS, rows)]
        return [None if column.nullable else _blank(column.type)] * rows

    def _falling(self, kinds: int, rows: int) -> Places:
        """Draw kinds with shares that fall as one over the root of their place."""
        shares = 1 / np.sqrt(np.arange(1, kinds + 1))
        return self._random.choice(kinds, rows, p=shares / shares.sum())

    def _numbers(self, type_: str, policy: ColumnPolicy, rows: int) -> list[Any]:
        low, high = (float(end) for end in policy.range) if policy.range else (0.0, 100.0)  # type: ignore[arg-type]
        drawn = low + (high - low) * self._random.beta(1.3, 5.0, rows)
        grid = policy.resolution or (Decimal(1) if type_ in _INTEGERS else Decimal("0.01"))
        steps = np.rint(drawn / float(grid)).astype(np.int64)
        return [grid * int(step) for step in steps]

    def _times(self, type_: str, policy: ColumnPolicy, rows: int) -> list[Any]:
        first, last = policy.range if policy.range else _DAYS
        assert isinstance(first, dt.datetime)
        assert isinstance(last, dt.datetime)
        seconds = (last - first).total_seconds() * self._random.random(rows)
        moments = [first + dt.timedelta(seconds=int(s)) for s in seconds]
        return [m.date() for m in moments] if type_ == "date" else list(moments)


def identifier(type_: str, number: int) -> Any:
    """Return a different value of a type for each number."""
    if type_ == "uuid":
        return f"00000000-0000-4000-8000-{number:012x}"
    if type_ in _TIMES:
        return dt.date(1970, 1, 1) + dt.timedelta(days=number)
    return number if type_ in _NUMBERS else f"{number:08d}"


def _blank(type_: str) -> Any:
    """What stands in a column that analysts do not see and that has no NULLs."""
    if type_ in _TIMES:
        return dt.date(1970, 1, 1)
    blanks = {
        "bool": False,
        "uuid": identifier("uuid", 0),
        "time": "00:00:00",
        "interval": "0 days",
        "json": "{}",
        "jsonb": "{}",
    }
    return 0 if type_ in _NUMBERS else blanks.get(type_, "")
