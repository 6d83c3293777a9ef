"""What a policy claims of rows, where the guarantee rests on it: the one list of such claims, and SQL that checks them.

Knows: policies, the catalog's keys, quoting. Must not know: how SQL is run, who is told. Whose row a row is, and how many rows a
unit has, follows from these claims (`kernel.leaves` reads the same policy and catalog):

- `ONE_ROW`: no unit has two rows in a table that has one row a unit. Bounds are skipped there.
- `PATH_KEY`: no two rows share a value of a column by which a path to the unit finds its next row. Else a row would be several
  units', and one unit's row would change as many rows of an answer as others share the value.
- `LISTED_KEY`: no two rows share the values of the columns of a key that a table lists. Joins by it meet one row: more of a
  unit's rows may be joined than where each meets all of its others.

What `references` names is no claim: several rows may have the key, as lines have an order's number. Joins along it compare units,
and unless it is a key of the catalog, of a path or a listed one, each row is taken to meet all rows of its unit.

Values are what a claim is about: a row whose value is NULL finds nothing, and is found by nothing. Rows without a unit count as
well: which rows have one depends on other claims. A unit that is taken away takes rows away, and no claim is broken by that: so
neighbours are databases in which all claims hold, and whether they hold may be told.

A claim that is a key of the catalog needs no check (`unkept`): the engine refuses what would break it. A new claim is added here
and nowhere else; who checks, and when, is `serve.data_checks`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.joined_keys import spelled
from dpproxy.policy.model import Policy, TablePolicy
from dpproxy.policy.names import quote_name
from dpproxy.table_terms import TableName

QUOTE = {"duckdb": '"', "postgres": '"', "spark": "`"}


class ClaimKind(enum.Enum):
    """What a claim is of."""

    ONE_ROW = "one row a unit"
    PATH_KEY = "a key on a path"
    LISTED_KEY = "a key that the policy lists"


@dataclass(frozen=True)
class Claim:
    """Claims that no two rows of a table share the values of `columns`; of ONE_ROW it is the unit's, another table's where a path
    leads there. `user`: a table whose path rests on it, or whose key it is."""

    kind: ClaimKind
    table: TableName
    columns: tuple[str, ...]
    user: TableName

    @property
    def key(self) -> str:
        """Return the columns with their table, as policies write it."""
        return f"{self.table}.{self.columns[0]}" if len(self.columns) == 1 else f"{self.table} ({', '.join(self.columns)})"


def claims(policy: Policy) -> tuple[Claim, ...]:
    """Return every claim, each once."""
    found: dict[tuple[ClaimKind, TableName, tuple[str, ...]], Claim] = {}
    for claim in (*_one_rows(policy), *_path_keys(policy), *_listed_keys(policy)):
        found.setdefault((claim.kind, claim.table, claim.columns), claim)
    return tuple(found.values())


def _one_rows(policy: Policy) -> Iterator[Claim]:
    for table in policy.tables.values():
        if table.unit is not None and table.one:
            yield Claim(ClaimKind.ONE_ROW, table.name, (table.unit.column,), table.name)


def _path_keys(policy: Policy) -> Iterator[Claim]:
    for table in policy.tables.values():
        for step in table.unit.steps if table.unit is not None else ():
            yield Claim(ClaimKind.PATH_KEY, step.target, (step.target_column,), table.name)


def _listed_keys(policy: Policy) -> Iterator[Claim]:
    for table in policy.tables.values():
        for key in table.keys:
            yield Claim(ClaimKind.LISTED_KEY, table.name, key, table.name)


def found_by(policy: Policy, table: TableName) -> frozenset[tuple[str, ...]]:
    """Return the keys of a private table by the policy's word: columns of which it claims that no two rows share all values."""
    known = policy.tables[table]
    own = {(known.unit.column,)} if known.unit is not None and known.one and not known.unit.steps else set()
    return frozenset(claim.columns for claim in _path_keys(policy) if claim.table == table) | own | frozenset(known.keys)


def unkept(policy: Policy, catalog: Catalog) -> tuple[Claim, ...]:
    """Return the claims that nothing but a look at the data confirms. The policy must fit the catalog."""
    return tuple(claim for claim in claims(policy) if not _kept(claim, policy, catalog))


def _kept(claim: Claim, policy: Policy, catalog: Catalog) -> bool:
    """Whether a key of the catalog is the claim: then the engine refuses rows that would break it."""
    unit, known = policy.tables[claim.table].unit, _known(catalog, claim.table)
    along = claim.kind is ClaimKind.ONE_ROW and unit is not None and bool(unit.steps)
    return not along and any(key and set(key) <= set(claim.columns) for key in (known.primary_key, *known.unique))


