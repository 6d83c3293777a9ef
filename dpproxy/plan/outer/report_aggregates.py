"""Aggregates and conditions of a SELECT over reports: which estimates they are, and what candidates weigh in each.

Knows: bound expressions, claims. Must not know: engines, how an estimate is computed, how columns are released. What a condition
asks of a randomised column it asks of true values, so WHERE is a FILTER of every aggregate: the reports are all read, and each
candidate weighs what the condition says of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.local.claims import Binary, Duchi, Laplace, Levels
from dpproxy.plan.bind import reported
from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.intervals.arithmetic import Range
from dpproxy.plan.measure.output_weights import Kind
from dpproxy.plan.measure.request import MeasurementRequest
from dpproxy.plan.measure.specs import Measured
from dpproxy.plan.outer.noisy_numbers import AROUND, noisy_number
from dpproxy.plan.outer.report_weights import NotListed, has_holes, tried, weights, without_case
from dpproxy.plan.outer.select_keys import Labels, SelectKeys
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.null_padding import ignores_padding
from dpproxy.policy.model import Randomised, constant_text
from dpproxy.privacy.readings import Estimate, Later, Listed, Weights
from dpproxy.sql.dialect import position
from dpproxy.sql.types import INTEGERS, NUMBERS, decimal
from dpproxy.tree.expr import Agg, Call, Case, Cast, Expr, Ref, conjunction, conjuncts, references
from dpproxy.tree.measured import ReportTotal, Weighing
from dpproxy.tree.relation import RandomisedColumn, Reported, Rows

MOST_PLAIN = 2**20
"""Of a plain number that is added up: squares of it, of all reports, stay within 64 bits."""


class ReportKeys(SelectKeys):
    """Keys of reports: plain expressions, or a randomised column by itself."""

    reports: Reported

    def index(self, expr: Expr, node: exp.Expr) -> int:
        named = self.reports.named(expr)
        if named and not isinstance(expr, Ref):
            use = "it is grouped by as it is, not by what is made of it"
            raise reported.randomised(named[0].shown.name, use, at=reported.place(node, named[0].shown.name))
        return super().index(expr, node)


@dataclass
class Asked:
    """What the aggregates of one SELECT need: totals of the backend's query, estimates, randomised columns."""

    totals: list[ReportTotal] = field(default_factory=list)
    estimates: list[Estimate] = field(default_factory=list)
    cells: list[RandomisedColumn] = field(default_factory=list)
    weighings: list[Weighing] = field(default_factory=list)

    def later(self, wanted: Weighing, *, condition: bool) -> Later:
        if wanted not in self.weighings:
            self.weighings.append(wanted)
        return Later(self.weighings.index(wanted), condition)

    def total(self, wanted: ReportTotal) -> int:
        if wanted not in self.totals:
            self.totals.append(wanted)
        return self.totals.index(wanted)

    def cell(self, column: RandomisedColumn) -> int:
        if column not in self.cells:
            self.cells.append(column)
        return self.cells.index(column)

    def estimate(self, wanted: Estimate) -> int:
        if wanted not in self.estimates:
            self.estimates.append(wanted)
        return self.estimates.index(wanted)


