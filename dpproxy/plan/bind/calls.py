"""Calls of aggregates and window functions: their arguments, frames, and orders that leave no ties.

Knows: which aggregates and windows there are, and how many arguments they take. Must not know: whose rows they are over, engines.
What is made of one unit's rows must be a function of these rows: where rows of equal rank are told apart, it is by all of
their columns, never by the order in which an engine reads them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpproxy.errors import UNDEFINED_FUNCTION, Refusal
from dpproxy.plan.bind import special_forms as forms
from dpproxy.plan.bind.expressions import ExprBinder
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.functions import literals
from dpproxy.plan.logical.expr import (
    NULL,
    Agg,
    Call,
    Expr,
    Ref,
    Win,
    rebuilt,
)
from dpproxy.plan.logical.relation import Rows
from dpproxy.plan.measure import moments
from dpproxy.plan.measure.aggregates import per_unit_type
from dpproxy.plan.properties.facts import literal_number
from dpproxy.plan.refusals import unsupported
from dpproxy.sql.dialect import position
from dpproxy.sql.types import NUMBERS, type_name

WINDOWS = {"row_number", "rank", "dense_rank", "ntile", "lag", "lead", "first_value", "last_value"}
WINDOW_AGGREGATES = {"count", "sum", "avg", "min", "max"}
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
_NEAR = r"[0-9]{1,6}"
_SLIDING = re.compile(
    rf"ROWS BETWEEN (?:(?:UNBOUNDED|{_NEAR}) PRECEDING|CURRENT ROW) AND (?:CURRENT ROW|(?:UNBOUNDED|{_NEAR}) FOLLOWING)"
    rf"|ROWS BETWEEN (?:UNBOUNDED|{_NEAR}) PRECEDING AND {_NEAR} PRECEDING"
    rf"|ROWS BETWEEN {_NEAR} FOLLOWING AND (?:UNBOUNDED|{_NEAR}) FOLLOWING"
)


_LISTS = {"string_agg", "array_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "xmlagg"}
"""Aggregates that list their values."""
_BY_PLACE = {"row_number", "ntile", "lag", "lead", "first_value", "last_value"}
"""Functions that tell rows of equal rank apart."""
_UNORDERED = {"json", "jsonb", "bytea", "xml"}

_ARGUMENTS = {"count": (0, 99), "mode": (0, 1)} | dict.fromkeys(
    ("sum", "avg", "min", "max", "bool_or", "bool_and", "every", *_ENGINE_NAMES, *moments.SINGLE), (1, 1)
) | dict.fromkeys(moments.PAIRED, (2, 2))  # fmt: skip
WINDOW_ARGUMENTS = {"row_number": (0, 0), "rank": (0, 0), "dense_rank": (0, 0), "ntile": (1, 1), "lag": (1, 3), "lead": (1, 3),
                     "first_value": (1, 1), "last_value": (1, 1), "count": (0, 1)} | dict.fromkeys(
    ("sum", "avg", "min", "max"), (1, 1))  # fmt: skip
"""How many arguments a call may have, at least and at most."""

Terms = tuple[tuple[Expr, bool, bool], ...]
"""ORDER BY: expression, descending, nulls first."""


def check_summed(name: str, args: tuple[Expr, ...]) -> None:
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


def order_free(expr: Expr, rows: Rows) -> Expr:
    """An expression over rows whose windows do not depend on the order of equal rows."""
    if isinstance(expr, Win):
        by_place = expr.name in _BY_PLACE or (
            expr.frame.startswith("ROWS") and "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" not in expr.frame
        )
        return replace(expr, order=total_order(expr.order, rows)) if by_place else expr
    return rebuilt(expr, lambda child: order_free(child, rows))


def bind_order(binder: ExprBinder, node: exp.Expr, scope: Scope) -> tuple[Expr, bool, bool]:
    if not isinstance(node, exp.Ordered):
        return binder.bind(node, scope), False, False
    desc = bool(node.args.get("desc"))
    first = node.args.get("nulls_first")
    return binder.bind(node.this, scope), desc, desc if first is None else bool(first)


def window_frame(spec: exp.Expr | None) -> str:
    """The frame of a window as the engines have it. EXCLUDE GROUP and TIES look at peers, which `total_order` leaves none of."""
    if spec is None:
        return ""
    kind = str(spec.args.get("kind") or "ROWS").upper()
    end = _frame_end(spec, "end") if spec.args.get("end") else "CURRENT ROW"
    frame = f"{kind} BETWEEN {_frame_end(spec, 'start')} AND {end}"
    excluded = spec.args.get("exclude")
    without = str(excluded.name if isinstance(excluded, exp.Expr) else excluded or "NO OTHERS").upper()
    if (frame not in _FRAMES and not _SLIDING.fullmatch(frame)) or without not in ("NO OTHERS", "CURRENT ROW"):
        named = frame if without == "NO OTHERS" else f"{frame} EXCLUDE {without}"
        raise unsupported(
            f"the window frame {named}", "Use ROWS BETWEEN n PRECEDING AND n FOLLOWING, or join the rows that are meant."
        )
    return frame if without == "NO OTHERS" else f"{frame} EXCLUDE CURRENT ROW"


def _frame_end(spec: exp.Expr, end: str) -> str:
    value, side = spec.args.get(end), spec.args.get(f"{end}_side") or ""
    number = isinstance(value, exp.Literal) and not value.is_string
    if isinstance(value, exp.Expr) and not number:
        raise unsupported("a window frame that is not of constants")
    text = str(value.name if isinstance(value, exp.Expr) else value or "CURRENT ROW").upper()
    return f"{text} {side}".strip().upper()


def bind_aggregate(binder: ExprBinder, node: exp.Expr, scope: Scope, per_unit: bool) -> Agg:
    """An aggregate call with FILTER, DISTINCT and WITHIN GROUP. Raises Refusal for forms that are not understood."""
    where: Expr | None = None
    order: Terms = ()
    if isinstance(node, exp.Filter):
        where = binder.condition(node.expression.this, scope)
        node = node.this
    if isinstance(node, exp.WithinGroup):
        order = tuple(bind_order(binder, o, scope) for o in node.expression.expressions)
        node = node.this
    if isinstance(node, exp.Dot):
        node = node.expression
    if isinstance(node, exp.GroupConcat):
        return Agg("text", "string_agg", (), False, where)
    if not isinstance(node, exp.Anonymous):
        raise unsupported(type(node).__name__)
    name, (arguments, distinct) = str(node.this).lower(), _arguments(node)
    if name in _LISTS and not per_unit:
        return Agg("text", name, (), distinct, where)  # refused by name, whatever is in it
    if any(isinstance(a, exp.Order) for a in arguments):
        raise unsupported(
            f"ORDER BY inside {name}()", "Number the rows by row_number() OVER (...) and aggregate those of a number."
        )
    if per_unit and order:
        raise _not_within_one(name)
    if name in ("percentile_cont", "percentile_disc") and order:
        fractions, is_array = _fractions(arguments)
        return Agg("float8", name, (NULL,) if is_array else (), distinct, where, order, fractions)
    fields = forms.row(arguments[0]) if name == "count" and distinct and len(arguments) == 1 else None
    if fields:  # COUNT(DISTINCT (a, b)): rows of values, NULLs among them
        whole = Call("record", "row", tuple(literals.coerce(binder.bind(f, scope), "text") for f in fields))
        return Agg("int8", name, (whole,), distinct, where, order)
    args = tuple(literals.coerce(binder.bind(a, scope), "text") for a in arguments)
    count_arguments(name, args, _ARGUMENTS, node)
    return _within_one(name, args, distinct, where) if per_unit else Agg(_type(name, args), name, args, distinct, where, order)


def _arguments(call: exp.Anonymous) -> tuple[list[exp.Expr], bool]:
    """The arguments, none for `*`, and whether they are DISTINCT."""
    arguments = list(call.expressions)
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = list(arguments[0].expressions)
    return ([] if len(arguments) == 1 and isinstance(arguments[0], exp.Star) else arguments), distinct


def _within_one(name: str, args: tuple[Expr, ...], distinct: bool, where: Expr | None) -> Agg:
    """Of the rows of one unit, by the engine's name."""
    if name not in _PER_UNIT_AGGREGATES:
        raise _not_within_one(name)
    check_summed(name, args)
    name = _ENGINE_NAMES.get(name, name)
    return Agg(_type(name, args), name, args, distinct, where)


