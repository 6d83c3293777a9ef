"""What a policy says of reports that is no error and hardly meant: much told in a day, for ever, or by all tables together.

Knows: policies, claims, where the backend was asked the shapes of its data. Must not know: rows. A warning does not say that a
promise is broken: it says what it amounts to, in the numbers of who reads it. The figures from which on there is a warning are
here, each with its reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dpproxy.local import choice
from dpproxy.local.claims import Binary, Claim, CountMean, Direct, Hadamard, Hashed, Plane, Sequence, Unary
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import ColumnPolicy, ColumnRole, Randomised, Reports, TableKind, TablePolicy
from dpproxy.policy.names import plural
from dpproxy.policy.problems import START, Code, Problem
from dpproxy.policy.report_columns import number_text
from dpproxy.review.hints import key_like, personal

DAY: Final = 4
"""Epsilon a day from which on a guess at odds of one to one is right 98 times in 100."""
EXPECTED: Final = 1_000_000
"""Reports that accuracy is judged at, as nobody has counted them: a popular question's on one day."""
SHARED: Final = Fraction(1, 20)
"""The squares of all values' shares, added, as of words or emojis: the most frequent one has a fifth of all."""
PART: Final = Fraction(1, 20)
"""Of the variance by devices: what shared cells may add before it is worth a word."""
WORSE: Final = 1.05
"""Times the error of the best mechanism: beyond it half as many devices again tell no more."""
_FINE: Final = ("timestamp", "timestamptz", "time")
_DEVICE: Final = re.compile(
    r"(?:^|_)(?:device|install|installation|session|cookie|advertising|idfa|gaid|imei|mac|serial|client|user|uid)s?(?:_|$)",
    re.IGNORECASE,
)


def report_doubts(loaded: Loaded, catalog: Catalog | None) -> Iterator[Problem]:
    """Yield what will not have been meant of tables of reports. `catalog`: None when the backend was not asked."""
    tables = [(table, table.reports) for table in loaded.policy.of_kind(TableKind.REPORTS) if table.reports is not None]
    for table, reports in tables:
        here = _Table(loaded, catalog, table, reports)
        yield from here.day()
        yield from here.forever()
        yield from here.plain()
        for column in table.columns.values():
            if column.randomised is not None:
                yield from here.mechanism(column, column.randomised)
    if len(tables) > 1:
        yield from _many(loaded, [reports for _, reports in tables])


def _many(loaded: Loaded, tables: list[Reports]) -> Iterator[Problem]:
    """All tables together: a device answers to each of them."""
    a_day = sum((each.epsilon * each.per_day for each in tables), Fraction(0))
    if a_day > DAY:
        kept = [each.epsilon * each.per_day * each.keep_days for each in tables if each.keep_days is not None]
        longest = max((each.keep_days or 0 for each in tables), default=0)
        whole = f", and {_number(sum(kept, Fraction(0)))} in the {longest} days kept" if len(kept) == len(tables) else ""
        noun = loaded.policy.unit_name
        what = f"by all tables of reports together a {noun} tells up to epsilon {_number(a_day)} a day{whole}"
        fix = f"ask fewer questions of one {noun}, less often, or at a smaller epsilon: they add up"
        at = loaded.positions.get(("tables", str(loaded.policy.of_kind(TableKind.REPORTS)[0].name)), START)
        yield at.problem(loaded.file, what, fix, "reports-many")


def _number(amount: Fraction) -> str:
    return number_text(amount) if amount < 10_000 else f"{float(amount):,.0f}"


