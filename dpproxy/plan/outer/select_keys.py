"""The keys of one measured SELECT: expressions of its rows that become columns of the released arrays.

Knows: sqlglot trees, how expressions of rows are bound, what is measured. Must not know: aggregates, engines, noise. Whatever is
shown of a group is a key, or made of keys and aggregates: an expression is a key by what it is bound to, not by how it is
written, but for subqueries, of which no two bindings are equal.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.errors import INSUFFICIENT_PRIVILEGE, PROGRAM_LIMIT_EXCEEDED, Refusal
from dpproxy.local.claims import Binary
from dpproxy.plan.bind import reported
from dpproxy.plan.bind.expressions import ExprBinder
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.functions.operators import coerce
from dpproxy.plan.measure.request import MeasurementRequest
from dpproxy.plan.properties.facts import facts
from dpproxy.sql.dialect import position, to_sql
from dpproxy.sql.output_names import output_name
from dpproxy.sql.skeleton import parse_expression
from dpproxy.sql.trees import aggregate_calls, is_aggregate
from dpproxy.sql.types import FLOATS, TEXTS
from dpproxy.table_terms import Enumeration, spelled_type
from dpproxy.tree.expr import Cast, Column, Expr, Ref, Taint, references

# What keys and aggregates are called in notices and in EXPLAIN: as the analyst wrote them.
#
# Knows: trees, the names of a SELECT's outputs. Must not know: measurements, noise. A statement may have been written another
# way before it was bound (`plan.rewrite`, `sql.person_aggregates`): then columns of ours stand in it, which say nothing to the
# analyst. What holds such a name is called by the output that it is returned in.


_OURS = "dpproxy_"
_ELSEWHERE = "a computed expression"


class Labels:
    """The labels of one SELECT, whose outputs are seen before they are rewritten."""

    def __init__(self, select: exp.Select) -> None:
        self._outputs: dict[str, str] = {}
        for item in select.expressions:
            if any(map(_ours, item.walk())):
                for node in (item.unalias().unnest(), *aggregate_calls(item), *item.find_all(exp.Column)):
                    self._outputs.setdefault(to_sql(node), output_name(item))

    def of(self, node: exp.Expr) -> str:
        text = to_sql(node if isinstance(node, exp.Subquery) else node.unnest())
        return text if _OURS not in text else self._outputs.get(text, _ELSEWHERE)


def _ours(node: exp.Expr) -> bool:
    return isinstance(node, exp.Identifier | exp.Anonymous) and str(node.this).startswith(_OURS)


MAX_KEYS = 64  # of one query's groups: the widest dashboards have ten
BOTH = "Count both: count(*) FILTER (WHERE x) AS yes, count(*) FILTER (WHERE NOT x) AS no."
EACH = "Count each value: count(*) FILTER (WHERE x = 'a')."
_NO_KEYS = (exp.Literal, exp.Star, exp.Null, exp.Boolean, exp.DataType, exp.Identifier)


class SelectKeys:
    """Adds keys to the request, and finds them again. `alias`: of the released rows; `unit`: what the policy calls one."""

    def __init__(
        self, request: MeasurementRequest, binder: ExprBinder, scope: Scope, labels: Labels, alias: str, unit: str
    ) -> None:
        self._request, self._binder, self._scope, self._labels = request, binder, scope, labels
        self._alias, self._unit = alias, unit
        self._texts: dict[str, int] = {}
        self.answers: Column | None = None  # a column that devices randomised, each of whose true values is a group

    def of_group(self, node: exp.Expr) -> int | None:
        """Return the number of a key that is grouped by; None for a constant text, which makes no groups, and for the true
        values of a column that devices randomised, which all are. Raises Refusal."""
        if isinstance(node, exp.Literal) and node.is_string:
            return None
        bound = self._binder.bind(node, self._scope)
        if isinstance(bound, Ref) and self._answered(bound.column) and self.answers in (None, bound.column):
            self.answers = bound.column
            return None
        return self.index(bound, node)

    def index(self, expr: Expr, node: exp.Expr) -> int:
        """Return the number of a key, which is one from now on. Raises Refusal.

        The text of a fraction is the key that the fraction is: the facade writes it of what is released, as engines would not.
        """
        expr = coerce(expr, "text")
        if isinstance(expr, Cast) and expr.type in TEXTS and expr.arg.type in FLOATS and not expr.length:
            expr = expr.arg
        asked_for = self._request.key(expr)
        if asked_for is not None:
            return asked_for
        for column in reported.coins(expr):
            use = "of yes or no it is a key, as it is, and the only one of such"
            raise reported.randomised(column.name, use, BOTH if self._answered(column) else EACH, position(node))
        known = facts(expr)
        if known.taint != Taint.NONE:
            raise self.identifying(expr, node)
        if len(self._request.keys) == MAX_KEYS:
            told = f"this query groups by more than {MAX_KEYS} keys"
            raise Refusal(PROGRAM_LIMIT_EXCEEDED, told, position(node), hint="Group by fewer.")
        index = self._request.add_key(self._labels.of(node), expr)
        self._texts[to_sql(node)] = index
        return index

    def identifying(self, expr: Expr, node: exp.Expr) -> Refusal:
        """Return what is said of a key that tells units or records apart."""
        columns = ", ".join(c.name for c in references(expr) if c.taint != Taint.NONE)
        return Refusal(
            INSUFFICIENT_PRIVILEGE,
            f"`{columns}` identifies a single {self._unit} or record and cannot be shown or grouped by",
            position(node),
            hint=f"Count it, count(DISTINCT {columns}), or group by the {self._unit} in a subquery and aggregate that.",
        )

    def matched(self, node: exp.Expr) -> exp.Expr | None:
        """Return the released column of the key that this expression is; None where it is no key."""
        if not (self._request.keys or self.answers) or isinstance(node, _NO_KEYS):
            return None
        if isinstance(node, exp.Subquery | exp.In | exp.Exists) or node.find(exp.Query) is not None:
            return self._same_text(node)  # two bindings of one subquery are not equal
        if node.find(exp.Column) is None or any(is_aggregate(n) for n in node.walk()):
            return None
        try:
            bound = coerce(self._binder.bind(node, self._scope), "text")
        except Refusal:
            return None
        if isinstance(bound, Ref) and self.answers is not None and bound.column == self.answers:
            return parse_expression(self.answer)
        at = self._request.key(bound)
        return None if at is None else self.column(at)

    @staticmethod
    def _answered(column: Column) -> bool:
        return column.coin is not None and isinstance(column.coin.claim, Binary)

    @property
    def answer(self) -> str:
        """The true value that a row is of, where they are groups."""
        return f"{self._alias}_answers.answer"

    def _same_text(self, node: exp.Expr) -> exp.Expr | None:
        index = self._texts.get(to_sql(node))
        return None if index is None else self.column(index)

    def column(self, i: int) -> exp.Expr:
        """Released keys have the type PostgreSQL gives the expression (a truncated date is a local timestamptz)."""
        key = self._request.keys[i][1]
        text = f"{self._alias}.k{i}"
        if key.type == "timestamptz":
            text = f"CAST({text} AS timestamptz)"
        elif isinstance(key.type, Enumeration) and key.type.labels:
            text = f"CAST({text} AS {spelled_type(key.type)})"
        elif key.type == "numeric" and not isinstance(key, Ref):
            text = f"trim_scale({text})"
        return parse_expression(text)
