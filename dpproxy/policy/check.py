"""A policy against the shapes of the data: does all that it names exist, and can it be what the policy says?

Knows: names and types of the catalog. Must not know: engines, rows. Run at start and by `dpproxy policy check`, when
the backend can be reached; a policy with a problem here is not served, since a misspelt `hidden` would show a column
and a misspelt unit would protect nobody. What the policy claims of rows is `policy.data_claims`'s.
"""

from __future__ import annotations

import datetime as dt
import difflib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from dpproxy.policy.catalog import SPELLINGS, Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.joined_keys import misfit
from dpproxy.policy.model import (
    ColumnPolicy,
    ColumnRole,
    Policy,
    Randomised,
    ReleasedList,
    SparkBackend,
    TableKind,
    TablePolicy,
    UnitPath,
    Value,
)
from dpproxy.policy.names import written, written_place
from dpproxy.policy.problems import START, Code, Mark, Problem, suggestion
from dpproxy.policy.report_columns import CLAIM, misstored, read_beside, visible_catalog
from dpproxy.table_terms import TableName, same_kind

__all__ = ["check", "family"]

_INTEGERS = {"int2": 2**15, "int4": 2**31, "int8": 2**63}  # limits: -n .. n-1
_FAMILIES = {
    "number": (*_INTEGERS, "numeric", "float4", "float8"),
    "text": ("text", "varchar", "bpchar", "char", "name", "citext"),
    "date": ("date", "timestamp", "timestamptz"),
}
_Side = tuple[tuple[TableName, str], CatalogColumn]
"""Where a column is, and what it is like."""
_GRANT = "grant it: `dpproxy policy grants FILE` prints how"
_SESSION = "name the `catalog` that has them; on Sail the loader's session: `/;user_id=...;session_id=...`"
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
    return tuple(sorted(_Check(policy, visible_catalog(policy, catalog), file, positions or {}).problems()))


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
                yield self._problem(table, None, f"the backend's role may not read table `{table.name}`", _GRANT, "not-granted")
                continue
            if found is None:
                what = f"the backend has no table `{table.name}`"
                fix = _table_meant(table.name, self.catalog)
                if not self.catalog.tables and isinstance(self.policy.backend, SparkBackend):
                    what, fix = "the session on Spark sees no table at all", _SESSION
                yield self._problem(table, None, what, fix, "unknown-table")
                continue
            unmade = list(self._joined(table, found))
            yield from unmade
            for column in table.columns.values():
                if column.name not in table.joined:
                    yield from self._column(table, found, column)
            for other in table.unprotected:
                if found.column(other) is None:
                    fix = suggestion(other, (c.name for c in found.columns))
                    at = self.positions.get(("unprotected", str(table.name)), START)
                    yield at.problem(self.file, f"table `{table.name}` has no column `{other}`", fix, "unknown-column")
            if table.kind.shown and all(
                c.name in table.columns and table.columns[c.name].role is ColumnRole.HIDDEN for c in found.columns
            ):
                what = f"public table `{table.name}` hides all of its columns"
                yield self._problem(table, None, what, "leave the table out", "empty")
            if table.kind is TableKind.REPORTS:
                yield from self._read_beside(table, found)
            if table.unit is not None and not unmade:
                yield from self._unit(table, table.unit)
        for name in self.policy.views:
            if name in self.catalog.tables:
                at = self.positions.get(("views", str(name)), START)
                what = f"the backend has a table `{name}` already"
                yield at.problem(self.file, what, "rename the view", "duplicate")

    def _problem(self, table: TablePolicy, column: str | None, what: str, fix: str, code: Code) -> Problem:
        path = ("tables", str(table.name))
        at = self.positions.get((*path, column) if column else path) or self.positions.get(path, START)
        return at.problem(self.file, what, fix, code)

    def _unit_problem(self, table: TablePolicy, what: str, fix: str, code: Code) -> Problem:
        at = self.positions.get(("units", str(table.name)), START)
        return at.problem(self.file, what, fix, code)

    def _joined(self, table: TablePolicy, found: CatalogTable) -> Iterator[Problem]:
        """What keeps a key of several columns from being one, and parts that are of another family than the unit's key has."""
        key = self.policy.unit_parts if table.unit is not None and not table.unit.steps else ()
        source = self.catalog.tables.get(self.policy.unit_table) if self.policy.unit_table is not None else None
        for name, parts in table.joined.items():
            taken = found.column(name)
            if taken is not None and not taken.parts:
                what = f"table `{table.name}` has a column `{name}`, which is what its key of several columns is called"
                yield self._unit_problem(table, what, "rename the column, or show the table by a view without it", "duplicate")
            own = key if table.unit is not None and name == table.unit.column and len(key) == len(parts) else (None,) * len(parts)
            for part, other in zip(parts, own, strict=True):
                column, why = found.column(part.column), misfit(found, part)
                there = source.column(other.column) if source is not None and other is not None else None
                if column is None:
                    fix = suggestion(part.column, (c.name for c in found.columns if not c.parts))
                    what = f"the unit of `{table.name}` needs `{table.name}.{part.column}`, which does not exist"
                    yield self._unit_problem(table, what, fix, "unit-path")
                elif why is not None:
                    what = f"`{table.name}.{part.column}` cannot be part of a key: it is {why}"
                    yield self._unit_problem(
                        table, what, "name whole numbers, texts, dates, or days of timestamps", "type-mismatch"
                    )
                elif there is not None and family(there.type) != family(column.type):
                    what = (
                        f"`{part.column}` of `{table.name}` is of type {column.type}, and `{other.column if other else ''}` of "
                    )
                    what += f"`{self.policy.unit_table}`, in its place of the key, of type {there.type}"
                    yield self._unit_problem(
                        table, what, "write the columns in the order of the privacy unit's key", "type-mismatch"
                    )

    def _read_beside(self, table: TablePolicy, found: CatalogTable) -> Iterator[Problem]:
        for name in read_beside(table):
            column = found.column(name)
            if column is None or column.type not in _INTEGERS:
                what = f"table `{table.name}` has no column `{name}` of whole numbers, which its reports need"
                fix = "add it, with the number of each report's claim" if name == CLAIM else "add it, or write `rows: reports`"
                yield self._problem(table, None, what, fix, "unknown-column")

    def _randomised(self, table: TablePolicy, found: CatalogTable, column: ColumnPolicy, made: Randomised) -> Iterator[Problem]:
        source = next((c for c in found.columns if c.name == column.name and c.reports is not None), None)
        cells = table.reports is not None and table.reports.cells
        if source is None:
            fix = suggestion(made.stored, (c.name for c in found.columns if c.reports is None))
            what = f"table `{table.name}` has no column `{made.stored}` with the reports of `{column.name}`"
            yield self._problem(table, column.name, what, fix, "unknown-column")
        elif sum(c.name == column.name for c in found.columns) > 1:
            what = f"`{table.name}` has a column `{column.name}` in the backend, and the policy calls the reports in "
            what += f"`{made.stored}` so"
            yield self._problem(table, column.name, what, "call the randomised column otherwise", "duplicate")
        elif (why := misstored(made, source, cells)) is not None:
            what = f"column `{made.stored}` of `{table.name}` {why}"
            yield self._problem(table, column.name, what, "store what devices report, or correct the claim", "type-mismatch")
        if isinstance(made.values, ReleasedList):
            yield from self._list(table, column, made.values)

    def _list(self, table: TablePolicy, column: ColumnPolicy, listed: ReleasedList) -> Iterator[Problem]:
        """Whether a public table lists candidates in an order that its key keeps."""
        there = self.catalog.tables.get(listed.table)
        for name in (listed.column, *((listed.order,) if listed.order is not None else ())):
            if there is not None and there.column(name) is None:
                what = f"the values of `{column.name}` are listed in `{listed.table}.{name}`, which does not exist"
                yield self._problem(table, column.name, what, suggestion(name, (c.name for c in there.columns)), "unknown-column")
        if there is not None and listed.order is None and len(there.primary_key) != 1:
            what = f"`{listed.table}` has no primary key of one column, by which the values of `{column.name}` are numbered"
            yield self._problem(table, column.name, what, "add `order:` with the column that numbers them", "reports")

    def _column(self, table: TablePolicy, found: CatalogTable, column: ColumnPolicy) -> Iterator[Problem]:
        if column.randomised is not None:
            yield from self._randomised(table, found, column, column.randomised)
            return
        source = found.column(column.name)
        if source is None:
            if column.role == ColumnRole.HIDDEN and not table.kind.shown:
                return  # as good as hidden: the backend's role may not even read it
            if column.name in self.catalog.withheld.get(table.name, ()):
                what = f"the backend's role may not read column `{column.name}` of `{table.name}`"
                yield self._problem(table, column.name, what, _GRANT, "not-granted")
                return
            fix = suggestion(column.name, (c.name for c in found.columns))
            yield self._problem(table, column.name, f"table `{table.name}` has no column `{column.name}`", fix, "unknown-column")
            return
        subject = f"column `{column.name}` is of type {source.type}"
        wrong = [v for v in column.values or () if not _fits(v, source)]
        if wrong:
            what = f"{subject}, and {wrong[0]!s} in `values` is not"
            yield self._problem(table, column.name, what, _values_meant(wrong[0], source), "type-mismatch")
        elif not _ranged(column, source):
            yield self._problem(table, column.name, f"{subject}, which has no such range", _range_meant(source), "type-mismatch")
        elif column.resolution is not None and family(source.type) != "number":
            yield self._problem(table, column.name, f"{subject}, which has no resolution", "remove `resolution`", "type-mismatch")
        elif column.length is not None and family(source.type) != "text":
            yield self._problem(table, column.name, f"{subject}, which has no length", "remove `length`", "type-mismatch")
        target = self._find(column.references) if column.references is not None else None
        if column.references is not None and target is not None:
            own = (table.name, column.name), source
            yield from self._compared(table, column.name, f"`{column.name}`", own, (column.references, target))

    def _unit(self, table: TablePolicy, path: UnitPath) -> Iterator[Problem]:
        """Both sides of the first join, or the unit column and the unit's key, must be of one family of types. What comes after
        on the path is another table's, and is told there."""
        key = self.policy.unit_key
        if path.steps:
            step = path.steps[0]
            yield from self._pair(table, (table.name, step.column), (step.target, step.target_column))
        elif key is not None:
            yield from self._pair(table, (table.name, path.column), key)

    def _pair(self, table: TablePolicy, one: tuple[TableName, str], other: tuple[TableName, str]) -> Iterator[Problem]:
        sides = self._find(one), self._find(other)
        for side, (name, column) in zip(sides, (one, other), strict=True):
            if side is None and sides == (None, None) and (name, column) == one and one[1] == other[1]:
                continue  # `via` names a column that is not there: that is the fault, and this column only has its name
            if side is None and column in self.catalog.withheld.get(name, ()):
                what = f"the unit of `{table.name}` needs `{name}.{column}`, which the backend's role may not read"
                yield self._unit_problem(table, what, _GRANT, "not-granted")
            elif side is None and name in self.catalog.tables:
                fix = self._column_meant(name, column, other) if side is sides[0] and name == one[0] else ""
                fix = fix or suggestion(column, (c.name for c in self.catalog.tables[name].columns))
                what = f"the unit of `{table.name}` needs `{name}.{column}`, which does not exist"
                yield self._unit_problem(table, what, fix, "unit-path")
            elif side is not None and side.reason == SPELLINGS:
                what = f"the unit of `{table.name}` needs `{name}.{column}`: {SPELLINGS}"
                yield self._unit_problem(table, what, "name a column with one spelling for each, such as a number", "unit-path")
            elif side is not None and (side.type == "timestamptz" or side.exact.startswith("TIMESTAMP_")):
                what = f"the unit of `{table.name}` needs `{name}.{column}`: two moments may be one on a session's clock"
                yield self._unit_problem(table, what, "name a key that is a number or a text", "unit-path")
        if sides[0] and sides[1]:
            yield from self._compared(table, None, f"the unit of `{table.name}`", (one, sides[0]), (other, sides[1]))

    def _column_meant(self, name: TableName, column: str, other: tuple[TableName, str]) -> str:
        """What to write when `via` names a column that this table calls differently; empty where the path is not at fault."""
        if column != other[1] or self._find(other) is None:
            return ""
        here = self.catalog.tables[name]
        keys = [key.columns[0] for key in here.foreign_keys if key.target == other[0] and key.target_columns == (other[1],)]
        led_to = {(s.target, s.target_column) for t in self.policy.tables.values() if t.unit for s in t.unit.steps}
        listed = [
            c.name
            for c in self.policy.tables[name].columns.values()
            if c.role in (ColumnRole.KEY, ColumnRole.UNIT) and (c.name,) != here.primary_key and (name, c.name) not in led_to
        ]
        near = keys or difflib.get_close_matches(f"{other[0].name}_{column}", [c.name for c in here.columns], n=1)
        near = near or (listed if len(listed) == 1 else [])
        named = near[0] if near else "COLUMN"
        mean = "" if near else f", COLUMN being the column of `{name}` that holds `{other[0]}.{column}`"
        named = written(named) if near else named
        return f"write `unit: {{ via: {written_place(other[0], column)}, column: {named} }}`{mean}"

    def _compared(self, table: TablePolicy, column: str | None, who: str, one: _Side, other: _Side) -> Iterator[Problem]:
        """Rows are one person's where these are equal: what is only nearly equal must not be taken for it."""
        (a, here), (b, there) = one, other
        if family(here.type) != family(there.type) or not same_kind(here, there):
            types = [c.type if c.exact in ("", c.type) else f"{c.type}, {c.exact}" for c in (here, there)]
            what = f"{who} compares `{a[0]}.{a[1]}` ({types[0]}) with `{b[0]}.{b[1]}` ({types[1]})"
            fix = "name columns of the same type"
            if column is None:
                yield self._unit_problem(table, what, fix, "type-mismatch")
            else:
                yield self._problem(table, column, what, fix, "type-mismatch")

    def _find(self, column: tuple[TableName, str]) -> CatalogColumn | None:
        table = self.catalog.tables.get(column[0])
        return table.column(column[1]) if table else None