@dataclass(frozen=True)
class _Table:
    loaded: Loaded
    catalog: Catalog | None
    table: TablePolicy
    reports: Reports

    def _problem(self, column: str | None, what: str, fix: str, code: Code) -> Problem:
        path = ("tables", str(self.table.name), column) if column is not None else ("reports", str(self.table.name))
        return self.loaded.positions.get(path, START).problem(self.loaded.file, what, fix, code)

    def day(self) -> Iterator[Problem]:
        a_day = self.reports.epsilon * self.reports.per_day
        if a_day <= DAY:
            return
        noun, days = self.loaded.policy.unit_name, self.reports.keep_days
        kept = f", and {_number(a_day * days)} in the {days} days kept" if days is not None and self.reports.fresh else ""
        what = f"a {noun} tells up to epsilon {_number(a_day)} a day by `{self.table.name}`{kept}: odds change by up to e^"
        yield self._problem(None, f"{what}{_number(a_day)}", f"ask once a day, at epsilon {DAY} or less", "reports-day")

    def forever(self) -> Iterator[Problem]:
        if not self.reports.fresh:
            return
        days, noun = self.reports.keep_days, self.loaded.policy.unit_name
        if days is None:
            what = f"reports of `{self.table.name}` are kept for ever: those of one {noun} add up without end"
            yield self._problem(None, what, "write `keep: 90d`, and delete what is older", "reports-forever")
        for column in self.table.columns.values():
            repeats = (days or math.inf) * self.reports.per_day
            if column.randomised is not None and repeats > 1 and self._answered(column.randomised):
                often = f"up to {repeats:g} times" if days is not None else "again and again"
                what = f"a {noun} answers to `{column.name}` {often}, each time anew: an answer that stays is soon known"
                fix = "write `answers: memoised` where the answer to a question hardly changes, or ask it once"
                yield self._problem(column.name, what, fix, "reports-forever")

    def _answered(self, made: Randomised) -> bool:
        """Whether the column is one that can be memoised: one question with few answers."""
        return all(isinstance(claim, Binary | Direct) for _, claim in made.claims)

    def plain(self) -> Iterator[Problem]:
        groups, shape = 1, self.catalog.tables.get(self.table.name) if self.catalog is not None else None
        for column in self.table.columns.values():
            if not column.plain or column.role is not ColumnRole.PLAIN:
                continue
            known = shape.column(column.name) if shape is not None else None
            groups *= len(column.values) if column.values else 1
            if key_like(column.name) or personal(column.name) or _DEVICE.search(column.name):
                what = f"plain column `{column.name}` is named like one that tells {plural(self.loaded.policy.unit_name)} apart"
                fix = f"write `{column.name}: hidden`, or leave it out: reports with one id add up"
                yield self._problem(column.name, what, fix, "reports-id")
            elif known is not None and known.type in _FINE:
                what = f"plain column `{column.name}` is finer than a day: few reports share a moment"
                yield self._problem(column.name, what, "store the day alone", "reports-plain")
            elif column.values is None and column.range is None:
                what = f"plain column `{column.name}` declares neither `values` nor `range`: all that is stored is shown"
                yield self._problem(column.name, what, "declare its `values`, or a `range`", "reports-plain")
        if groups * self.reports.at_least > EXPECTED:
            what = f"plain columns of `{self.table.name}` make {groups:,} groups: of {EXPECTED:,} reports few have "
            what += f"{self.reports.at_least:,}, and are shown"
            yield self._problem(None, what, "keep fewer plain columns, or coarser ones", "reports-plain")

    def mechanism(self, column: ColumnPolicy, made: Randomised) -> Iterator[Problem]:
        for _, claim in made.claims:
            yield from self._sketch(column, claim)
            yield from self._choice(column, made, claim)

    def _sketch(self, column: ColumnPolicy, claim: Claim) -> Iterator[Problem]:
        """Cells that values share are an error which no number of reports averages away."""
        if not isinstance(claim, Hashed | CountMean | Hadamard | Sequence):
            return
        law = claim.law
        if law.collision * SHARED * EXPECTED <= PART * law.per_report:
            return
        need = math.ceil(EXPECTED * SHARED / (PART * law.per_report))
        added = float(law.collision * SHARED * EXPECTED / law.per_report)
        what = f"values of `{column.name}` that share cells add {added:.0%} to the variance of {EXPECTED:,} reports"
        yield self._problem(column.name, what, f"let `k` times `m` be at least {need:,}", "reports-sketch")

    def _choice(self, column: ColumnPolicy, made: Randomised, claim: Claim) -> Iterator[Problem]:
        """Of values that are listed, the best mechanism is known."""
        listed = len(made.values) if isinstance(made.values, tuple) else made.values.count if made.values is not None else 0
        many = claim.candidates or listed
        if not isinstance(claim, Direct | Unary | Plane | Hashed | CountMean | Hadamard) or many < 2:
            return
        best = choice.automatic(many, claim.epsilon)
        off, least = (math.sqrt(each.law.per_report * EXPECTED) for each in (claim, best))
        if off > WORSE * least:
            what = f"`{column.name}` by {claim.name} is off by {off:,.0f} where {best.name} is off by {least:,.0f}"
            what += f", of {EXPECTED:,} reports"
            yield self._problem(column.name, what, f"write `by: auto` for the {many:,} values", "reports-choice")
