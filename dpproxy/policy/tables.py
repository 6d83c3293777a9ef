"""Tables: public or private, units, bounds, and the foreign-key paths that lead to the unit.

Knows: the rules by which every row of a private table belongs to one unit (PRIVACY.md section 2). Must not know: the
data's types. Two passes: each table is read alone, then paths are followed through all of them, since a path may use
a table that comes later in the file.
"""

from __future__ import annotations

from collections.abc import Mapping as Entries
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from dpproxy.policy import names, scalars
from dpproxy.policy.columns import read_columns
from dpproxy.policy.model import Bounds, ColumnPolicy, ColumnRole, KeyPart, Reports, Step, TableKind, TablePolicy, UnitPath
from dpproxy.policy.problems import Mark, suggestion
from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.reports import check_lists, read_reports, with_randomised
from dpproxy.policy.table_keys import BOUNDS, REVIEW, TABLE, WHOLE_BOUNDS
from dpproxy.policy.tree import Mapping, Node, Scalar, Sequence
from dpproxy.policy.unit_forms import WrittenUnit, read_unit, read_unprotected
from dpproxy.table_terms import TableName

MAX_BOUND = 10**9  # a unit with more rows than that in a group is not one person
_OF_UNITS = ("unit", "unprotected", "unique", "keys", "bounds", "rows_at_most")
_NO_UNIT = {TableKind.PUBLIC: "public table", TableKind.REPORTS: "table of reports"}
ONE = Bounds(1, 1)  # at most one row: one group
UNBOUNDED = Bounds(MAX_BOUND, None)  # of tables without a unit: nobody reads it
UNREAD = Reports(Fraction(1))  # in place of `reports` that are no mapping of limits


@dataclass(frozen=True)
class _Draft:
    """A table before its path is known."""

    name: TableName
    at: Mark
    kind: TableKind
    unit: WrittenUnit
    unit_at: Mark
    unique: bool | None
    bounds: Bounds | None
    bounds_at: Mark | None
    columns: Entries[str, ColumnPolicy]
    keys: tuple[tuple[str, ...], ...]
    reviewed: str = ""
    unprotected: tuple[str, ...] = ()
    at_most: int | None = None
    reports: Reports | None = None

    @property
    def column(self) -> str | None:
        return self.unit.column

    @property
    def via(self) -> tuple[TableName, str] | None:
        return self.unit.via


def read_tables(reader: Reader, node: Node | None, unit: tuple[TableName, str] | None) -> dict[TableName, TablePolicy]:
    """Return all tables, with their paths to `unit` (table, column) followed. Problems are recorded in `reader`."""
    listed = reader.named(node, "`tables`")
    drafts: dict[TableName, _Draft] = {}
    for written, declared in listed.entries.items() if listed else ():
        at = listed.keys[written] if listed else declared.at
        name = names.table(written)
        if name is None:
            reader.problem(at, f"`{written[:80]}` is not a table name", "write `table` or `schema.table`", "bad-name")
        elif name in drafts:
            reader.problem(at, f"table `{name}` is given twice (names are folded to lower case)", "keep one", "duplicate")
        else:
            reader.positions["tables", str(name)] = at
            draft = _draft(reader, name, at, declared)
            if draft is not None:
                drafts[name] = draft
    check_lists(reader, {name: (draft.kind, draft.columns) for name, draft in drafts.items()})
    return {name: _finish(reader, draft, drafts, unit) for name, draft in drafts.items()}


