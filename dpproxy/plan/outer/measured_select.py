"""A measured SELECT rewritten for the facade: keys and aggregates become columns of the released arrays.

Knows: sqlglot trees, the measurement's keys and formulas. Must not know: engines, noise. `SELECT f(key), sum(x) ... FROM rows
WHERE ... GROUP BY key HAVING h ORDER BY o LIMIT n` becomes `SELECT f(m.k0), <formula of m.b0> FROM unnest($1::..., ...)
AS m(...) WHERE h ORDER BY o LIMIT n`: FROM, WHERE and GROUP BY vanish, HAVING filters released rows, the rest stays.
"""

from __future__ import annotations

import contextlib
from fractions import Fraction

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, GROUPING_ERROR, Refusal
from dpproxy.plan.bind import reported
from dpproxy.plan.bind.calls import bind_aggregate
from dpproxy.plan.bind.group_facts import unit_ids
from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.scope import Scope, resolve_group_item
from dpproxy.plan.bind.select import has_aggregates
from dpproxy.plan.bind.subqueries import Subqueries
from dpproxy.plan.functions.enumerations import check_ordered
from dpproxy.plan.intervals.calls import interval_call
from dpproxy.plan.intervals.quantile_ends import QuantileEnds
from dpproxy.plan.intervals.reader_choices import chosen_above
from dpproxy.plan.intervals.window_sums import window_sum
from dpproxy.plan.intervals.writer import IntervalWriter
from dpproxy.plan.known_tables import Env
from dpproxy.plan.measure.aggregates import (
    Counted,
    aggregate_output,
    companions,
    measured_aggregate,
    needed_bases,
)
from dpproxy.plan.measure.request import MAX_COLUMNS, MeasurementRequest
from dpproxy.plan.measure.specs import BasisSpec, Measured, TopSpec
from dpproxy.plan.outer import noise_on_top
from dpproxy.plan.outer.query_shapes import AddedUp, chosen_by_values, divided_sums, top_request
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.outer.select_keys import BOTH, Labels, SelectKeys
from dpproxy.plan.outer.staged_rows import note_bound, note_measured
from dpproxy.plan.properties import row_keys
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.null_padding import ignores_padding
from dpproxy.plan.refusals import FormRefusal, unsupported
from dpproxy.sql.capture import outer
from dpproxy.sql.dialect import ident, position, to_sql
from dpproxy.sql.grouping_sets import grouping_sets
from dpproxy.sql.output_names import output_name
from dpproxy.sql.skeleton import parse_expression
from dpproxy.sql.trees import aggregate_calls, function_name, is_aggregate
from dpproxy.sql.types import TEXTS
from dpproxy.table_terms import Enumeration, spelled_type
from dpproxy.tree.expr import (
    Agg,
    Expr,
    Ref,
    Taint,
)
from dpproxy.tree.relation import Rows

MOST_BASES = 6  # of one aggregate: a correlation's
_EXTREMES = dict.fromkeys(("min", "max"), TEXTS) | dict.fromkeys(("bool_or", "bool_and", "every"), ("bool",))
"""Aggregates whose result is one of the values, with the types of these: what few units have is not told."""


class _MeasuredSubqueries(Subqueries):
    """Inside a measured SELECT aggregates stand in the outer query; below, none are allowed."""

    def window(self, node: exp.Window, scope: Scope) -> Expr:
        raise unsupported("a window function inside an aggregate", "Put it in a subquery PARTITION BY the unit id.")


