"""How a policy says whose a row is: a column, several columns together, or a path of keys to another table.

Knows: the forms of `unit` and of `privacy_unit`'s `key`. Must not know: other tables, the data. Several columns become one joined
column (`policy.joined_keys`), so that a unit, and each step of a path, is one column for all that follows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Entries
from dataclasses import dataclass, field

from dpproxy.policy import names, scalars
from dpproxy.policy.joined_keys import joined_name
from dpproxy.policy.model import KeyPart, TableKind, TablePolicy
from dpproxy.policy.policy_keys import PRIVACY_UNIT
from dpproxy.policy.problems import Mark, suggestion
from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.table_keys import DAY, VIA
from dpproxy.policy.tree import Mapping, Node, Scalar, Sequence
from dpproxy.table_terms import TableName

Parts = tuple[KeyPart, ...]
FORM = "write the name of this table's unit column, or { via: table.column }"
SEVERAL = "write `[column, column]`, or `[column, { day: column }]` for one unit a day"


@dataclass(frozen=True)
class WrittenUnit:
    """The unit of a table as written. `column`: its unit column or its foreign key; `via`: where that leads. `joined`, `reached`:
    keys of several columns here, and in the table where `via` leads."""

    column: str | None = None
    via: tuple[TableName, str] | None = None
    joined: Entries[str, Parts] = field(default_factory=dict)
    reached: Entries[str, Parts] = field(default_factory=dict)


def read_unit(reader: Reader, node: Node) -> WrittenUnit:
    """Return the unit of a table. Problems are recorded in `reader`."""
    if isinstance(node, Mapping) and "day" in node.entries:
        reader.problem(node.at, "a day alone names nobody", SEVERAL, "wrong-type")
        return WrittenUnit()
    if isinstance(node, Mapping):
        return _path(reader, reader.mapping(node, VIA) or {})
    if isinstance(node, Sequence):
        parts = _parts(reader, node)
        name = joined_name(parts) if parts else None
        return WrittenUnit(name, joined={name: parts} if name else {})
    return WrittenUnit(_column(reader, node))


def _path(reader: Reader, keys: Entries[str, Node]) -> WrittenUnit:
    via = keys.get("via")
    if isinstance(via, Sequence):
        return _joined_path(reader, via, keys.get("column"))
    target = names.table_column(via.text) if isinstance(via, Scalar) else None
    if target is None:
        if via is not None:
            reader.problem(via.at, f"`via` cannot be {kind(via)}", "write `via: table.column`", "wrong-type")
        return WrittenUnit()
    return WrittenUnit(_column(reader, keys["column"]) if "column" in keys else target[1], target)


def _joined_path(reader: Reader, via: Sequence, column: Node | None) -> WrittenUnit:
    place = _places(reader, via, "via")
    if place is None:
        return WrittenUnit()
    target, there = place
    here = there if column is None else _parts(reader, column) if isinstance(column, Sequence) else ()
    if len(here) != len(there) or any(part.day for part in (*here, *there)):
        at = column.at if column is not None else via.at
        what = "a path over a key of several columns needs as many columns here, and no days"
        reader.problem(at, what, "write `{ via: [t.a, t.b], column: [a, b] }`", "unit-path")
        return WrittenUnit()
    mine, its = joined_name(here), joined_name(there)
    return WrittenUnit(mine, (target, its), {mine: here}, {its: there})


def reports_alone(root: Node) -> bool:
    """Return whether no table has a unit, since all hold reports or are public."""
    tables = root.entries.get("tables") if isinstance(root, Mapping) else None
    kinds = (
        [set(t.entries) if isinstance(t, Mapping) else set() for t in tables.entries.values()]
        if isinstance(tables, Mapping)
        else []
    )
    return any("reports" in keys for keys in kinds) and all("reports" in keys or "public" in keys for keys in kinds)


def read_privacy_unit(reader: Reader, node: Node, units: bool) -> tuple[str, tuple[TableName, str, Parts] | None] | None:
    """Return the unit's noun and key. `units`: whether a table has a unit; else there is no key."""
    keys = reader.mapping(node, PRIVACY_UNIT, units=units)
    if not keys or not set(PRIVACY_UNIT.required_with_unit if units else PRIVACY_UNIT.required) <= set(keys):
        return None
    name, key = reader.text(keys["name"], "name"), read_unit_key(reader, keys["key"]) if "key" in keys else None
    if name is None or (key is None and "key" in keys):
        return None
    if key is not None and not units:
        reader.problem(keys["key"].at, "no table has a unit, and `privacy_unit` has a `key`", "remove `key`", "unit-key")
    return name, key


