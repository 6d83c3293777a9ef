"""Subqueries, aggregates, windows and constants inside expressions over rows (PRIVACY.md section 2).

Knows: which subqueries keep rows one unit's own. Must not know: engines, noise. [NOT] IN / EXISTS over public tables are always
row-wise; over private rows only when correlated by the unit id, which is made part of the generated condition. A
scalar subquery is one unit's own aggregate, a public one, or a released one (staged: released first, then a constant).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, GROUPING_ERROR, Refusal
from dpproxy.plan import bind_forms as forms
from dpproxy.plan import functions as fn
from dpproxy.plan import joins, moments
from dpproxy.plan.aggregates import per_unit_type
from dpproxy.plan.bind_expr import ExprBinder
from dpproxy.plan.correlated import counts, lookup, mark_outer
from dpproxy.plan.expr import (
    NULL,
    Agg,
    Call,
    Column,
    Exists,
    Expr,
    Hole,
    InQuery,
    Lit,
    Ref,
    Scalar,
    Taint,
    Win,
    conjunction,
    conjuncts,
    rebuilt,
    references,
)
from dpproxy.plan.facts import facts
from dpproxy.plan.fanout import contribution
from dpproxy.plan.functions import unsupported
from dpproxy.plan.query import Analyser
from dpproxy.plan.relation import Aggregate, Rows, of_somebody
from dpproxy.plan.results import Item, ReleasedResult, RowsResult
from dpproxy.plan.scope import Env, Scope
from dpproxy.plan.tables import reach_unit
from dpproxy.plan.trees import contains_aggregate
from dpproxy.sql.dialect import copied, ident, position
from dpproxy.sql.types import NUMBERS

if TYPE_CHECKING:
    from dpproxy.plan.planner import Planner

_WINDOWS = {"row_number", "rank", "dense_rank", "ntile", "lag", "lead", "first_value", "last_value"}
_WINDOW_AGGREGATES = {"count", "sum", "avg", "min", "max"}
_PER_UNIT_AGGREGATES = {"count", "sum", "avg", "min", "max", "bool_or", "bool_and", "every", "stddev", "stddev_samp",
                        "stddev_pop", "variance", "var_samp", "var_pop"}  # fmt: skip
_SUMMING = {"sum", "avg", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"}
_ENGINE_NAMES = {"every": "bool_and", "stddev": "stddev_samp", "variance": "var_samp"}
_FRAMES = {
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
}


_LISTS = {"string_agg", "array_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "xmlagg"}
"""Aggregates that list their values."""
_BY_PLACE = {"row_number", "ntile", "lag", "lead", "first_value", "last_value"}
"""Functions that tell rows of equal rank apart."""
_UNORDERED = {"json", "jsonb", "bytea", "xml"}

_ARGUMENTS = {"count": (0, 99), "mode": (0, 1)} | dict.fromkeys(
    ("sum", "avg", "min", "max", "bool_or", "bool_and", "every", *_ENGINE_NAMES, *moments.SINGLE), (1, 1)
) | dict.fromkeys(moments.PAIRED, (2, 2))  # fmt: skip
_WINDOW_ARGUMENTS = {"row_number": (0, 0), "rank": (0, 0), "dense_rank": (0, 0), "ntile": (1, 1), "lag": (1, 3), "lead": (1, 3),
                     "first_value": (1, 1), "last_value": (1, 1), "count": (0, 1)} | dict.fromkeys(
    ("sum", "avg", "min", "max"), (1, 1))  # fmt: skip
"""How many arguments a call may have, at least and at most."""

Terms = tuple[tuple[Expr, bool, bool], ...]
"""ORDER BY: expression, descending, nulls first."""


class QueryHooks:
    """`rows` are those the expression is evaluated over; None where no unit is in scope yet (ON conditions)."""

    def __init__(self, planner: Planner, analyser: Analyser, env: Env, rows: Rows | None, aggregates: bool = False) -> None:
        self.planner, self.analyser, self.env, self.rows = planner, analyser, env, rows
        self._aggregates = aggregates
        self._binder = ExprBinder(self)

    # --- constants

    def parameter(self, index: int) -> Expr:
        types = self.planner.context.parameters
        return Hole(types[index] if index < len(types) else "unknown", index)

    def instant(self, column: str) -> None:
        zone = self.planner.context.settings.zone
        if zone is not None:
            raise Refusal(
                FEATURE_NOT_SUPPORTED,
                f'column "{column}" is read in UTC below an aggregate, and this session\'s time zone is {zone}',
                hint="SET TimeZone = 'UTC';",
            )

    def facade_constant(self, sql: str, type_: str) -> Expr:
        return self.planner.facade_constant(sql, type_)

    # --- subqueries

    def scalar_subquery(self, query: exp.Expr, scope: Scope) -> Expr:
        simple = self._single_aggregate(query, scope)
        if simple is not None:
            return simple
        copy = copied(query)
        if self._refers(copy):
            return self._looked_up(query, copy, scope)
        result = self.analyser.analyse(copied(query), self.env)
        if isinstance(result, RowsResult):
            raise self._not_aggregate(query)
        return self.planner.released_scalar(result, self.env)

    def _refers(self, query: exp.Expr) -> bool:
        """Whether it names columns of the queries around it, which are marked."""
        return mark_outer(query, lambda table: self.analyser.columns_of(table, self.env))

    @staticmethod
    def _not_aggregate(query: exp.Expr) -> Refusal:
        return Refusal(
            FEATURE_NOT_SUPPORTED,
            "a scalar subquery over private rows must be an aggregate",
            position(query),
            hint="Aggregate in it: (SELECT avg(x) FROM ...), or correlate it by the unit id.",
        )

    def _looked_up(self, query: exp.Expr, marked: exp.Expr, scope: Scope) -> Expr:
        """`(SELECT aggregate FROM ... WHERE inner = outer)` of many units: measured once for all values of `inner`, and looked
        up among what is released. A value that is in no released group has none, or a count of 0."""
        if not any(map(contains_aggregate, marked.expressions)):
            raise self._not_aggregate(query)
        found = lookup(marked)
        if found is None:
            raise self._uncorrelated(query)
        grouped, pairs = found
        result = self.analyser.analyse(grouped, self.env)
        if isinstance(result, RowsResult):
            raise self._uncorrelated(query)
        tree = exp.Subquery(this=result.tree)
        item = self.planner.released_rows(self.analyser, Item("", None, (), tree), result.tree, self.env)
        assert item.rows is not None
        value, *keys = item.columns
        tests = tuple(
            fn.compare("=", Ref(key.type, key), self._binder.bind(other, scope))
            for key, (_, other) in zip(keys, pairs, strict=True)
        )
        rows = joins.filtered(item.rows, conjunction(tests))
        only = _scalar(rows, Agg(value.type, "max", (Ref(value.type, value),), False, None), self.planner)
        return Call(value.type, "coalesce", (only, Lit(value.type, "0"))) if counts(query) else only

    def _single_aggregate(self, query: exp.Expr, scope: Scope) -> Expr | None:
        """`(SELECT aggregate FROM ...)` of public rows, or of private rows of the same unit; None for other queries."""
        if not isinstance(query, exp.Select) or len(query.expressions) != 1 or query.args.get("group"):
            return None
        if any(query.args.get(k) for k in ("having", "order", "limit", "offset", "distinct", "with_")):
            return None
        projection = query.expressions[0].unalias()
        aggregated = contains_aggregate(projection)
        copy = copied(query)
        if not aggregated and (self.analyser.names_private(query, self.env) or not self._refers(copy)):
            return None
        items = self.analyser.from_items(copy, self.env, scope)
        private = any(i.private for i in items)
        rows, inner = self.analyser.joined(copy, items, self.env, scope)
        where = copy.args.get("where")
        hooks = QueryHooks(self.planner, self.analyser, self.env, rows, aggregates=True)
        if where is not None:
            rows = joins.filtered(rows, hooks._binder.condition(where.this, inner))
        if private and not self._correlated(rows):
            return None
        value = hooks._binder.bind(copy.expressions[0].unalias(), inner)
        if not aggregated:  # one public row, or PostgreSQL would raise
            value = Agg(value.type, "max", (value,), False, None)
        return _scalar(rows, value, self.planner)

    def _correlated(self, inner: Rows) -> bool:
        """Whether the inner rows' unit is made equal to the outer unit by a top-level conjunct."""
        outer = self.rows
        if outer is None or outer.unit is None or inner.unit is None:
            return False
        classes = joins._classes(joins._equalities([*inner.conditions, *outer.conditions]))
        return classes.find(inner.unit.id) == classes.find(outer.unit.id)

    def in_subquery(self, args: tuple[Expr, ...], query: exp.Expr, negated: bool, scope: Scope) -> Expr:
        result = self.analyser.analyse(copied(query), self.env, scope, want_rows=True)
        if isinstance(result, ReleasedResult):
            result = self.planner.released_in(self.analyser, query, self.env)
        if len(result.columns) != len(args):
            raise Refusal("42601", "subquery has too many or too few columns", position(query))
        rows = reach_unit(result.rows, self.planner.context, self.planner.counter)
        if rows.unit is not None:  # one NULL of rows of nobody would decide every unit's NOT IN
            rows = replace(rows, node=of_somebody(rows.node, rows.unit))
        left, right = list(args), [Ref(c.type, c) for c in result.columns]
        pairs = [fn.compare("=", a, b) for a, b in zip(left, right, strict=True)]
        left = [p.args[0] for p in pairs if isinstance(p, Call)]
        if rows.unit is not None and not self._same_unit(left, right, rows):
            raise self._uncorrelated(query)
        own = rows.unit is not None and self._own(left, right, rows)
        if rows.unit is not None and self.rows is not None and self.rows.unit is not None and not self._correlated(rows):
            left.append(Ref(self.rows.unit.type, self.rows.unit))
            right.append(Ref(rows.unit.type, rows.unit))
        if len(left) > 1 and _looks_outside(rows):
            raise unsupported("(a, b) IN a subquery that refers to the query around it", "Use EXISTS.")
        return InQuery("bool", tuple(left), rows.node, tuple(right), negated, own)

    def _own(self, left: list[Expr], right: list[Ref], inner: Rows) -> bool:
        """Whether what identifies on the left is compared with ids and keys of tables alone: of the same unit, that is."""
        keys = inner.determinants | ({inner.unit.id} if inner.unit is not None else set())
        return all(
            facts(a).taint == Taint.NONE or (isinstance(a, Ref) and b.column.id in keys) for a, b in zip(left, right, strict=True)
        )

    def _same_unit(self, left: list[Expr], right: list[Ref], inner: Rows) -> bool:
        """The compared pair includes the unit ids, or a key that fixes the unit on both sides."""
        if self._correlated(inner):
            return True
        outer = self.rows
        if outer is None or outer.unit is None:
            return False
        for a, b in zip(left, right, strict=True):
            if not isinstance(a, Ref):
                continue
            outer_keys = outer.determinants | {outer.unit.id} | self._equal_ids(outer)
            inner_keys = inner.determinants | ({inner.unit.id} if inner.unit is not None else set())
            if a.column.id in outer_keys and b.column.id in inner_keys and self._same_key(a.column, b.column, outer, inner):
                return True
        return False

    def _same_key(self, a: Column, b: Column, outer: Rows, inner: Rows) -> bool:
        from dpproxy.plan.tables import canonical_key

        if a.taint == b.taint and a.taint.name == "UNIT":
            return True
        context = self.planner.context
        origin = {c.id: (t, n) for r in (outer, inner) for t, c, n in r.tables}
        if a.id not in origin or b.id not in origin:
            return a.name == b.name
        return canonical_key(*origin[a.id], context) == canonical_key(*origin[b.id], context)

    @staticmethod
    def _equal_ids(rows: Rows) -> set[int]:
        assert rows.unit is not None
        classes = joins._classes(joins._equalities(rows.conditions))
        root = classes.find(rows.unit.id)
        return {c.id for pair in joins._equalities(rows.conditions) for c in pair if classes.find(c.id) == root}

    def exists(self, query: exp.Expr, negated: bool, scope: Scope) -> Expr:
        inner_query = query.unnest() if isinstance(query, exp.Subquery) else query
        if not isinstance(inner_query, exp.Select):
            raise unsupported("EXISTS of this query")
        copy = copied(inner_query)
        if contains_aggregate(copy) or any(copy.args.get(k) for k in ("group", "having", "limit", "offset", "with_")):
            raise unsupported("EXISTS of a query with GROUP BY, HAVING or LIMIT", "Use plain rows in EXISTS.")
        items = self.analyser.from_items(copy, self.env, scope)
        rows, inner = self.analyser.joined(copy, items, self.env, scope)
        where = copy.args.get("where")
        if where is not None:
            hooks = QueryHooks(self.planner, self.analyser, self.env, rows)
            rows = joins.filtered(rows, hooks._binder.condition(where.this, inner))
        rows = reach_unit(rows, self.planner.context, self.planner.counter)
        if rows.unit is not None and not self._correlated(rows):
            key = self._correlated_key(rows)
            if key is None:
                raise self._uncorrelated(query)
            rows = joins.filtered(rows, key)
        return Exists("bool", rows.node, negated)

    def _correlated_key(self, inner: Rows) -> Expr | None:
        """Correlation by a key that fixes the unit on both sides: the unit ids are equal too, and are made so."""
        outer = self.rows
        if outer is None or outer.unit is None or inner.unit is None:
            return None
        for a, b in joins._equalities(inner.conditions):
            for x, y in ((a, b), (b, a)):
                if self._same_unit([Ref(x.type, x)], [Ref(y.type, y)], inner):
                    return Call("bool", "=", (Ref(inner.unit.type, inner.unit), Ref(outer.unit.type, outer.unit)))
        return None

    def _uncorrelated(self, query: exp.Expr) -> Refusal:
        policy = self.planner.context.policy
        return Refusal(
            FEATURE_NOT_SUPPORTED,
            f"a subquery over private rows must concern the same {policy.unit_name} as the row it is tested for",
            position(query),
            hint=f"Correlate it: ... WHERE inner.{policy.unit_column} = outer.{policy.unit_column}, "
            f"or {policy.unit_column} IN (SELECT {policy.unit_column} ...).",
        )

    # --- aggregates and windows of one unit

    def aggregate(self, node: exp.Expr, scope: Scope) -> Expr:
        if not self._aggregates:
            raise Refusal(GROUPING_ERROR, "aggregate functions are not allowed here", position(node))
        return bind_aggregate(self._binder, node, scope, per_unit=True)

    def window(self, node: exp.Window, scope: Scope) -> Expr:
        rows = self.rows
        call = node.this
        name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
        if name not in _WINDOWS | _WINDOW_AGGREGATES or rows is None or rows.unit is None:
            raise unsupported(f"window function {name or type(call).__name__}")
        args = tuple(self._binder.bind(a, scope) for a in call.expressions if not isinstance(a, exp.Star))
        _count_arguments(name, args, _WINDOW_ARGUMENTS, node)
        _check_summed(name, args)
        if name in ("min", "max") and args and args[0].type == "interval":
            raise unsupported(f"{name}() of intervals in a window", "Take it of a number: extract(epoch FROM x).")
        partition = tuple(self._binder.bind(p, scope) for p in node.args.get("partition_by") or ())
        keys = rows.determinants | self._equal_ids(rows) | {rows.unit.id}
        if not any(isinstance(p, Ref) and p.column.id in keys and not p.column.optional for p in partition):
            raise Refusal(
                FEATURE_NOT_SUPPORTED,
                f"a window over private rows must be PARTITION BY the {self.planner.context.policy.unit_name} id",
                position(node),
                hint=f"Add PARTITION BY {self.planner.context.policy.unit_column}, or aggregate first.",
            )
        unit = Ref(rows.unit.type, rows.unit)
        partition = partition if unit in partition else (*partition, unit)
        order, frame = self._order(node.args.get("order"), scope), _frame(node.args.get("spec"))
        return Win(per_unit_type(name, args), name, args, partition, order, frame, contribution(rows, partition).rows)

    def _order(self, order: exp.Expr | None, scope: Scope) -> tuple[tuple[Expr, bool, bool], ...]:
        if order is None:
            return ()
        return tuple(ordering(self._binder, o, scope) for o in order.expressions)