def _draft(reader: Reader, name: TableName, at: Mark, node: Node) -> _Draft | None:
    if isinstance(node, Scalar) and node.text == "public":
        reader.problem(node.at, "a table must be a mapping, not `public`", "write `{ public: true }`", "wrong-type")
        return None
    keys = reader.mapping(node, TABLE)
    if keys is None:
        return None
    public, reviewed = _public(reader, keys["public"]) if "public" in keys else (False, "")
    if "reports" in keys:
        return _of_reports(reader, name, at, keys)
    whose = TableKind.PUBLIC if public else TableKind.PEOPLE
    columns = _columns(reader, name, keys, whose, None)
    if public:
        for key in _OF_UNITS:
            if key in keys:
                what = f"table `{name}` is public and has `{key}`"
                reader.problem(keys[key].at, what, f"remove `{key}`, or remove `public: true`", "public-table")
        return _Draft(name, at, TableKind.PUBLIC, WrittenUnit(), at, None, None, None, columns, (), reviewed)
    if "unit" not in keys and public is False:  # None: `public` was no flag, and that is said already
        fix = "add `unit: column`, `unit: { via: table.column }`, or `public: true` if it holds nothing about people"
        reader.problem(at, f"table `{name}` does not say whose rows it holds", fix, "no-unit")
    unit = read_unit(reader, keys["unit"]) if "unit" in keys else WrittenUnit()
    unique = reader.flag(keys["unique"], "unique") if "unique" in keys else None
    bounds = _bounds(reader, keys["bounds"]) if "bounds" in keys else None
    unit_at = keys["unit"].at if "unit" in keys else at
    bounds_at = keys["bounds"].at if "bounds" in keys else None
    reader.positions["units", str(name)] = unit_at
    reader.positions["bounds", str(name)] = bounds_at or at
    listed = _keys(reader, name, keys["keys"], columns) if "keys" in keys else ()
    reader.positions["unprotected", str(name)] = keys["unprotected"].at if "unprotected" in keys else at
    others = read_unprotected(reader, keys["unprotected"], name, unit.column) if "unprotected" in keys else ()
    at_most = _rows_at_most(reader, name, keys["rows_at_most"], unique) if "rows_at_most" in keys else None
    parts = (unit, unit_at, unique, bounds, bounds_at, columns, listed)
    return _Draft(name, at, TableKind.PEOPLE, *parts, unprotected=others, at_most=at_most)


def _columns(
    reader: Reader, table: TableName, keys: Entries[str, Node], whose: TableKind, reports: Reports | None
) -> dict[str, ColumnPolicy]:
    node = keys.get("columns")
    columns = read_columns(reader, node, ("tables", str(table)), whose)
    return with_randomised(reader, node, columns, table, whose, reports)


def _of_reports(reader: Reader, name: TableName, at: Mark, keys: Entries[str, Node]) -> _Draft:
    """A table whose rows devices randomised: it has no unit, and nothing that is counted by one."""
    for key in ("public", *_OF_UNITS):
        if key in keys:
            what = f"table `{name}` holds reports and has `{key}`"
            fix = f"remove `{key}`, or remove `reports`: a unit's table may have randomised columns, and has noise on top"
            reader.problem(keys[key].at, what, fix if key == "unit" else f"remove `{key}`", "reports")
    reports = read_reports(reader, keys["reports"], name)
    columns = _columns(reader, name, keys, TableKind.REPORTS, reports)
    return _Draft(name, at, TableKind.REPORTS, WrittenUnit(), at, None, None, None, columns, (), reports=reports)


def _public(reader: Reader, node: Node) -> tuple[bool | None, str]:
    """Return whether a table is public, and the review that says so; None where it is neither."""
    if not isinstance(node, Mapping):
        return reader.flag(node, "public"), ""
    keys = reader.mapping(node, REVIEW) or {}
    said = keys.get("reviewed")
    if said is None:
        return True, ""
    if not isinstance(said, Scalar) or scalars.is_null(said) or scalars.flag(said) is not None or not said.text.strip():
        fix = 'write when, and by whom, as in `reviewed: "2026-11-28 by Ada"`'
        reader.problem(said.at, f"a review cannot be {kind(said)}", fix, "wrong-type")
        return True, ""
    return True, reader.text(said, "reviewed") or ""