def check_unit_table(
    reader: Reader, node: Node, unit: tuple[TableName, str, Parts], tables: Entries[TableName, TablePolicy]
) -> None:
    """Record a problem unless the unit's key is the unit column of a private table."""
    table = tables.get(unit[0])
    if table is None:
        fix = suggestion(str(unit[0]), (str(t.name) for t in tables.values() if t.kind is TableKind.PEOPLE))
        reader.problem(node.at, f"the privacy unit's table `{unit[0]}` is not listed", fix, "unit-key")
    elif table.unit is None:
        what = f"the privacy unit's table `{unit[0]}` is public"
        reader.problem(node.at, what, "name a private table, whose rows are people", "unit-key")
    elif table.unit.steps or table.unit.column != unit[1]:
        if not table.unit.column:
            return  # its own unit could not be read, and that is said
        if not table.unit.steps and len(table.joined.get(table.unit.column, ())) != len(unit[2]):
            return  # `check_forms` says so
        key = written_parts(unit[2]) if unit[2] else names.written(unit[1])
        what = f"`{key if unit[2] else unit[1]}` is the privacy unit's key, but not the unit of table `{unit[0]}`"
        fix = f"write `unit: {key}` there, if each `{key}` is one to be protected; else name the key of people in `privacy_unit`"
        reader.problem(reader.positions["tables", str(unit[0])], what, fix, "unit-key")


def read_unit_key(reader: Reader, node: Node) -> tuple[TableName, str, Parts] | None:
    """Return the table, the column and the parts of `privacy_unit`'s `key`; of one column there are none."""
    if isinstance(node, Sequence):
        place = _places(reader, node, "key")
        return (place[0], joined_name(place[1]), place[1]) if place is not None else None
    key = names.table_column(node.text) if isinstance(node, Scalar) else None
    if key is None:
        reader.problem(node.at, f"the unit's key cannot be {kind(node)}", "write `key: table.column`", "unit-key")
        return None
    return (*key, ())


def _places(reader: Reader, node: Sequence, what: str) -> tuple[TableName, Parts] | None:
    """Columns of one table, each written with it."""
    fix = f"write `{what}: [table.column, table.column]`, all of one table"
    found: list[tuple[TableName, KeyPart]] = []
    for item in node.items:
        day, text = _day(reader, item)
        place = names.table_column(text.text) if isinstance(text, Scalar) and not scalars.is_null(text) else None
        if place is None:
            if text is None:  # said already
                return None
            reader.problem(item.at, f"a part of `{what}` cannot be {kind(item)}", fix, "unit-key")
            return None
        found.append((place[0], KeyPart(place[1], day)))
    if len({table for table, _ in found}) > 1:
        reader.problem(node.at, f"`{what}` names columns of two tables", fix, "unit-key")
        return None
    if not _told_apart(reader, node, tuple(part for _, part in found)):
        return None
    return found[0][0], tuple(part for _, part in found)


def _parts(reader: Reader, node: Sequence) -> Parts:
    """Columns of this table; () after a problem."""
    found: list[KeyPart] = []
    for item in node.items:
        day, text = _day(reader, item)
        column = names.column(text.text) if isinstance(text, Scalar) and not scalars.is_null(text) else None
        if column is None:
            if text is None:  # said already
                return ()
            reader.problem(item.at, f"a column of a unit cannot be {kind(item)}", SEVERAL, "wrong-type")
            return ()
        found.append(KeyPart(column, day))
    return tuple(found) if _told_apart(reader, node, tuple(found)) else ()


