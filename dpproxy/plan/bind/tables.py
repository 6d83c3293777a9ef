"""Tables of the dataset as relations: columns with their bounds, domains and taint, and how to reach the unit.

Knows: the policy and the catalog. Must not know: SQL, engines. A private table becomes visible here only with its unit column,
or with a pending foreign-key path to it; nothing else in the planner makes private rows.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpproxy.errors import INSUFFICIENT_PRIVILEGE, Refusal
from dpproxy.plan.bind import reported
from dpproxy.plan.context import SEE, Context, Counter, Settings, TableColumns
from dpproxy.plan.functions import time_zones
from dpproxy.plan.properties.facts import literal_number
from dpproxy.policy.catalog import CatalogColumn, CatalogTable, ForeignKey, published_type
from dpproxy.policy.model import ColumnPolicy, ColumnRole, Reports, TableKind, TablePolicy, constant_text
from dpproxy.policy.report_columns import CLAIM, NUMBER
from dpproxy.sql.types import INTEGERS, TEXTS
from dpproxy.table_terms import TableName
from dpproxy.tree.expr import Call, Column, Domain, Ref, SeriesDomain, TableDomain, Taint, ValuesDomain
from dpproxy.tree.interval import OPEN, Interval, interval, number
from dpproxy.tree.relation import (
    Beside,
    Contribution,
    ContributionLimits,
    Identity,
    Join,
    Padding,
    PendingPath,
    RandomisedColumn,
    Reported,
    Rows,
    Scan,
)

UNNUMBERED = -1
_MICROSECOND = dt.timedelta(microseconds=1)
MAX_SERIES = 1_000_000  # declared values an engine enumerates for a domain: days of 2,700 years, or a whole number range


def scan_table(table: TablePolicy, context: Context, counter: Counter) -> tuple[Rows, tuple[Column, ...]]:
    """Return the rows of a table and its visible columns. Raises Refusal 42501 when the role may not read it."""
    if not context.allowed(table.name):
        raise Refusal(INSUFFICIENT_PRIVILEGE, f"permission denied for table {table.name}", hint=SEE)
    if table.reports is not None:
        return _reports(table, table.reports, context, counter)
    common = _table_columns(table, context)
    number_ = counter.scan()
    columns = tuple(
        time_zones.column_in_zone(_numbered(c, counter.column(), number_), context.settings.zone) for c in common.columns
    )
    visible = tuple(columns[i] for i in common.visible)
    scan = Scan(columns, number_, context.catalog.tables[table.name].source, common.names)
    match table.kind:
        case TableKind.PUBLIC:
            beside = _beside(scan, context.catalog.tables[table.name])
            return Rows(node=scan, contribution=Contribution(beside=(beside,)), padding=Padding(publics=(scan,))), visible
        case TableKind.PEOPLE:
            made = _private(table, scan, frozenset(columns[i].id for i in common.keys), context.settings)
            return _keyed(made, table, scan, context.catalog.tables[table.name]), visible
        case TableKind.REPORTS:
            raise AssertionError("reports are rows of their own kind")
        case _:
            assert_never(table.kind)


def _reports(table: TablePolicy, rules: Reports, context: Context, counter: Counter) -> tuple[Rows, tuple[Column, ...]]:
    """Reports of devices: a randomised column is there twice, as it is named and as it is stored."""
    known, columns, sources = context.catalog.tables[table.name], list[Column](), list[str]()

    def column(name: str, policy: ColumnPolicy | None = None, as_: Column | None = None) -> Column:
        entry = known.column(name)
        assert entry is not None, "the policy fits the catalog"
        made = replace(as_ or _column(table, policy, entry), id=counter.column())
        columns.append(made)
        sources.append(entry.source)
        return made

    visible, randomised, versions = list[Column](), list[RandomisedColumn](), False
    for name, policy in table.columns.items():
        if policy.role == ColumnRole.HIDDEN:
            continue
        if policy.randomised is None:
            visible.append(replace(column(name, policy), domain=None))
            continue
        how, entry = policy.randomised, known.column(name)
        assert entry is not None
        assert entry.reports is not None, "the catalog says how reports are stored"
        stored = column(name, as_=_column(table, None, entry.reports))
        shown = column(name, as_=Column(UNNUMBERED, name, entry.type, nullable=False))
        randomised.append(RandomisedColumn(shown, stored, name))
        visible.append(shown)
        versions = versions or len(how.claims) > 1
    version = column(CLAIM) if versions else None
    times = column(NUMBER) if rules.cells else None
    node = Scan(tuple(columns), counter.scan(), known.source, tuple(sources))
    plain = tuple(c.name for c in visible if all(c.id != r.shown.id for r in randomised))
    said = Reported(table.name, tuple(randomised), plain, version, times)
    return Rows(node=node, reports=said), tuple(visible)


def _table_columns(table: TablePolicy, context: Context) -> TableColumns:
    """Made once for a policy and a catalog."""
    known = context.table_columns.get(table.name)
    if known is not None:
        return known
    entries = [e for e in context.catalog.tables[table.name].columns if not _hidden(table, e.name) or _needed(table, e.name)]
    columns = tuple(_column(table, table.columns.get(e.name), e) for e in entries)
    visible = tuple(i for i, e in enumerate(entries) if not _hidden(table, e.name))
    fixing = _keys(table, context) if table.unit is not None else set()
    keys = tuple(i for i, e in enumerate(entries) if e.name in fixing)
    made = TableColumns(columns, tuple(e.source for e in entries), visible, keys)
    context.table_columns[table.name] = made
    return made


def _numbered(column: Column, id_: int, scan: int) -> Column:
    """The column in one scan. Written out, as `replace` takes ten times as long and some tables have a hundred columns."""
    made = object.__new__(Column)
    domain = TableDomain(scan) if isinstance(column.domain, TableDomain) else column.domain
    made.__dict__.update(column.__dict__, id=id_, domain=domain)
    return made


def _hidden(table: TablePolicy, name: str) -> bool:
    policy = table.columns.get(name)
    return not table.kind.shown if policy is None else policy.role == ColumnRole.HIDDEN


def _beside(scan: Scan, table: CatalogTable) -> Beside:
    most = {c.name: c.most for c in table.columns if c.most is not None}
    most |= {key[0]: 1 for key in (table.primary_key, *table.unique) if len(key) == 1}
    return Beside(
        frozenset(c.id for c in scan.columns), table.rows, tuple((c.id, most[c.name]) for c in scan.columns if c.name in most)
    )


def _needed(table: TablePolicy, name: str) -> bool:
    """The unit column and the first step of a path are read even when analysts cannot see them."""
    if table.unit is None:
        return False
    return name == (table.unit.steps[0].column if table.unit.steps else table.unit.column)


def _private(table: TablePolicy, scan: Scan, keys: frozenset[int], settings: Settings) -> Rows:
    assert table.unit is not None
    bounds = table.bounds
    limits = _tightened(ContributionLimits(bounds.rows, bounds.groups, bounds.whole, greatest=table.rows_at_most), settings)
    limits = replace(limits, by=() if table.one else (_bound_named(table, limits, settings),))
    by_name = {c.name: c for c in scan.columns}
    identity = Identity(keys, tuple((table.name, c, c.name) for c in scan.columns))
    if table.unit.steps:
        step = table.unit.steps[0]
        pending = PendingPath(by_name[step.column], step.target, step.target_column)
        return Rows(node=scan, pending=pending, one=table.one, contribution=Contribution(limits), identity=identity)
    unit = by_name[table.unit.column]
    return Rows(node=scan, unit=unit, one=table.one, contribution=Contribution(limits), identity=identity)


def _keyed(rows: Rows, table: TablePolicy, scan: Scan, catalog: CatalogTable) -> Rows:
    """The rows, and which of their columns are keys of the table by themselves."""
    assert table.unit is not None
    names = {key[0] for key in (catalog.primary_key, *catalog.unique) if len(key) == 1}
    names |= {table.unit.column} if table.one and not table.unit.steps else set()
    return rows.contributing(replace(rows.contribution, unique=frozenset(c.id for c in scan.columns if c.name in names)))


def _tightened(limits: ContributionLimits, settings: Settings) -> ContributionLimits:
    """The policy's bounds, or the session's where they are tighter (PRIVACY.md section 3, Bounds)."""
    rows = limits.rows if settings.rows is None else min(limits.rows, settings.rows)
    groups = min((g for g in (limits.groups, settings.groups) if g is not None), default=None)
    return replace(limits, rows=rows, groups=groups)


def _bound_named(table: TablePolicy, limits: ContributionLimits, settings: Settings) -> str:
    """Name the bound of a unit's rows: the session's where that is the tighter one."""
    if settings.rows is not None and settings.rows < table.bounds.rows:
        return f"`dpproxy.rows = {settings.rows}`"
    return f"`{'rows' if limits.whole else 'rows_per_group'}: {limits.rows}` of {table.name.name}"


def _keys(table: TablePolicy, context: Context) -> set[str]:
    """The table's columns that fix the unit of a row: the unit column, the way to it, and keys others reach it by."""
    assert table.unit is not None
    names = {table.unit.steps[0].column if table.unit.steps else table.unit.column}
    names |= {
        step.target_column
        for other in context.policy.tables.values()
        if other.unit is not None
        for step in other.unit.steps
        if step.target == table.name
    }
    names |= {c.name for c in table.columns.values() if c.references is not None}
    names |= {
        c.references[1]
        for other in context.policy.tables.values()
        for c in other.columns.values()
        if c.references is not None and c.references[0] == table.name
    }
    catalog = context.catalog.tables[table.name]
    names |= {key[0] for key in (catalog.primary_key, *catalog.unique) if len(key) == 1}
    return names | {f.columns[0] for f in catalog.foreign_keys if _private_key(f, table, context)}


