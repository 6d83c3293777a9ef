"""A policy against the shapes of the data: does all that it names exist, and can it be what the policy says?

Knows: names and types of the catalog. Must not know: engines, rows. Run at start and by `dpproxy policy check`, when
the backend can be reached; a policy with a problem here is not served, since a misspelt `hidden` would show a column
and a misspelt unit would protect nobody. The one question that needs the data, whether tables declared to hold one
row per unit do, is returned as SQL that counts violations; no answer of it ever leaves the operator's side.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from dpproxy.policy.catalog import SPELLINGS, Catalog, CatalogColumn, CatalogTable, TableName, same_kind
from dpproxy.policy.model import ColumnPolicy, ColumnRole, Policy, TablePolicy, UnitPath, Value
from dpproxy.policy.problems import START, Mark, Problem, suggestion
from dpproxy.policy.uniqueness import unique_tables, uniqueness_checks

__all__ = ["check", "family", "unique_tables", "uniqueness_checks"]

_INTEGERS = {"int2": 2**15, "int4": 2**31, "int8": 2**63}  # limits: -n .. n-1
_FAMILIES = {
    "number": (*_INTEGERS, "numeric", "float4", "float8"),
    "text": ("text", "varchar", "bpchar", "char", "name", "citext"),
    "date": ("date", "timestamp", "timestamptz"),
}
_Side = tuple[tuple[TableName, str], CatalogColumn]
"""Where a column is, and what it is like."""
_GRANT = "grant it: `dpproxy policy grants FILE` prints how"
_FAMILY = {name: family for family, types in _FAMILIES.items() for name in types}


def family(type_: str) -> str:
    """Return the family of a type. Types of one family can be compared: number, text, date; any other type only with itself."""
    return _FAMILY.get(type_, type_)


def check(
    policy: Policy,
    catalog: Catalog,
    file: str = "policy",
    positions: Mapping[tuple[str, ...], Mark] | None = None,
) -> tuple[Problem, ...]:
    """Return every mismatch between a policy and the data's catalog, in the order of the file; () when it fits.

    `file` and `positions` come from `load.Loaded`; without them problems point at the start of the file.
    """
    return tuple(sorted(_Check(policy, catalog, file, positions or {}).problems()))


@dataclass(frozen=True)
class _Check:
    policy: Policy
    catalog: Catalog
    file: str
    positions: Mapping[tuple[str, ...], Mark]

    def problems(self) -> Iterator[Problem]:
        for table in self.policy.tables.values():
            found = self.catalog.tables.get(table.name)
            if found is None and table.name in self.catalog.withheld:
                yield self._problem(table, None, f"the backend's role may not read table `{table.name}`", _GRANT)
                continue
            if found is None:
                fix = suggestion(str(table.name), map(str, self.catalog.tables))
                yield self._problem(table, None, f"the backend has no table `{table.name}`", fix)
                continue
            for column in table.columns.values():
                yield from self._column(table, found, column)
            if table.unit is not None:
                yield from self._unit(table, table.unit)
        for name in self.policy.views:
            if name in self.catalog.tables:
                at = self.positions.get(("views", str(name)), START)
                what = f"the backend has a table `{name}` already"
                yield Problem(self.file, at.line, at.column, what, "rename the view")

    def _problem(self, table: TablePolicy, column: str | None, what: str, fix: str) -> Problem:
        path = ("tables", str(table.name))
        at = self.positions.get((*path, column) if column else path) or self.positions.get(path, START)
        return Problem(self.file, at.line, at.column, what, fix)

    def _column(self, table: TablePolicy, found: CatalogTable, column: ColumnPolicy) -> Iterator[Problem]:
        source = found.column(column.name)
        if source is None:
            if column.role == ColumnRole.HIDDEN and not table.public:
                return  # as good as hidden: the backend's role may not even read it
            if column.name in self.catalog.withheld.get(table.name, ()):
                what = f"the backend's role may not read column `{column.name}` of `{table.name}`"
                yield self._problem(table, column.name, what, _GRANT)
                return
            fix = suggestion(column.name, (c.name for c in found.columns))
            yield self._problem(table, column.name, f"table `{table.name}` has no column `{column.name}`", fix)
            return
        subject = f"column `{column.name}` is of type {source.type}"
        wrong = [v for v in column.values or () if not _fits(v, source)]
        if wrong:
            what = f"{subject}, and {wrong[0]!s} in `values` is not"
            yield self._problem(table, column.name, what, f"list values of type {source.type} (quoted ones are text)")
        elif column.range is not None and not _ranged(column, source):
            yield self._problem(table, column.name, f"{subject}, which has no such range", "remove `range`")
        elif column.resolution is not None and family(source.type) != "number":
            yield self._problem(table, column.name, f"{subject}, which has no resolution", "remove `resolution`")
        elif column.length is not None and family(source.type) != "text":
            yield self._problem(table, column.name, f"{subject}, which has no length", "remove `length`")
        target = self._find(column.references) if column.references is not None else None
        if column.references is not None and target is not None:
            own = (table.name, column.name), source
            yield from self._compared(table, column.name, f"`{column.name}`", own, (column.references, target))

    def _unit(self, table: TablePolicy, path: UnitPath) -> Iterator[Problem]:
        """Both sides of each join, and the unit's key, must be of one family of types."""
        here = table.name
        for step in path.steps:
            yield from self._pair(table, (here, step.column), (step.target, step.target_column))
            here = step.target
        key = (self.policy.unit_table, self.policy.unit_column)
        yield from self._pair(table, (here, path.column), key)

    def _pair(self, table: TablePolicy, one: tuple[TableName, str], other: tuple[TableName, str]) -> Iterator[Problem]:
        sides = self._find(one), self._find(other)
        for side, (name, column) in zip(sides, (one, other), strict=True):
            if side is None and column in self.catalog.withheld.get(name, ()):
                what = f"the unit of `{table.name}` needs `{name}.{column}`, which the backend's role may not read"
                yield self._problem(table, None, what, _GRANT)
            elif side is None and name in self.catalog.tables:
                fix = suggestion(column, (c.name for c in self.catalog.tables[name].columns))
                what = f"the unit of `{table.name}` needs `{name}.{column}`, which does not exist"
                yield self._problem(table, None, what, fix)
            elif side is not None and side.reason == SPELLINGS:
                what = f"the unit of `{table.name}` needs `{name}.{column}`: {SPELLINGS}"
                yield self._problem(table, None, what, "name a column with one spelling for each, such as a number")
        if sides[0] and sides[1]:
            yield from self._compared(table, None, f"the unit of `{table.name}`", (one, sides[0]), (other, sides[1]))

    def _compared(self, table: TablePolicy, column: str | None, who: str, one: _Side, other: _Side) -> Iterator[Problem]:
        """Rows are one person's where these are equal: what is only nearly equal must not be taken for it."""
        (a, here), (b, there) = one, other
        if family(here.type) != family(there.type) or not same_kind(here, there):
            types = [c.type if c.exact in ("", c.type) else f"{c.type}, {c.exact}" for c in (here, there)]
            what = f"{who} compares `{a[0]}.{a[1]}` ({types[0]}) with `{b[0]}.{b[1]}` ({types[1]})"
            yield self._problem(table, column, what, "name columns of the same type")

    def _find(self, column: tuple[TableName, str]) -> CatalogColumn | None:
        table = self.catalog.tables.get(column[0])
        return table.column(column[1]) if table else None


def _ranged(column: ColumnPolicy, source: CatalogColumn) -> bool:
    if column.range is None or not source.bounded:
        return column.range is None
    return family(source.type) == ("number" if isinstance(column.range[0], Decimal) else "date")


def _fits(value: Value, source: CatalogColumn) -> bool:
    """Whether a declared value is one of the column's type."""
    if not source.bounded:
        return False
    match value:
        case bool():
            return source.type == "bool"
        case int():
            limit = _INTEGERS.get(source.type)
            return family(source.type) == "number" and (limit is None or -limit <= value < limit)
        case Decimal():
            whole = value == value.to_integral_value()
            return family(source.type) == "number" and (source.type not in _INTEGERS or whole)
        case dt.datetime():
            return source.type in ("timestamp", "timestamptz")
        case dt.date():
            return family(source.type) == "date"
        case str():
            return family(source.type) == "text" or (source.type == "uuid" and _is_uuid(value))
    return False


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
