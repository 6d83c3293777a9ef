"""sqlglot's expressions as the planner's own: the gate every analyst's expression over private rows passes.

Knows: sqlglot's node classes, scopes, the allow-list. Must not know: engines, noise. The dispatch table lists the node classes
that are understood; everything else is refused by name (the default branch is an error). Subqueries and aggregates
are handed to the `EnclosingQuery` of whoever binds, since their meaning depends on the query around them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dpproxy.errors import (
    CANNOT_COERCE,
    DATATYPE_MISMATCH,
    FEATURE_NOT_SUPPORTED,
    INVALID_TEXT_REPRESENTATION,
    STATEMENT_TOO_COMPLEX,
    UNDEFINED_FUNCTION,
    Refusal,
)
from dpproxy.plan.bind import conditions
from dpproxy.plan.bind import special_forms as forms
from dpproxy.plan.bind.conditions import EnclosingQuery, unknown
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.functions import instants, operators, patterns, times
from dpproxy.plan.functions.constant_times import folded, folded_value, read_time
from dpproxy.plan.functions.enumerations import as_enumeration
from dpproxy.plan.functions.operators import NotPlain, coerce, number_literal
from dpproxy.plan.functions.registry import builder, called
from dpproxy.plan.operations.constants import literal
from dpproxy.plan.refusals import CONSTANT, unsupported
from dpproxy.sql.dialect import FaithfulPostgres, copied, ident, position, to_sql
from dpproxy.sql.effort import step
from dpproxy.sql.trees import AGGREGATES
from dpproxy.sql.types import INTEGERS, TEXTS, TIMES, castable, type_length, type_name, wire_type
from dpproxy.table_terms import Enumeration
from dpproxy.tree.expr import FALSE, NULL, TRUE, Case, Cast, Expr, Hole, Lit, Ref

_CONSTANT_FUNCTIONS = {
    "now": "timestamptz", "transaction_timestamp": "timestamptz", "statement_timestamp": "timestamptz",
    "current_timestamp": "timestamptz", "localtimestamp": "timestamp",
}  # fmt: skip
_READING = {"to_date": ("date", "date"), "to_timestamp": ("timestamptz", "timestamp")}
"""Of two strings: constants that BI tools spell so. The type, and the one the facade is asked for."""
_DAYS_FROM_NOW = {"yesterday": -1, "today": 0, "tomorrow": 1}
"""Texts that are days when they are cast to a type of time."""

LARGEST = 5_000
"""Nodes of an expression but literals. Planning looks at each of them about a hundred times."""

_CASTS = "Types to cast to are int, bigint, numeric, float8, text, varchar(n), boolean, date, timestamp, timestamptz, interval."


class ExprBinder:
    """Binds expressions of one query. Raises Refusal with the position of what it does not accept."""

    def __init__(self, query: EnclosingQuery) -> None:
        self.query = query
        self.weighs = False  # columns that devices randomised stand in conditions and aggregates

    def bind(self, node: exp.Expr, scope: Scope) -> Expr:
        return self._bind(node, scope)

    def condition(self, node: exp.Expr, scope: Scope) -> Expr:
        """Bind what WHERE, ON, HAVING and FILTER are given. Raises Refusal 42804 for what is not boolean."""
        return self._boolean(node, scope)

    def _bind(self, node: exp.Expr, scope: Scope) -> Expr:
        step()
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise unknown(node)
        try:
            return _not_too_large(folded_value(folded(handler(self, node, scope))))
        except NotPlain as constant:
            return self._asked(node, constant, scope)
        except Refusal as refusal:
            if refusal.position is None and (at := position(node)) is not None:
                raise Refusal(refusal.sqlstate, refusal.message, at, refusal.detail, refusal.hint, refusal.site) from refusal
            raise

    def _asked(self, node: exp.Expr, constant: NotPlain, scope: Scope) -> Expr:
        """A constant that only PostgreSQL can read. It is `node` itself, or an operand that `node` gave its type."""
        if isinstance(node, exp.Cast) and constant.text.strip().lower() in _DAYS_FROM_NOW and constant.type in TIMES:
            days = Lit("int4", str(_DAYS_FROM_NOW[constant.text.strip().lower()]))
            return folded(Cast(constant.type, operators.plus(self._clock("date"), days)))
        if isinstance(node, exp.Cast | exp.Interval):
            quoted = constant.text.replace("'", "''")
            return self.query.facade_constant(f"('{quoted}'::{constant.type})::{wire_type(constant.type)}", constant.type)
        typed = copied(node)
        bare = [x for x in typed.find_all(exp.Literal) if x.is_string and x.this == constant.text and not _is_cast(x.parent)]
        if not bare:
            raise unknown(node)
        for found in bare:
            found.replace(exp.cast(copied(found), constant.type, dialect=FaithfulPostgres))
        return self._bind(typed, scope)

    # --- leaves

    def _column(self, node: exp.Column, scope: Scope) -> Expr:
        if isinstance(node.this, exp.Star) or node.args.get("db"):
            raise unsupported("a whole row here", "Name its columns.")
        column = scope.resolve(ident(node.args.get("table")), ident(node.this), position(node))
        found = Ref(column.type, column) if self.weighs and column.coin is not None else self.query.column(column)
        if column.type == "timestamptz":
            self.query.zone()
        return found

    def _literal(self, node: exp.Literal, scope: Scope) -> Expr:
        if node.is_string:
            return Lit("unknown", node.this)
        return number_literal(node.this)

    def _parameter(self, node: exp.Parameter | exp.Placeholder, scope: Scope) -> Expr:
        text = node.this.name if isinstance(node.this, exp.Expr) else str(node.this)
        if not text.isdigit():
            raise unknown(node)
        given = self.query.parameter(int(text) - 1)
        if given.type.endswith("[]"):  # as constants it is a list, which has a place in InList alone
            raise unsupported("an array here", "Compare with its elements: x = ANY ($1).")
        return given

    # --- operators

    def _boolean(self, node: exp.Expr, scope: Scope) -> Expr:
        bound = self._bind(node, scope)
        try:
            value = coerce(bound, "bool")
        except NotPlain as constant:
            raise Refusal(
                INVALID_TEXT_REPRESENTATION, f'invalid input syntax for type boolean: "{constant.text}"', position(node)
            ) from None
        if value.type != "bool":
            raise Refusal(DATATYPE_MISMATCH, f"a condition must be of type boolean, not type {value.type}", position(node))
        return value

    def _add(self, node: exp.Add | exp.Sub, scope: Scope) -> Expr:
        a, b = self._bind(node.this, scope), self._bind(node.expression, scope)
        operation = operators.plus if isinstance(node, exp.Add) else operators.minus
        return instants.shifted_instant(operation, a, b, self.zone(a, b))

    def _mul(self, node: exp.Binary, scope: Scope) -> Expr:
        op = {exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}[type(node)]
        a, b = self._bind(node.this, scope), self._bind(node.expression, scope)
        if (
            op == "*"
            and "interval" in (a.type, b.type)
            and not {a.type, b.type} & {*INTEGERS, "unknown"}
            and forms.of_constants_alone(node)
        ):
            return self.query.facade_constant(to_sql(node), "interval")
        return operators.multiply(op, a, b)

    def _pow(self, node: exp.Pow, scope: Scope) -> Expr:
        return called("power", (self._bind(node.this, scope), self._bind(node.expression, scope)))

    def _neg(self, node: exp.Neg, scope: Scope) -> Expr:
        return operators.negate(self._bind(node.this, scope))

    def _concat(self, node: exp.DPipe, scope: Scope) -> Expr:
        return operators.concatenation(self._bind(node.this, scope), self._bind(node.expression, scope))

    # --- special forms

    def _case(self, node: exp.Case, scope: Scope) -> Expr:
        subject = self._bind(node.this, scope) if node.this is not None else None
        tests, results = [], []
        for branch in node.args["ifs"]:
            if subject is not None:
                tests.append(operators.compare("=", subject, self._bind(branch.this, scope)))
            else:
                tests.append(self._boolean(branch.this, scope))
            results.append(self._bind(branch.args["true"], scope))
        default = node.args.get("default")
        other = self._bind(default, scope) if default is not None else None
        type_ = operators.common_type("CASE", [r.type for r in [*results, *([other] if other is not None else [])]])
        whens = tuple((t, coerce(r, type_)) for t, r in zip(tests, results, strict=True))
        return Case(type_, whens, coerce(other, type_) if other is not None else None)

    def _cast(self, node: exp.Cast, scope: Scope) -> Expr:
        target = type_name(node.to)
        enumeration = self.enumeration(node.to) if target is None else None
        if enumeration is not None:
            return as_enumeration(self._bind(node.this, scope), enumeration)
        if target is None or target.endswith("[]"):
            raise unsupported(f"a cast to {to_sql(node.to)}", _CASTS)
        inner = self._bind(node.this, scope)
        length = type_length(node.to)
        if length and target in ("time", *TIMES, "interval"):
            raise unsupported(f"a cast to {to_sql(node.to)}", _CASTS)
        if target == "bpchar":
            raise unsupported("a cast to char(n)", "Use varchar(n): char(n) pads with spaces that comparisons ignore.")
        if isinstance(inner, Lit) and inner.type == "unknown" and not length:
            return operators.typed_literal(target, inner.text)
        if isinstance(inner, Hole) and inner.type == "unknown":
            return Hole(target, inner.index)
        if target == "interval" and inner.type != "interval" and forms.of_constants_alone(node):
            return self.query.facade_constant(to_sql(node), "interval")
        if target == "interval" and inner.type != "interval":
            raise unsupported("an interval that is not a constant", "Use n * interval '1 day', where n is a whole number.")
        if not castable(inner.type, target):
            raise Refusal(CANNOT_COERCE, f"cannot cast type {inner.type} to {target}", position(node))
        if target in ("json", "jsonb", "bytea") or (target == "time" and inner.type not in ("timestamp", "timestamptz", "time")):
            raise unsupported(f"a cast to {target}", _CASTS)
        if isinstance(inner, Lit) and inner.type == "unknown":
            inner = Lit("text", inner.text)
        return Cast(target, inner, length)

    def _extract(self, node: exp.Extract, scope: Scope) -> Expr:
        value = self._bind(node.expression, scope)
        return times.extract(node.this.name, instants.of_instant(node.this.name, value, self.zone(value)))

    def _interval(self, node: exp.Interval, scope: Scope) -> Expr:
        if not isinstance(node.this, exp.Literal):
            raise unsupported("an interval that is not a constant", CONSTANT)
        unit = node.args.get("unit")
        if isinstance(unit, exp.IntervalSpan):
            return self.query.facade_constant(to_sql(node), "interval")
        text = f"{node.this.this} {unit.name if unit is not None else ''}".strip()
        return operators.typed_literal("interval", text)

    def _substring(self, node: exp.Substring, scope: Scope) -> Expr:
        start = node.args.get("start") or exp.Literal.number(1)
        if node.args.get("length") is None and (pattern := self._bind(start, scope)).type in (*TEXTS, "unknown"):
            return patterns.regexp_substring(self._bind(node.this, scope), pattern)
        parts = [node.this, start, node.args.get("length")]
        return called("substring", [self._bind(p, scope) for p in parts if p is not None])

    def _position(self, node: exp.StrPosition, scope: Scope) -> Expr:
        return called("strpos", [self._bind(node.this, scope), self._bind(node.args["substr"], scope)])

    def _trim(self, node: exp.Trim, scope: Scope) -> Expr:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        parts = [node.this, *([node.expression] if node.expression is not None else [])]
        return called(name, [self._bind(p, scope) for p in parts])

    def _if(self, node: exp.If, scope: Scope) -> Expr:
        return called("if", [self._bind(node.args.get(k) or exp.Null(), scope) for k in ("this", "true", "false")])

    def _paren(self, node: exp.Paren, scope: Scope) -> Expr:
        return self._bind(node.this, scope)

    def _subquery(self, node: exp.Subquery, scope: Scope) -> Expr:
        return self.query.scalar_subquery(node.this, scope)

    def _window(self, node: exp.Window, scope: Scope) -> Expr:
        return self.query.window(node, scope)

    def _aggregate_form(self, node: exp.Expr, scope: Scope) -> Expr:
        return self.query.aggregate(node, scope)

    def _now(self, node: exp.Expr, scope: Scope) -> Expr:
        local = "timestamp" if isinstance(node, exp.Localtimestamp) else "timestamptz"
        return self._clock("date" if isinstance(node, exp.CurrentDate) else local)

    def _clock(self, type_: str) -> Expr:
        """The transaction's start: a constant where it is known while planning, else what the facade will say."""
        clock = self.query.clock()
        if clock is None or (clock.day_alone and type_ != "date"):
            return self.query.facade_constant("CURRENT_DATE" if type_ == "date" else "LOCALTIMESTAMP", type_)
        return literal(type_, clock.start, moving=type_ != "date")

    def _function(self, node: exp.Anonymous, scope: Scope) -> Expr:
        name = str(node.this).lower()
        if name in AGGREGATES:
            return self.query.aggregate(node, scope)
        if name in _CONSTANT_FUNCTIONS and not node.expressions:
            return self._clock(_CONSTANT_FUNCTIONS[name])
        if name in _READING and [a.is_string for a in node.expressions] == [True, True]:
            type_, local = _READING[name]
            read = read_time(type_, *(a.this for a in node.expressions))
            return read or self.query.facade_constant(f"({to_sql(node)})::{local}", type_)
        if name in forms.CALLS:
            return forms.CALLS[name](self, node.expressions, scope, name)
        if name == "age" and len(node.expressions) == 1:
            return called(name, [self._clock("date"), self._bind(node.expressions[0], scope)])
        build = builder(name)
        if build is None:
            raise Refusal(
                UNDEFINED_FUNCTION if name not in _KNOWN_UNSAFE else FEATURE_NOT_SUPPORTED,
                f"function {name}() is not allowed below an aggregate over private rows",
                position(node),
                hint=_PARTS if name in _PARTING else "Apply it to the released result, in an outer query.",
            )
        args = [self._bind(a, scope) for a in node.expressions]
        zone = self.zone(*args, made=name in ("to_timestamp", "timezone")) if name in instants.ZONED else None
        return build(args) if zone is None else instants.ZONED[name](args, zone)

    def zone(self, *values: Expr, made: bool = False) -> str | None:
        """Return the session's time zone where one of the values is an instant, or one is made; None is UTC."""
        return self.query.zone() if made or any(v.type == "timestamptz" for v in values) else None

    def enumeration(self, type_: exp.DataType) -> Enumeration | None:
        """Return the enumerated type of a cast; None for another type."""
        return self.query.enumeration(type_)

    def _dot(self, node: exp.Dot, scope: Scope) -> Expr:
        if ident(node.this) == "pg_catalog" and isinstance(node.expression, exp.Anonymous):
            return self._function(node.expression, scope)
        raise unknown(node)


