"""Which rows of a table belong to no unit, as far as the catalog lets there be any: nothing counts them, whatever is asked.

Knows: a policy's paths to the unit, a catalog's NOT NULLs and foreign keys. Must not know: data. A unit's own key in the table of
units is taken to be there: a person without a name is nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy, TablePolicy
from dpproxy.table_terms import TableName


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