def _keys(reader: Reader, table: TableName, node: Node, columns: Entries[str, ColumnPolicy]) -> tuple[tuple[str, ...], ...]:
    """Keys, each the names of its columns in their order."""
    found: dict[frozenset[str], tuple[str, ...]] = {}
    shown = {name for name, column in columns.items() if column.role is not ColumnRole.HIDDEN}
    for item in reader.items(node, "keys") or ():
        parts = item.items if isinstance(item, Sequence) else (item,)
        named = [names.column(part.text) if isinstance(part, Scalar) and not scalars.is_null(part) else None for part in parts]
        for part, name in zip(parts, named, strict=True):
            if name is None:
                fix = "write `keys: [column, [column, column]]`"
                reader.problem(part.at, f"a key cannot be of {kind(part)}", fix, "wrong-type")
            elif name not in shown:
                what = f"a key of `{table}` has column `{name}`, which analysts cannot use"
                reader.problem(part.at, what, f"list `{names.written(name)}: key` under `columns`", "column-role")
        key = tuple(name for name in named if name is not None and name in shown)
        if not parts or len(set(key)) < len(key) or frozenset(key) in found:
            what = "a key names no column" if not parts else "a key, or a column of it, is given twice"
            reader.problem(item.at, what, "keep one" if parts else "write `keys: [column, [column, column]]`", "duplicate")
        elif len(key) == len(parts):
            found[frozenset(key)] = key
    if found:
        reader.positions["keys", str(table)] = node.at
    return tuple(found.values())


def _rows_at_most(reader: Reader, table: TableName, node: Node, unique: bool | None) -> int | None:
    reader.positions["rows_at_most", str(table)] = node.at
    if unique:
        what = f"table `{table}` has at most one row per unit, and has `rows_at_most`"
        reader.problem(node.at, what, "remove `rows_at_most`, or `unique: true`", "bounds")
    return reader.integer(node, "rows_at_most", 1, MAX_BOUND)


def _bounds(reader: Reader, node: Node) -> Bounds | None:
    if isinstance(node, Mapping) and not {"rows", "rows_per_group"} & set(node.entries):
        fix = "write `{ rows: 10 }` or `{ rows_per_group: 10, groups: 5 }`"
        reader.problem(node.at, "bounds do not say how many rows of a unit count", fix, "bounds")
        return None
    if isinstance(node, Scalar) and scalars.integer(node):
        fix = f"write `{{ rows: {node.text} }}`, or `{{ rows_per_group: {node.text}, groups: 5 }}`"
        reader.problem(node.at, f"bounds must be a mapping, not {kind(node)}", fix, "wrong-type")
        return None
    if isinstance(node, Mapping) and {"rows", "rows_per_group"} <= set(node.entries):
        fix = "keep `rows`, or `rows_per_group` with `groups`"
        reader.problem(node.keys["rows_per_group"], "bounds have both `rows` and `rows_per_group`", fix, "bounds")
        return None
    whole = isinstance(node, Mapping) and "rows" in node.entries
    shape, name = (WHOLE_BOUNDS, "rows") if whole else (BOUNDS, "rows_per_group")
    keys = reader.mapping(node, shape)
    if not keys or any(k not in keys for k in shape.required):
        return None
    rows = reader.integer(keys[name], name, 1, MAX_BOUND)
    groups_node = keys.get("groups")
    if groups_node is None or (isinstance(groups_node, Scalar) and groups_node.text == "all"):
        return Bounds(rows, None, whole) if rows is not None else None
    groups = reader.integer(groups_node, "groups", 1, MAX_BOUND)
    return Bounds(rows, groups, whole) if rows is not None and groups is not None else None


