"""Generated SQL that counts units with more than one row where the policy promises at most one.

Knows: quoting, the shape of a foreign-key path. Must not know: how SQL is run. The promise matters: `one` lets a
measurement skip per-unit bounding, so a unit with two rows would be protected half as well. These statements are for
the operator at start; a count above zero stops the start and goes to nobody else.
"""

from __future__ import annotations

from dpproxy.policy.catalog import Catalog, TableName
from dpproxy.policy.model import Policy, TablePolicy, UnitPath

_QUOTE = {"duckdb": '"', "postgres": '"', "spark": "`"}


def unique_tables(policy: Policy) -> tuple[TableName, ...]:
    """The tables that `uniqueness_checks` asks about, in the same order."""
    return tuple(t.name for t in policy.tables.values() if t.unit is not None and t.one)


def uniqueness_checks(policy: Policy, catalog: Catalog, dialect: str) -> tuple[str, ...]:
    """One SELECT a table, each returning one integer: how many units have more than one row in it.

    Raises ValueError when the policy does not fit the catalog (run `check.check` first) or the dialect is unknown.
    """
    if dialect not in _QUOTE:
        raise ValueError(f"unknown dialect {dialect}")
    tables = (policy.tables[name] for name in unique_tables(policy))
    return tuple(_check(t, t.unit, catalog, _QUOTE[dialect]) for t in tables if t.unit is not None)


def _check(table: TablePolicy, path: UnitPath, catalog: Catalog, quote: str) -> str:
    joins = [f"{_table(catalog, table.name, quote)} AS t0"]
    here = table.name
    for i, step in enumerate(path.steps):
        left = f"t{i}.{_column(catalog, here, step.column, quote)}"
        right = f"t{i + 1}.{_column(catalog, step.target, step.target_column, quote)}"
        joins.append(f"JOIN {_table(catalog, step.target, quote)} AS t{i + 1} ON {left} = {right}")
        here = step.target
    unit = f"t{len(path.steps)}.{_column(catalog, here, path.column, quote)}"
    grouped = f"SELECT {unit} AS u FROM {' '.join(joins)} WHERE {unit} IS NOT NULL GROUP BY {unit} HAVING COUNT(*) > 1"
    return f"SELECT COUNT(*) AS violations FROM ({grouped}) AS v"


def _quoted(name: str, quote: str) -> str:
    return quote + name.replace(quote, quote * 2) + quote


def _table(catalog: Catalog, name: TableName, quote: str) -> str:
    found = catalog.tables.get(name)
    if found is None:
        raise ValueError(f"the catalog has no table {name}")
    return ".".join(_quoted(part, quote) for part in found.source)


def _column(catalog: Catalog, table: TableName, name: str, quote: str) -> str:
    found = catalog.tables.get(table)
    column = found.column(name) if found else None
    if column is None:
        raise ValueError(f"the catalog has no column {table}.{name}")
    return _quoted(column.source, quote)
