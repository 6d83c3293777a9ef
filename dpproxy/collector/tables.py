"""The tables of a policy that devices report to: which claims are taken, what a report may be, which columns a row has.

Knows: policies, mechanisms' files. Must not know: HTTP, files of the journal, databases. A table is asked by one mechanism's
file for each number of its claims; the hash in a post says which. A list of values that grew makes another hash, so reports by
a stale list are taken where the policy still has their claim, and refused by name where it does not.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from dpproxy.collect.questions import DAY, Plain, PlainColumn, Question, RandomisedColumn, check
from dpproxy.errors import OperatorError
from dpproxy.policy.model import Policy, Randomised, ReleasedList, Reports, TableKind, TablePolicy, Value
from dpproxy.table_terms import TableName

MOST_REPORTS: Final = 100
"""Reports of one batch."""
BATCH: Final = re.compile(r"[0-9a-f]{32}")

Lists = Mapping[ReleasedList, Sequence[str]]
"""The values of public tables that policies refer to."""


class Refused(Exception):
    """Why a batch is not taken: a word for programs, a status of HTTP, a sentence."""

    def __init__(self, code: str, status: int, message: str) -> None:
        super().__init__(message)
        self.code, self.status, self.message = code, status, message


@dataclass(frozen=True)
class ReportTable:
    """A table of reports. `questions`: by the number of the claim. `stored`: the columns that hold the randomised reports."""

    name: TableName
    reports: Reports
    questions: Mapping[int, Question]
    stored: tuple[str, ...]
    dated: bool

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of a claim by its hash."""
        return {question.claim: number for number, question in self.questions.items()}

    @property
    def newest(self) -> Question:
        """The question that devices are to be asked."""
        return self.questions[max(self.questions)]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of a stored row: the day, plain ones, reports."""
        return ((DAY,) if self.dated else ()) + tuple(column.name for column in self.newest.plain) + self.stored

    def batch(self, document: object) -> tuple[str, int, list[list[Any]]]:
        """Return a batch's name, its claim's number and its reports. Raises Refused: of a batch that is not right nothing is
        kept."""
        if not isinstance(document, dict) or document.keys() != {"batch", "claim", "reports"}:
            raise Refused("wrong-shape", 400, "a batch has `batch`, `claim` and `reports`, and nothing else")
        name, claim, reports = document["batch"], document["claim"], document["reports"]
        if not isinstance(name, str) or not BATCH.fullmatch(name):
            raise Refused("wrong-shape", 400, "`batch` is 32 hexadecimal digits, drawn for this batch")
        if not isinstance(reports, list) or not 0 < len(reports) <= MOST_REPORTS:
            raise Refused("wrong-shape", 400, f"`reports` is a list of 1 to {MOST_REPORTS}")
        number = self.numbers.get(claim) if isinstance(claim, str) else None
        if number is None:
            raise Refused(
                "unknown-claim",
                409,
                f"{self.name} takes no reports by this claim: its epsilon, mechanism or list of values is a stale one",
            )
        for place, report in enumerate(reports):
            if wrong := outside(self.questions[number], report):
                raise Refused("outside-space", 400, f"report {place}: {wrong}")
        return name, number, reports


def outside(question: Question, report: object) -> str | None:
    """Why a report is none of a question; None where it is one."""
    plain, randomised = question.plain, question.randomised
    if not isinstance(report, list) or len(report) != len(plain) + len(randomised):
        return f"it is a list of {len(plain)} plain values and {len(randomised)} randomised ones"
    for column, value in zip(plain, report, strict=False):
        if not column.holds(value):
            return f"the plain column {column.name} has no such value"
    for randomised_column, value in zip(randomised, report[len(plain) :], strict=True):
        if not randomised_column.space.holds(value, randomised_column.numbers):
            return f"{randomised_column.name} is outside the reports of {randomised_column.claim.name}"
    return None


def tables_of(policy: Policy, lists: Lists) -> dict[str, ReportTable]:
    """Return the tables of reports by their names. Raises OperatorError where the policy has none, or no device can report."""
    tables = policy.of_kind(TableKind.REPORTS)
    if not tables:
        raise OperatorError(f"the policy of {policy.dataset} has no table of `reports`")
    return {str(table.name): _table(table, lists) for table in tables}


def released_lists(policy: Policy) -> set[ReleasedList]:
    """Return which columns of public tables are lists of values."""
    columns = [column.randomised for table in policy.of_kind(TableKind.REPORTS) for column in table.columns.values()]
    return {column.values for column in columns if column is not None and isinstance(column.values, ReleasedList)}


def _table(table: TablePolicy, lists: Lists) -> ReportTable:
    assert table.reports is not None
    randomised = {name: column.randomised for name, column in table.columns.items() if column.randomised is not None}
    plain = tuple(_plain(name, column) for name, column in table.columns.items() if column.plain and name != DAY)
    numbers = sorted({number for column in randomised.values() for number, _ in column.claims})
    stored = tuple(column.stored for column in randomised.values())
    questions = {number: _question(table, number, plain, randomised, lists) for number in numbers}
    return ReportTable(table.name, table.reports, questions, stored, DAY in table.columns and table.columns[DAY].plain)


def _question(
    table: TablePolicy, number: int, plain: tuple[PlainColumn, ...], randomised: Mapping[str, Randomised], lists: Lists
) -> Question:
    """What a device of one claim's number is asked. A column without that number keeps the newest claim below it."""
    assert table.reports is not None
    columns = tuple(_randomised(name, column, number, lists) for name, column in randomised.items())
    for column in columns:
        check(column)
    name = columns[0].name if len(columns) == 1 else str(table.name)
    return Question(str(table.name), table.reports.per_day, not table.reports.fresh, plain, columns, name)


def _randomised(name: str, column: Randomised, number: int, lists: Lists) -> RandomisedColumn:
    """A claim is about the first values of a list that only grows at its end."""
    claims = dict(column.claims)
    claim = claims.get(number) or claims[max((known for known in claims if known <= number), default=min(claims))]
    if claim.candidates is None or column.values is None:
        return RandomisedColumn(name, claim)
    values = lists[column.values] if isinstance(column.values, ReleasedList) else [text_of(value) for value in column.values]
    return RandomisedColumn(name, claim, tuple(values[: claim.candidates]))


def _plain(name: str, column: Any) -> PlainColumn:
    values = None if column.values is None else tuple(_told(value) for value in column.values)
    ends = (None, None) if column.range is None else tuple(_end(end) for end in column.range)
    return PlainColumn(name, values, *ends)


def _told(value: Value) -> Plain:
    return value if isinstance(value, bool | int | str) else text_of(value)


def _end(end: Decimal | dt.datetime) -> str:
    return end.date().isoformat() if isinstance(end, dt.datetime) else text_of(end)


def text_of(value: Value) -> str:
    """Return a value as devices write it."""
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return value.isoformat() if isinstance(value, dt.date) else str(value)
