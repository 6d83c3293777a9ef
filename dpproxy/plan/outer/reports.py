"""A SELECT over reports of devices, rewritten for the facade: plain keys and candidates, and estimates over devices.

Knows: sqlglot trees, bound expressions, claims. Must not know: engines, how an estimate is computed. It is rewritten as a
measured SELECT is, but that columns are estimates of a `Reading`: nothing is bounded, and nothing is charged. What its aggregates
ask is said in `report_aggregates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from fractions import Fraction
from math import prod

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.local.claims import Binary, CountMean, Direct, Hadamard, Hashed, Levels, Plane, Unary
from dpproxy.plan.bind import reported
from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.results import ReleasedResult
from dpproxy.plan.bind.scope import Scope, resolve_group_item
from dpproxy.plan.bind.tables import scan_table
from dpproxy.plan.intervals.writer import MANY_GROUPS, IntervalWriter
from dpproxy.plan.known_tables import Env
from dpproxy.plan.measure.request import Drafted
from dpproxy.plan.outer.measured_select import SelectRewriter
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.outer.report_aggregates import Asked, ReportAggregates, ReportKeys
from dpproxy.plan.outer.report_weights import tried, weights
from dpproxy.plan.outer.staged_rows import array_source, with_columns
from dpproxy.plan.properties.fanout import repeated
from dpproxy.policy.model import ReleasedList
from dpproxy.privacy.measurement import Key
from dpproxy.privacy.noise_error import each, normal_point
from dpproxy.privacy.readings import NO_ESTIMATE, SPREAD, Ends, Reading, ReportCell
from dpproxy.sql.dialect import position
from dpproxy.sql.grouping_sets import grouping_sets
from dpproxy.sql.template import Template
from dpproxy.sql.trees import is_aggregate
from dpproxy.tree.expr import Agg, Call, Expr, Ref, Relation, conjunction
from dpproxy.tree.measured import CandidateList, ReadingQuery, ReportGroups, ReportTotal
from dpproxy.tree.relation import Filter, RandomisedColumn, Reported, Rows

ESTIMATED = (Binary, Direct, Unary, Levels, Plane, Hashed, CountMean, Hadamard)
"""Mechanisms whose reports support candidates. Numbers of other makes and parts of words do not."""


class ReportSelect(ReportAggregates, SelectRewriter):
    """Rewrites one SELECT over reports."""

    def __init__(self, queries: Queries, registry: Registry, select: exp.Select, rows: Rows, scope: Scope, env: Env) -> None:
        super().__init__(queries, registry, select, rows, scope, env)
        assert rows.reports is not None
        self.reports, self.asked = rows.reports, Asked()
        policy = queries.context.policy.tables[rows.reports.table]
        assert policy.reports is not None
        self.rules = policy.reports
        self._how = {c: how for c in rows.reports.columns if (how := policy.columns[c.name].randomised) is not None}
        self._keys = ReportKeys(self.request, self.binder, scope, self._labels, self.alias, "device")
        self._keys.reports = rows.reports
        self.interval_writer = IntervalWriter(
            self.alias, self._measured, is_aggregate, self._rewrite, lambda _: False, self._ends, all_groups=False
        )

    def _agg(self, node: exp.Expr) -> Agg:
        return SelectRewriter._agg(self, node)

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
        vectors = [c for c, how in self._how.items() if any(claim.space.form == "bits" for _, claim in how.claims)]
        for column in (*grouped, *vectors):  # of vectors' cells it is known by their number alone which count reports
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
        if repeated(self.rows, [key for _, key in keys]) != 1:
            raise reported.repeats(self.reports.table.name, position(self.select))
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