def _looks_outside(inner: Rows) -> bool:
    """Whether a subquery's conditions name columns of the query around it: DuckDB has no such IN of several columns."""
    mine = {c.id for c in inner.node.columns}
    return any(c.id not in mine for e in inner.conditions for c in references(e))


def _check_summed(name: str, args: tuple[Expr, ...]) -> None:
    """Sums, means and deviations are of numbers. Raises Refusal."""
    if name in _SUMMING and not (len(args) == 1 and args[0].type in NUMBERS):
        of = args[0].type if args else "nothing"
        hint = "Take it of a number: extract(epoch FROM x)." if of == "interval" else None
        raise unsupported(f"{name}() of {of} within one unit", hint)


def total_order(order: Terms, rows: Rows) -> Terms:
    """The order with ties broken by all columns: which of two rows is first must not depend on how an engine reads them.

    Then what is made of one unit's rows is a function of these rows, whoever else's rows are there. Columns of tables decide
    before what is computed of them (ids tell): a window over what another window numbered has its rows in the same order.
    """
    first = {term[0] for term in order}
    refs = (Ref(c.type, c) for c in sorted(rows.node.columns, key=lambda c: c.id) if c.usable and c.type not in _UNORDERED)
    more = (e for ref in refs for e in (ref, *_fields(ref)) if e not in first)
    return (*order, *((e, False, False) for e in more))