def canonical_key(table: TableName, column: str, context: Context) -> tuple[TableName, str]:
    """Say where a key column points: a foreign key of the policy's paths is named after the key it refers to."""
    policy = context.policy.tables.get(table)
    if policy is None or policy.unit is None:
        return table, column
    if policy.unit.steps and policy.unit.steps[0].column == column:
        return policy.unit.steps[0].target, policy.unit.steps[0].target_column
    declared = policy.columns.get(column)
    if declared is not None and declared.references is not None:
        return declared.references
    for key in context.catalog.tables[table].foreign_keys:
        if key.columns == (column,) and _private_key(key, policy, context):
            return key.target, key.target_columns[0]
    return table, column


def _private_key(key: ForeignKey, table: TablePolicy, context: Context) -> bool:
    """A single-column foreign key of the backend to another private table's row of the same person.

    One that refers to persons themselves names somebody else - who recommended a member, the recipient of a message - unless it
    is the table's own way to its person.
    """
    target = context.policy.tables.get(key.target)
    if len(key.columns) != 1 or target is None or target.unit is None or table.unit is None:
        return False
    person = not target.unit.steps and target.unit.column == key.target_columns[0]
    own = table.unit.steps[0].column if table.unit.steps else table.unit.column
    return not person or key.columns[0] == own


