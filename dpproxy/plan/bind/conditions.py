"""Conditions as bound expressions: comparisons, quantifiers over arrays and subqueries, AND/OR/NOT, IN, BETWEEN, LIKE.

Knows: sqlglot's node classes, which operators have an expression of ours. Must not know: where a condition stands, engines,
noise.
A subquery of a condition is bound by the query around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.bind import special_forms as forms
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.context import Clock
from dpproxy.plan.functions import operators, patterns
from dpproxy.plan.functions.operators import coerce
from dpproxy.plan.refusals import AROUND, OTHER_TYPE, NoMember, unsupported
from dpproxy.sql.dialect import position, to_sql
from dpproxy.sql.types import TEXTS, type_name
from dpproxy.table_terms import Enumeration
from dpproxy.tree.expr import Call, Column, Expr, Hole, InList, Lit, Ref


class EnclosingQuery(Protocol):
    """An expression asks this of the query around it, for what it contains besides scalars; each call raises Refusal where it has
    no place."""

    def column(self, column: Column) -> Ref:
        """Return the value of a column."""
        ...

    def parameter(self, index: int) -> Expr: ...

    def zone(self) -> str | None:
        """Return the session's time zone, asked for where instants are looked at; None is UTC. Raises Refusal where it is not
        known."""
        ...

    def clock(self) -> Clock | None:
        """Return the time at which the statement runs, where it is known while planning."""
        ...

    def enumeration(self, type_: exp.DataType) -> Enumeration | None:
        """Return the enumerated type of a cast; None for another type."""
        ...

    def facade_constant(self, sql: str, type_: str) -> Expr:
        """Have the facade evaluate a constant that only PostgreSQL can evaluate (`now()`, 'yesterday'::date): evaluated once,
        before the measurement."""
        ...

    def scalar_subquery(self, query: exp.Expr, scope: Scope) -> Expr: ...

    def in_subquery(self, args: tuple[Expr, ...], query: exp.Expr, negated: bool, scope: Scope) -> Expr:
        """Bind x IN (query). Raises Refusal, NoMember."""
        ...

    def exists(self, query: exp.Expr, negated: bool, scope: Scope) -> Expr: ...

    def quantified(self, op: str, value: Expr, query: exp.Expr, every: bool, scope: Scope, *, known: bool = False) -> Expr:
        """Tell whether `value op ANY (query)`, or ALL, is true: FALSE stands for unknown too."""
        ...

    def aggregate(self, node: exp.Expr, scope: Scope) -> Expr: ...

    def window(self, node: exp.Window, scope: Scope) -> Expr: ...


class Binder(Protocol):
    """What a condition asks of the binder of expressions that it is part of."""

    query: EnclosingQuery

    def bind(self, node: exp.Expr, scope: Scope) -> Expr: ...

    def condition(self, node: exp.Expr, scope: Scope) -> Expr: ...

    def enumeration(self, type_: exp.DataType) -> Enumeration | None: ...

    def zone(self, *values: Expr, made: bool = False) -> str | None: ...


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "is_not_distinct", exp.NullSafeNEQ: "is_distinct",
}  # fmt: skip


def unknown(node: exp.Expr) -> Refusal:
    what = to_sql(node)
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"`{what if len(what) < 60 else type(node).__name__}` is not supported below an aggregate over private rows",
        position(node),
        hint=AROUND,
    )


def _comparison(binder: Binder, node: exp.Binary, scope: Scope) -> Expr:
    op = _COMPARISONS[type(node)]
    right = node.expression
    over = forms.quantifier(right)
    if over is not None:
        return _quantified(binder, node, over[1], op, over[0], scope)
    left_row, right_row = forms.row(node.this), forms.row(right)
    if left_row is not None and right_row is not None:
        return _row_comparison(binder, op, left_row, right_row, scope)
    return operators.compare(op, binder.bind(node.this, scope), binder.bind(right, scope))


def _row_comparison(binder: Binder, op: str, left: list[exp.Expr], right: list[exp.Expr], scope: Scope) -> Expr:
    return forms.row_comparison(op, [binder.bind(e, scope) for e in left], [binder.bind(e, scope) for e in right])


def _quantified(binder: Binder, node: exp.Binary, inner: exp.Expr, op: str, every: bool, scope: Scope) -> Expr:
    value = binder.bind(node.this, scope)
    plain = (op, every) in (("=", False), ("<>", True))
    what = f"`{op} {'ALL' if every else 'ANY'}`"
    if isinstance(inner, exp.Select | exp.Subquery | exp.SetOperation):
        query = inner.unnest() if isinstance(inner, exp.Subquery) else inner
        if plain:
            return _member(binder, node, (value,), query, every, scope)
        return binder.query.quantified(op, value, query, every, scope, known=not decides(node))
    items = forms.elements(binder, inner, scope)
    if items is not None:
        return forms.quantified(op, value, items, every)
    array = _constant_array(binder, inner) or binder.bind(inner, scope)
    if plain and isinstance(array, Hole) and array.type.endswith("[]"):
        return InList("bool", value, (array,), every)
    raise unsupported(f"{what} of this array", "List its elements: x IN (...) or x = ANY (ARRAY[...]).")


def decides(node: exp.Expr) -> bool:
    """Tell whether a condition only chooses rows or a branch: that it is unknown then means that it is false."""
    above = node.parent
    while isinstance(above, exp.And | exp.Or | exp.Paren):
        node, above = above, above.parent
    if isinstance(above, exp.If | exp.Join):
        return node.arg_key in ("this", "on")
    return isinstance(above, exp.Where | exp.Having)


def _member(binder: Binder, node: exp.Expr, values: tuple[Expr, ...], query: exp.Expr, negated: bool, scope: Scope) -> Expr:
    """Bind x IN (query). Where the query names its person by other columns than those compared, only whether it is true is
    known. The second try is no answer to a refusal of what is in the query: it would be two tries at each level of nesting."""
    try:
        return binder.query.in_subquery(values, query, negated, scope)
    except NoMember as told:
        first = told.refusal
    if negated or len(values) != 1 or not decides(node):
        raise first
    try:
        return binder.query.quantified("=", values[0], query, False, scope)
    except Refusal:
        raise first from None


def _constant_array(binder: Binder, node: exp.Expr) -> Expr | None:
    """A parameter, or what the facade makes of one or of a list in a text: `$1::int[]`, `string_to_array($1, ',')`."""
    types, core = [], node
    while isinstance(core, exp.Cast | exp.Paren):
        types += [type_name(core.to)] if isinstance(core, exp.Cast) else []
        core = core.this
    made = isinstance(core, exp.Anonymous) and str(core.this).lower() == "string_to_array"
    if not (made or isinstance(core, exp.Parameter)) or core.find(exp.Column, exp.Query):
        return None
    hole = Hole("text[]", -1) if made else binder.query.parameter(int(core.name) - 1)
    target = types[0] if types else hole.type
    if target is None or not target.endswith("[]"):
        return None
    if isinstance(hole, Hole) and not made and hole.type in (target, "unknown"):
        return Hole(target, hole.index)
    return binder.query.facade_constant(to_sql(node), target)


def _list(binder: Binder, value: Expr, items: list[exp.Expr], negated: bool, scope: Scope) -> Expr:
    bound = []
    for item in items:
        test = operators.compare("=", value, binder.bind(item, scope))
        assert isinstance(test, Call)
        value, other = test.args
        bound.append(other)
    return InList("bool", value, tuple(bound), negated)


def _and(binder: Binder, node: exp.And, scope: Scope) -> Expr:
    return Call("bool", "and", tuple(binder.condition(part, scope) for part in node.flatten()))


def _or(binder: Binder, node: exp.Or, scope: Scope) -> Expr:
    return Call("bool", "or", tuple(binder.condition(part, scope) for part in node.flatten()))


def _not(binder: Binder, node: exp.Not, scope: Scope) -> Expr:
    inner = node.this
    if isinstance(inner, exp.In):
        return _in(binder, inner, scope, negated=True)
    if isinstance(inner, exp.Exists):
        return binder.query.exists(inner.this, True, scope)
    return Call("bool", "not", (binder.condition(inner, scope),))


def _is(binder: Binder, node: exp.Is, scope: Scope) -> Expr:
    negated = bool(node.args.get("negate"))
    right = node.expression
    if isinstance(right, exp.Null) and _constant_array(binder, node.this) is not None:
        return binder.query.facade_constant(to_sql(node), "bool")
    if isinstance(right, exp.Null):
        return Call("bool", "is_not_null" if negated else "is_null", (binder.bind(node.this, scope),))
    if isinstance(right, exp.Boolean):
        name = ("is_not_" if negated else "is_") + ("true" if right.this else "false")
        return Call("bool", name, (binder.condition(node.this, scope),))
    raise unknown(node)


def _between(binder: Binder, node: exp.Between, scope: Scope) -> Expr:
    value = binder.bind(node.this, scope)
    low, high = binder.bind(node.args["low"], scope), binder.bind(node.args["high"], scope)
    within = Call("bool", "and", (operators.compare(">=", value, low), operators.compare("<=", value, high)))
    if not node.args.get("symmetric"):
        return within
    return Call(
        "bool",
        "or",
        (within, Call("bool", "and", (operators.compare(">=", value, high), operators.compare("<=", value, low)))),
    )


def _in(binder: Binder, node: exp.In, scope: Scope, negated: bool = False) -> Expr:
    left = node.this
    parts = forms.row(left) or [left]
    query = node.args.get("query")
    if query is not None:
        args = tuple(binder.bind(p, scope) for p in parts)
        inner = query.unnest() if isinstance(query, exp.Subquery) else query
        return _member(binder, node, args, inner, negated, scope)
    if len(parts) > 1:
        tests = [_row_comparison(binder, "=", parts, forms.row(item) or [item], scope) for item in node.expressions]
        any_of = Call("bool", "or", tuple(tests))
        return Call("bool", "not", (any_of,)) if negated else any_of
    items = node.expressions
    if len(items) == 1 and isinstance(items[0], exp.Subquery):
        return _member(binder, node, (binder.bind(left, scope),), items[0].unnest(), negated, scope)
    if not items:
        raise unknown(node)
    return _list(binder, binder.bind(left, scope), items, negated, scope)


def _exists(binder: Binder, node: exp.Exists, scope: Scope) -> Expr:
    return binder.query.exists(node.this, False, scope)


def _like(binder: Binder, node: exp.Binary, scope: Scope) -> Expr:
    return _pattern(binder, "ilike" if isinstance(node, exp.ILike) else "like", node, None, scope)


def _pattern(binder: Binder, op: str, node: exp.Binary, escape: Expr | None, scope: Scope) -> Expr:
    value = coerce(binder.bind(node.this, scope), "text")
    if value.type not in TEXTS:
        raise unsupported(f"LIKE of {value.type}", OTHER_TYPE)
    negated = bool(node.args.get("negate"))
    over = forms.like_any(binder, op, value, node.expression, scope, negated)
    if over is not None:
        return over
    pattern = binder.bind(node.expression, scope)
    if not isinstance(pattern, Lit | Hole) and forms.of_constants_alone(node.expression):
        pattern = binder.query.facade_constant(f"({to_sql(node.expression)})::text", "text")
    test = patterns.like(op, value, pattern, escape)
    return Call("bool", "not", (test,)) if negated else test


def _escape(binder: Binder, node: exp.Escape, scope: Scope) -> Expr:
    inner = node.this
    if not isinstance(inner, exp.Like | exp.ILike):
        raise unknown(node)
    op = "ilike" if isinstance(inner, exp.ILike) else "like"
    return _pattern(binder, op, inner, binder.bind(node.expression, scope), scope)


def _regex(binder: Binder, node: exp.Binary | exp.Func, scope: Scope) -> Expr:
    op = "iregex" if isinstance(node, exp.RegexpILike) else "regex"
    return patterns.regex(op, binder.bind(node.this, scope), binder.bind(node.expression, scope))


HANDLERS: dict[type[exp.Expr], Callable[[Any, Any, Scope], Expr]] = {
    exp.And: _and, exp.Or: _or, exp.Not: _not, exp.Is: _is, exp.Between: _between, exp.In: _in, exp.Exists: _exists,
    exp.Like: _like, exp.ILike: _like, exp.Escape: _escape, exp.RegexpLike: _regex, exp.RegexpILike: _regex,
    **dict.fromkeys(_COMPARISONS, _comparison),
}  # fmt: skip
