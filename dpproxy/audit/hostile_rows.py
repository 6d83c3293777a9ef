"""Invented rows of a policy's shape that try every bound: what `facade.sample` invents, with trouble added.

Knows: policies, catalogs, rows as texts. Must not know: engines, statements. Wrong bounds show only where data reach for them
(Wilson et al. 2020, "Differentially private SQL with bounded user contribution", section 5: random databases with heavy
users). So there is a whale with more rows than bounds allow, half of them alike and large, an outlier whose values lie beyond
every range, a unit that is in no table of units and has too many rows of one kind, rows of nobody, NULL wherever a column has
NULLs, values that nobody declared, NaN and infinities; and a crowd that shares values nobody declared, so that there are
groups just above the least number of units, and groups that the whale alone brings there. Which rows are whose is known by
construction, since a neighbour is made by leaving out all rows of one unit.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dpproxy.errors import OperatorError
from dpproxy.facade.sample import Size, identifier, rows_of_own_keys, sample
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.model import ColumnPolicy, ColumnRole, Policy, TablePolicy
from dpproxy.table_terms import TableName

Text = str | None
Publics = Mapping[str, tuple[object, ...]]
"""Of each column of a public table, by its name, its first values."""

WHALE, OUTLIER, STRANGER = 0, 1, 900_001
"""Numbers of units: of very many rows; of values beyond every range; in no table of units."""
ODD_UNITS = 7
"""Units that are not of the crowd, the stranger aside."""
LEAST_ROWS, MOST_ROWS = 40, 300
"""Of the whale in one table: twice what bounds allow, within these."""
SHARED = 4
"""Values that each of the crowd shares with half of it, of each column without declared values; the whale has all of them. Fewer
where bounds allow fewer groups of a unit."""
NULL_KIND = 2
"""Which of the shared values is NULL."""
MOST_CROWD = 120
TROUBLE = 0.15
"""Part of the cells of other units that hold something unexpected."""
FRESH = 500_000
"""Keys of added rows begin here."""

_WHOLE = {"int2": (-(2**15), 2**15 - 1), "int4": (-(2**31), 2**31 - 1), "int8": (-(2**63), 2**63 - 1)}
_NUMBERS = (*_WHOLE, "numeric", "float4", "float8")
_TEXTS = ("text", "varchar", "bpchar", "name", "citext")
_ODD: Mapping[str, tuple[Text, ...]] = {
    **{kind: tuple(map(str, (0, 1, -1, *ends))) for kind, ends in _WHOLE.items()},
    "numeric": ("0", "0.005", "-1", "999999999999.99", "-999999999999.99"),
    "float4": ("NaN", "Infinity", "-Infinity", "1e30", "-0"),
    "float8": ("NaN", "Infinity", "-Infinity", "1e308", "-1e308", "5e-324", "-0"),
    "bool": ("true", "false"),
    "date": ("0001-01-01", "9999-12-31", "1970-01-01", "2024-02-29", "infinity", "-infinity"),
    "timestamp": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59", "infinity", "-infinity"),
    "timestamptz": ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59+00", "1969-12-31 23:59:59+00"),
    "time": ("00:00:00", "23:59:59.999999"),
    "interval": ("1 month", "30 days", "-1 day"),
    "uuid": ("00000000-0000-4000-8000-00000000ffff",),
    **dict.fromkeys(_TEXTS, ("", " ", "NULL", "a'b\\c", "12", "2024-02-30", "x" * 300, "\u00e9\u4e2d\U0001f600")),
}
"""By type, what no range and no list of values holds."""


@dataclass(frozen=True)
class HostileTable:
    """One table: its shape, rows as texts by column, and whose each row is (None: nobody's, or public)."""

    shape: CatalogTable
    rows: pa.Table
    owners: tuple[Text, ...] | None

    def without(self, unit: Text) -> pa.Table:
        """Return the rows of all others: those of nobody are left out where `unit` is None."""
        if self.owners is None:
            return self.rows
        return self.rows.filter(pa.array([owner != unit for owner in self.owners], pa.bool_()))


@dataclass(frozen=True)
class World:
    """A database by its tables. `units`: those whose absence tells most come first."""

    tables: tuple[HostileTable, ...]
    units: tuple[str, ...]


def world(policy: Policy, catalog: Catalog, publics: Mapping[TableName, pa.Table], seed: int = 1) -> World:
    """Return the hostile rows of a policy. `publics`: rows of public tables, which are taken over. Raises OperatorError."""
    if any(table.joined for table in policy.tables.values()):
        raise OperatorError("a policy with a key of several columns cannot be audited: its invented rows have keys of one")
    crowd = min(MOST_CROWD, 2 * (min(role.min_units for role in policy.roles.values()) + 1))
    units = ODD_UNITS + crowd
    maker = _Maker(policy, catalog, random.Random(seed), crowd, _values_of(publics))
    tables = tuple(maker.table(shape, rows) for shape, rows in sample(policy, catalog, publics, Size(units, 3.0, 1.0, seed)))
    named = [str(identifier(maker.unit_type, n)) for n in (WHALE, OUTLIER, STRANGER, *range(2, units))]
    return World(tables, tuple(named))


def _values_of(publics: Mapping[TableName, pa.Table]) -> Publics:
    return {
        name: tuple(dict.fromkeys(v for v in table.column(name).slice(0, 100).to_pylist() if v is not None))
        for table in publics.values()
        for name in table.column_names
    }


class _Maker:
    def __init__(self, policy: Policy, catalog: Catalog, chance: random.Random, crowd: int, publics: Publics) -> None:
        self._policy, self._chance, self._publics = policy, chance, publics
        column = catalog.tables[policy.unit_table].column(policy.unit_column) if policy.unit_table is not None else None
        self.unit_type = column.type if column is not None else "int8"
        self._whale, self._outlier, self._stranger = (str(identifier(self.unit_type, n)) for n in (WHALE, OUTLIER, STRANGER))
        self._crowd = [str(identifier(self.unit_type, n)) for n in range(ODD_UNITS, ODD_UNITS + crowd)]
        self._done: dict[TableName, tuple[dict[str, list[Text]], list[Text]]] = {}
        self._fresh = FRESH

    def table(self, shape: CatalogTable, rows: pa.Table) -> HostileTable:
        rules = self._policy.tables[shape.name]
        if rules.unit is None:
            return HostileTable(shape, rows, None)
        columns: dict[str, list[Text]] = {name: rows.column(name).to_pylist() for name in rows.column_names}
        owners = self._owners(rules, columns)
        self._troubled(shape, rules, columns, owners)
        if not rules.one:
            self._grown(shape, rules, columns, owners.count(self._outlier))
        first = rows_of_own_keys(rules, columns)
        columns = {name: [values[i] for i in first] for name, values in columns.items()}
        owners = self._owners(rules, columns)
        self._done[shape.name] = columns, owners
        made = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
        return HostileTable(shape, made, tuple(owners))

    def _owners(self, rules: TablePolicy, columns: Mapping[str, list[Text]]) -> list[Text]:
        """By the path to the unit; a row whose path leads nowhere is nobody's."""
        assert rules.unit is not None
        if not rules.unit.steps:
            return list(columns[rules.unit.column])
        step = rules.unit.steps[0]
        target, theirs = self._done[step.target]
        known = dict(zip(target[step.target_column], theirs, strict=True))
        return [None if key is None else known.get(key) for key in columns[step.column]]

    def _troubled(self, shape: CatalogTable, rules: TablePolicy, columns: dict[str, list[Text]], owners: Sequence[Text]) -> None:
        """Cells of the rows that there are: all of the outlier's and the whale's, some of the others'; the crowd's are shared
        values."""
        for column in shape.columns:
            pool = _pool(column, rules.columns.get(column.name))
            if not pool or column.name not in columns or _links(rules, column.name):
                continue
            for row, owner in enumerate(owners):
                if owner in self._crowd:
                    if _undeclared(rules.columns[column.name]):
                        kinds = self._kinds(rules, self._crowd.index(owner))
                        columns[column.name][row] = self._shared(column, kinds[row % len(kinds)])
                elif owner == self._whale and _undeclared(rules.columns[column.name]):
                    columns[column.name][row] = self._shared(column, 0)
                elif owner == self._outlier and (value := _far(column, rules.columns[column.name])) is not None:
                    columns[column.name][row] = value
                elif owner in (self._outlier, self._whale) or self._chance.random() < TROUBLE:
                    columns[column.name][row] = self._chance.choice(pool)

    def _grown(self, shape: CatalogTable, rules: TablePolicy, columns: dict[str, list[Text]], there: int) -> None:
        """Rows of the whale; of the outlier as many as bounds allow, of the stranger twice as many, all alike; of nobody, of
        the crowd. Of every other value that the crowd shares, the whale is the last of the units that are needed."""
        bounds = rules.bounds
        whale = min(MOST_ROWS, max(LEAST_ROWS, 2 * bounds.rows * (1 if bounds.whole else bounds.groups or 1)))
        shared = _shared_values(rules)
        for owner, times in (
            (self._whale, whale),
            (self._outlier, min(bounds.rows, MOST_ROWS) - there),
            (self._stranger, min(2 * bounds.rows, MOST_ROWS)),
            (None, 3),
        ):
            links = self._links_of(shape, rules, owner)
            for number in range(times if links else 0):
                kind = number % shared if owner == self._whale else None
                alike = owner != self._whale or number < times // 2
                self._row(shape, rules, columns, owner, links[number % len(links)], kind, alike)
        for place, owner in enumerate(self._crowd):
            links = self._links_of(shape, rules, owner)
            for kind in self._kinds(rules, place) if links else ():
                self._row(shape, rules, columns, owner, links[kind % len(links)], kind, False)

    def _kinds(self, rules: TablePolicy, place: int) -> Sequence[int]:
        """Which shared values one of the crowd has: every other one. Two of the crowd have the first one alone, so that half
        of the values are a unit short of what is needed."""
        return (0,) if place in (1, 3) else range(place % 2, _shared_values(rules), 2)

    def _row(
        self,
        shape: CatalogTable,
        rules: TablePolicy,
        columns: dict[str, list[Text]],
        owner: Text,
        link: Text,
        kind: int | None,
        alike: bool,
    ) -> None:
        for name, values in columns.items():
            values.append(self._cell(shape, rules, name, owner, link, kind, alike))

    def _links_of(self, shape: CatalogTable, rules: TablePolicy, owner: Text) -> list[Text]:
        """What a unit's rows may hold in the column by which they are its own."""
        assert rules.unit is not None
        steps = rules.unit.steps
        name = steps[0].column if steps else rules.unit.column
        column = shape.column(name)
        if owner is None:
            return [None] if column is not None and column.nullable else []
        if not steps:
            return [owner]
        target, theirs = self._done[steps[0].target]
        return [key for key, whose in zip(target[steps[0].target_column], theirs, strict=True) if whose == owner and key]

    def _cell(
        self, shape: CatalogTable, rules: TablePolicy, name: str, owner: Text, link: Text, kind: int | None, alike: bool
    ) -> Text:
        """`kind`: which of the shared values a row has; `alike`: whether it has each column's first declared value, or its
        largest in range."""
        column, policy = shape.column(name), rules.columns.get(name)
        assert column is not None
        assert rules.unit is not None
        if name == (rules.unit.steps[0].column if rules.unit.steps else rules.unit.column):
            return link
        if policy is not None and policy.references is not None:
            return self._referred(policy.references, owner, column.nullable)
        if (policy is not None and policy.role is ColumnRole.KEY) or name in shape.primary_key:
            self._fresh += 1
            return str(identifier(column.type, self._fresh))
        pool = _pool(column, policy)
        if pool and policy is not None and kind is not None and _undeclared(policy):
            return self._shared(column, kind)
        if pool and policy is not None and alike and (policy.values or policy.range):
            return pool[0] if policy.values else _around(column.type, policy)[1]
        if pool and alike and owner == self._outlier and column.type in _TEXTS:
            return f"only {column.name}"
        return self._chance.choice(pool) if pool else _blank(column)

    def _shared(self, column: CatalogColumn, kind: int) -> Text:
        """A value that nobody declared and that many have: of a public table's key where one has that name; one of them is
        NULL."""
        if kind == NULL_KIND and column.nullable:
            return None
        keys = self._publics.get(column.name, ())
        if keys:
            return str(keys[kind % len(keys)])
        odd = _ODD[column.type]
        return (
            f"{column.name} {kind}" if column.type in _TEXTS else str(kind) if column.type in _NUMBERS else odd[kind % len(odd)]
        )

    def _referred(self, target: tuple[TableName, str], owner: Text, nullable: bool) -> Text:
        """A row of the same unit's, in another table."""
        columns, theirs = self._done.get(target[0], ({target[1]: []}, []))
        own = [key for key, whose in zip(columns[target[1]], theirs, strict=True) if whose == owner and key]
        return self._chance.choice(own) if own and owner is not None else None if nullable else "0"


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _far(column: CatalogColumn, policy: ColumnPolicy) -> Text:
    """The first declared value, or the value farthest beyond a range, or a text that nobody else has; None for other columns."""
    if policy.values:
        return _spelled(policy.values[0])
    if column.type in _TEXTS:
        return f"only {column.name}"
    if policy.range is None or column.type not in _NUMBERS:
        return None
    return {"numeric": "999999999999.99", "float4": "1e30", "float8": "1e308"}.get(column.type) or str(_WHOLE[column.type][1])


def _undeclared(policy: ColumnPolicy) -> bool:
    return policy.values is None and policy.range is None and policy.role is ColumnRole.PLAIN


def _shared_values(rules: TablePolicy) -> int:
    return 2 * min(rules.bounds.groups or SHARED, SHARED)


def _links(rules: TablePolicy, name: str) -> bool:
    """Whether a column says whose a row is, or which row it is."""
    assert rules.unit is not None
    policy = rules.columns.get(name)
    role = policy.role if policy is not None else ColumnRole.HIDDEN
    return role in (ColumnRole.UNIT, ColumnRole.KEY) or name in (rules.unit.column, *(s.column for s in rules.unit.steps))


def _pool(column: CatalogColumn, policy: ColumnPolicy | None) -> list[Text]:
    """Values for a column: declared ones, the ends of its range and beyond, odd ones of its type, NULL."""
    if policy is None or policy.role is not ColumnRole.PLAIN or column.type not in _ODD:
        return []
    found = [_spelled(value) for value in policy.values or ()]
    found += _around(column.type, policy)
    if column.type in _TEXTS:
        found += [f"{column.name} {n}" for n in range(11, 15)]
    odd = list(_ODD[column.type])
    if policy.length is not None:
        odd.append("y" * (policy.length + 1))
    return [*found, *odd, *([None] if column.nullable else [])]


def _around(kind: str, policy: ColumnPolicy) -> list[str]:
    if policy.range is None:
        return [str(n) for n in (3, 7, 40)] if kind in _NUMBERS else []
    low, high = policy.range
    if isinstance(low, dt.datetime) or isinstance(high, dt.datetime):
        assert isinstance(low, dt.datetime)
        assert isinstance(high, dt.datetime)
        moments = [low, high, low + (high - low) / 3, low - dt.timedelta(days=1), high + dt.timedelta(days=1)]
        return [str(m.date() if kind == "date" else m.replace(tzinfo=None)) for m in moments]
    numbers: list[Any] = [low, high, (low + high) / 2, low + (high - low) / 5, low - 1, high + 1]
    if kind not in _WHOLE:
        return [str(n) for n in numbers]
    least, most = _WHOLE[kind]
    return [str(int(Decimal(n))) for n in numbers if least <= n <= most]


def _blank(column: CatalogColumn) -> Text:
    return None if column.nullable else str(_ODD.get(column.type, ("",))[0])
