"""The virtual schema `dpproxy`: what a role may see of its budget, its answers and its policy.

Knows: policies, catalogs, standings. Must not know: data; nothing here depends on a private row. Columns are in the
order of `sql.virtual_tables.VIRTUAL_TABLES`; values are PostgreSQL's text forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, assert_never

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.standings import standings
from dpproxy.budget_windows import WINDOWS
from dpproxy.facade.ddl import column_type, readable, visible_columns
from dpproxy.ledger.ledger import Standing, decimal
from dpproxy.plan.model import LeftOut
from dpproxy.plan.report.omissions import rows_text
from dpproxy.policy.data_claims import told, unitless_rows
from dpproxy.policy.joined_keys import day_promise
from dpproxy.policy.model import ColumnPolicy, ColumnRole, TableKind, TablePolicy
from dpproxy.policy.names import plural, quote_name
from dpproxy.policy.report_columns import randomised_told, reports_told
from dpproxy.policy.scalars import length_text
from dpproxy.policy.unit_forms import others_named
from dpproxy.sql.types import INTEGERS, TIMES
from dpproxy.table_terms import TableName

# `dpproxy.help`: what analysts ask about answers, and what is true for the role that asks.
#
# Knows: policies, prices. Must not know: data, accounts: whoever reads it learns nothing that the policy does not say. Each
# example runs as it stands, at no charge; a test runs all of them. `docs/why-is-my-number-off.md` says more of what is said
# here of numbers.


Help = tuple[str, str, str]
"""A question, its answer, an example."""


def help_rows(dataset: Dataset, asker: Asker) -> Iterator[Help]:
    """Yield the help texts for this role."""
    table, unit = _example(dataset, asker), dataset.policy.unit_name
    price, most = (decimal(amount, MICRO) for amount in (asker.role.query.epsilon, asker.role.query.max_epsilon))
    yield from _asking(table, unit, price, most)
    yield from _numbers(table, unit)
    yield from _around(asker)


def _example(dataset: Dataset, asker: Asker) -> str:
    """A private table of the role, as SQL names it; a table of this schema where it has none."""
    tables = (t.name for t in dataset.policy.of_kind(TableKind.PEOPLE) if readable(asker.role, t.name))
    return next((_named(name) for name in tables), "dpproxy.tables")


def _named(name: TableName) -> str:
    return f"{quote_name(name.schema)}.{quote_name(name.name)}"


def _asking(table: str, unit: str, price: str, most: str) -> Iterator[Help]:
    yield (
        "What can I ask?",
        f"Counts, sums, averages, percentiles and the like over many {plural(unit)}, and any SQL on top of them. Rows of "
        f"single {plural(unit)} "
        "are refused. This lists the tables you see.",
        "SELECT * FROM dpproxy.tables",
    )
    yield (
        "Which columns are there, and which values count?",
        "This lists each column with what may be asked of it, its range and its declared groups.",
        "SELECT * FROM dpproxy.policy",
    )
    yield (
        "What will a statement cost, and how exact will it be?",
        f"EXPLAIN tells both before anything is spent. A statement costs epsilon {price}, and at most {most}.",
        f"EXPLAIN SELECT count(*) FROM {table}",
    )
    yield (
        "How much may I still spend, and when is there more?",
        "This shows each budget that you are charged to, and when its window ends.",
        "SELECT epsilon_left, delta_left, resets FROM dpproxy.budget",
    )
    yield (
        "Does the same question cost again?",
        "No: asked again by anybody of your role it is the same answer, with the same noise. `derive` also computes answers "
        "from stored ones: coarser groups, filters on group keys, averages.",
        "SET dpproxy.reuse = derive",
    )


def _numbers(table: str, unit: str) -> Iterator[Help]:
    yield (
        "How do I get a more exact answer?",
        f"Ask for fewer and larger groups and fewer aggregates at a time; count {plural(unit)} instead of rows; or pay more: "
        "twice the epsilon "
        "halves the noise. `dpproxy.accuracy` finds the least epsilon for a typical error.",
        "SET dpproxy.accuracy = '2%'",
    )
    yield (
        "How far off is this number?",
        "The notice says the typical error. dpproxy.low and dpproxy.high tell an interval that holds the exact answer "
        "19 times in "
        "20, at no extra charge; NULL is an end that nobody may be told.",
        f"EXPLAIN SELECT count(*), dpproxy.low(count(*)), dpproxy.high(count(*)) FROM {table}",
    )
    yield (
        "Why is a sum or count too low?",
        f"Of one {unit} only so many rows and groups count (`rows`, `rows_per_group`, `groups`), and values beyond a column's "
        "range count as its end.",
        "SELECT table_name, rows, rows_per_group, groups, note FROM dpproxy.tables",
    )
    yield (
        "Why is a group missing?",
        f"Groups that the policy does not declare are shown when enough {plural(unit)} share them. Rows with NULL or an "
        "undeclared value are in "
        "no declared group: this shows them as one more row.",
        "SET dpproxy.other = on",
    )
    yield (
        "Why do parts not add up to the total?",
        "Each answer has noise of its own. Ask parts and total in one statement with GROUP BY ROLLUP: where the groups "
        "hold every row, they "
        "are the same numbers.",
        "SHOW dpproxy.other",
    )
    yield (
        "Why is an average NULL?",
        "With noise, about no rows were counted: there is nothing to divide by. A sum of no rows is 0.",
        "SHOW dpproxy.epsilon",
    )


def _around(asker: Asker) -> Iterator[Help]:
    yield (
        "Why was my statement refused, and did that cost?",
        "A refusal costs nothing; its message says what to write instead. Only an error that says that the charge stands "
        "came after it.",
        "SELECT asked, epsilon, outcome, statement_hash FROM dpproxy.answers",
    )
    yield (
        "What was asked lately?",
        "This lists the last answers to your role, what each cost, and its typical errors.",
        "SELECT asked, epsilon, reused, errors FROM dpproxy.answers",
    )
    yield (
        "How do I silence the notices?",
        "They are told until you switch them off.",
        "SET dpproxy.notices = off",
    )
    yield (
        "Whom do I ask, and what do I tell them?",
        f"The operator of this proxy: tell them your role (`{asker.role.name}`) and the statement's hash. Their log "
        "knows a statement by it, and "
        "why it was refused; it has no statement's text.",
        "SELECT statement_hash, asked FROM dpproxy.answers",
    )


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
    yield str(least.left_epsilon // max(asker.role.query.epsilon, 1)), limit, WINDOWS[least.window].adjective, spent


def _answers(dataset: Dataset, asker: Asker) -> Iterator[Row]:
    for a in reversed(dataset.answered):
        if a.role == asker.role.name:
            amounts = (decimal(a.epsilon, MICRO), decimal(a.delta, ATTO))
            count = None if a.measurements is None else str(a.measurements)
            yield (a.asked.isoformat(), *amounts, count, "t" if a.reused else "f", a.statement, a.outcome, a.errors)


def _tables(dataset: Dataset, asker: Asker) -> Iterator[Row]:
    for table in _readable(dataset, asker):
        match table.kind:
            case TableKind.PUBLIC:
                yield str(table.name), table.kind.value, None, None, None, None
            case TableKind.REPORTS:
                assert table.reports is not None
                note = f"{reports_told(table.reports)}; groups of fewer than {table.reports.at_least} reports are not shown"
                yield str(table.name), table.kind.value, None, None, None, note
            case TableKind.PEOPLE:
                bounds, most = table.bounds, str(table.bounds.rows)
                groups = None if bounds.groups is None else str(bounds.groups)
                rows, each = (most, None) if bounds.whole else (None, most)
                yield str(table.name), table.kind.value, rows, each, groups, _note(table, dataset)
            case _:
                assert_never(table.kind)


def _note(table: TablePolicy, dataset: Dataset) -> str | None:
    """What there is to know of a table: rows of a unit, and which of its rows are never counted or in no declared group."""
    unit = dataset.policy.unit_name
    said = [f"at most one row per {unit}"] if table.one else []
    never = [told(rows, unit) for rows in unitless_rows(table, dataset.policy, dataset.catalog)]
    said += [f"never counted: {', '.join(never)}"] if never else []
    out = [rows_text(o) for o in _left_out(table, dataset)]
    said += [f"in no group of the column: {', '.join(out)}"] if out else []
    said += [others] if (others := others_named(table, unit)) is not None else []
    said += [days] if (days := day_promise(dataset.policy)) is not None else []
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
            kind = "public" if table.kind.shown else str(rule.role if rule else ColumnRole.UNIT)
            kind = "randomised" if rule is not None and rule.randomised is not None else kind
            yield str(table.name), column.name, kind, column_type(table, column), low, high, values, note


def _rule(rule: ColumnPolicy | None) -> Row:
    if rule is None:
        return None, None, None, None
    low, high = (str(rule.range[0]), str(rule.range[1])) if rule.range else (None, None)
    low, high = map(length_text, rule.lasts) if rule.lasts else (low, high)
    values = ", ".join(map(str, rule.values)) if rule.values is not None else None
    note = f"resolution {rule.resolution}" if rule.resolution is not None else None
    note = f"length {rule.length}" if rule.length is not None else note
    note = randomised_told(rule.randomised) if rule.randomised is not None else note
    return low, high, values, note


def _readable(dataset: Dataset, asker: Asker) -> Iterator[TablePolicy]:
    return (t for t in dataset.policy.tables.values() if readable(asker.role, t.name))


_TABLES: dict[str, tuple[int, Callable[[Dataset, Asker], Iterator[Row]]]] = {
    "help": (3, help_rows),
    "budget": (12, _budget),
    "answers": (8, _answers),
    "policy": (8, _policy),
    "tables": (6, _tables),
    "estimate_remaining_dp_aggregates": (4, _remaining),
}

__all__: Sequence[str] = ["virtual_columns"]
