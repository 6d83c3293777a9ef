"""What the true values of a randomised column weigh: expressions over one such column and constants, value by value.

Knows: bound expressions, candidates. Must not know: reports, SQL text. Any function of one column with finitely many values is a
sum over these, so that its estimate is the same sum of estimates. Where candidates are not known while a statement is planned - a
public table lists them - only tests of equality are, and all values that nobody names weigh alike.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import Any

from dpproxy.plan.outer.candidate_texts import FUNCTIONS, TextError, computed
from dpproxy.privacy.readings import Later, Listed, Reading, ReportCell, Weights
from dpproxy.sql.types import INTEGERS, NUMBERS, TEXTS, array_items
from dpproxy.tree.expr import Agg, Call, Case, Cast, Column, Expr, Hole, InList, Lit, Ref, conjunction, conjuncts, rebuilt, walk
from dpproxy.tree.measured import Weighing

Value = str | bool | Fraction | None

MOST = 2**40
"""What a candidate may weigh."""


class NotListed(Exception):
    """An expression that is not computed value by value. Its text says what it is."""


_OTHER = "\x00"
"""Stands for the texts that an expression does not name: it is equal to none of them."""

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_COMPUTED: dict[str, Callable[[Any, Any], Fraction]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def has_holes(expr: Expr) -> bool:
    """Tell whether an expression has values that are known only when the statement runs."""
    return any(isinstance(part, Hole) for part in walk(expr))


def tried(expr: Expr) -> Expr:
    """Return an expression with a value in each hole. Whether candidates can be weighed hardly depends on which."""
    if isinstance(expr, Hole):
        type_ = expr.type.removesuffix("[]")
        return Lit(type_, "0" if type_ in NUMBERS else "false" if type_ == "bool" else _TRIED)
    return rebuilt(expr, tried)


def settled(reading: Reading, weighings: Sequence[Weighing], values: Sequence[str | None]) -> Reading:
    """Return a reading with all weights and candidates listed, by the values of holes in PostgreSQL's text form. Raises
    NotListed, and ValueError for a value that is not its type's."""
    listed = [_filled_in(weighing, values) for weighing in weighings]

    def known(weights: Weights | None) -> Weights | None:
        return listed[weights.number] if isinstance(weights, Later) else weights

    estimates = tuple(replace(e, weights=tuple(map(known, e.weights))) for e in reading.estimates)
    cells = list[ReportCell]()
    for place, cell in enumerate(reading.cells):
        shown = listed[cell.shown.number] if isinstance(cell.shown, Later) else cell.shown
        named = [w for w in (*(e.weights[place] for e in estimates), shown) if isinstance(w, Listed)]
        texts = tuple(dict.fromkeys(text for w in named for text, weight in w.named if weight != w.rest))
        cells.append(replace(cell, shown=shown, values=texts if cell.values is None else cell.values))
    return replace(reading, cells=tuple(cells), estimates=estimates)


def _filled_in(weighing: Weighing, values: Sequence[str | None]) -> Listed:
    """Return weights by the values of holes, in PostgreSQL's text form. Raises NotListed."""

    def filled(expr: Expr) -> Expr:
        if isinstance(expr, Hole):
            return Lit(expr.type, values[expr.index])
        if isinstance(expr, InList):
            items = tuple(part for item in expr.items for part in _elements(item, values))
            return InList(expr.type, filled(expr.arg), tuple(map(filled, items)), expr.negated)
        return rebuilt(expr, filled)

    found, unit = weights(filled(weighing.expr), weighing.column, weighing.candidates)
    more = weighing.unit // unit
    if more * unit != weighing.unit:
        raise NotListed("a parameter in what is added up")
    return Listed(tuple((text, weight * more) for text, weight in found.named), found.rest * more)


def _elements(item: Expr, values: Sequence[str | None]) -> list[Expr]:
    """The elements of an array that is a parameter. Of NULL there is one, which is unknown."""
    if not isinstance(item, Hole) or not item.type.endswith("[]"):
        return [item]
    text = values[item.index]
    return [Lit(item.type.removesuffix("[]"), part) for part in (array_items(text) if text is not None else [None])]


_TRIED = "\x01"


def weights(expr: Expr, column: Column, candidates: Sequence[str] | None) -> tuple[Listed, int]:
    """Return what each candidate weighs by an expression over a column, and what these weights are to be divided by: a condition
    weighs 1 where it is true. `candidates`: None where they are not known. Raises NotListed."""
    ordered = candidates is not None
    texts = list(candidates) if candidates is not None else [*_named(expr), _OTHER]
    found = [_number(_value(expr, column, _read(column.type, text), ordered=ordered)) for text in texts]
    unit = lcm(*(number.denominator for number in found))
    whole = [int(number * unit) for number in found]
    if any(abs(number) > MOST for number in whole):
        raise NotListed("numbers with so many digits")
    rest = whole[-1] if not ordered else 0
    return Listed(tuple((t, n) for t, n in zip(texts, whole, strict=True) if n != rest and t != _OTHER), rest), unit