def _fields(ref: Ref) -> tuple[Expr, ...]:
    """What tells equal intervals apart: 30 days come with a month."""
    return tuple(Call("int8", unit, (ref,)) for unit in ("year", "month", "day")) if ref.type == "interval" else ()


def settled(expr: Expr, rows: Rows) -> Expr:
    """An expression over rows whose windows do not depend on the order of equal rows."""
    if isinstance(expr, Win):
        by_place = expr.name in _BY_PLACE or (expr.frame.startswith("ROWS") and "PRECEDING AND UNBOUNDED" not in expr.frame)
        return replace(expr, order=total_order(expr.order, rows)) if by_place else expr
    return rebuilt(expr, lambda child: settled(child, rows))


def ordering(binder: ExprBinder, node: exp.Expr, scope: Scope) -> tuple[Expr, bool, bool]:
    if not isinstance(node, exp.Ordered):
        return binder.bind(node, scope), False, False
    desc = bool(node.args.get("desc"))
    first = node.args.get("nulls_first")
    return binder.bind(node.this, scope), desc, desc if first is None else bool(first)


def _frame(spec: exp.Expr | None) -> str:
    if spec is None:
        return ""
    ends = []
    for end in ("start", "end"):
        value = spec.args.get(end)
        side = spec.args.get(f"{end}_side") or ""
        text = str(value.name if isinstance(value, exp.Expr) else value or "CURRENT ROW").upper()
        ends.append(f"{text} {side}".strip().upper())
    kind = str(spec.args.get("kind") or "ROWS").upper()
    if not spec.args.get("end"):
        ends[1] = "CURRENT ROW"
    frame = f"{kind} BETWEEN {ends[0]} AND {ends[1]}"
    if frame not in _FRAMES:
        raise unsupported(f"the window frame {frame}")
    return frame