def _finish(reader: Reader, draft: _Draft, drafts: Entries[TableName, _Draft], unit: tuple[TableName, str] | None) -> TablePolicy:
    match draft.kind:
        case TableKind.PUBLIC:
            return TablePolicy(draft.name, None, False, UNBOUNDED, draft.columns, reviewed=draft.reviewed)
        case TableKind.REPORTS:  # limits that cannot be read are said: none of them would make it a public table
            return TablePolicy(draft.name, None, False, UNBOUNDED, draft.columns, reports=draft.reports or UNREAD)
        case TableKind.PEOPLE:
            return _private(reader, draft, drafts, unit)
        case _:
            assert_never(draft.kind)


def _private(
    reader: Reader, draft: _Draft, drafts: Entries[TableName, _Draft], unit: tuple[TableName, str] | None
) -> TablePolicy:
    """A table of people with its path followed."""
    path = _path(reader, draft, drafts)
    if path is None:  # said already; what follows from the path would only echo it
        return TablePolicy(draft.name, UnitPath(""), True, ONE, draft.columns)
    own = not path.steps and unit == (draft.name, path.column)
    one = draft.unique if draft.unique is not None else own
    keyed = drafts.get(unit[0]) if unit is not None else None
    doubtful = (
        unit is None
        or keyed is None
        or (unit[0] == draft.name and not own)
        or keyed.via is not None
        or keyed.kind is not TableKind.PEOPLE
    )
    if keyed is draft and draft.via is not None:
        target = f"{draft.via[0]}.{draft.via[1]}"
        what = f"table `{draft.name}` has the privacy unit's key, and a path on to `{target}`"
        fix = f"write `key: {names.written_place(*draft.via)}` in `privacy_unit`, or a unit column here"
        reader.problem(draft.unit_at, what, fix, "unit-key")
    bounds = _bound(reader, draft, one, doubtful)
    _roles(reader, draft, path, doubtful or (keyed is not None and unit is not None and keyed.column != unit[1]))
    _references(reader, draft, drafts)
    joined = _joined(draft, drafts)
    shown, at_most = _with_joined(draft, path, joined), 1 if one else draft.at_most
    return TablePolicy(
        draft.name, path, one, bounds, shown, draft.keys, joined=joined, unprotected=draft.unprotected, rows_at_most=at_most
    )


def _joined(draft: _Draft, drafts: Entries[TableName, _Draft]) -> dict[str, tuple[KeyPart, ...]]:
    """Keys of several columns in a table: its own, and those by which the paths of others lead here."""
    reached = [d.unit.reached for d in drafts.values() if d.via is not None and d.via[0] == draft.name]
    return {name: parts for joined in (draft.unit.joined, *reached) for name, parts in joined.items()}


def _with_joined(draft: _Draft, path: UnitPath, joined: Entries[str, tuple[KeyPart, ...]]) -> dict[str, ColumnPolicy]:
    """The columns listed, and those that stand for keys of several: they are counted and joined on, and never shown."""
    own = None if path.steps else path.column
    made = {name: ColumnPolicy(name, ColumnRole.UNIT if name == own else ColumnRole.KEY) for name in joined}
    return made | dict(draft.columns)


def _path(reader: Reader, draft: _Draft, drafts: Entries[TableName, _Draft]) -> UnitPath | None:
    """Follow `via` from table to table until one has a unit column."""
    steps: list[Step] = []
    seen = [draft.name]
    here = draft
    while here.via is not None and here.column is not None:
        target, column = here.via
        steps.append(Step(here.column, target, column))
        trail = " -> ".join(map(str, [*seen, target]))
        if target in seen:
            what = f"the path of `{draft.name}` runs in a circle: {trail}"
            reader.problem(draft.unit_at, what, "one table on it must have a unit column of its own", "unit-path")
            return None
        after = drafts.get(target)
        if after is None:
            private = (str(d.name) for d in drafts.values() if d.kind is TableKind.PEOPLE and d is not draft)
            fix = suggestion(str(target), private)
            reader.problem(draft.unit_at, f"the path {trail} ends at a table that is not listed", fix, "unit-path")
            return None
        if after.kind is not TableKind.PEOPLE:
            what = f"the path {trail} ends at a {_NO_UNIT[after.kind]}, not at a unit"
            reader.problem(draft.unit_at, what, f"give `{target}` a unit, or use another path", "unit-path")
            return None
        seen.append(target)
        here = after
    return _shortest(UnitPath(here.column, tuple(steps))) if here.column is not None else None