def _column(table: TablePolicy, policy: ColumnPolicy | None, entry: CatalogColumn) -> Column:
    role = policy.role if policy is not None else ColumnRole.PLAIN
    if table.unit is not None and not table.unit.steps and entry.name == table.unit.column:
        role = ColumnRole.UNIT
    randomised = policy.randomised if policy is not None else None
    taint = {ColumnRole.UNIT: Taint.UNIT, ColumnRole.KEY: Taint.KEY}.get(role, Taint.NONE)
    if table.kind.shown:
        taint = Taint.NONE
    return Column(
        UNNUMBERED,
        entry.name,
        published_type(table, entry),
        _bound(policy, entry),
        _grid(policy, entry.type),
        taint,
        constant=table.one,
        nullable=entry.nullable,
        usable=entry.bounded and randomised is None,
        reason=entry.reason if randomised is None else reported.unestimated(randomised, entry.type),
        coin=reported.coin(randomised, entry.type) if table.kind is TableKind.PEOPLE else None,
        collated=entry.collated,
        exact=entry.exact,
        nulls=policy is None or policy.range is None or policy.nulls,
        domain=TableDomain(UNNUMBERED) if table.kind.shown else _domain(policy, entry.type),
        length=_length(policy) if entry.type in TEXTS else None,
        undeclared=not table.kind.shown,
        lasts=_lasts(policy),
    )


def _length(policy: ColumnPolicy | None) -> int | None:
    """Characters at most: declared, or those of the longest declared value."""
    if policy is None or policy.length is not None:
        return policy.length if policy is not None else None
    return max((len(str(value)) for value in policy.values), default=None) if policy.values else None