def bind_aggregate(binder: ExprBinder, node: exp.Expr, scope: Scope, per_unit: bool) -> Agg:
    """An aggregate call with FILTER, DISTINCT and WITHIN GROUP. Raises Refusal for forms that are not understood."""
    where: Expr | None = None
    order: tuple[tuple[Expr, bool, bool], ...] = ()
    if isinstance(node, exp.Filter):
        where = binder.condition(node.expression.this, scope)
        node = node.this
    if isinstance(node, exp.WithinGroup):
        order = tuple(ordering(binder, o, scope) for o in node.expression.expressions)
        node = node.this
    if isinstance(node, exp.Dot):
        node = node.expression
    if isinstance(node, exp.GroupConcat):
        return Agg("text", "string_agg", (), False, where)
    if not isinstance(node, exp.Anonymous):
        raise unsupported(type(node).__name__)
    name = str(node.this).lower()
    arguments = list(node.expressions)
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = list(arguments[0].expressions)
    if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        arguments = []
    if name in _LISTS and not per_unit:
        return Agg("text", name, (), distinct, where)  # refused by name, whatever is in it
    if any(isinstance(a, exp.Order) for a in arguments):
        raise unsupported(
            f"ORDER BY inside {name}()", "Number the rows by row_number() OVER (...) and aggregate those of a number."
        )
    fractions: tuple[Fraction, ...] = ()
    if name in ("percentile_cont", "percentile_disc") and order:
        fractions, is_array = _fractions(arguments)
        args: tuple[Expr, ...] = (NULL,) if is_array else ()
        return Agg("float8", name, args, distinct, where, order, fractions)
    fields = forms.row(arguments[0]) if name == "count" and distinct and len(arguments) == 1 else None
    if fields:  # COUNT(DISTINCT (a, b)): rows of values, NULLs among them
        whole = Call("record", "row", tuple(fn.coerce(binder.bind(f, scope), "text") for f in fields))
        return Agg("int8", name, (whole,), distinct, where, order)
    args = tuple(fn.coerce(binder.bind(a, scope), "text") for a in arguments)
    _count_arguments(name, args, _ARGUMENTS, node)
    if per_unit and name not in _PER_UNIT_AGGREGATES:
        raise unsupported(f"{name}() within one unit")
    if per_unit:
        _check_summed(name, args)
        name = _ENGINE_NAMES.get(name, name)
    type_ = per_unit_type(name, args) if name != "mode" else "text"
    return Agg(type_, name, args, distinct, where, order)