def _shortest(path: UnitPath) -> UnitPath:
    """A foreign key that refers to the unit column itself IS the unit's id: no join is needed for it."""
    steps = path.steps
    column = path.column
    while steps and steps[-1].target_column == column:
        column = steps[-1].column
        steps = steps[:-1]
    return UnitPath(column, steps)


def _bound(reader: Reader, draft: _Draft, one: bool, doubtful: bool) -> Bounds:
    """`doubtful`: the privacy unit's key is wrong, so that this table may be its own one after all."""
    if one:
        if draft.bounds_at is not None and not doubtful:
            what, fix = (
                f"table `{draft.name}` has at most one row per unit, and has `bounds`",
                "remove `unique: true`, or `bounds`",
            )
            if draft.unique is None:
                what = f"table `{draft.name}` has the privacy unit's own key, thus one row per unit, and has `bounds`"
                fix = "add `unique: false` to `bounds` if a unit has many rows here; else remove `bounds`"
            reader.problem(draft.bounds_at, what, fix, "bounds")
        return ONE
    if draft.bounds_at is None and not doubtful:
        other = "" if draft.unique is False else ", or `unique: true` if a unit has at most one row"
        fix = f"add `bounds: {{ rows_per_group: 10, groups: 5 }}`{other}"
        reader.problem(draft.at, f"table `{draft.name}` can have many rows of one unit and has no `bounds`", fix, "bounds")
    return draft.bounds or ONE


def _references(reader: Reader, draft: _Draft, drafts: Entries[TableName, _Draft]) -> None:
    """What a key refers to must be a key of a private table: only there is "the same unit" a promise."""
    for name, column in draft.columns.items():
        if column.references is None:
            continue
        table, target = column.references
        other = drafts.get(table)
        known = other.columns.get(target) if other is not None and other.kind is TableKind.PEOPLE else None
        at = reader.positions["tables", str(draft.name), name]
        if (table, target) == (draft.name, name):
            fix = f"write `{names.written(name)}: key`, or the key of another row that it names"
            reader.problem(at, f"column `{name}` refers to itself", fix, "column-role")
        elif known is None or known.role not in (ColumnRole.KEY, ColumnRole.UNIT):
            what = f"column `{name}` refers to `{table}.{target}`, which is not a key of a private table"
            fix = f"list `{names.written(target)}: key` under `{table}`, or write `{names.written(name)}: key`"
            if other is not None and other.kind is TableKind.PUBLIC:
                fix = f"write `{names.written(name)}: {{}}`: a public table is joined on any column"
            reader.problem(at, what, fix, "column-role")


def _roles(reader: Reader, draft: _Draft, path: UnitPath, doubtful: bool) -> None:
    """A unit column must not be shown as plain, and nothing else may be called the unit."""
    own = None if path.steps else path.column
    for name, column in draft.columns.items():
        at, said = reader.positions["tables", str(draft.name), name], names.written(name)
        if name == own and column.role not in (ColumnRole.UNIT, ColumnRole.HIDDEN):
            what = f"column `{name}` names the unit and cannot be shown"
            reader.problem(at, what, f"write `{said}: unit` or `{said}: hidden`", "column-role")
        if name != own and column.role is ColumnRole.UNIT and not doubtful:
            what, fix = f"column `{name}` is not the unit column of `{draft.name}`", f"write `{said}: key` or `{said}: hidden`"
            if draft.via is not None and draft.column == draft.via[1] and draft.column not in draft.columns:
                fix = f"write `unit: {{ via: {names.written_place(*draft.via)}, column: {said} }}` if it holds that key"
            reader.problem(at, what, fix, "column-role")