def claim_query(claim: Claim, policy: Policy, catalog: Catalog, dialect: str) -> str:
    """Return a SELECT of one integer: how many rows share the value that most rows share; 0 where the claim holds.

    Raises ValueError when the claim does not fit the catalog or the dialect is unknown.
    """
    if dialect not in QUOTE:
        raise ValueError(f"unknown dialect {dialect}")
    quote = QUOTE[dialect]
    if claim.kind is ClaimKind.ONE_ROW:
        source, column = to_unit(policy.tables[claim.table], catalog, quote)
        columns = [column]
    else:
        source = f"{table_source(catalog, claim.table, quote)} AS t"
        columns = [column_source(catalog, claim.table, column, quote, "t") for column in claim.columns]
    present = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    shared = f"SELECT COUNT(*) AS n FROM {source} WHERE {present} GROUP BY {', '.join(columns)} HAVING COUNT(*) > 1"
    return f"SELECT COALESCE(MAX(n), 0) AS most FROM ({shared}) AS v"


def to_unit(table: TablePolicy, catalog: Catalog, quote: str) -> tuple[str, str]:
    """Return, as SQL, a table joined with what its path leads over, and the unit's column at its end."""
    assert table.unit is not None
    joins, here = [f"{table_source(catalog, table.name, quote)} AS t0"], table.name
    for i, step in enumerate(table.unit.steps):
        left = column_source(catalog, here, step.column, quote, f"t{i}")
        right = column_source(catalog, step.target, step.target_column, quote, f"t{i + 1}")
        joins.append(f"JOIN {table_source(catalog, step.target, quote)} AS t{i + 1} ON {left} = {right}")
        here = step.target
    return " ".join(joins), column_source(catalog, here, table.unit.column, quote, f"t{len(table.unit.steps)}")


def broken_claim(claim: Claim, rows: int, unit: str) -> str:
    """Say in words that a claim does not hold. `rows`: what its query tells."""
    if claim.kind is ClaimKind.ONE_ROW:
        return f"`{claim.table}`: a {unit} has more than one row here, up to {rows}"
    if claim.kind is ClaimKind.LISTED_KEY:
        return f"`{claim.key}` is listed in `keys`, and up to {rows} rows share its values"
    shared = f"is not unique: up to {rows} rows of `{claim.table}` share one value"
    return f"`{claim.key}`, on the path from `{claim.user}` to its {unit}, {shared}"


def remedy(claim: Claim, policy: Policy) -> str:
    """Say what to write where a claim does not hold. The table of the unit's own key has one row a unit for that alone."""
    if claim.kind is ClaimKind.PATH_KEY:
        return f"lead the path of `{claim.user}` over a unique key of `{claim.table}`, or make `{claim.columns[0]}` unique"
    if claim.kind is ClaimKind.LISTED_KEY:
        return "remove it from `keys`, or add the columns that tell these rows apart"
    fix = "write `unique: false` and `bounds: { rows_per_group: 10, groups: 5 }` with the rows a unit may have"
    if claim.table == policy.unit_table:
        fix += f"; or name in `privacy_unit` the key of a table with one row per {policy.unit_name}"
    return fix


def _known(catalog: Catalog, name: TableName) -> CatalogTable:
    found = catalog.tables.get(name)
    if found is None:
        raise ValueError(f"the catalog has no table {name}")
    return found


def table_source(catalog: Catalog, name: TableName, quote: str) -> str:
    return ".".join(quote_name(part, quote) for part in _known(catalog, name).source)


def column_source(catalog: Catalog, table: TableName, name: str, quote: str, alias: str = "") -> str:
    """Return a column as SQL. `alias`: of its table. Raises ValueError when the catalog does not have it."""
    found = catalog.tables.get(table)
    column = found.column(name) if found else None
    if column is None:
        raise ValueError(f"the catalog has no column {table}.{name}")
    return spelled(column.source, quote, alias)


# Which rows of a table belong to no unit, as far as the catalog lets there be any: nothing counts them, whatever is asked.
#
# Knows: a policy's paths to the unit, a catalog's NOT NULLs and foreign keys. Must not know: data. A unit's own key in the
# table of units is taken to be there: a person without a name is nobody.


@dataclass(frozen=True)
class UnitlessRows:
    """Rows of `table` that have no unit: those whose `column` is NULL, and, where there is a `target`, those for whose `column`
    it has no row."""

    table: TableName
    column: str
    target: TableName | None = None


def unitless_rows(table: TablePolicy, policy: Policy, catalog: Catalog) -> tuple[UnitlessRows, ...]:
    """Say where the way from a private table to the unit may end before it is there, step by step."""
    if table.unit is None:
        return ()
    found, at = [], table.name
    for step in table.unit.steps:
        there = any(f.columns == (step.column,) and f.target == step.target for f in catalog.tables[at].foreign_keys)
        if not there or _nullable(catalog, at, step.column):
            found.append(UnitlessRows(at, step.column, None if there else step.target))
        at = step.target
    own = (at, table.unit.column) == (policy.unit_table, policy.unit_column)
    if not own and _nullable(catalog, at, table.unit.column):
        found.append(UnitlessRows(at, table.unit.column))
    return tuple(found)


def _nullable(catalog: Catalog, table: TableName, column: str) -> bool:
    known = catalog.tables[table].column(column)
    return known is None or known.nullable


def told(rows: UnitlessRows, unit: str) -> str:
    """Say it in words: `rows of flights whose tailnum is NULL: they belong to no plane`."""
    missing = f" or not in {rows.target.name}" if rows.target is not None else ""
    return f"rows of {rows.table.name} whose {rows.column} is NULL{missing} (they belong to no {unit})"
