"""Calls of aggregates: their arguments, FILTER, DISTINCT and WITHIN GROUP.

Knows: which aggregates there are, how many arguments each takes, which of them can be taken of one unit's rows. Must not know:
whose rows they are over, engines. A call that is not understood as a whole is refused by name.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpproxy.errors import UNDEFINED_FUNCTION, Refusal
from dpproxy.plan.bind import special_forms as forms
from dpproxy.plan.bind.expressions import ExprBinder
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.functions import operators
from dpproxy.plan.functions.enumerations import labelled, rank
from dpproxy.plan.measure import moments
from dpproxy.plan.measure.aggregates import per_unit_type
from dpproxy.plan.properties.facts import literal_number
from dpproxy.plan.refusals import CONSTANT, OTHER_TYPE, unsupported
from dpproxy.sql.dialect import position
from dpproxy.sql.types import FLOATS, NUMBERS
from dpproxy.table_terms import Enumeration
from dpproxy.tree.expr import NULL, Agg, Call, Cast, Expr, Lit, Win

_PER_UNIT_AGGREGATES = {"count", "sum", "avg", "min", "max", "bool_or", "bool_and", "every", "stddev", "stddev_samp",
                        "stddev_pop", "variance", "var_samp", "var_pop", "any_value"}  # fmt: skip
_SUMMING = {"sum", "avg", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"}
_ENGINE_NAMES = {"every": "bool_and", "stddev": "stddev_samp", "variance": "var_samp", "any_value": "max"}
"""Which value is any, the engine would choose: the greatest is the same in every engine, and today as tomorrow."""


_LISTS = {"string_agg", "array_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "xmlagg"}
"""Aggregates that list their values."""

_ARGUMENTS = {"count": (0, 99), "mode": (0, 1)} | dict.fromkeys(
    ("sum", "avg", "min", "max", "bool_or", "bool_and", "every", *_ENGINE_NAMES, *moments.SINGLE), (1, 1)
) | dict.fromkeys(moments.PAIRED, (2, 2))  # fmt: skip

Terms = tuple[tuple[Expr, bool, bool], ...]
"""ORDER BY: expression, descending, nulls first."""


def check_summed(name: str, args: tuple[Expr, ...]) -> None:
    """Sums, means and deviations are of numbers. Raises Refusal."""
    if name in _SUMMING and not (len(args) == 1 and args[0].type in NUMBERS):
        of = args[0].type if args else "nothing"
        hint = "Take it of a number: extract(epoch FROM x)." if of == "interval" else OTHER_TYPE
        raise unsupported(f"{name}() of {of} within one unit", hint)


def bind_order(binder: ExprBinder, node: exp.Expr, scope: Scope) -> tuple[Expr, bool, bool]:
    if not isinstance(node, exp.Ordered):
        return rank(binder.bind(node, scope)), False, False
    desc = bool(node.args.get("desc"))
    first = node.args.get("nulls_first")
    return rank(binder.bind(node.this, scope)), desc, desc if first is None else bool(first)


def _chosen_from(binder: ExprBinder, node: exp.Expr, scope: Scope) -> tuple[Expr, bool, bool]:
    """What an ordered-set aggregate chooses from: a value as it is, not the number that it is ordered by."""
    _, descending, first = bind_order(binder, node, scope)
    return binder.bind(node.this if isinstance(node, exp.Ordered) else node, scope), descending, first


def by_label(call: Agg | Win) -> Expr:
    """Return MIN or MAX within a unit's rows by the order of labels where the values are of an enumerated type."""
    if call.name not in ("min", "max") or not isinstance(call.type, Enumeration):
        return call
    return labelled(replace(call, type="int4", args=(rank(call.args[0]),)), call.type)


def bind_aggregate(binder: ExprBinder, node: exp.Expr, scope: Scope, per_unit: bool) -> Agg:
    """Bind an aggregate call with FILTER, DISTINCT and WITHIN GROUP. Raises Refusal for forms that are not understood."""
    where: Expr | None = None
    order: Terms = ()
    if isinstance(node, exp.Filter):
        where = binder.condition(node.expression.this, scope)
        node = node.this
    if isinstance(node, exp.WithinGroup):
        order = tuple(_chosen_from(binder, o, scope) for o in node.expression.expressions)
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
        fractions, is_array = _fractions(binder, arguments, scope)
        return Agg("float8", name, (NULL,) if is_array else (), distinct, where, order, fractions)
    fields = forms.row(arguments[0]) if name == "count" and distinct and len(arguments) == 1 else None
    if fields:  # COUNT(DISTINCT (a, b)): rows of values, NULLs among them
        whole = Call("record", "row", tuple(operators.coerce(binder.bind(f, scope), "text") for f in fields))
        return Agg("int8", name, (whole,), distinct, where, order)
    args = tuple(operators.coerce(binder.bind(a, scope), "text") for a in arguments)
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
    return unsupported(f"{name}() within one unit", f"Over the rows of one unit, use one of: {known}.")


def count_arguments(name: str, args: tuple[Expr, ...], allowed: dict[str, tuple[int, int]], node: exp.Expr) -> None:
    """Raises Refusal 42883, as PostgreSQL does, for a call with too few or too many arguments."""
    least, most = allowed.get(name, (0, len(args)))
    if not least <= len(args) <= most:
        types = ", ".join(a.type for a in args)
        raise Refusal(UNDEFINED_FUNCTION, f"function {name}({types}) does not exist", position(node))


def _fractions(binder: ExprBinder, arguments: list[exp.Expr], scope: Scope) -> tuple[tuple[Fraction, ...], bool]:
    """The constant fraction(s) of a percentile, and whether they were an array."""
    items = forms.elements(binder, arguments[0].unnest(), scope) if len(arguments) == 1 else ()
    if items == () or items == []:
        raise unsupported("a percentile of this form", "Write percentile_cont(0.5) WITHIN GROUP (ORDER BY x).")
    found = []
    for value in [binder.bind(arguments[0], scope)] if items is None else items:
        value = operators.coerce(value, "float8")
        if isinstance(value, Cast) and value.type in (*FLOATS, "numeric"):
            value = operators.coerce(value.arg, "float8")
        number = literal_number("numeric", value.text or "") if isinstance(value, Lit) and value.type in NUMBERS else None
        if number is None:
            raise unsupported("a percentile fraction that is not a constant", CONSTANT)
        found.append(number)
    return tuple(found), items is not None
