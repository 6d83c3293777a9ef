"""What the policy says of the tables a query reads: where every derivation begins.

Knows: policy, catalog. Must not know: the planner, SQL. A table that is not here is none that a query may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import assert_never

from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.data_claims import found_by
from dpproxy.policy.model import Policy, TableKind, TablePolicy
from dpproxy.table_terms import TableName

Source = tuple[str, str]
"""The engine's name of a table: schema and table."""
Kind = tuple[str, str]
"""Of a column: its type, and what numbers are compared as."""


class Unproven(Exception):
    """The kernel cannot derive what a plan claims: the statement is not to run. The message names the rule, and no data."""


@dataclass(frozen=True)
class Way:
    """A row belongs to the unit of the row of `target` whose `key` equals the row's own `column` (engine's names)."""

    column: str
    target: Source
    key: str


@dataclass(frozen=True)
class Leaf:
    """A table. `unit`: its column that names the unit (engine's name), or `way` leads to it; neither for a public one, and
    for one of `reports`, which devices have randomised. `one`: no unit has two rows (`policy.data_claims`). `reached`:
    columns by which other tables' ways lead here. `present`: columns that the database keeps from being NULL. `keys`: columns
    no two rows share all values of. `kinds`: of the columns that something can be made of. Of a public one, `rows`: how many
    it has, None where nobody counted; `most`: how many share a value of a column.
    """

    unit: str | None = None
    way: Way | None = None
    one: bool = False
    reached: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()
    keys: tuple[frozenset[str], ...] = ()
    rows: int | None = None
    most: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    reports: bool = False

    @property
    def private(self) -> bool:
        return self.unit is not None or self.way is not None


Leaves = Mapping[Source, Leaf]


def leaves(policy: Policy, catalog: Catalog) -> Leaves:
    """Return the leaves of a dataset, by the engine's names."""
    reached: dict[TableName, set[str]] = {}
    for table in policy.tables.values():
        for step in table.unit.steps if table.unit is not None else ():
            reached.setdefault(step.target, set()).add(step.target_column)
    found: dict[Source, Leaf] = {}
    for name, table in policy.tables.items():
        known = catalog.tables.get(name)
        if known is not None:
            keys = _unique(known, found_by(policy, name) if table.unit is not None else frozenset())
            most = {c.source: c.most for c in known.columns if c.most is not None}
            leaf = Leaf(
                one=table.one,
                reached=frozenset(c.source for c in known.columns if c.name in reached.get(name, ())),
                present=frozenset(c.source for c in known.columns if not c.nullable),
                keys=keys,
                rows=known.rows,
                most=most,
                kinds={c.source: (str(c.type), c.exact) for c in known.columns if c.bounded},
                reports=table.kind is TableKind.REPORTS,
            )
            owned = _owned(leaf, table, known, policy, catalog)
            if owned is not None:
                found[known.source] = owned
    return MappingProxyType(found)


def _unique(known: CatalogTable, claimed: frozenset[tuple[str, ...]]) -> tuple[frozenset[str], ...]:
    """Columns no two rows share all values of: the backend's keys, and those that the policy claims (`policy.data_claims`)."""
    source = {c.name: c.source for c in known.columns}
    keys = [*filter(None, (known.primary_key, *known.unique)), *sorted(claimed)]
    return tuple(frozenset(source[name] for name in key) for key in keys if all(name in source for name in key))


def _owned(leaf: Leaf, table: TablePolicy, known: CatalogTable, policy: Policy, catalog: Catalog) -> Leaf | None:
    """The leaf with its unit, if it has one; None where the backend lacks what names the unit."""
    match table.kind:
        case TableKind.PUBLIC | TableKind.REPORTS:
            return leaf
        case TableKind.PEOPLE:
            assert table.unit is not None
        case _:
            assert_never(table.kind)
    if not table.unit.steps:
        unit = _key(table, known, table.unit.column)
        return replace(leaf, unit=unit.source) if unit is not None else None
    step = table.unit.steps[0]
    column, target, there = _key(table, known, step.column), catalog.tables.get(step.target), policy.tables.get(step.target)
    key = _key(there, target, step.target_column) if target is not None and there is not None else None
    if column is None or target is None or key is None:
        return None
    return replace(leaf, way=Way(column.source, target.source, key.source))


def _key(table: TablePolicy, known: CatalogTable, name: str) -> CatalogColumn | None:
    """A column that names units or leads to them. Where the policy joins it of several, it is of these and no others."""
    column = known.column(name)
    return column if column is not None and column.parts == table.joined.get(name, ()) else None