def _table_meant(name: TableName, catalog: Catalog) -> str:
    """What to write for a table that does not exist: its schema, its capitals, or a name that is near."""
    elsewhere = sorted(str(known) for known in catalog.tables if known.name == name.name)
    if elsewhere:
        return f"did you mean `{elsewhere[0]}`? A name without a schema is in `public`"
    return suggestion(str(name), map(str, catalog.tables))


def _values_meant(value: Value, source: CatalogColumn) -> str:
    """What to write for declared values that are not of the column's type."""
    kind = family(source.type)
    if not source.bounded:
        return f"remove `values`: the column is {source.reason or 'of a type without declared values'}"
    if (isinstance(value, str) and kind in ("number", "date")) or (isinstance(value, str) and source.type == "bool"):
        fits = {"number": "numbers, as in [1, 2]", "date": "dates, as in [2024-01-31]"}.get(kind, "[true, false]")
        return f"write {fits}, without quotes"
    if source.type in _INTEGERS and isinstance(value, int | Decimal) and not isinstance(value, bool):
        limit = _INTEGERS[source.type]
        return f"write whole numbers from {-limit} to {limit - 1}: {source.type} holds no others"
    if kind == "text":
        return f'put the values in quotes, as in "{value}": the column is text'
    return f"list values of type {source.type} (quoted ones are text)"


def _range_meant(source: CatalogColumn) -> str:
    """What to write for a range that is not one of the column's type."""
    match family(source.type) if source.bounded else "":
        case "date":
            return "write two dates, as in `range: [2020-01-01, 2029-12-31]`"
        case "number":
            return "write two numbers, as in `range: [0, 100]`"
        case "interval":
            return "write two intervals, as in `range: [0 days, 30 days]`"
        case "text":
            return "remove `range`; of a text, `values` are its groups and `length` bounds its length()"
    return "remove `range`"


def _ranged(column: ColumnPolicy, source: CatalogColumn) -> bool:
    if column.range is None and column.lasts is None:
        return True
    kind = "interval" if column.range is None else "number" if isinstance(column.range[0], Decimal) else "date"
    return source.bounded and family(source.type) == kind


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