def _told_apart(reader: Reader, node: Sequence, parts: Parts) -> bool:
    """Whether there are two columns or more, each once, and more than days."""
    if len(parts) > 1 and len(set(parts)) == len(parts) and not all(part.day for part in parts):
        return True
    what = "a column of the key is given twice" if len(set(parts)) < len(parts) else "a key of several columns needs two"
    if parts and all(part.day for part in parts):
        what = "a day alone names nobody"
    reader.problem(node.at, what, "write the column alone, without brackets" if len(parts) == 1 else SEVERAL, "unit-key")
    return False


def _day(reader: Reader, item: Node) -> tuple[bool, Node | None]:
    """Whether a part is a day, and its column."""
    if not isinstance(item, Mapping):
        return False, item
    keys = reader.mapping(item, DAY) or {}
    return True, keys.get("day")


def _column(reader: Reader, node: Node) -> str | None:
    column = names.column(node.text) if isinstance(node, Scalar) and not scalars.is_null(node) else None
    if column is not None and ", " in column and not column.startswith('"'):
        reader.problem(node.at, f"`{column}` is one name, and no list of columns", f"write `[{column}]`", "wrong-type")
        return None
    if column is None:
        fix = FORM
        if isinstance(node, Scalar) and names.table_column(node.text):
            path = re.split(r"\s*(?:->|=)", node.text)[0]  # an arrow to where the path ends
            fix = f"write `unit: {{ via: {path} }}` for a path over another table, or this table's own column alone"
        reader.problem(node.at, f"a unit column cannot be {kind(node)}", fix, "wrong-type")
    return column


def read_unprotected(reader: Reader, node: Node, table: TableName, own: str | None) -> tuple[str, ...]:
    """Return the columns by which rows name further units. Problems are recorded in `reader`."""
    found: list[str] = []
    for item in reader.items(node, "unprotected") or ():
        name = names.column(item.text) if isinstance(item, Scalar) and not scalars.is_null(item) else None
        if name is None:
            reader.problem(item.at, f"a column cannot be {kind(item)}", "write `unprotected: [column]`", "wrong-type")
        elif name == own or name in found:
            what = f"`{name}` names the unit of `{table}`, which is protected" if name == own else f"`{name}` is given twice"
            reader.problem(item.at, what, "list the columns that name others", "duplicate")
        else:
            found.append(name)
    return tuple(found)


def others_named(table: TablePolicy, unit: str) -> str | None:
    """Say which columns of a table name units that its rows do not count for; None where there are none."""
    if not table.unprotected:
        return None
    listed = " and ".join(f"`{name}`" for name in table.unprotected)
    return f"a {unit} named by {listed} of `{table.name}` is not protected there: answers may show any number of such rows"


def written_parts(parts: Parts) -> str:
    """Return a key of several columns as a policy has it."""
    return "[" + ", ".join([f"{{ day: {names.written(p.column)} }}" if p.day else names.written(p.column) for p in parts]) + "]"


def check_forms(reader: Reader, tables: Entries[TableName, TablePolicy], key: Parts, at: Entries[tuple[str, ...], Mark]) -> None:
    """Record each table whose own unit is not of as many columns as the privacy unit's key: half a key names several people."""
    for table in tables.values():
        if table.unit is None or table.unit.steps or not table.unit.column:
            continue
        parts = table.joined.get(table.unit.column, ())
        if [part.day for part in parts] == [part.day for part in key]:
            continue
        here, there = (written_parts(p) if p else "one column" for p in (parts, key))
        what = f"the unit of `{table.name}` is {here}, and the privacy unit's key is {there}"
        fix = f"write `unit: {there}` with this table's columns" if key else "write one column, or name as many in `privacy_unit`"
        reader.problem(at["units", str(table.name)], what, fix, "unit-key")