def _count_arguments(name: str, args: tuple[Expr, ...], allowed: dict[str, tuple[int, int]], node: exp.Expr) -> None:
    """Raises Refusal 42883, as PostgreSQL does, for a call with too few or too many arguments."""
    least, most = allowed.get(name, (0, len(args)))
    if not least <= len(args) <= most:
        types = ", ".join(a.type for a in args)
        raise Refusal("42883", f"function {name}({types}) does not exist", position(node))


def _fractions(arguments: list[exp.Expr]) -> tuple[tuple[Fraction, ...], bool]:
    """The constant fraction(s) of a percentile, and whether they were an array."""
    if len(arguments) != 1:
        raise unsupported("a percentile of this form")
    node = arguments[0]
    parts = node.expressions if isinstance(node, exp.Array) else [node]
    found = []
    for part in parts:
        part = part.unnest() if isinstance(part, exp.Paren) else part
        if not isinstance(part, exp.Literal) or part.is_string:
            raise unsupported("a percentile fraction that is not a constant")
        found.append(Fraction(part.this))
    if not found:
        raise unsupported("a percentile of this form")
    return tuple(found), isinstance(node, exp.Array)


def _scalar(rows: Rows, value: Expr, planner: Planner) -> Expr:
    """A scalar subquery of one aggregate row: the aggregates become a relation of their own."""
    from dpproxy.plan.select import lift_aggregates

    aggs, lifted = lift_aggregates([value], rows, planner)
    node = Aggregate(tuple(c for c, _ in aggs), rows.node, (), tuple(a for _, a in aggs))
    return Scalar(value.type, node, lifted[0])


__all__ = ["QueryHooks", "bind_aggregate", "conjuncts", "ident", "ordering", "replace"]
