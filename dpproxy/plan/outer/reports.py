"""A SELECT over reports of devices, rewritten for the facade: plain keys and candidates, and estimates over devices.

Knows: sqlglot trees, bound expressions, claims. Must not know: engines, how an estimate is computed. It is rewritten as a
measured SELECT is, but that columns are estimates of a `Reading`: nothing is bounded, and nothing is charged. What a condition
asks of a randomised column it asks of true values, so WHERE is a FILTER of every aggregate: the reports are all read, and each
candidate weighs what the condition says of it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from math import prod

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.local.claims import Binary, Direct, Hadamard, Hashed, Levels, Plane
from dpproxy.plan.bind import reported
from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.results import ReleasedResult
from dpproxy.plan.bind.scope import Scope, resolve_group_item
from dpproxy.plan.bind.tables import scan_table
from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.intervals.arithmetic import Range
from dpproxy.plan.intervals.writer import MANY_GROUPS, IntervalWriter
from dpproxy.plan.known_tables import Env
from dpproxy.plan.measure.output_weights import Kind
from dpproxy.plan.measure.request import Drafted
from dpproxy.plan.measure.specs import Measured
from dpproxy.plan.outer.measured_select import SelectRewriter
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.outer.report_weights import NotListed, has_holes, tried, weights, without_case
from dpproxy.plan.outer.select_keys import SelectKeys
from dpproxy.plan.outer.staged_rows import array_source, with_columns
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.null_padding import ignores_padding
from dpproxy.policy.model import Randomised, ReleasedList, Value
from dpproxy.privacy.measurement import Key
from dpproxy.privacy.noise_error import each, normal_point
from dpproxy.privacy.readings import NO_ESTIMATE, SPREAD, Ends, Estimate, Later, Listed, Reading, ReportCell, Weights
from dpproxy.sql.dialect import position
from dpproxy.sql.grouping_sets import grouping_sets
from dpproxy.sql.template import Template
from dpproxy.sql.trees import is_aggregate
from dpproxy.sql.types import INTEGERS, NUMBERS
from dpproxy.tree.expr import Agg, Call, Case, Cast, Expr, Ref, Relation, conjunction, conjuncts, references
from dpproxy.tree.measured import CandidateList, ReadingQuery, ReportGroups, ReportTotal, Weighing
from dpproxy.tree.relation import Filter, RandomisedColumn, Reported, Rows

ESTIMATED = (Binary, Direct, Levels, Plane, Hashed, Hadamard)
"""Mechanisms whose reports are integers that support candidates. Bit vectors and numbers of other makes are not."""

MOST_PLAIN = 2**20
"""Of a plain number that is added up: squares of it, of all reports, stay within 64 bits."""

_REVEALING = {
    "min",
    "max",
    "string_agg",
    "array_agg",
    "json_agg",
    "jsonb_agg",
    "bool_or",
    "bool_and",
    "every",
    "any_value",
    "mode",
}


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
class _Asked:
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


class ReportSelect(SelectRewriter):
    """Rewrites one SELECT over reports."""

    def __init__(self, queries: Queries, registry: Registry, select: exp.Select, rows: Rows, scope: Scope, env: Env) -> None:
        super().__init__(queries, registry, select, rows, scope, env)
        assert rows.reports is not None
        self.reports, self.asked = rows.reports, _Asked()
        policy = queries.context.policy.tables[rows.reports.table]
        assert policy.reports is not None
        self.rules = policy.reports
        self._how = {c: how for c in rows.reports.columns if (how := policy.columns[c.name].randomised) is not None}
        self._keys = ReportKeys(self.request, self.binder, scope, self._labels, self.alias, "device")
        self._keys.reports = rows.reports
        self.interval_writer = IntervalWriter(
            self.alias, self._measured, is_aggregate, self._rewrite, lambda _: False, self._ends, all_groups=False
        )
        self._conditions: dict[int, Listed] = {}  # of randomised columns that are keys, which candidates are shown

    def rewritten(self) -> ReleasedResult:
        """Return the SELECT over the released estimates. Raises Refusal."""
        select = self.select
        if len(grouping_sets(select)) > 1:
            raise Refusal(
                FEATURE_NOT_SUPPORTED, "grouping sets of reports are not supported", position(select),
                hint="Ask for each by itself, and put them together by UNION ALL.",
            )  # fmt: skip
        self._counting = ReportTotal(self._times())
        self.asked.total(self._counting)
        grouped = self._grouped(select)
        for column in grouped:
            self.asked.cell(column)
        tree = self.rewrite()
        self.interval_writer.all_groups = False
        if not self.asked.estimates and not self.request.keys:
            raise Refusal(FEATURE_NOT_SUPPORTED, "a query with neither keys nor aggregates", hint="Select count(*).")
        if not self.asked.estimates:
            self.asked.estimate(self._plain(0, "count(*)"))
        tree.set("from_", exp.From(this=self._source()))
        return ReleasedResult(tree, True)

    # --- keys

    def _grouped(self, select: exp.Select) -> list[RandomisedColumn]:
        """The randomised columns that the SELECT groups by, which are refused where it is DISTINCT alone."""
        found = []
        for members in grouping_sets(select):
            for item in members:
                bound = self._bound_key(item)
                found += [c for c in self.reports.columns if isinstance(bound, Ref) and bound.column.id == c.shown.id]
        if select.args.get("distinct") is not None and not any(grouping_sets(select)):
            for node in select.expressions:
                bound = self._bound_key(node.unalias())
                for column in self.reports.named(bound) if bound is not None else ():
                    raise reported.randomised(
                        column.shown.name, "DISTINCT would tell which values were reported",
                        "Count them: SELECT x, count(*) FROM ... GROUP BY x.", position(node),
                    )  # fmt: skip
        return list(dict.fromkeys(found))

    def _bound_key(self, item: exp.Expr) -> Expr | None:
        try:
            return self.binder.bind(resolve_group_item(item, self.select, self.scope), self.scope)
        except Refusal:
            return None

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

    # --- the reading

    def _source(self) -> exp.Expr:
        """The released columns, under the names that formulas use."""
        drafted, ends = self._drafted()
        index = self.registry.read(drafted, [self.request.keys[i][1].type for i in self._released_order()])
        reading = drafted.reading
        types = [(f"k{i}", self.request.keys[i][1].type) for i in self._released_order()]
        types += [(f"u{i}", "int8") for i in range(len(reading.estimates))]
        types += [(f"{side}{n}", "int8") for n in range(len(ends)) for side in ("lo", "hi")]
        types += [(f"sp{i}", "int8") for i in reading.spreads]
        source = array_source("dpproxy_r", self.registry.first_reading_parameter(index), types)
        more = [f"NULLIF(u{i}, {NO_ESTIMATE}) AS b{i}" for i in range(len(reading.estimates))]
        for n, (i, k) in enumerate(ends):
            more += [f"lo{n}::numeric AS g{i}_{k}", f"hi{n}::numeric AS h{i}_{k}", f"GREATEST(lo{n}, hi{n})::numeric AS n{i}_{k}"]
        more += [f"sp{i} / {SPREAD}.0::float8 AS d{i}" for i in reading.spreads]
        more += [f"0.0::float8 AS e{i}" for i in sorted(self.interval_writer.excesses)]
        more += [f"{normal_point(1 - self._failure(1))!r}::float8 AS z"] if self.interval_writer.excesses else []
        return with_columns(source, self.alias, more)

    def _released_order(self) -> list[int]:
        """Keys as they are released: plain ones, then randomised ones as their columns are numbered."""
        own = {self.request.key(Ref(c.shown.type, c.shown)): n for n, c in enumerate(self.asked.cells)}
        plain = [i for i in range(len(self.request.keys)) if i not in own]
        return [*plain, *sorted((i for i in own if i is not None), key=lambda i: own[i])]

    def _failure(self, shares: int) -> Fraction:
        writer, among = self.interval_writer, 1
        if (writer.chosen or writer.chosen_above) and self.request.keys:
            sizes = [self._how[c].claims[-1][1].candidates or MANY_GROUPS for c in self.asked.cells if self._is_grouped(c)]
            among = MANY_GROUPS if len(self.request.keys) > len(sizes) else prod(sizes)
        return (1 - each(Fraction(self.queries.context.settings.confidence))) / (shares * among)

    def _drafted(self) -> tuple[Drafted, list[tuple[int, int]]]:
        asked, order = self.asked, self._released_order()
        keys = [self.request.keys[i] for i in order[: len(order) - sum(map(self._is_grouped, asked.cells))]]
        trees: list[ReadingQuery] = []
        cells = tuple(self._cell(column, trees) for column in asked.cells)
        _check_cells(cells, self.select)
        child, version = self.rows.node, self.reports.version if any(len(c.claims) > 1 for c in cells) else None
        for column in (*(c.stored for c in asked.cells), *((version,) if version is not None else ())):
            child = Filter(child.columns, child, Call("bool", "is_not_null", (Ref(column.type, column),)))
        main = ReportGroups(
            child, tuple(key for _, key in keys), Ref(version.type, version) if version is not None else None,
            tuple(Ref(c.stored.type, c.stored) for c in asked.cells), tuple(asked.totals),
        )  # fmt: skip
        _check_query(main, self.reports, self.select)
        ends = sorted(self.interval_writer.halves)
        texts = map(self.registry.reading_text, (main, *trees))
        spelled = tuple(Template.of(self.queries.context.dialect, text) for text in texts)
        width = len(cells)
        estimates = tuple(replace(e, weights=(*e.weights, *[None] * (width - len(e.weights)))) for e in asked.estimates)
        reading = Reading(
            spelled, tuple(Key(label, key.type) for label, key in keys), cells, estimates, self.rules.at_least,
            tuple(Ends(i, self._failure(k)) for i, k in ends), tuple(sorted(self.interval_writer.deviations)),
        )  # fmt: skip
        return Drafted(reading, (main, *trees), self.reports, tuple(asked.weighings)), ends

    def _cell(self, column: RandomisedColumn, trees: list[ReadingQuery]) -> ReportCell:
        known, shown = self._candidates(column), None
        for _, claim in self._how[column].claims:
            if not isinstance(claim, ESTIMATED):
                raise reported.randomised(
                    column.shown.name, f"reports by `{claim.name}` are not estimated", "Count them by plain columns: count(*).",
                    reported.place(self.select, column.shown.name),
                )  # fmt: skip
        mine = tuple(c for c in self.reports.conditions if self.reports.named(c) == (column,))
        whole, grouped = conjunction(mine), self._is_grouped(column)
        if whole is not None and grouped:
            shown, _ = self._listed(whole, column, self.select)
        listed = self._how[column].values
        spelled_out = self._open(column) and (not grouped or (listed is None and self._names_all(mine, column)))
        if known is None and not spelled_out:
            if not isinstance(listed, ReleasedList):
                raise reported.randomised(
                    column.shown.name, "its values are not listed", "WHERE x IN ('a', 'b'), or a public table of them.",
                    reported.place(self.select, column.shown.name),
                )  # fmt: skip
            trees.append(self._listing(listed))
        values = None if spelled_out else known if known is not None else len(trees)
        return ReportCell(column.shown.name, column.shown.type, self._how[column].claims, values, grouped, shown)

    def _names_all(self, conditions: Sequence[Expr], column: RandomisedColumn) -> bool:
        """Tell whether conditions name all values that are shown."""
        whole = conjunction(tuple(conditions))
        return whole is not None and not weights(tried(whole), column.shown, None)[0].rest

    def _listing(self, listed: ReleasedList) -> CandidateList:
        """The query that lists candidates of a public table, in the order of its key."""
        context = self.queries.context
        everything = replace(context, role=replace(context.role, tables=None))
        rows, _ = scan_table(context.policy.tables[listed.table], everything, self.queries.counter)
        known = {column.name: column for column in rows.node.columns}
        keys = (
            (listed.order,) if listed.order is not None else context.catalog.tables[listed.table].primary_key or (listed.column,)
        )
        order = tuple(Ref(known[name].type, known[name]) for name in keys)
        return CandidateList(rows.node, Ref(known[listed.column].type, known[listed.column]), order, listed.count)


COMPARE = "Compare it with constants: x = 'a', x IN ('a', 'b'), x <> 'a'; or group by it, and compute around."


def candidates(how: Randomised) -> tuple[str, ...] | None:
    """Return the candidates of a column as texts; None where a public table lists them, or nobody does."""
    claim = how.claims[-1][1]
    if isinstance(claim, Binary):
        return ("false", "true")
    if isinstance(claim, Levels):
        return tuple(_plain_text(number) for number in claim.numbers)
    if isinstance(how.values, tuple):
        return tuple(map(_constant, how.values))
    return None


def _constant(value: Value) -> str:
    """A declared value as PostgreSQL writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)


