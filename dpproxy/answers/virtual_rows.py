"""The virtual schema `dpproxy`: what a role may see of its budget, its answers and its policy.

Knows: policies, catalogs, standings. Must not know: data; nothing here depends on a private row. Columns are in the
order of `sql.virtual_tables.VIRTUAL_TABLES`; values are PostgreSQL's text forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.help_rows import help_rows
from dpproxy.answers.standings import standings
from dpproxy.budget_windows import WINDOWS
from dpproxy.facade.ddl import column_type, readable, visible_columns
from dpproxy.ledger.ledger import Standing, decimal
from dpproxy.plan.model import LeftOut
from dpproxy.plan.report.left_out import rows_text
from dpproxy.policy.model import ColumnPolicy, ColumnRole, TablePolicy
from dpproxy.policy.scalars import length_text
from dpproxy.policy.unitless_rows import told, unitless_rows
from dpproxy.sql.types import INTEGERS, TIMES

Row = tuple[str | None, ...]


def virtual_columns(table: str, dataset: Dataset, asker: Asker) -> list[list[str | None]]:
    """Return all rows of one virtual table, column by column. Raises KeyError for a table that does not exist."""
    width, rows = _TABLES[table]
    found = list(rows(dataset, asker))
    return [[row[i] for row in found] for i in range(width)]


def _budget(dataset: Dataset, asker: Asker) -> Iterator[Row]:
    """The role's and the user's own: what others spent of the dataset's is not this role's business."""
    own = [held for held in dataset.applied_budgets(asker) if held.scope != "dataset"]
    for standing in standings(dataset.ledger, dataset.policy.dataset, own):
        yield _standing(asker.role.name, standing)


def _standing(role: str, s: Standing) -> Row:
    epsilon = (decimal(amount, MICRO) for amount in (s.spent_epsilon, s.limit_epsilon, s.left_epsilon))
    delta = (decimal(amount, ATTO) for amount in (s.spent_delta, s.limit_delta, s.left_delta))
    lifetime = (decimal(s.lifetime_epsilon, MICRO), decimal(s.lifetime_delta, ATTO))
    return (role, s.scope, *epsilon, *delta, s.window, s.resets.isoformat() if s.resets else None, *lifetime)


def _remaining(dataset: Dataset, asker: Asker) -> Iterator[Row]:
    """The tightest of the asker's budgets. That many statements add up to no more than what is left for one."""
    own = [held for held in dataset.applied_budgets(asker) if held.scope != "dataset"]
    least = min(standings(dataset.ledger, dataset.policy.dataset, own), key=lambda s: s.left_epsilon)
    limit, spent = (decimal(amount, MICRO) for amount in (least.limit_epsilon, least.spent_epsilon))
    yield str(least.left_epsilon // asker.role.query.epsilon), limit, WINDOWS[least.window].adjective, spent


def _answers(dataset: Dataset, asker: Asker) -> Iterator[Row]:
    for a in reversed(dataset.answered):
        if a.role == asker.role.name:
            amounts = (decimal(a.epsilon, MICRO), decimal(a.delta, ATTO))
            count = None if a.measurements is None else str(a.measurements)
            yield (a.asked.isoformat(), *amounts, count, "t" if a.reused else "f", a.statement, a.outcome, a.errors)


def _tables(dataset: Dataset, asker: Asker) -> Iterator[Row]:
    for table in _readable(dataset, asker):
        if table.public:
            yield str(table.name), "public", None, None, None
        else:
            groups = None if table.bounds.groups is None else str(table.bounds.groups)
            yield str(table.name), "private", str(table.bounds.rows), groups, _note(table, dataset)


def _note(table: TablePolicy, dataset: Dataset) -> str | None:
    """What there is to know of a table: rows of a unit, and which of its rows are never counted or in no declared group."""
    unit = dataset.policy.unit_name
    said = [f"at most one row per {unit}"] if table.one else []
    never = [told(rows, unit) for rows in unitless_rows(table, dataset.policy, dataset.catalog)]
    said += [f"never counted: {', '.join(never)}"] if never else []
    out = [rows_text(o) for o in _left_out(table, dataset)]
    said += [f"in no group of the column: {', '.join(out)}"] if out else []
    return "; ".join(said) or None


def _left_out(table: TablePolicy, dataset: Dataset) -> Iterator[LeftOut]:
    shape = dataset.catalog.tables.get(table.name)
    for column in visible_columns(table, shape) if shape else ():
        rule = table.columns.get(column.name)
        kind = _kind(rule, column.type)
        if rule is not None and kind is not None and (kind or (column.nullable and not rule.nulls)):
            yield LeftOut(column.name, column.nullable and not rule.nulls, kind)


def _kind(rule: ColumnPolicy | None, type_: str) -> Literal["values", "range", ""] | None:
    """What declares the groups of a column; None where nothing does."""
    if rule is None:
        return None
    if type_ == "bool":
        return ""
    if rule.values:
        return "values"
    return "range" if rule.range and type_ in (*INTEGERS, *TIMES) else None


def _policy(dataset: Dataset, asker: Asker) -> Iterator[Row]:
    for table in _readable(dataset, asker):
        shape = dataset.catalog.tables.get(table.name)
        for column in visible_columns(table, shape) if shape else ():
            rule = table.columns.get(column.name)
            low, high, values, note = _rule(rule)
            kind = "public" if table.public else str(rule.role if rule else ColumnRole.UNIT)
            yield str(table.name), column.name, kind, column_type(column), low, high, values, note


def _rule(rule: ColumnPolicy | None) -> Row:
    if rule is None:
        return None, None, None, None
    low, high = (str(rule.range[0]), str(rule.range[1])) if rule.range else (None, None)
    low, high = map(length_text, rule.lasts) if rule.lasts else (low, high)
    values = ", ".join(map(str, rule.values)) if rule.values is not None else None
    note = f"resolution {rule.resolution}" if rule.resolution is not None else None
    note = f"length {rule.length}" if rule.length is not None else note
    return low, high, values, note


def _readable(dataset: Dataset, asker: Asker) -> Iterator[TablePolicy]:
    return (t for t in dataset.policy.tables.values() if readable(asker.role, t.name))


_TABLES: dict[str, tuple[int, Callable[[Dataset, Asker], Iterator[Row]]]] = {
    "help": (3, help_rows),
    "budget": (12, _budget),
    "answers": (8, _answers),
    "policy": (8, _policy),
    "tables": (5, _tables),
    "estimate_remaining_dp_aggregates": (4, _remaining),
}

__all__: Sequence[str] = ["virtual_columns"]
