"""sqlglot's expressions as the planner's own: the gate every analyst's expression over private rows passes.

Knows: sqlglot's node classes, scopes, the allow-list. Must not know: engines, noise. The dispatch table lists the node classes
that are understood; everything else is refused by name (the default branch is an error). Subqueries and aggregates
are handed to the `EnclosingQuery` of whoever binds, since their meaning depends on the query around them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from dpproxy.errors import DATATYPE_MISMATCH, FEATURE_NOT_SUPPORTED, INVALID_TEXT_REPRESENTATION, UNDEFINED_FUNCTION, Refusal
from dpproxy.plan.bind import special_forms as forms
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.functions import instants, literals, operators, patterns, times
from dpproxy.plan.functions.literals import NotPlain, coerce, number_literal
from dpproxy.plan.functions.registry import FUNCTIONS
from dpproxy.plan.logical.expr import (
    FALSE,
    NULL,
    TRUE,
    Call,
    Case,
    Cast,
    Expr,
    Hole,
    InList,
    Lit,
    Ref,
)
from dpproxy.plan.refusals import unsupported
from dpproxy.sql.dialect import FaithfulPostgres, copied, ident, position, to_sql
from dpproxy.sql.effort import step
from dpproxy.sql.function_names import AGGREGATES
from dpproxy.sql.types import INTEGERS, TEXTS, TIMES, type_length, type_name

MAX_EXPRESSION = 4_000  # nodes of one expression


class EnclosingQuery(Protocol):
    """An expression asks this of the query around it, for what it contains besides scalars; each call raises Refusal where it has
    no place."""

    def parameter(self, index: int) -> Expr: ...

    def zone(self) -> str | None:
        """Return the session's time zone, asked for where instants are looked at; None is UTC. Raises Refusal where it is not
        known."""
        ...

    def facade_constant(self, sql: str, type_: str) -> Expr:
        """Have the facade evaluate a constant that only PostgreSQL can evaluate (`now()`, 'yesterday'::date): evaluated once,
        before the measurement."""
        ...

    def scalar_subquery(self, query: exp.Expr, scope: Scope) -> Expr: ...

    def in_subquery(self, args: tuple[Expr, ...], query: exp.Expr, negated: bool, scope: Scope) -> Expr: ...

    def exists(self, query: exp.Expr, negated: bool, scope: Scope) -> Expr: ...

    def aggregate(self, node: exp.Expr, scope: Scope) -> Expr: ...

    def window(self, node: exp.Window, scope: Scope) -> Expr: ...


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "is_not_distinct", exp.NullSafeNEQ: "is_distinct",
}  # fmt: skip
_CONSTANT_FUNCTIONS = {
    "now": "timestamptz", "transaction_timestamp": "timestamptz", "statement_timestamp": "timestamptz",
    "current_timestamp": "timestamptz", "localtimestamp": "timestamp",
}  # fmt: skip
_READING = {"to_date": ("date", "date"), "to_timestamp": ("timestamptz", "timestamp")}
"""Of two strings: constants that BI tools spell so. The type, and the one the facade is asked for."""


class ExprBinder:
    """Binds expressions of one query. Raises Refusal with the position of what it does not accept."""

    def __init__(self, query: EnclosingQuery) -> None:
        self._query = query

    def bind(self, node: exp.Expr, scope: Scope) -> Expr:
        return self._bind(node, scope)

    def condition(self, node: exp.Expr, scope: Scope) -> Expr:
        """Bind what WHERE, ON, HAVING and FILTER are given. Raises Refusal 42804 for what is not boolean."""
        return self._boolean(node, scope)

    def _bind(self, node: exp.Expr, scope: Scope) -> Expr:
        step()
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise self._unknown(node)
        try:
            return handler(self, node, scope)
        except NotPlain as constant:
            return self._asked(node, constant, scope)
        except Refusal as refusal:
            if refusal.position is None and (at := position(node)) is not None:
                raise Refusal(refusal.sqlstate, refusal.message, at, refusal.detail, refusal.hint) from refusal
            raise

    def _asked(self, node: exp.Expr, constant: NotPlain, scope: Scope) -> Expr:
        """A constant that only PostgreSQL can read. It is `node` itself, or an operand that `node` gave its type."""
        if isinstance(node, exp.Cast | exp.Interval):
            quoted = constant.text.replace("'", "''")
            local = "timestamp" if constant.type == "timestamptz" else constant.type
            return self._query.facade_constant(f"('{quoted}'::{constant.type})::{local}", constant.type)
        typed = copied(node)
        bare = [x for x in typed.find_all(exp.Literal) if x.is_string and x.this == constant.text and not _is_cast(x.parent)]
        if not bare:
            raise self._unknown(node)
        for found in bare:
            found.replace(exp.cast(copied(found), constant.type, dialect=FaithfulPostgres))
        return self._bind(typed, scope)

    @staticmethod
    def _unknown(node: exp.Expr) -> Refusal:
        what = to_sql(node)
        return Refusal(
            FEATURE_NOT_SUPPORTED,
            f"`{what if len(what) < 60 else type(node).__name__}` is not supported below an aggregate over private rows",
            position(node),
        )

    # --- leaves

    def _column(self, node: exp.Column, scope: Scope) -> Expr:
        if isinstance(node.this, exp.Star) or node.args.get("db"):
            raise unsupported("a whole row here")
        column = scope.resolve(ident(node.args.get("table")), ident(node.this), position(node))
        if not column.usable:
            raise unsupported(f'column "{column.name}" ({column.reason or "its type on the backend"})')
        if column.type == "timestamptz":
            self._query.zone()
        return Ref(column.type, column)

    def _literal(self, node: exp.Literal, scope: Scope) -> Expr:
        if node.is_string:
            return Lit("unknown", node.this)
        return number_literal(node.this)

    def _parameter(self, node: exp.Parameter | exp.Placeholder, scope: Scope) -> Expr:
        text = node.this.name if isinstance(node.this, exp.Expr) else str(node.this)
        if not text.isdigit():
            raise self._unknown(node)
        given = self._query.parameter(int(text) - 1)
        if given.type.endswith("[]"):  # as constants it is a list, which has a place in InList alone
            raise unsupported("an array here", "Compare with its elements: x = ANY ($1).")
        return given

    # --- operators

    def _comparison(self, node: exp.Binary, scope: Scope) -> Expr:
        op = _COMPARISONS[type(node)]
        right = node.expression
        over = forms.quantifier(right)
        if over is not None:
            return self._quantified(node, over[1], op, over[0], scope)
        left_row, right_row = forms.row(node.this), forms.row(right)
        if left_row is not None and right_row is not None:
            return self._row_comparison(op, left_row, right_row, scope)
        return operators.compare(op, self._bind(node.this, scope), self._bind(right, scope))

    def _row_comparison(self, op: str, left: list[exp.Expr], right: list[exp.Expr], scope: Scope) -> Expr:
        return forms.row_comparison(op, [self._bind(e, scope) for e in left], [self._bind(e, scope) for e in right])

    def _quantified(self, node: exp.Binary, inner: exp.Expr, op: str, every: bool, scope: Scope) -> Expr:
        value = self._bind(node.this, scope)
        plain = (op, every) in (("=", False), ("<>", True))
        what = f"`{op} {'ALL' if every else 'ANY'}`"
        if isinstance(inner, exp.Select | exp.Subquery | exp.SetOperation):
            if not plain:
                raise unsupported(f"{what} of a subquery", "Compare with an aggregate: x > (SELECT min(y) ...) for > ANY.")
            return self._query.in_subquery((value,), inner.unnest() if isinstance(inner, exp.Subquery) else inner, every, scope)
        items = forms.elements(self, inner, scope)
        if items is not None:
            return forms.quantified(op, value, items, every)
        array = self._constant_array(inner) or self._bind(inner, scope)
        if plain and isinstance(array, Hole) and array.type.endswith("[]"):
            return InList("bool", value, (array,), every)
        raise unsupported(f"{what} of this array", "List its elements: x IN (...) or x = ANY (ARRAY[...]).")

    def _constant_array(self, node: exp.Expr) -> Expr | None:
        """A parameter, or what the facade makes of one or of a list in a text: `$1::int[]`, `string_to_array($1, ',')`."""
        types, core = [], node
        while isinstance(core, exp.Cast | exp.Paren):
            types += [type_name(core.to)] if isinstance(core, exp.Cast) else []
            core = core.this
        made = isinstance(core, exp.Anonymous) and str(core.this).lower() == "string_to_array"
        if not (made or isinstance(core, exp.Parameter)) or core.find(exp.Column, exp.Query):
            return None
        hole = Hole("text[]", -1) if made else self._query.parameter(int(core.name) - 1)
        target = types[0] if types else hole.type
        if target is None or not target.endswith("[]"):
            return None
        if isinstance(hole, Hole) and not made and hole.type in (target, "unknown"):
            return Hole(target, hole.index)
        return self._query.facade_constant(to_sql(node), target)

    def _list(self, value: Expr, items: list[exp.Expr], negated: bool, scope: Scope) -> Expr:
        bound = []
        for item in items:
            test = operators.compare("=", value, self._bind(item, scope))
            assert isinstance(test, Call)
            value, other = test.args
            bound.append(other)
        return InList("bool", value, tuple(bound), negated)

    def _and(self, node: exp.And, scope: Scope) -> Expr:
        return Call("bool", "and", tuple(self._boolean(part, scope) for part in node.flatten()))

    def _or(self, node: exp.Or, scope: Scope) -> Expr:
        return Call("bool", "or", tuple(self._boolean(part, scope) for part in node.flatten()))

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

    def _not(self, node: exp.Not, scope: Scope) -> Expr:
        inner = node.this
        if isinstance(inner, exp.In):
            return self._in(inner, scope, negated=True)
        if isinstance(inner, exp.Exists):
            return self._query.exists(inner.this, True, scope)
        return Call("bool", "not", (self._boolean(inner, scope),))

    def _is(self, node: exp.Is, scope: Scope) -> Expr:
        negated = bool(node.args.get("negate"))
        right = node.expression
        if isinstance(right, exp.Null) and self._constant_array(node.this) is not None:
            return self._query.facade_constant(to_sql(node), "bool")
        if isinstance(right, exp.Null):
            return Call("bool", "is_not_null" if negated else "is_null", (self._bind(node.this, scope),))
        if isinstance(right, exp.Boolean):
            name = ("is_not_" if negated else "is_") + ("true" if right.this else "false")
            return Call("bool", name, (self._boolean(node.this, scope),))
        raise self._unknown(node)

    def _between(self, node: exp.Between, scope: Scope) -> Expr:
        value = self._bind(node.this, scope)
        low, high = self._bind(node.args["low"], scope), self._bind(node.args["high"], scope)
        within = Call("bool", "and", (operators.compare(">=", value, low), operators.compare("<=", value, high)))
        if not node.args.get("symmetric"):
            return within
        return Call(
            "bool",
            "or",
            (within, Call("bool", "and", (operators.compare(">=", value, high), operators.compare("<=", value, low)))),
        )

    def _in(self, node: exp.In, scope: Scope, negated: bool = False) -> Expr:
        left = node.this
        parts = forms.row(left) or [left]
        query = node.args.get("query")
        if query is not None:
            args = tuple(self._bind(p, scope) for p in parts)
            inner = query.unnest() if isinstance(query, exp.Subquery) else query
            return self._query.in_subquery(args, inner, negated, scope)
        if len(parts) > 1:
            tests = [self._row_comparison("=", parts, forms.row(item) or [item], scope) for item in node.expressions]
            any_of = Call("bool", "or", tuple(tests))
            return Call("bool", "not", (any_of,)) if negated else any_of
        items = node.expressions
        if len(items) == 1 and isinstance(items[0], exp.Subquery):
            return self._query.in_subquery((self._bind(left, scope),), items[0].unnest(), negated, scope)
        if not items:
            raise self._unknown(node)
        return self._list(self._bind(left, scope), items, negated, scope)

    def _exists(self, node: exp.Exists, scope: Scope) -> Expr:
        return self._query.exists(node.this, False, scope)

    def _like(self, node: exp.Binary, scope: Scope) -> Expr:
        return self._pattern("ilike" if isinstance(node, exp.ILike) else "like", node, None, scope)

    def _pattern(self, op: str, node: exp.Binary, escape: Expr | None, scope: Scope) -> Expr:
        value = coerce(self._bind(node.this, scope), "text")
        if value.type not in TEXTS:
            raise unsupported(f"LIKE of {value.type}")
        negated = bool(node.args.get("negate"))
        over = forms.like_any(self, op, value, node.expression, scope, negated)
        if over is not None:
            return over
        pattern = self._bind(node.expression, scope)
        if not isinstance(pattern, Lit | Hole) and forms.of_constants_alone(node.expression):
            pattern = self._query.facade_constant(f"({to_sql(node.expression)})::text", "text")
        test = patterns.like(op, value, pattern, escape)
        return Call("bool", "not", (test,)) if negated else test

    def _escape(self, node: exp.Escape, scope: Scope) -> Expr:
        inner = node.this
        if not isinstance(inner, exp.Like | exp.ILike):
            raise self._unknown(node)
        op = "ilike" if isinstance(inner, exp.ILike) else "like"
        return self._pattern(op, inner, self._bind(node.expression, scope), scope)

    def _regex(self, node: exp.Binary | exp.Func, scope: Scope) -> Expr:
        op = "iregex" if isinstance(node, exp.RegexpILike) else "regex"
        return patterns.regex(op, self._bind(node.this, scope), self._bind(node.expression, scope))

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
            return self._query.facade_constant(to_sql(node), "interval")
        return operators.multiply(op, a, b)

    def _pow(self, node: exp.Pow, scope: Scope) -> Expr:
        return FUNCTIONS["power"]((self._bind(node.this, scope), self._bind(node.expression, scope)))

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
        if target is None or target.endswith("[]"):
            raise unsupported(f"a cast to {to_sql(node.to)}")
        inner = self._bind(node.this, scope)
        length = type_length(node.to)
        if length and target in ("time", *TIMES, "interval"):
            raise unsupported(f"a cast to {to_sql(node.to)}")
        if target == "bpchar":
            raise unsupported("a cast to char(n)", "Use varchar(n): char(n) pads with spaces that comparisons ignore.")
        if isinstance(inner, Lit) and inner.type == "unknown" and not length:
            return literals.typed_literal(target, inner.text)
        if isinstance(inner, Hole) and inner.type == "unknown":
            return Hole(target, inner.index)
        if target == "interval" and inner.type != "interval" and forms.of_constants_alone(node):
            return self._query.facade_constant(to_sql(node), "interval")
        if target == "interval" and inner.type != "interval":
            raise unsupported("an interval that is not a constant", "Use n * interval '1 day', where n is a whole number.")
        if target in ("json", "jsonb", "bytea") or (target == "time" and inner.type not in ("timestamp", "timestamptz", "time")):
            raise unsupported(f"a cast to {target}")
        if isinstance(inner, Lit) and inner.type == "unknown":
            inner = Lit("text", inner.text)
        return Cast(target, inner, length)

    def _extract(self, node: exp.Extract, scope: Scope) -> Expr:
        value = self._bind(node.expression, scope)
        return times.extract(node.this.name, instants.of_instant(node.this.name, value, self.zone(value)))

    def _interval(self, node: exp.Interval, scope: Scope) -> Expr:
        if not isinstance(node.this, exp.Literal):
            raise unsupported("an interval that is not a constant")
        unit = node.args.get("unit")
        if isinstance(unit, exp.IntervalSpan):
            return self._query.facade_constant(to_sql(node), "interval")
        text = f"{node.this.this} {unit.name if unit is not None else ''}".strip()
        return literals.typed_literal("interval", text)

    def _substring(self, node: exp.Substring, scope: Scope) -> Expr:
        start = node.args.get("start") or exp.Literal.number(1)
        if isinstance(start, exp.Literal) and start.is_string and node.args.get("length") is None:
            return patterns.regexp_substring(self._bind(node.this, scope), self._bind(start, scope))
        parts = [node.this, start, node.args.get("length")]
        return FUNCTIONS["substring"]([self._bind(p, scope) for p in parts if p is not None])

    def _position(self, node: exp.StrPosition, scope: Scope) -> Expr:
        return FUNCTIONS["strpos"]([self._bind(node.this, scope), self._bind(node.args["substr"], scope)])

    def _trim(self, node: exp.Trim, scope: Scope) -> Expr:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        parts = [node.this, *([node.expression] if node.expression is not None else [])]
        return FUNCTIONS[name]([self._bind(p, scope) for p in parts])

    def _if(self, node: exp.If, scope: Scope) -> Expr:
        return FUNCTIONS["if"]([self._bind(node.args.get(k) or exp.Null(), scope) for k in ("this", "true", "false")])

    def _paren(self, node: exp.Paren, scope: Scope) -> Expr:
        return self._bind(node.this, scope)

    def _subquery(self, node: exp.Subquery, scope: Scope) -> Expr:
        return self._query.scalar_subquery(node.this, scope)

    def _window(self, node: exp.Window, scope: Scope) -> Expr:
        return self._query.window(node, scope)

    def _aggregate_form(self, node: exp.Expr, scope: Scope) -> Expr:
        return self._query.aggregate(node, scope)

    def _now(self, node: exp.Expr, scope: Scope) -> Expr:
        if isinstance(node, exp.CurrentDate):
            return self._query.facade_constant("CURRENT_DATE", "date")
        if isinstance(node, exp.Localtimestamp):
            return self._query.facade_constant("LOCALTIMESTAMP", "timestamp")
        return self._query.facade_constant("LOCALTIMESTAMP", "timestamptz")

    def _function(self, node: exp.Anonymous, scope: Scope) -> Expr:
        name = str(node.this).lower()
        if name in AGGREGATES:
            return self._query.aggregate(node, scope)
        if name in _CONSTANT_FUNCTIONS and not node.expressions:
            return self._query.facade_constant("LOCALTIMESTAMP", _CONSTANT_FUNCTIONS[name])
        if name in _READING and [a.is_string for a in node.expressions] == [True, True]:
            type_, local = _READING[name]
            return self._query.facade_constant(f"({to_sql(node)})::{local}", type_)
        if name in forms.CALLS:
            return forms.CALLS[name](self, node.expressions, scope, name)
        if name == "age" and len(node.expressions) == 1:
            return times.age(self._query.facade_constant("CURRENT_DATE", "date"), self._bind(node.expressions[0], scope))
        builder = FUNCTIONS.get(name)
        if builder is None:
            raise Refusal(
                UNDEFINED_FUNCTION if name not in _KNOWN_UNSAFE else FEATURE_NOT_SUPPORTED,
                f"function {name}() is not allowed below an aggregate over private rows",
                position(node),
                hint="Apply it to the released result, in an outer query.",
            )
        args = [self._bind(a, scope) for a in node.expressions]
        zone = self.zone(*args, made=name in ("to_timestamp", "timezone")) if name in instants.ZONED else None
        return builder(args) if zone is None else instants.ZONED[name](args, zone)

    def zone(self, *values: Expr, made: bool = False) -> str | None:
        """Return the session's time zone where one of the values is an instant, or one is made; None is UTC."""
        return self._query.zone() if made or any(v.type == "timestamptz" for v in values) else None

    def _dot(self, node: exp.Dot, scope: Scope) -> Expr:
        if ident(node.this) == "pg_catalog" and isinstance(node.expression, exp.Anonymous):
            return self._function(node.expression, scope)
        raise self._unknown(node)