def _bound(policy: ColumnPolicy | None, entry: CatalogColumn) -> Interval:
    if policy is not None and policy.range is not None:
        lo, hi = policy.range
        if entry.type == "date":
            return Interval(number(_date(lo)), number(_date(hi)))
        if isinstance(hi, dt.datetime):
            # an upper bound that is a whole day means the whole day
            last = hi + dt.timedelta(days=1) if hi.time() == dt.time(0) else hi
            return Interval(number(lo), number(last))
        return interval(lo, hi)
    if policy is not None and policy.values:
        return _values_bound(policy)
    if entry.public_range is not None:
        return _public_bound(entry)
    return OPEN


def _lasts(policy: ColumnPolicy | None) -> Interval:
    """The declared length of an interval, in seconds. It says nothing of its months, days and hours each."""
    if policy is None or policy.lasts is None:
        return OPEN
    low, high = (Fraction(end // _MICROSECOND, 10**6) for end in policy.lasts)
    return Interval(low, high)


def _date(value: Decimal | dt.datetime) -> dt.date | Decimal:
    return value.date() if isinstance(value, dt.datetime) else value


def _values_bound(policy: ColumnPolicy) -> Interval:
    numbers = [Fraction(v) for v in policy.values or () if isinstance(v, int | Decimal) and not isinstance(v, bool)]
    return Interval(min(numbers), max(numbers)) if numbers and len(numbers) == len(policy.values or ()) else OPEN


def _public_bound(entry: CatalogColumn) -> Interval:
    assert entry.public_range is not None
    try:
        ends = [literal_number(entry.type, text) for text in entry.public_range]
    except ValueError:
        return OPEN
    return Interval(ends[0], ends[1]) if None not in ends else OPEN


def _grid(policy: ColumnPolicy | None, type_: str) -> Fraction | None:
    if policy is not None and policy.resolution is not None:
        return Fraction(policy.resolution)
    return Fraction(1) if type_ in INTEGERS else None


def _domain(policy: ColumnPolicy | None, type_: str) -> Domain | None:
    """The declared values of a private table's column, when they can be enumerated."""
    if type_ == "bool":
        return ValuesDomain(("false", "true", *((None,) if policy is not None and policy.nulls else ())))
    if policy is None:
        return None
    if policy.values:
        texts: tuple[str | None, ...] = tuple(None if v is None else constant_text(v) for v in policy.values)
        return ValuesDomain((*texts, None) if policy.nulls and None not in texts else texts)
    if policy.range is None:
        return None
    lo, hi = policy.range
    if isinstance(lo, dt.datetime) and isinstance(hi, dt.datetime):
        first, last = (lo.date() - dt.date(1970, 1, 1)).days, (hi.date() - dt.date(1970, 1, 1)).days
        kind = "day"
    elif type_ in INTEGERS and not isinstance(lo, dt.datetime) and not isinstance(hi, dt.datetime):
        first, last, kind = int(lo), int(hi), "int"
    else:
        return None
    domain = SeriesDomain(first, last, kind, policy.nulls)
    return domain if domain.size <= MAX_SERIES else None


def reach_unit(rows: Rows, context: Context, counter: Counter) -> Rows:
    """Follow the policy's foreign-key path to the unit, joining the tables on it."""
    while rows.unit is None and rows.pending is not None:
        pending = rows.pending
        parent, _ = scan_table(context.policy.tables[pending.target], _all_tables(context), counter)
        target = next(c for c in parent.node.columns if c.name == pending.target_column)
        on = Call("bool", "=", (Ref(pending.column.type, pending.column), Ref(target.type, target)))
        node = Join((*rows.node.columns, *parent.node.columns), "inner", rows.node, parent.node, on)
        rows = Rows(
            node=node,
            unit=parent.unit,
            pending=parent.pending,
            one=rows.one and parent.one,
            conditions=(*rows.conditions, on),
            contribution=Contribution(
                rows.limits, rows.beside, unique=rows.unique if target.id in parent.unique else frozenset()
            ),
            identity=Identity(rows.determinants, (*rows.identity.tables, *parent.identity.tables)),
            padding=rows.padding,
        )
    return rows


def _all_tables(context: Context) -> Context:
    """The path to the unit may pass tables the role itself can't query."""
    return replace(context, role=replace(context.role, tables=None))


def qualified(name: TableName) -> str:
    return f"{name.schema}.{name.name}"
