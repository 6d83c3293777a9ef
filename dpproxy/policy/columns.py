"""Columns of a table: roles, declared values, ranges.

Knows: what a column may be declared as. Must not know: types of the data (`policy.check` compares with those). All
that is declared here is taken to be public: values and ranges must come from a code book, not from the data.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

from dpproxy.policy import names, scalars
from dpproxy.policy.model import ColumnPolicy, ColumnRole, TableKind, Value
from dpproxy.policy.problems import suggestion
from dpproxy.policy.reader import Path, Reader, kind
from dpproxy.policy.table_keys import COLUMN
from dpproxy.policy.tree import Mapping, Node, Scalar, Sequence

_WITHOUT_UNIT = {TableKind.PUBLIC: "public table", TableKind.REPORTS: "table of reports"}
_OF_NOBODY = {TableKind.PUBLIC: "{}", TableKind.REPORTS: "{ plain: true }"}
_ROLES = {"unit": ColumnRole.UNIT, "key": ColumnRole.KEY, "hidden": ColumnRole.HIDDEN}
Range = tuple[Decimal, Decimal] | tuple[dt.datetime, dt.datetime]
Lengths = tuple[dt.timedelta, dt.timedelta]
_PERCENTILE = re.compile(r"(?:p|q|percentile_?)\d+(?:\.\d+)?|min|max|auto", re.IGNORECASE)
_INTERVAL = re.compile(r"week|day|hour|min|sec|month|year|\bP[0-9T]", re.I)
"""What is meant for an interval."""
MAX_LENGTH = 10**6  # characters: beyond it no average of lengths says anything
_END_OF_DAY = dt.time(23, 59, 59, 999999)  # a last day is meant whole; microseconds are PostgreSQL's finest grain


def read_columns(reader: Reader, node: Node | None, path: Path, whose: TableKind) -> dict[str, ColumnPolicy]:
    """Return the columns listed for a table, by folded name. Problems are recorded in `reader`."""
    listed = reader.named(node, "`columns`")
    columns: dict[str, ColumnPolicy] = {}
    for written, declared in listed.entries.items() if listed else ():
        at = listed.keys[written] if listed else declared.at
        name = names.column(written)
        if name is None:
            reader.problem(at, f"`{written[:80]}` is not a column name", "write the bare name of a column", "bad-name")
            continue
        if name in columns:
            reader.problem(at, f"column `{name}` is given twice (names are folded to lower case)", "keep one", "duplicate")
            continue
        reader.positions[(*path, name)] = at
        column = _column(reader, name, declared)
        if whose is not TableKind.PEOPLE and column.role in (ColumnRole.UNIT, ColumnRole.KEY):
            what = f"column `{name}` of a {_WITHOUT_UNIT[whose]} cannot be `{column.role}`"
            reader.problem(declared.at, what, f"write {_OF_NOBODY[whose]} or hidden, or give the table a `unit`", "column-role")
        columns[name] = column
    return columns


def _column(reader: Reader, name: str, node: Node) -> ColumnPolicy:
    if isinstance(node, Mapping):
        return _plain(reader, name, node)
    role = _ROLES.get(node.text) if isinstance(node, Scalar) else None
    if role is None:
        fix = "write unit, key, hidden, {}, { values: [...] } or { range: [lowest, highest] }"
        if isinstance(node, Sequence):
            fix = "write { values: [...] } for a list of values, or { range: [lowest, highest] }"
        if isinstance(node, Scalar) and node.text and not scalars.is_null(node):
            near = suggestion(node.text, _ROLES)
            fix = near if near.startswith("did") else fix
        reader.problem(node.at, f"column `{name}` cannot be {kind(node)}", fix, "wrong-type")
    return ColumnPolicy(name, role or ColumnRole.HIDDEN)


def _plain(reader: Reader, name: str, node: Mapping) -> ColumnPolicy:
    for word in _ROLES.keys() & node.entries.keys():
        reader.problem(node.keys[word], f"`{word}` is no key of a column", f"write `{name}: {word}`", "unknown-key")
        return ColumnPolicy(name, _ROLES[word])
    keys = reader.mapping(node, COLUMN) or {}
    if "references" in keys:
        return _reference(reader, name, node, keys["references"], len(keys) > 1)
    if "randomised" in keys:
        for key in keys.keys() - {"randomised", "from"}:
            fix = "write it into `randomised`" if key in ("values", "range") else "remove it"
            reader.problem(node.keys[key], f"randomised column `{name}` has `{key}` outside `randomised`", fix, "reports")
        return ColumnPolicy(name)
    if "from" in keys:
        what = f"column `{name}` has `from`, and is not randomised"
        reader.problem(node.keys["from"], what, "remove `from`, or write `randomised`", "reports")
    plain = reader.flag(keys["plain"], "plain") if "plain" in keys else False
    values = read_values(reader, keys["values"]) if "values" in keys else None
    bounds, lasts = _parted(read_range(reader, keys["range"])) if "range" in keys else (None, None)
    resolution = reader.decimal(keys["resolution"], "resolution") if "resolution" in keys else None
    if resolution is not None and resolution <= 0:
        reader.problem(keys["resolution"].at, "`resolution` must be above 0", "write the grid, as in 0.01", "out-of-range")
        resolution = None
    if resolution is not None and bounds and isinstance(bounds[0], Decimal) and resolution > bounds[1] - bounds[0]:
        what = "`resolution` is larger than the range: every number would be one of its ends"
        reader.problem(keys["resolution"].at, what, "write the grid of the numbers, as in 0.01", "out-of-range")
    if resolution is not None and (lasts or (bounds and isinstance(bounds[0], dt.datetime))):
        what = "intervals" if lasts else "dates"
        reader.problem(keys["resolution"].at, f"{what} have no `resolution`", "remove it", "resolution")
    length = reader.integer(keys["length"], "length", 1, MAX_LENGTH) if "length" in keys else None
    nulls = reader.flag(keys["nulls"], "nulls") if "nulls" in keys else False
    if lasts and (values or length):
        reader.problem(keys["range"].at, "an interval has a `range` alone", "remove `values` and `length`", "range")
    if values and bounds:
        _inside(reader, keys["values"], values, bounds)
    hull = bounds or _hull(values)
    return ColumnPolicy(name, ColumnRole.PLAIN, values, hull, resolution, bool(nulls), length, lasts, plain=bool(plain))


def _reference(reader: Reader, name: str, node: Node, target: Node, more: bool) -> ColumnPolicy:
    """A key of another private table: joins along it stay within one unit."""
    found = names.table_column(target.text) if isinstance(target, Scalar) and target.text else None
    if found is None:
        reader.problem(target.at, "`references` must be a column of a table", "write `references: table.column`", "wrong-type")
    if more:
        what = f"column `{name}` refers to a key, and can be nothing else"
        reader.problem(node.at, what, "write `{ references: table.column }`", "column-role")
    return ColumnPolicy(name, ColumnRole.KEY, references=found)


def read_values(reader: Reader, node: Node) -> tuple[Value, ...] | None:
    """Return a list of values of one type, in its order. Problems are recorded in `reader`."""
    items = reader.items(node, "values")
    if items is None:
        return None
    if not items:
        reader.problem(node.at, "`values` is empty", "list the values, or write {} when they are not public", "empty")
    values: list[Value] = []
    for item in items:
        if not isinstance(item, Scalar) or scalars.is_ambiguous(item):
            fix = "quote it if it is text, else write a plain number, date or text"
            reader.problem(item.at, f"a value cannot be {kind(item)}", fix, "wrong-type")
        elif scalars.is_null(item):
            reader.problem(item.at, "NULL cannot be listed in `values`", 'write `nulls: true`, or "" for empty text', "values")
        elif (found := scalars.value(item)) in values:
            reader.problem(item.at, f"the value `{str(found)[:40]}` is given twice", "keep one", "duplicate")
        else:
            values.append(found)
    if len({_family(v) for v in values}) > 1:
        reader.problem(node.at, "`values` are of different types", "quote all of them to make them text", "values")
        return None
    return tuple(values) or None


def _family(value: Value) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | Decimal():
            return "number"
        case dt.date():
            return "date"
    return "text"


def _parted(found: Range | Lengths | None) -> tuple[Range | None, Lengths | None]:
    """A range of numbers or moments, and one of intervals."""
    if found is None or not isinstance(found[0], dt.timedelta):
        return found, None
    return None, found


def read_range(reader: Reader, node: Node) -> Range | Lengths | None:
    """Return both ends of a range. Problems are recorded in `reader`."""
    items = reader.items(node, "range")
    if items is None:
        return None
    if len(items) != 2 or not all(isinstance(i, Scalar) for i in items):
        reader.problem(node.at, "`range` must have two ends", "write `range: [lowest, highest]`", "range")
        return None
    low, high = (i for i in items if isinstance(i, Scalar))
    found = _numbers(low, high) or _days(low, high) or _lengths(low, high)
    if found is None:
        what = f"`range` cannot go from {kind(low)} to {kind(high)}"
        fix = "write two numbers, or two dates as in 2024-01-31"
        if any(not end.plain for end in (low, high)):
            fix += ", without quotes"
        if any(_PERCENTILE.fullmatch(end.text) for end in (low, high)):
            fix = "write numbers that are publicly known: percentiles are a look at the data"
        elif any(_INTERVAL.search(end.text) for end in (low, high)):
            fix = "of intervals write both ends in weeks, days, hours, minutes or seconds, as in [0 days, 30 days]"
        if any(scalars.is_ambiguous(end) for end in (low, high)):
            fix += ", finite, without underscores or leading zeros"
        reader.problem(node.at, what, fix, "range")
    elif not _ordered(found):
        what = f"`range` from {low.text} to {high.text} is empty"
        reader.problem(node.at, what, "write the lower end first, and a higher one after it", "range")
        return None
    return found


def _numbers(low: Scalar, high: Scalar) -> tuple[Decimal, Decimal] | None:
    ends = scalars.decimal(low), scalars.decimal(high)
    return (ends[0], ends[1]) if ends[0] is not None and ends[1] is not None else None


def _days(low: Scalar, high: Scalar) -> tuple[dt.datetime, dt.datetime] | None:
    ends = scalars.moment(low), scalars.moment(high)
    if ends[0] is None or ends[1] is None:
        return None
    return _timestamp(ends[0], dt.time.min), _timestamp(ends[1], _END_OF_DAY)


def _lengths(low: Scalar, high: Scalar) -> Lengths | None:
    ends = scalars.length(low), scalars.length(high)
    return (ends[0], ends[1]) if ends[0] is not None and ends[1] is not None else None


def _ordered(ends: Range | Lengths) -> bool:
    low, high = ends
    if isinstance(low, Decimal):
        return isinstance(high, Decimal) and low < high
    if isinstance(low, dt.timedelta):
        return isinstance(high, dt.timedelta) and low < high
    return isinstance(high, dt.datetime) and low < high


def _timestamp(day: dt.date, time: dt.time) -> dt.datetime:
    return day if isinstance(day, dt.datetime) else dt.datetime.combine(day, time)


def _hull(values: tuple[Value, ...] | None) -> Range | None:
    """Numbers and dates that are listed are also bounded: by the least and the greatest of them."""
    if not values:
        return None
    numbers = [Decimal(v) for v in values if isinstance(v, int | Decimal) and not isinstance(v, bool)]
    if len(numbers) > 1:
        return min(numbers), max(numbers)
    days = [v for v in values if isinstance(v, dt.date)]
    if days:
        return min(_timestamp(d, dt.time.min) for d in days), max(_timestamp(d, _END_OF_DAY) for d in days)
    return None


def _inside(reader: Reader, node: Node, values: tuple[Value, ...], bounds: Range) -> None:
    outside = [v for v in values if not _within(v, bounds)]
    if outside:
        what = f"`{outside[0]}` in `values` is outside `range`"
        reader.problem(node.at, what, "widen the range, or remove it", "values")


def _within(value: Value, bounds: Range) -> bool:
    low, high = bounds
    if isinstance(low, Decimal) and isinstance(high, Decimal):
        return isinstance(value, int | Decimal) and not isinstance(value, bool) and low <= value <= high
    if isinstance(low, dt.datetime) and isinstance(high, dt.datetime):
        return isinstance(value, dt.date) and low <= _timestamp(value, dt.time.min) <= high
    return False