def _is_cast(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Cast | exp.Interval)


_KNOWN_UNSAFE = {"random", "setseed", "gen_random_uuid", "clock_timestamp", "pg_sleep", "nextval", "row_to_json"}


_Handler = Callable[[ExprBinder, Any, Scope], Expr]
_HANDLERS: dict[type[exp.Expr], _Handler] = {
    exp.Column: ExprBinder._column, exp.Literal: ExprBinder._literal, exp.Parameter: ExprBinder._parameter,
    exp.Placeholder: ExprBinder._parameter, exp.Null: lambda b, n, s: NULL,
    exp.Boolean: lambda b, n, s: TRUE if n.this else FALSE,
    exp.And: ExprBinder._and, exp.Or: ExprBinder._or, exp.Not: ExprBinder._not, exp.Is: ExprBinder._is,
    exp.Between: ExprBinder._between, exp.In: ExprBinder._in, exp.Exists: ExprBinder._exists,
    exp.Like: ExprBinder._like, exp.ILike: ExprBinder._like, exp.Escape: ExprBinder._escape,
    exp.RegexpLike: ExprBinder._regex, exp.RegexpILike: ExprBinder._regex,
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
    **dict.fromkeys(_COMPARISONS, ExprBinder._comparison), **forms.HANDLERS,
}  # fmt: skip