def _named(expr: Expr) -> list[str]:
    return list(dict.fromkeys(e.text for e in walk(expr) if isinstance(e, Lit) and e.type in TEXTS and e.text is not None))


def _number(value: Value) -> Fraction:
    if isinstance(value, bool):
        return Fraction(value)
    if value is None:
        return Fraction(0)
    if isinstance(value, Fraction):
        return value
    raise NotListed("a text that is added up")


def _read(type_: str, text: str | None) -> Value:
    if text is None:
        return None
    if type_ == "bool":
        return text == "true"
    if type_ in NUMBERS:
        return Fraction(text)
    if type_ in (*TEXTS, "unknown"):
        return text
    raise NotListed(f"a constant of type {type_}")


def _value(expr: Expr, column: Column, own: Value, *, ordered: bool) -> Value:
    """The value of an expression where the column has a value."""

    def of(part: Expr) -> Value:
        return _value(part, column, own, ordered=ordered)

    match expr:
        case Ref(column=read) if read.id == column.id:
            return own
        case Lit(type=type_, text=text):
            return _read(type_, text)
        case Cast(arg=arg, length=()):
            return _cast(expr.type, of(arg))
        case InList(arg=arg, items=items, negated=negated):
            value, listed = of(arg), [of(item) for item in items]
            if value is None or (None in listed and value not in listed):
                return None
            return (value in listed) != negated
        case Case(whens=whens, default=default):
            chosen = next((result for test, result in whens if of(test) is True), default)
            return of(chosen) if chosen is not None else None
        case Call(op=op, args=args):
            return _called(op, [of(arg) for arg in args], ordered=ordered)
        case _:
            raise NotListed("an expression that is not made of comparisons with constants")


def _cast(type_: str, value: Value) -> Value:
    if type_ in NUMBERS and isinstance(value, bool | Fraction):
        number = Fraction(value)
        if type_ in INTEGERS and number.denominator != 1:
            raise NotListed("a number that is rounded")
        return number
    if type_ in TEXTS and isinstance(value, bool):
        return "true" if value else "false"
    if value is None or (type_ in TEXTS and isinstance(value, str)) or (type_ == "bool" and isinstance(value, bool)):
        return value
    raise NotListed(f"a cast to {type_}")


def _called(op: str, values: list[Value], *, ordered: bool) -> Value:
    if op in ("and", "or"):
        decisive = op == "or"
        return decisive if decisive in values else None if None in values else not decisive
    if op in ("is_null", "is_not_null"):
        return (values[0] is None) == (op == "is_null")
    if (word := op.removeprefix("is_").removeprefix("not_")) in ("true", "false"):
        return (values[0] is (word == "true")) == ("not" not in op)
    if op in ("is_distinct", "is_not_distinct"):
        return (values[0] != values[1]) == (op == "is_distinct")
    if op == "coalesce":
        return next((v for v in values if v is not None), None)
    if None in values:
        return None
    if op == "not":
        return not values[0]
    if op in _COMPARED and (op in ("=", "<>") or (ordered and not isinstance(values[0], str))):
        return _COMPARED[op](values[0], values[1])
    if op in _COMPUTED and all(isinstance(v, Fraction) for v in values):
        return _COMPUTED[op](values[0], values[1])
    if op == "nullif":
        return None if values[0] == values[1] else values[0]
    if op in FUNCTIONS and ordered and isinstance(values[0], str):
        return _of_text(op, values)
    raise NotListed(f"`{op}`")


def _of_text(op: str, values: Sequence[Value]) -> Value:
    """A function of a text: what it is of the texts that nobody lists is not known."""
    given = [int(v) if isinstance(v, Fraction) and v.denominator == 1 else v for v in values]
    if not all(isinstance(v, str | int) and not isinstance(v, bool) for v in given):
        raise NotListed(f"`{op}`")
    try:
        found = computed(op, [v for v in given if isinstance(v, str | int)])
    except TextError as why:
        raise NotListed(str(why)) from None
    return found if isinstance(found, str | bool) else Fraction(found)


def without_case(agg: Agg) -> Agg:
    """SUM(CASE WHEN c THEN x END), and with ELSE 0, as SUM(x) FILTER (WHERE c)."""
    match agg.args:
        case (Case(whens=((test, result),), default=default),) if _nothing(agg.name, default):
            where = conjunction((*conjuncts(agg.where), *conjuncts(test)))
            args = () if agg.name == "count" and isinstance(result, Lit) and result.text is not None else (result,)
            return replace(agg, args=args, where=where)
        case _:
            return agg


def _nothing(name: str, default: Expr | None) -> bool:
    if default is None or (isinstance(default, Lit) and default.text is None):
        return True
    return name == "sum" and isinstance(default, Lit) and default.text == "0"
