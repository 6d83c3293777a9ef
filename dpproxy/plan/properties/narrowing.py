"""What WHERE says of a value's bounds: `amount < 100` makes a sum of amounts cost a tenth of `range: [0, 1000]`.

Knows: conjuncts every row satisfies. Must not know: SQL, engines. A bound is only ever met with another: rows that satisfy
the condition lie in both, and what is summed is clamped to the result as it is to any bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Test
from dpproxy.plan.properties.facts import literal_number
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import Call, Column, Expr, InList, Lit, Ref
from dpproxy.tree.interval import OPEN, Interval


def narrowed_bound(expr: Expr, conditions: Sequence[Expr]) -> Interval:
    """Tell where the conditions leave an expression; open when they say nothing."""
    bound = OPEN
    for condition in conditions:
        bound = iv.meet(bound, _said(expr, condition))
    return bound


def _said(expr: Expr, condition: Expr) -> Interval:
    match condition:
        case Call(op=op, args=(left, right)) if _compares(op):
            if left == expr:
                return _side(op, right, expr.type)
            return _side(operation(op).mirrored, left, expr.type) if right == expr else OPEN
        case InList(arg=arg, items=items, negated=False) if arg == expr and items:
            return iv.hull([_side("=", item, expr.type) for item in items])
        case _:
            return OPEN


def _compares(op: str) -> bool:
    return op == "=" or operation(op).test is Test.ORDER


_KIND = {"date": "days", "timestamp": "seconds", "timestamptz": "seconds", "interval": "interval"}
"""What a value's number counts (`interval.number`); an instant is what the session's clocks show, as a timestamp is."""


_LEAST = {"date": Fraction(1), "timestamp": Fraction(1, 10**6), "timestamptz": Fraction(1, 10**6)}
"""What lies between a time and the next one."""
_BESIDE = {"<": -1, ">": 1}


def _side(op: str, constant: Expr, type_: str) -> Interval:
    """The values that stand in a comparison with a constant. Of other kinds than the expression's own nothing is said."""
    kinds = {_KIND.get(constant.type, "other"), _KIND.get(type_, "other")}
    same = len(kinds) == 1
    if not isinstance(constant, Lit) or constant.text is None or not same:
        return OPEN
    value = literal_number(constant.type, constant.text)
    if value is None:
        return OPEN
    value += _BESIDE.get(op, 0) * _LEAST.get(type_, Fraction(0))
    return Interval(value if op in ("=", ">", ">=") else None, value if op in ("=", "<", "<=") else None)


def narrowed_column(column: Column, expr: Expr, conditions: Sequence[Expr]) -> Column:
    """Return a column that holds the value of `expr`; identifiers have no bounds worth knowing."""
    if column.taint:
        return column
    met = iv.meet(column.bound, narrowed_bound(expr, conditions))
    return column if met == column.bound else replace(column, bound=met)


def compared_columns(condition: Expr) -> list[int]:
    """Return the columns that a condition compares as they are."""
    match condition:
        case Call(op=op, args=args) if _compares(op):
            return [arg.column.id for arg in args if isinstance(arg, Ref)]
        case InList(arg=Ref(column=column)):
            return [column.id]
        case _:
            return []