def _plain_text(number: Fraction) -> str:
    if number.denominator == 1:
        return str(number.numerator)
    digits = 20
    return f"{float(number):.{digits}g}" if (number * 10**digits).denominator != 1 else _decimal(number)


def _decimal(number: Fraction) -> str:
    text = f"{abs(number.numerator) * 10**20 // number.denominator:021d}"
    return ("-" if number < 0 else "") + f"{text[:-20]}.{text[-20:]}".rstrip("0").rstrip(".")


def _check_cells(cells: Sequence[ReportCell], select: exp.Select) -> None:
    """Raise Refusal for columns that are not estimated together."""
    if len(cells) > 2:
        name = cells[2].label
        raise reported.randomised(
            name, "a query is of two such columns at most", "Ask of them in queries of their own.", reported.place(select, name)
        )
    for cell in cells if len(cells) == 2 else ():
        if not all(isinstance(claim, Binary | Direct | Levels) for _, claim in cell.claims):
            use = f"by `{cell.claims[0][1].name}`, which is estimated by itself alone"
            raise reported.randomised(cell.label, use, "Ask of it in a query of its own.", reported.place(select, cell.label))


def _check_query(query: ReportGroups, reports: Reported, select: exp.Select) -> None:
    """Raise Refusal where the backend's query looks at a true value, which nobody has: what made it should have refused it."""
    shown, waiting = {c.shown.id: c.shown.name for c in reports.columns}, list[object]([query])
    while waiting:
        node = waiting.pop()
        if isinstance(node, Ref) and node.column.id in shown:
            name = shown[node.column.id]
            raise reported.randomised(name, "it cannot stand here", reported.OUTSIDE, reported.place(select, name))
        if isinstance(node, tuple):
            waiting.extend(node)
        elif isinstance(node, Expr | Relation | ReportGroups | ReportTotal):
            waiting.extend(getattr(node, part.name) for part in fields(node) if part.name != "columns")


def _made(found: Range, type_: str, kind: Kind) -> Measured:
    return Measured((), found.value, type_, kind, (), found)