class SelectRewriter:
    """Rewrites one measured SELECT; `request` says what is to be measured for it."""

    def __init__(self, queries: Queries, registry: Registry, select: exp.Select, rows: Rows, scope: Scope, env: Env) -> None:
        self.queries, self.registry, self.select = queries, registry, select
        self.rows, self.scope, self.env = rows, scope, env
        self.request = MeasurementRequest(rows)
        self.binder = _MeasuredSubqueries(queries, env, rows).binder
        self.binder.weighs = True
        self.alias = registry.next_alias()
        self._aggs: dict[int, tuple[exp.Expr, Agg]] = {}
        self.shared: frozenset[Counted] = frozenset()
        self.grouped = False
        self.shares = False  # whether an aggregate of it is read from values that enough units share
        self._labels = Labels(select)
        self._sums = AddedUp(select)
        self._keys = SelectKeys(self.request, self.binder, scope, self._labels, self.alias, queries.context.policy.unit_name)
        self._ends = QuantileEnds(self.request, self.alias, self._labels.of, Fraction(queries.context.settings.confidence))
        self.interval_writer = IntervalWriter(
            self.alias, self._measured, is_aggregate, self._rewrite, self.request.in_steps, self._ends
        )

    # --- rewriting

    def rewrite(self) -> exp.Select:
        select = self.select
        distinct = select.args.get("distinct")
        sets = grouping_sets(select)
        aggregated = bool(select.args.get("group")) or has_aggregates(select)
        self.grouped = any(sets) or not aggregated
        indexes = [[self._keys.of_group(resolve_group_item(i, select, self.scope)) for i in keys] for keys in sets]
        if not aggregated:
            self._expand_stars()
            indexes = [[self._keys.of_group(node.unalias()) for node in select.expressions]]
        self.request.sets = [tuple(dict.fromkeys(i for i in keys if i is not None)) for keys in indexes]
        names = [output_name(n) for n in select.expressions]
        outputs = set(names)
        if not self.request.stepped:  # counts and sums of steps are more exact than those of a mean
            self.shared = companions(self._bound_aggregates(), self.rows.one) | (
                frozenset() if self.rows.one else divided_sums(select, self._bound)
            )
        if self.answers is not None and (len(sets) > 1 or not aggregated):
            name = self._keys.answers.name if self._keys.answers is not None else ""
            raise reported.randomised(name, "it is a key of GROUP BY alone", BOTH, reported.place(select, name))
        self._refuse_wide()
        top = top_request(select, self._bound)
        if top is not None and ((score := self._bound(top.score)) is None or self._weighs(score)):
            top = None  # what chooses them is a count of rows
        if not self._calls():
            reported.check_weighed(self.rows, select)
        self.interval_writer.chosen, self.interval_writer.chosen_above = chosen_by_values(select), chosen_above(select)
        self.interval_writer.all_groups = len(self.request.sets) == 1 and select.args.get("having") is None
        projections = [self._named(self._rewrite(n.unalias()), name) for n, name in zip(select.expressions, names, strict=True)]
        having = select.args.get("having")
        condition = self._rewrite(having.this) if having is not None else None
        if top is not None and len(self.request.sets) == 1 and self.request.sets[0] and not self.queries.context.settings.other:
            self.request.top = TopSpec(top.k, self._measured(top.score)[1][0])
        order = self._order(select.args.get("order"), outputs)
        columns = {self._keys.column(i): i for i in range(len(self.request.keys))}
        self.request.series = self._sums.series(columns, projections, self.request.sets)
        for window in select.args.get("windows") or ():
            self._rewrite_children(window)
        select.set("expressions", projections)
        self._note(select)
        select.set("having", None)
        select.set("group", None)
        select.set("joins", None)
        select.set("where", exp.Where(this=condition) if condition is not None else None)
        select.set("order", order)
        if distinct is not None and not aggregated:
            select.set("distinct", None)  # groups are distinct already
        return select

    def _note(self, select: exp.Select) -> None:
        """Which output is which key: for whoever joins the released rows."""
        columns = {self._keys.column(i): i for i in range(len(self.request.keys))}
        plain = [columns.get(e.unalias()) for e in select.expressions]
        if len(self.request.sets) == 1 and len(plain) == len(select.expressions) and self.answers is None:
            note_measured(select, len(self.request.keys), plain)

    def _bound_aggregates(self) -> list[Agg]:
        """All aggregates of this SELECT, before any is rewritten; what cannot be bound is refused later, in its place."""
        return [agg for node in self._calls() if (agg := self._bound(node)) is not None]

    def _calls(self) -> list[exp.Expr]:
        parts = (*self.select.expressions, self.select.args.get("having"), self.select.args.get("order"))
        return [node for part in parts for node in aggregate_calls(part)]

    def _bound(self, node: exp.Expr) -> Agg | None:
        with contextlib.suppress(Refusal):
            return self._agg(node)
        return None

    def _agg(self, node: exp.Expr) -> Agg:
        """An aggregate call as it is bound, once: it is asked for again and again."""
        if id(node) not in self._aggs:
            self._aggs[id(node)] = node, bind_aggregate(self.binder, node, self.scope, per_unit=False)
        return self._aggs[id(node)][1]

    def _refuse_wide(self) -> None:
        """Refuse more columns than there may be before the work that each is."""
        calls = self._calls()
        if len(calls) * MOST_BASES <= MAX_COLUMNS:
            return
        counted = MeasurementRequest(self.rows)
        for agg in map(self._bound, calls):
            bases: tuple[BasisSpec, ...] = ()
            with contextlib.suppress(Refusal):  # refused in its place
                bases = (
                    needed_bases(agg, self._is_unit, self.shared, self.queries.context.steps, self.request.in_classes(agg))
                    if agg
                    else ()
                )
            for spec in bases:
                counted.basis(spec)

    def _expand_stars(self) -> None:
        expanded: list[exp.Expr] = []
        for node in self.select.expressions:
            star = isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))
            if not star:
                expanded.append(node)
                continue
            table = "" if isinstance(node, exp.Star) else ident(node.args.get("table"))
            expanded += [exp.column(exp.to_identifier(c.name, quoted=True), alias) for alias, c in self.scope.visible(table)]
        self.select.set("expressions", expanded)

    @staticmethod
    def _named(node: exp.Expr, name: str) -> exp.Expr:
        return exp.alias_(node, exp.to_identifier(name, quoted=True), copy=False)

    def _rewrite(self, node: exp.Expr) -> exp.Expr:
        """The expression over the released columns. Raises Refusal for what is neither key nor aggregate."""
        if outer(node):
            return node
        if isinstance(node, exp.Select | exp.SetOperation):
            return self._nested(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if is_aggregate(node):
            return self._aggregate(node)
        if interval_call(node):
            return self.interval_writer.rewritten(node)
        found = self._keys.matched(node)
        if found is not None:
            return found
        if isinstance(node, exp.Column):
            return self._loose_column(node)
        self._rewrite_children(node)
        return node

    def _rewrite_children(self, node: exp.Expr) -> None:
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, self._rewrite(value))
            elif isinstance(value, list):
                node.set(key, [self._rewrite(v) if isinstance(v, exp.Expr) else v for v in value])

    def _nested(self, node: exp.Expr) -> exp.Expr:
        tree = self.queries.nested(node, self.env).tree
        return self._keyed(tree)

    def _keyed(self, node: exp.Expr) -> exp.Expr:
        """What refers to this query from within a subquery, as released keys."""
        columns = list(node.find_all(exp.Column))
        if not any(map(outer, columns)):
            return node
        if all(map(outer, columns)) and not isinstance(node, exp.Query):
            found = self._keys.matched(node)
            if found is not None:
                return found
            if isinstance(node, exp.Column):
                return self._loose_column(node)
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, self._keyed(value))
            elif isinstance(value, list):
                node.set(key, [self._keyed(v) if isinstance(v, exp.Expr) else v for v in value])
        return node

    def _window(self, node: exp.Window) -> exp.Expr:
        """The window function itself stays; aggregates in its arguments, partition and order are released values."""
        call, sums = node.this, window_sum(node)
        inner = call
        while isinstance(inner, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            inner = inner.this
        self._rewrite_children(inner)
        if isinstance(call, exp.Filter):
            call.set("expression", self._rewrite(call.expression))
        for key in ("partition_by", "order", "spec"):
            value = node.args.get(key)
            if isinstance(value, list):
                node.set(key, [self._rewrite(v) for v in value])
            elif isinstance(value, exp.Expr):
                self._rewrite_children(value)
        return self._sums.held(node, id(sums.argument)) if sums is not None else node

    def _loose_column(self, node: exp.Column) -> exp.Expr:
        """A bare column next to aggregates: PostgreSQL accepted it, so it depends on the keys and is one more key."""
        if isinstance(node.this, exp.Star):
            raise Refusal(GROUPING_ERROR, "a whole row cannot be shown next to an aggregate", position(node))
        bound = self.binder.bind(node, self.scope)
        if not self.grouped:
            raise Refusal(
                GROUPING_ERROR,
                f'column "{to_sql(node)}" must appear in the GROUP BY clause or be used in an aggregate function',
                position(node),
            )
        index = self._keys.index(bound, node)
        if len(self.request.sets) == 1:
            (only,) = self.request.sets
            self.request.sets = [only if index in only else (*only, index)]
        return self._keys.column(index)

    def _aggregate(self, node: exp.Expr) -> exp.Expr:
        name = function_name(node)
        if name == "grouping":
            return self._grouping(node)
        if (name in _EXTREMES or isinstance(node, exp.Filter)) and not self._weighs(self._agg(node)):
            shared = self._shared_extreme(node)
            if shared is not None:
                return shared
        result, bases = self._measured(node)
        columns = [f"{self.alias}.b{i}" for i in bases]
        if result.selection is not None:
            columns = [f"{self.alias}.{name}" for name in self.request.selection(result.selection)]
        found = parse_expression(f"({self._sums.formula(node, result).format(*columns)})")
        note_bound(found, result.bound)
        return found

    def _shared_extreme(self, node: exp.Expr) -> exp.Expr | None:
        """MIN or MAX of texts, BOOL_OR and BOOL_AND: of the values that enough units share, a measurement of its own. None for
        others."""
        agg = self._agg(node)
        if agg.name not in _EXTREMES or agg.args[0].type not in _EXTREMES[agg.name] or len(self.request.sets) != 1:
            return None
        if facts(agg.args[0]).taint != Taint.NONE:
            raise self._keys.identifying(agg.args[0], node)
        if agg.name in ("min", "max"):
            check_ordered(agg.args[0].type)
        alias, source = self.registry.shared_values(self.request, agg)
        self.shares = True
        members = self.request.sets[0]
        same = [f"{alias}.k{i} IS NOT DISTINCT FROM {self.alias}.k{key}" for i, key in enumerate(members)]
        where = f" WHERE {' AND '.join(same)}" if same else ""
        value = f"{alias}.k{len(members)}"
        if isinstance(agg.args[0].type, Enumeration):
            value = f"CAST({value} AS {spelled_type(agg.args[0].type)})"
        return parse_expression(f"(SELECT {agg.name}({value}) FROM {to_sql(source)}{where})")

    def _measured(self, node: exp.Expr) -> tuple[Measured, tuple[int, ...]]:
        """An aggregate's formula and its columns, which are measured from now on. Raises Refusal."""
        agg = self._agg(node)
        self._check_padded(agg, node)
        label = self._labels.of(node)
        try:
            context = self.queries.context
            name, steps = context.policy.unit_name, context.steps
            whole = self.request.in_classes(agg)
            if self._keys.answers is not None:
                result = noise_on_top.by_answers(agg, self.rows, self._keys.answers, self._keys.answer, label, node)
            elif self._weighs(agg):
                result = noise_on_top.measured(agg, self.rows, label, node, steps)
            else:
                result = measured_aggregate(agg, label, name, self._is_unit, self.shared, steps, self._is_key, whole)
        except Refusal as refusal:
            raise Refusal(
                refusal.sqlstate, refusal.message, refusal.position or position(node), refusal.detail, refusal.hint
            ) from refusal
        bases = tuple(self.request.basis(spec) for spec in result.bases)
        selection = None
        if result.selection is not None:
            self.request.selection(result.selection)
            selection = self.request.selections.index(result.selection)
        self.request.output(aggregate_output(result, label, bases, selection, agg.where is not None))
        return result, bases

    def _weighs(self, agg: Agg) -> bool:
        """Tell whether reports weigh in an aggregate."""
        return self._keys.answers is not None or noise_on_top.concerns(agg, self.rows)

    @property
    def answers(self) -> exp.Expr | None:
        """The rows that the released ones are joined with, where the true values of a column are groups."""
        table = self._keys.answer.split(".")[0]
        if self._keys.answers is None:
            return None
        found = parse_expression(f"SELECT 1 FROM (VALUES (false), (true)) AS {table}(answer)").args["from_"].this
        assert isinstance(found, exp.Expr)
        return found

    def _is_unit(self, expr: Expr) -> bool:
        """A key that merely determines the unit (an order id) is not the unit: two orders are two values."""
        unit = self.rows.unit
        if not isinstance(expr, Ref) or unit is None or expr.column.id not in unit_ids(self.rows):
            return False
        return expr.column.id == unit.id or expr.column.taint == Taint.UNIT

    def _is_key(self, expr: Expr) -> bool:
        """Distinct values of what tells rows apart are rows."""
        return row_keys.tells_rows_apart(self.rows, expr) or (self.rows.one and self._is_unit(expr))

    def _grouping(self, node: exp.Expr) -> exp.Expr:
        """GROUPING(a, b): a bit for each argument, the last the lowest, set when the row's set leaves it out."""
        terms = []
        for i, argument in enumerate(reversed(node.expressions)):
            bound = self.binder.bind(resolve_group_item(argument, self.select, self.scope), self.scope)
            index = self._keys.index(bound, argument)
            terms.append(f"(({self.alias}.g >> {index}) & 1) * {1 << i}")
        return parse_expression(f"CAST({' + '.join(terms)} AS int4)")

    def _check_padded(self, agg: Agg, node: exp.Expr) -> None:
        if self.rows.padded and not ignores_padding(agg, self.rows.kept):
            aggregate = self._labels.of(node)
            raise FormRefusal(
                FEATURE_NOT_SUPPORTED,
                f"{aggregate} would count the empty rows an outer join adds for groups without private rows",
                position(node),
                hint="Aggregate a column of the private table instead: count(o.order_id).",
            )

    def _order(self, order: exp.Expr | None, outputs: set[str]) -> exp.Expr | None:
        """ORDER BY a bare output name or number stays; expressions are over the released columns."""
        if order is None:
            return None
        for term in order.expressions:
            inner = term.this if isinstance(term, exp.Ordered) else term
            bare = isinstance(inner, exp.Column) and not inner.args.get("table") and ident(inner.this) in outputs
            if bare or isinstance(inner, exp.Literal):
                continue
            if isinstance(term, exp.Ordered):
                term.set("this", self._rewrite(inner))
            else:
                term.replace(self._rewrite(term))
        return order
