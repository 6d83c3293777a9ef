"""Which tables are worth making beforehand of a policy's private tables: what dashboards ask for most.

Knows: policy, shapes of tables, the planner. Must not know: data, disks, who makes the tables. All follows from public facts, so
that which tables there are says nothing of anybody. They are found by planning statements that an analyst would write, one for
each set of keys: they are made of the same trees as what analysts ask, and found again by the same texts. Statements of
the policy's own (`asked`) are treated alike; EXPLAIN calls them by their number, as not all who read it may read them.

Who makes them runs `CREATE TABLE ... AS` with each table's query, in their order, under the name that
`engines.stored_stages.table` gives it, and hands those of one epoch to `plan.pipeline.planning`: all of them or none, since
EXPLAIN tells which there are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from dpproxy.engines import EngineSpeller
from dpproxy.errors import Refusal
from dpproxy.kernel.leaves import leaves
from dpproxy.kernel.verdict import check_table
from dpproxy.plan import pipeline
from dpproxy.plan.context import Context, StoredTable
from dpproxy.plan.measure.stored_definitions import definitions, stored_table
from dpproxy.plan.measure.stored_shapes import from_groups
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.model import ColumnPolicy, ColumnRole, Policy, Role, TablePolicy
from dpproxy.policy.names import quote_name
from dpproxy.sql.template import Dialect
from dpproxy.sql.types import NUMBERS
from dpproxy.tree.measured import Statement

MOST_GROUPS = 100
"""Groups that a unit may have in a table made for all: with more of them a table has about as many rows as the data."""
MOST_KEYS = 2
"""Keys of such a table, besides those that are constant per unit, which make no more rows."""


@dataclass(frozen=True)
class _Key:
    """Something to group by: its SQL, and how many values are declared of it."""

    sql: str
    size: int
    label: str


def stored_tables(
    policy: Policy, catalog: Catalog, dialect: Dialect, pick_key: int = 0, asked: Sequence[str] = ()
) -> tuple[StoredTable, ...]:
    """Return the tables to make, in their order: some are made of those before them. Raises Unproven where a unit would have
    something else in such a table than its definition says."""
    found: dict[str, StoredTable] = {}
    known = leaves(policy, catalog)
    questions = [*_questions(policy, catalog), *((f"query {i} of the policy", [query]) for i, query in enumerate(asked, 1))]
    for role in _roles(policy):
        context = Context(policy, catalog, role, dialect, pick_key=pick_key)
        trees = ((label, tree) for label, queries in questions for query in queries for tree in _trees(query, context))
        for made in definitions(trees):
            table = stored_table(made, EngineSpeller(dialect))
            if table.name not in found and "\x00" not in table.sql:  # a hole is known when a statement runs
                found[table.name], tree = from_groups(table, tuple(found.values()), EngineSpeller(dialect))
                check_table(made.written, tree, known, {before.name: before.written for before in found.values()})
    return tuple(found.values())


def unplanned(policy: Policy, catalog: Catalog, dialect: Dialect, asked: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the statements, by their number from 1, that no role would have measured, and why not."""
    contexts = [Context(policy, catalog, role, dialect) for role in _roles(policy)]
    for number, query in enumerate(asked, 1):
        whys = [_why_not(query, context) for context in contexts]
        if all(whys):
            yield number, whys[0]


def _why_not(query: str, context: Context) -> str:
    try:
        return "" if pipeline.compiled(query, context) else "it measures nothing of a private table"
    except Refusal as refusal:
        return refusal.message


def _roles(policy: Policy) -> list[Role]:
    """One role for each way of bounding contributions."""
    found = {role.query.delta > 0: replace(role, tables=None) for role in policy.roles.values()}
    return list(found.values())


def _trees(query: str, context: Context) -> Iterator[Statement]:
    with suppress(Refusal):
        for made in pipeline.compiled(query, context):
            yield from (part.tree for part in (made.query, made.first, *made.side) if part is not None)


# --- statements


def _questions(policy: Policy, catalog: Catalog) -> Iterator[tuple[str, list[str]]]:
    """By which keys of which table, and the SQL of its aggregates."""
    for name, table in policy.tables.items():
        known = catalog.tables.get(name)
        if known is None or table.unit is None or table.one:
            continue
        keys, aggregates = _keys(table, known), _aggregates(table, known)
        for number in (*range(1, MOST_KEYS + 1), 0):  # the last is made of another
            for chosen in combinations(keys, number):
                if prod(key.size for key in chosen) <= MOST_GROUPS:
                    yield _question(table, chosen, aggregates)


def _question(table: TablePolicy, keys: Sequence[_Key], lists: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    by = [key.sql for key in keys]
    source = f"FROM {_table(table)} AS t" + (f" GROUP BY {', '.join(by)}" if by else "")
    label = f"{table.name} by {', '.join(key.label for key in keys) or 'unit'}"
    return label, [f"SELECT {', '.join([*by, *aggregates])} {source}" for aggregates in lists]


def _table(table: TablePolicy) -> str:
    return f"{quote_name(table.name.schema)}.{quote_name(table.name.name)}"


def _aggregates(table: TablePolicy, known: CatalogTable) -> list[list[str]]:
    """All that is made of counts and sums of the columns. What accompanies a mean is made of its columns: sums and deviations
    are asked for apart."""
    counts, sums, deviations = ["count(*)"], [], []
    if table.unit is not None and not table.unit.steps:
        counts.append(f"count(DISTINCT t.{quote_name(table.unit.column)})")
    for name, column in _plain(table):
        entry = known.column(name)
        if entry is not None and entry.type in NUMBERS and column.range is not None:
            text = f"t.{quote_name(name)}"
            counts += [f"{f}({text})" for f in ("count", "avg")]
            sums.append(f"sum({text})")
            deviations.append(f"stddev({text})")
    return [asked for asked in (counts, sums, deviations) if asked]


def _keys(table: TablePolicy, known: CatalogTable) -> list[_Key]:
    found = []
    for name, column in _plain(table):
        entry = known.column(name)
        key = _key(name, column, entry.type) if entry is not None else None
        if key is not None and key.size <= MOST_GROUPS:
            found.append(key)
    return found


def _key(name: str, column: ColumnPolicy, type_: str) -> _Key | None:
    text = f"t.{quote_name(name)}"
    if column.values is not None:
        return _Key(text, len(column.values), name)
    if type_ == "bool":
        return _Key(text, 2, name)
    if column.range is None or not isinstance(column.range[0], dt.datetime):
        return None  # numbers are added up more often than grouped by
    low, high = column.range
    months = (high.year - low.year) * 12 + high.month - low.month + 1
    return _Key(f"date_trunc('month', {text})", months, f"month of {name}")


def _plain(table: TablePolicy) -> Iterator[tuple[str, ColumnPolicy]]:
    yield from ((name, column) for name, column in table.columns.items() if column.role is ColumnRole.PLAIN)