class ReportAggregates(ABC):
    """The aggregates of one SELECT over reports."""

    queries: Queries
    select: exp.Select
    rows: Rows
    request: MeasurementRequest
    reports: Reported
    asked: Asked
    _labels: Labels
    _how: dict[RandomisedColumn, Randomised]

    @abstractmethod
    def _agg(self, node: exp.Expr) -> Agg:
        """An aggregate call as it is bound."""

    def _is_grouped(self, column: RandomisedColumn) -> bool:
        return self.request.key(Ref(column.shown.type, column.shown)) is not None

    # --- aggregates

    def _times(self) -> Expr | None:
        times = self.reports.times
        return Ref(times.type, times) if times is not None else None

    def _shared_extreme(self, node: exp.Expr) -> exp.Expr | None:
        return None

    def _measured(self, node: exp.Expr) -> tuple[Measured, tuple[int, ...]]:
        """An aggregate's formula and its estimates."""
        agg = self._agg(node)
        if self.rows.padded and not ignores_padding(agg, self.rows.kept):
            raise reported.outer_join(self.reports.table.name)
        self._check(agg, node)
        try:
            return self._estimated(without_case(agg), node)
        except Refusal as refusal:
            raise replace(refusal, position=refusal.position or position(node)) from refusal

    def _check(self, agg: Agg, node: exp.Expr) -> None:
        """Raise Refusal for aggregates that would tell single reports, or cannot be estimated."""
        args = (*agg.args, *(term for term, _, _ in agg.order))
        named = [c for a in args for c in self.reports.named(a)]
        call = agg.name
        for column in named:
            at = reported.place(node, column.shown.name)
            if agg.distinct:
                raise reported.randomised(column.shown.name, f"{call}(DISTINCT ...) would count what was reported", at=at)
            if agg.name not in ("count", "sum", "avg"):
                raise reported.randomised(column.shown.name, f"{call}() would tell a single report", at=at)
        if agg.distinct or agg.name not in ("count", "sum", "avg"):
            raise Refusal(
                FEATURE_NOT_SUPPORTED, f"{call}() over reports of devices is not supported", position(node),
                hint="Use count, sum or avg; group by the column instead.",
            )  # fmt: skip

    def _estimated(self, agg: Agg, node: exp.Expr) -> tuple[Measured, tuple[int, ...]]:
        label = self._labels.of(node)
        conditions = [*conjuncts(agg.where), *self.reports.conditions]
        if agg.name == "count":
            value = agg.args[0] if agg.args and not self.reports.named(agg.args[0]) else None
            found = self.asked.estimate(self._count(label, conditions, value, node))
            return _made(replace(arithmetic.basis(0), positive=True), "int8", "linear"), (found,)
        (value,) = agg.args
        named = self.reports.named(value)
        if not named:
            return self._plain_number(agg, label, conditions, value, node)
        if len(named) > 1 or references(value) != (named[0].shown,):
            raise self._mixed(node, named[0])
        if any(isinstance(claim, Laplace | Duchi) for _, claim in self._how[named[0]].claims):
            split, asked, how = self._split(conditions, node), self.asked, self._how[named[0]]
            return noisy_number(agg, label, value, named[0], how, split, self._times(), asked.total, asked.estimate, node)
        return self._own_number(agg, label, conditions, value, named[0], node)

    def _count(self, label: str, conditions: Sequence[Expr], value: Expr | None, node: exp.Expr) -> Estimate:
        """How many devices: COUNT(x) of those that have a plain value."""
        present = [Call("bool", "is_not_null", (value,))] if value is not None and facts(value).nullable else []
        plain, listed = self._split([*conditions, *present], node)
        among = self.asked.total(ReportTotal(self._times(), conjunction(plain)))
        chosen = self._weights(listed)
        consistent = not plain and self._whole_domain(chosen)
        return Estimate(label, among, among, among, chosen, consistent)

    def _plain_number(
        self, agg: Agg, label: str, conditions: Sequence[Expr], value: Expr, node: exp.Expr
    ) -> tuple[Measured, tuple[int, ...]]:
        """SUM and AVG of a plain number, of devices whose true values satisfy the conditions."""
        if value.type not in INTEGERS or not facts(value).bound.within(MOST_PLAIN):
            raise Refusal(
                FEATURE_NOT_SUPPORTED, f"{agg.name}() over reports needs a whole number with a range", position(node),
                hint="Cast it and hold it: sum(least(greatest(x::int, 0), 1000)).",
            )  # fmt: skip
        plain, listed = self._split([*conditions, Call("bool", "is_not_null", (value,))], node)
        where, number = conjunction(plain), Cast("int8", value)
        times = self._times()

        def times_of(expr: Expr) -> Expr:
            return Call("int8", "*", (expr, times)) if times is not None else expr

        among = self.asked.total(ReportTotal(times, where))
        total = self.asked.total(ReportTotal(times_of(number), where))
        squares = self.asked.total(ReportTotal(times_of(Call("int8", "*", (number, number))), where))
        chosen = self._weights(listed)
        found = Estimate(label, total, among, squares, chosen)
        return self._number(agg, found, replace(found, total=among, squares=among), Fraction(1))

    def _own_number(
        self, agg: Agg, label: str, conditions: Sequence[Expr], value: Expr, column: RandomisedColumn, node: exp.Expr
    ) -> tuple[Measured, tuple[int, ...]]:
        """SUM and AVG of what a randomised column says: a sum over its values."""
        if self._is_grouped(column):
            raise reported.randomised(column.shown.name, "it is the key, and the same in a group", at=position(node))
        plain, listed = self._split(conditions, node)
        among = self.asked.total(ReportTotal(self._times(), conjunction(plain)))
        mine = [c for c in listed if self.reports.named(c)[0] == column]
        only = conjunction(tuple(mine))
        number = value if only is None else Case(value.type, ((only, value),), None)
        counted = Call("bool", "is_not_null", (number,))
        unit = self._listed(value, column, node)[1]
        chosen, counting = self._listed(number, column, node, unit)[0], self._listed(counted, column, node)[0]
        others = [c for c in listed if c not in mine]
        weighed = self._weights(others, {column: chosen})
        found = Estimate(label, among, among, among, weighed)
        whole = isinstance(counting, Listed) and set(counting.of(self._candidates(column) or ())) == {1}
        of = self._weights(others, {} if whole else {column: counting})
        return self._number(agg, found, replace(found, weights=of), Fraction(1, unit))

    def _number(self, agg: Agg, total: Estimate, among: Estimate, step: Fraction) -> tuple[Measured, tuple[int, ...]]:
        """The sum in steps, or the mean: of what nobody said there is none."""
        first = self.asked.estimate(total)
        type_ = agg.type if agg.type in NUMBERS else "numeric"
        per = "" if step == 1 else f" * {step.numerator} / {step.denominator}"
        found = arithmetic.rising(arithmetic.basis(0), lambda x: f"({x}::numeric{per})")
        if agg.name == "sum":
            return _made(arithmetic.rising(found, lambda x: f"({x})::{type_}"), type_, "linear"), (first,)
        second = self.asked.estimate(among)
        count = arithmetic.basis(1)
        mean = arithmetic.rising(arithmetic.over(found, arithmetic.at_least(count, "1")), lambda x: f"({x})::{type_}")
        return _made(arithmetic.among(mean, count, 1), type_, "mean"), (first, second)

    # --- conditions

    def _split(self, conditions: Sequence[Expr], node: exp.Expr) -> tuple[tuple[Expr, ...], list[Expr]]:
        """Plain conditions, and those of one randomised column each."""
        plain, listed = [], []
        for condition in conditions:
            named = self.reports.named(condition)
            if not named:
                plain.append(condition)
                continue
            if len(named) > 1 or references(condition) != (named[0].shown,):
                raise self._mixed(node, named[0])
            listed.append(condition)
        return tuple(dict.fromkeys(plain)), list(dict.fromkeys(listed))

    def _mixed(self, node: exp.Expr, column: RandomisedColumn) -> Refusal:
        at = reported.place(node, column.shown.name) or reported.place(self.select, column.shown.name)
        use = "one condition or value is of one such column and constants, joined with others by AND"
        return reported.randomised(column.shown.name, use, "Split it: count(*) FILTER (WHERE a) + count(*) FILTER (WHERE b).", at)

    def _weights(
        self, conditions: Sequence[Expr], known: dict[RandomisedColumn, Listed | Later] | None = None
    ) -> tuple[Weights | None, ...]:
        """What the candidates of each randomised column weigh. Of keys a condition says which are shown."""
        chosen: dict[int, Weights] = {self.asked.cell(column): listed for column, listed in (known or {}).items()}
        by_column: dict[RandomisedColumn, list[Expr]] = {}
        for condition in conditions:
            by_column.setdefault(self.reports.named(condition)[0], []).append(condition)
        for column, mine in by_column.items():
            whole = conjunction(tuple(mine))
            assert whole is not None
            listed, _ = self._listed(whole, column, self.select)
            if not self._is_grouped(column):
                chosen[self.asked.cell(column)] = listed
            elif any(condition not in self.reports.conditions for condition in mine):
                raise reported.randomised(
                    column.shown.name, "a FILTER is of a column that is no key",
                    "Let WHERE say which values are shown.", reported.place(self.select, column.shown.name),
                )  # fmt: skip
        for place, column in enumerate(self.asked.cells):
            if self._is_grouped(column):
                chosen[place] = "own"
        return tuple(chosen.get(place) for place in range(len(self.asked.cells)))

    def _listed(
        self, expr: Expr, column: RandomisedColumn, node: exp.Expr, unit: int | None = None
    ) -> tuple[Listed | Later, int]:
        """What candidates weigh by an expression, and what that is divided by: `unit`, where it is known."""
        if any(isinstance(claim, Laplace | Duchi) for _, claim in self._how[column].claims):
            at = reported.place(node, column.shown.name) or reported.place(self.select, column.shown.name)
            raise reported.randomised(column.shown.name, "a condition on a number with noise is not estimated", AROUND, at)
        values, late = None if self._open(column) else self._candidates(column), has_holes(expr)
        try:
            found, own = weights(tried(expr) if late else expr, column.shown, values)
            if late and unit is None and own != 1:
                raise NotListed("a number with parameters")
            if late:
                weighing = Weighing(expr, column.shown, values, unit or own)
                return self.asked.later(weighing, condition=expr.type == "bool"), unit or own
            more = (unit or own) // own
            return Listed(tuple((text, weight * more) for text, weight in found.named), found.rest * more), unit or own
        except NotListed as why:
            at = reported.place(node, column.shown.name) or reported.place(self.select, column.shown.name)
            raise reported.randomised(column.shown.name, f"{why} is not estimated", COMPARE, at) from None

    def _whole_domain(self, chosen: Sequence[Weights | None]) -> bool:
        settings = self.queries.context.settings
        limited = any(self.reports.named(c) for c in self.reports.conditions)
        return settings.consistent and tuple(chosen) == ("own",) and not limited

    def _candidates(self, column: RandomisedColumn) -> tuple[str, ...] | None:
        """The candidates as texts; None where a public table lists them, or nobody does."""
        return candidates(self._how[column])

    def _open(self, column: RandomisedColumn) -> bool:
        """Tell whether devices report values that nobody lists."""
        return any(claim.candidates is None for _, claim in self._how[column].claims)

    def _plain(self, total: int, label: str) -> Estimate:
        return Estimate(label, total, total, total, self._weights(()))


COMPARE = "Compare it with constants: x = 'a', x IN ('a', 'b'), x <> 'a'; or group by it, and compute around."


def candidates(how: Randomised) -> tuple[str, ...] | None:
    """Return the candidates of a column as texts; None where a public table lists them, or nobody does."""
    claim = how.claims[-1][1]
    if isinstance(claim, Binary):
        return ("false", "true")
    if isinstance(claim, Levels):
        return tuple(_plain_text(number) for number in claim.numbers)
    if isinstance(how.values, tuple):
        return tuple(map(constant_text, how.values))
    return None


def _plain_text(number: Fraction) -> str:
    return decimal(number) if (number * 10**20).denominator == 1 else f"{float(number):.20g}"


def _made(found: Range, type_: str, kind: Kind) -> Measured:
    return Measured((), found.value, type_, kind, (), found)