def _type(name: str, args: tuple[Expr, ...]) -> str:
    return per_unit_type(name, args) if name != "mode" else "text"


def _not_within_one(name: str) -> Refusal:
    known = ", ".join(sorted(_PER_UNIT_AGGREGATES - {"every", "stddev_samp", "var_samp"}))
    return unsupported(f"{name}() within one unit", f"Of the rows of one these can be taken: {known}.")


def count_arguments(name: str, args: tuple[Expr, ...], allowed: dict[str, tuple[int, int]], node: exp.Expr) -> None:
    """Raises Refusal 42883, as PostgreSQL does, for a call with too few or too many arguments."""
    least, most = allowed.get(name, (0, len(args)))
    if not least <= len(args) <= most:
        types = ", ".join(a.type for a in args)
        raise Refusal(UNDEFINED_FUNCTION, f"function {name}({types}) does not exist", position(node))


def _fractions(arguments: list[exp.Expr]) -> tuple[tuple[Fraction, ...], bool]:
    """The constant fraction(s) of a percentile, and whether they were an array."""
    if len(arguments) != 1:
        raise unsupported("a percentile of this form")
    node = arguments[0]
    parts = node.expressions if isinstance(node, exp.Array) else [node]
    found = []
    for part in parts:
        part = part.unnest()
        number = isinstance(part, exp.Literal) and not part.is_string
        if isinstance(part, exp.Cast) and type_name(part.to) in NUMBERS:
            part, number = part.this.unnest(), isinstance(part.this.unnest(), exp.Literal)
        value = literal_number("numeric", part.this) if number else None
        if value is None:
            raise unsupported("a percentile fraction that is not a constant")
        found.append(value)
    if not found:
        raise unsupported("a percentile of this form")
    return tuple(found), isinstance(node, exp.Array)
