"""Subqueries inside expressions over rows (PRIVACY.md section 2), and what else an expression asks of the query around it.

Knows: which subqueries keep rows one unit's own. Must not know: engines, noise. [NOT] IN / EXISTS over public tables are always
row-wise; over private rows only when correlated by the unit id, which is made part of the generated condition. A
scalar subquery is one unit's own aggregate, a public one, or a released one (staged: released first, then a constant).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, GROUPING_ERROR, SYNTAX_ERROR, Refusal
from dpproxy.plan.bind import joins, reported
from dpproxy.plan.bind.calls import bind_aggregate, by_label
from dpproxy.plan.bind.decorrelation import lookup
from dpproxy.plan.bind.expressions import ExprBinder
from dpproxy.plan.bind.group_facts import equal_ids, lift_aggregates
from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.results import Item, ReleasedResult, RowsResult
from dpproxy.plan.bind.scope import Scope, reading
from dpproxy.plan.bind.tables import canonical_key, reach_unit
from dpproxy.plan.bind.windows import bind_window
from dpproxy.plan.context import Clock, Counter
from dpproxy.plan.functions import operators, time_zones
from dpproxy.plan.known_tables import Env
from dpproxy.plan.properties.equivalence import EquivalenceClasses, equalities
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.refusals import NoMember, unsupported, unsupported_form
from dpproxy.sql.capture import mark_outer
from dpproxy.sql.dialect import copied, position, to_sql
from dpproxy.sql.skeleton import as_rows
from dpproxy.sql.trees import contains_aggregate, only_counts
from dpproxy.sql.types import NUMBERS, TEXTS, TIMES
from dpproxy.table_terms import Enumeration
from dpproxy.tree.expr import (
    Agg,
    Call,
    Case,
    Column,
    Exists,
    Expr,
    Hole,
    InList,
    InQuery,
    Lit,
    Ref,
    Scalar,
    Taint,
    conjunction,
    references,
)
from dpproxy.tree.relation import Aggregate, Rows, of_somebody


class Subqueries:
    """`rows` are those the expression is evaluated over; None where no unit is in scope yet (ON conditions)."""

    def __init__(self, queries: Queries, env: Env, rows: Rows | None, aggregates: bool = False) -> None:
        self.queries, self.env, self.rows = queries, env, rows
        self._aggregates = aggregates
        self.binder = ExprBinder(self)

    def column(self, column: Column) -> Ref:
        found = reading(column)
        return self.rows.reports.as_declared(found) if self.rows is not None and self.rows.reports is not None else found

    # --- constants

    def parameter(self, index: int) -> Expr:
        types = self.queries.context.parameters
        return Hole(types[index] if index < len(types) else "unknown", index)

    def zone(self) -> str | None:
        return time_zones.checked_zone(self.queries.context.settings.zone)

    def clock(self) -> Clock | None:
        return self.queries.context.settings.clock

    def enumeration(self, type_: exp.DataType) -> Enumeration | None:
        return self.queries.context.enumeration(type_)

    def facade_constant(self, sql: str, type_: str) -> Expr:
        return self.queries.measurer.constant(sql, type_)

    # --- subqueries

    def scalar_subquery(self, query: exp.Expr, scope: Scope) -> Expr:
        simple = self._single_aggregate(query, scope)
        if simple is not None:
            return simple
        copy = copied(query)
        if self._refers(copy):
            return self._looked_up(query, copy, scope)
        text = to_sql(query)
        for env, hole in self.queries.scalars.get(text, ()):  # an aggregate's argument is bound more than once
            if env.keys() == self.env.keys() and all(cte is self.env[name] for name, cte in env.items()):
                return hole
        result = self.queries.bind(copied(query), self.env)
        if isinstance(result, RowsResult):
            raise self._not_aggregate(query)
        found = self.queries.measurer.scalar(result, self.env)
        self.queries.scalars.setdefault(text, []).append((self.env, found))
        return found

    def _refers(self, query: exp.Expr) -> bool:
        """Whether it names columns of the queries around it, which are marked."""
        return mark_outer(query, lambda table: self.queries.tables.columns_of(table, self.env))

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
        result = self.queries.bind(grouped, self.env)
        if isinstance(result, RowsResult):
            raise self._uncorrelated(query)
        tree = exp.Subquery(this=result.tree)
        item = self.queries.measurer.rows(Item("", None, (), tree), result.tree, self.env)
        assert item.rows is not None
        value, *keys = item.columns
        tests = tuple(
            operators.compare("=", Ref(key.type, key), self.binder.bind(other, scope))
            for key, (_, other) in zip(keys, pairs, strict=True)
        )
        rows = joins.filtered(item.rows, conjunction(tests))
        only = _scalar(rows, Agg(value.type, "max", (Ref(value.type, value),), False, None), self.queries.counter)
        return Call(value.type, "coalesce", (only, Lit(value.type, "0"))) if only_counts(query) else only

    def _single_aggregate(self, query: exp.Expr, scope: Scope) -> Expr | None:
        """`(SELECT aggregate FROM ...)` of public rows, or of private rows of the same unit; None for other queries."""
        if not isinstance(query, exp.Select) or len(query.expressions) != 1 or query.args.get("group"):
            return None
        if any(query.args.get(k) for k in ("having", "order", "limit", "offset", "distinct", "with_")):
            return None
        projection = query.expressions[0].unalias()
        aggregated = contains_aggregate(projection)
        copy = copied(query)
        if not aggregated and not self._refers(copy):
            return None
        if not aggregated and query.args.get("from_") is None and query.args.get("where") is None:
            return self.binder.bind(projection, scope)  # of the row around it
        items = self.queries.from_items(copy, self.env, scope)
        private = any(i.private for i in items)
        rows, inner = self.queries.joined(copy, items, self.env, scope)
        where = copy.args.get("where")
        binder = self.queries.expressions(self.env, rows, aggregates=True)
        if where is not None:
            rows = joins.filtered(rows, binder.condition(where.this, inner))
        if private and not self._correlated(rows):
            key = self._correlated_key(rows)
            if key is None:
                return None
            rows = joins.filtered(rows, key)
        if private and not aggregated and not self._one_row(rows):
            return None
        value = binder.bind(copy.expressions[0].unalias(), inner)
        if not aggregated:  # one row, or PostgreSQL would raise
            value = _only_value(value)
        return _scalar(rows, value, self.queries.counter)

    def _one_row(self, inner: Rows) -> bool:
        """Whether at most one of the rows is the unit's, or has the key that the row around it names."""
        columns = {c.id for c in inner.node.columns}
        pairs = [(a.id, b.id) for one, other in equalities(inner.conditions) for a, b in ((one, other), (other, one))]
        return inner.one or any(a in inner.unique and b not in columns for a, b in pairs)

    def _correlated(self, inner: Rows) -> bool:
        """Whether the inner rows' unit is made equal to the outer unit by a top-level conjunct."""
        outer = self.rows
        if outer is None or outer.unit is None or inner.unit is None:
            return False
        classes = EquivalenceClasses(equalities([*inner.conditions, *outer.conditions]))
        return classes.find(inner.unit.id) == classes.find(outer.unit.id)

    def in_subquery(self, args: tuple[Expr, ...], query: exp.Expr, negated: bool, scope: Scope) -> Expr:
        query = as_rows(query)
        listed = self._listed_in(args, query)
        if listed is not None:
            return InList("bool", args[0], (listed,), negated)
        result = self.queries.bind(copied(query), self.env, scope, want_rows=True)
        if isinstance(result, ReleasedResult):
            result = self._released_in(query)
        if len(result.columns) != len(args):
            raise Refusal(SYNTAX_ERROR, "subquery has too many or too few columns", position(query))
        rows = reach_unit(result.rows, self.queries.context, self.queries.counter)
        reported.check_inside(rows, query)
        if rows.unit is not None:  # one NULL of rows of nobody would decide every unit's NOT IN
            rows = rows.fewer(of_somebody(rows.node, rows.unit))
        left, right = list(args), [*map(reading, result.columns)]
        pairs = [operators.compare("=", a, b) for a, b in zip(left, right, strict=True)]
        left = [p.args[0] for p in pairs if isinstance(p, Call)]
        fixing = self._same_unit(left, right, rows) if rows.unit is not None else None
        alone = rows.unit is not None and not self._correlated(rows)
        if alone and fixing is None:
            raise NoMember(self._uncorrelated(query))
        own = rows.unit is not None and self._own(left, right, rows)
        if alone and rows.unit is not None and self.rows is not None and self.rows.unit is not None:
            left.append(Ref(self.rows.unit.type, self.rows.unit))
            right.append(Ref(rows.unit.type, rows.unit))
        if len(left) > 1 and _looks_outside(rows):
            raise NoMember(unsupported("(a, b) IN a subquery that refers to the query around it", "Use EXISTS."))
        found = InQuery("bool", tuple(left), rows.node, tuple(right), negated, own)
        if not alone or fixing is None or not fixing.optional:
            return found
        # NULL is neither in a list nor not in it; beside the unit's id it would be found missing
        missing = Call("bool", "is_null", (Ref(fixing.type, fixing),))
        return Case("bool", ((missing, Lit("bool", None)),), found)

    def _listed_in(self, args: tuple[Expr, ...], query: exp.Expr) -> Expr | None:
        """The values of a public or released query that a column of reports is compared with: no row is read by these. None for
        anything else."""
        whose = self.rows.reports if self.rows is not None else None
        if (
            whose is None
            or len(args) != 1
            or args[0].type not in TEXTS
            or not whose.named(args[0])
            or self._refers(copied(query))
        ):
            return None
        result = self.queries.bind(copied(query), self.env)
        return self.queries.measurer.values(result, self.env) if isinstance(result, ReleasedResult) else None

    def _released_in(self, query: exp.Expr) -> RowsResult:
        """`x IN (released query)`: the facade computes its rows first."""
        result = self.queries.bind(copied(query), self.env)
        if isinstance(result, RowsResult):
            raise unsupported("IN (subquery) of this form", "Use EXISTS (SELECT 1 FROM ... WHERE inner.x = outer.x), or a join.")
        item = self.queries.measurer.rows(Item("", None, (), exp.Subquery(this=result.tree)), result.tree, self.env)
        assert item.rows is not None
        return RowsResult(item.rows, item.columns)

    def _own(self, left: list[Expr], right: list[Ref], inner: Rows) -> bool:
        """Whether what identifies on the left is compared with ids and keys of tables alone: of the same unit, that is."""
        keys = inner.determinants | ({inner.unit.id} if inner.unit is not None else set())
        return all(
            facts(a).taint == Taint.NONE or (isinstance(a, Ref) and b.column.id in keys) for a, b in zip(left, right, strict=True)
        )

    def _same_unit(self, left: list[Expr], right: list[Ref], inner: Rows) -> Column | None:
        """The column of the compared pairs that is a unit id, or a key that fixes the unit on both sides.

        It decides whether the query means what it says, never whose rows are compared: the unit ids are compared as well, in the
        generated SQL (`in_subquery`, `_correlated_key`). So it harms nobody where an outer join left the column NULL: such a
        row has its unit all the same.
        """
        outer = self.rows
        if outer is None or outer.unit is None:
            return None
        found = []
        for a, b in zip(left, right, strict=True):
            if not isinstance(a, Ref):
                continue
            outer_keys = outer.determinants | {outer.unit.id} | equal_ids(outer)
            inner_keys = inner.determinants | ({inner.unit.id} if inner.unit is not None else set())
            if a.column.id in outer_keys and b.column.id in inner_keys and self._same_key(a.column, b.column, outer, inner):
                found.append(a.column)
        return min(found, key=lambda column: column.optional, default=None)

    def _same_key(self, a: Column, b: Column, outer: Rows, inner: Rows) -> bool:
        if a.taint == b.taint and a.taint.name == "UNIT":
            return True
        context = self.queries.context
        origin = {c.id: (t, n) for r in (outer, inner) for t, c, n in (*r.identity.origins, *r.identity.tables)}
        if a.id not in origin or b.id not in origin:
            return a.name == b.name
        return canonical_key(*origin[a.id], context) == canonical_key(*origin[b.id], context)

    def exists(self, query: exp.Expr, negated: bool, scope: Scope) -> Expr:
        return Exists("bool", self._own_rows(query, "EXISTS", scope).node, negated)

    def quantified(self, op: str, value: Expr, query: exp.Expr, every: bool, scope: Scope, *, known: bool = False) -> Expr:
        """Tell whether some row has a value for which `value op it` is true; of ALL, whether none has one for which it is not.
        Unknown is false, which is enough where it decides; unless `known`, where a row of NULL makes it NULL."""

        def some(test: str) -> Expr:
            word = "ALL" if every else "ANY"
            found = self._own_rows(query, word, scope, lambda item: Call("bool", test, (operators.compare(op, value, item),)))
            return Exists("bool", found.node, False)

        if not known:
            return Call("bool", "not", (some("is_not_true"),)) if every else some("is_true")
        decided = (some("is_false"), Lit("bool", "false")) if every else (some("is_true"), Lit("bool", "true"))
        return Case("bool", (decided, (some("is_null"), Lit("bool", None))), Lit("bool", "true" if every else "false"))

    def _own_rows(self, query: exp.Expr, word: str, scope: Scope, test: Callable[[Expr], Expr] | None = None) -> Rows:
        """The rows of a subquery that belong to the unit of the row around it, or to nobody, and pass a test of its only
        output."""
        inner_query = query.unnest() if isinstance(query, exp.Subquery) else query
        if not isinstance(inner_query, exp.Select):
            raise unsupported(f"{word} of this query", "Use EXISTS (SELECT 1 FROM ... WHERE inner.x = outer.x), or a join.")
        copy = copied(inner_query)
        aggregated = any(map(contains_aggregate, copy.expressions))
        if aggregated or any(copy.args.get(k) for k in ("group", "having", "limit", "offset", "with_")):
            raise unsupported_form(
                f"{word} of a query with aggregates, GROUP BY, HAVING or LIMIT",
                f"Use plain rows in {word}, or let HAVING stand in a subquery that is grouped by the unit's id.",
            )
        items = self.queries.from_items(copy, self.env, scope)
        rows, inner = self.queries.joined(copy, items, self.env, scope)
        where = copy.args.get("where")
        if where is not None:
            binder = self.queries.expressions(self.env, rows)
            rows = joins.filtered(rows, binder.condition(where.this, inner))
        rows = reach_unit(rows, self.queries.context, self.queries.counter)
        reported.check_inside(rows, query)
        if rows.unit is not None and not self._correlated(rows):
            key = self._correlated_key(rows)
            if key is None:
                raise self._uncorrelated(query)
            rows = joins.filtered(rows, key)
        if test is None:
            return rows
        if len(copy.expressions) != 1:
            raise Refusal(SYNTAX_ERROR, "subquery has too many columns", position(query))
        output = self.queries.expressions(self.env, rows).bind(copy.expressions[0].unalias(), inner)
        return joins.filtered(rows, test(output))

    def _correlated_key(self, inner: Rows) -> Expr | None:
        """Correlation by a key that fixes the unit on both sides: the unit ids are equal too, and are made so."""
        outer = self.rows
        if outer is None or outer.unit is None or inner.unit is None:
            return None
        for a, b in equalities(inner.conditions):
            for x, y in ((a, b), (b, a)):
                if self._same_unit([Ref(x.type, x)], [Ref(y.type, y)], inner) is not None:
                    return Call("bool", "=", (Ref(inner.unit.type, inner.unit), Ref(outer.unit.type, outer.unit)))
        return None

    def _uncorrelated(self, query: exp.Expr) -> Refusal:
        policy = self.queries.context.policy
        return Refusal(
            FEATURE_NOT_SUPPORTED,
            f"a subquery over private rows may only read rows of the same {policy.unit_name} as the row it is compared with",
            position(query),
            hint=f"Correlate it: ... WHERE inner.{policy.unit_column} = outer.{policy.unit_column}, "
            f"or {policy.unit_column} IN (SELECT {policy.unit_column} ...).",
        )

    # --- aggregates and windows of one unit

    def aggregate(self, node: exp.Expr, scope: Scope) -> Expr:
        if not self._aggregates:
            raise Refusal(GROUPING_ERROR, "aggregate functions are not allowed here", position(node))
        return by_label(bind_aggregate(self.binder, node, scope, per_unit=True))

    def window(self, node: exp.Window, scope: Scope) -> Expr:
        return bind_window(self.queries.context, self.binder, node, scope, self.rows)


def _only_value(value: Expr) -> Agg:
    """The value of the one row there is."""
    if value.type not in (*NUMBERS, *TEXTS, *TIMES, "bool"):
        raise unsupported(f"a subquery's only {value.type}", "Join its table instead.")
    return Agg(value.type, "bool_or" if value.type == "bool" else "max", (value,), False, None)


def _looks_outside(inner: Rows) -> bool:
    """Whether a subquery's conditions name columns of the query around it: DuckDB has no such IN of several columns."""
    mine = {c.id for c in inner.node.columns}
    return any(c.id not in mine for e in inner.conditions for c in references(e))


def _scalar(rows: Rows, value: Expr, counter: Counter) -> Expr:
    """A scalar subquery of one aggregate row: the aggregates become a relation of their own."""
    aggs, lifted = lift_aggregates([value], rows, counter)
    node = Aggregate(tuple(c for c, _ in aggs), rows.node, (), tuple(a for _, a in aggs))
    return Scalar(value.type, node, lifted[0])