def _not_too_large(expr: Expr) -> Expr:
    """Refuse what is written out more often than analysts write: what a CASE compares, or BETWEEN, stands there several times."""
    if expr.size > LARGEST:
        raise Refusal(
            STATEMENT_TOO_COMPLEX, "this expression is too complex over private tables", hint="Compute part of it in a subquery."
        )
    return expr


def _is_cast(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Cast | exp.Interval)


_PARTING = {"unnest", "string_to_table", "string_to_array", "regexp_split_to_table", "regexp_split_to_array"}
_PARTS = "Say how many parts of a text count, by a separator of one character: unnest((string_to_array(x, ','))[1:10])."
_KNOWN_UNSAFE = {"random", "setseed", "gen_random_uuid", "clock_timestamp", "pg_sleep", "nextval", "row_to_json"}


_Handler = Callable[[ExprBinder, Any, Scope], Expr]
_HANDLERS: dict[type[exp.Expr], _Handler] = {
    exp.Column: ExprBinder._column, exp.Literal: ExprBinder._literal, exp.Parameter: ExprBinder._parameter,
    exp.Placeholder: ExprBinder._parameter, exp.Null: lambda b, n, s: NULL,
    exp.Boolean: lambda b, n, s: TRUE if n.this else FALSE,
    exp.Add: ExprBinder._add, exp.Sub: ExprBinder._add, exp.Mul: ExprBinder._mul, exp.Div: ExprBinder._mul,
    exp.Mod: ExprBinder._mul, exp.Pow: ExprBinder._pow, exp.Neg: ExprBinder._neg, exp.DPipe: ExprBinder._concat,
    exp.Case: ExprBinder._case, exp.Cast: ExprBinder._cast, exp.Extract: ExprBinder._extract,
    exp.Interval: ExprBinder._interval, exp.Substring: ExprBinder._substring, exp.StrPosition: ExprBinder._position,
    exp.Trim: ExprBinder._trim, exp.If: ExprBinder._if,
    exp.Paren: ExprBinder._paren, exp.Subquery: ExprBinder._subquery, exp.Window: ExprBinder._window,
    exp.Filter: ExprBinder._aggregate_form, exp.WithinGroup: ExprBinder._aggregate_form,
    exp.GroupConcat: ExprBinder._aggregate_form, exp.CurrentDate: ExprBinder._now,
    exp.CurrentTimestamp: ExprBinder._now, exp.Localtimestamp: ExprBinder._now,
    exp.Anonymous: ExprBinder._function, exp.Dot: ExprBinder._dot,
    **conditions.HANDLERS, **forms.HANDLERS,
}  # fmt: skip
