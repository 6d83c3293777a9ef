"""Generated SQL that counts what is there more than once and should not be: rows of a unit, keys on the way to one.

Knows: quoting, the shape of a foreign-key path. Must not know: how SQL is run. The promise of one row matters: `one` lets a
measurement skip per-unit bounding, so a unit with two rows would be protected half as well. A path to the
unit may lead to a key that is not unique: that harms nobody, as bounds hold whatever rows repeat, but counts come out too high.
These statements are for the operator at start: a count above zero stops the start in the first case, and is a warning in the
second; it goes to nobody else.
"""

from __future__ import annotations

from dpproxy.policy.catalog import Catalog, TableName
from dpproxy.policy.model import Policy, Step, TablePolicy, UnitPath
from dpproxy.policy.names import quote_name

QUOTE = {"duckdb": '"', "postgres": '"', "spark": "`"}


def unique_tables(policy: Policy) -> tuple[TableName, ...]:
    """Return the tables that `uniqueness_checks` asks about, in the same order."""
    return tuple(t.name for t in policy.tables.values() if t.unit is not None and t.one)


def uniqueness_checks(policy: Policy, catalog: Catalog, dialect: str) -> tuple[str, ...]:
    """Return one SELECT for each table, each of one integer: how many units have more than one row in it.

    Raises ValueError when the policy does not fit the catalog (run `check.check` first) or the dialect is unknown.
    """
    if dialect not in QUOTE:
        raise ValueError(f"unknown dialect {dialect}")
    tables = (policy.tables[name] for name in unique_tables(policy))
    return tuple(_check(t, t.unit, catalog, QUOTE[dialect]) for t in tables if t.unit is not None)


def doubtful_steps(policy: Policy, catalog: Catalog) -> tuple[tuple[TableName, Step], ...]:
    """Return the steps of paths to the unit that lead to a column which no key keeps unique: each such column once, with a table
    whose path leads over it."""
    found: dict[tuple[TableName, str], tuple[TableName, Step]] = {}
    for table in policy.tables.values():
        for step in table.unit.steps if table.unit is not None else ():
            target = catalog.tables[step.target]
            if (step.target_column,) not in (target.primary_key, *target.unique):
                found.setdefault((step.target, step.target_column), (table.name, step))
    return tuple(found.values())


def repetition_checks(policy: Policy, catalog: Catalog, dialect: str) -> tuple[str, ...]:
    """Return one SELECT for each of the `doubtful_steps`: how many of its target's keys are in more than one row.

    The policy must fit the catalog (run `check.check` first)."""
    quote = QUOTE[dialect]
    return tuple(
        _repeated(
            f"FROM {table_source(catalog, s.target, quote)} AS t", f"t.{column_source(catalog, s.target, s.target_column, quote)}"
        )
        for _, s in doubtful_steps(policy, catalog)
    )


def _repeated(source: str, column: str) -> str:
    grouped = f"SELECT {column} AS u {source} WHERE {column} IS NOT NULL GROUP BY {column} HAVING COUNT(*) > 1"
    return f"SELECT COUNT(*) AS violations FROM ({grouped}) AS v"


def _check(table: TablePolicy, path: UnitPath, catalog: Catalog, quote: str) -> str:
    joins = [f"{table_source(catalog, table.name, quote)} AS t0"]
    here = table.name
    for i, step in enumerate(path.steps):
        left = f"t{i}.{column_source(catalog, here, step.column, quote)}"
        right = f"t{i + 1}.{column_source(catalog, step.target, step.target_column, quote)}"
        joins.append(f"JOIN {table_source(catalog, step.target, quote)} AS t{i + 1} ON {left} = {right}")
        here = step.target
    return _repeated(f"FROM {' '.join(joins)}", f"t{len(path.steps)}.{column_source(catalog, here, path.column, quote)}")


def table_source(catalog: Catalog, name: TableName, quote: str) -> str:
    found = catalog.tables.get(name)
    if found is None:
        raise ValueError(f"the catalog has no table {name}")
    return ".".join(quote_name(part, quote) for part in found.source)


def column_source(catalog: Catalog, table: TableName, name: str, quote: str) -> str:
    found = catalog.tables.get(table)
    column = found.column(name) if found else None
    if column is None:
        raise ValueError(f"the catalog has no column {table}.{name}")
    return quote_name(column.source, quote)
