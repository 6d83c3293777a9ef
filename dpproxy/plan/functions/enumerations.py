"""Values of enumerated types: texts whose order is that of their labels.

Knows: labels (`table_terms.Enumeration`), expressions. Must not know: engines, whose texts have an order of their own; the
facade, where released values are of the real type. Wherever order decides - comparisons, least and greatest values, ORDER BY - a
value stands as its rank, the number of its label. A condition beside a constant is a list of labels, from which declared groups
follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpproxy.errors import INVALID_TEXT_REPRESENTATION, Refusal
from dpproxy.plan.refusals import unsupported
from dpproxy.table_terms import Enumeration
from dpproxy.tree.expr import Call, Case, Expr, Hole, InList, Lit

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def check_ordered(type_: str) -> None:
    """Raise Refusal for a type whose order is that of labels which are not published."""
    if isinstance(type_, Enumeration) and not type_.labels:
        raise unsupported(
            "the order of an enumerated type whose labels are not published",
            "Ask the policy's author to list all of its labels as `values` of the column, or compare x::text.",
        )


def rank(value: Expr) -> Expr:
    """Return the number of a value's label, from 0 on; values of other types as they are. Raises Refusal."""
    check_ordered(value.type)
    if not isinstance(value.type, Enumeration):
        return value
    if isinstance(value, Lit):
        return Lit("int4", None if value.text is None else str(_place(value.type, value.text)))
    tests = (Call("bool", "=", (value, Lit(value.type, label))) for label in value.type.labels)
    return Case("int4", tuple((test, Lit("int4", str(i))) for i, test in enumerate(tests)), None)


def labelled(number: Expr, type_: Enumeration) -> Expr:
    """Return the value of a rank."""
    tests = (Call("bool", "=", (number, Lit("int4", str(i)))) for i in range(len(type_.labels)))
    return Case(type_, tuple((test, Lit(type_, label)) for test, label in zip(tests, type_.labels, strict=True)), None)


def chosen(op: str, values: Sequence[Expr], type_: Enumeration) -> Expr:
    """Return `least` or `greatest` of values."""
    return labelled(Call("int4", op, tuple(map(rank, values))), type_)


def compared(op: str, a: Expr, b: Expr) -> Expr:
    """Return a comparison by `<`, `<=`, `>` or `>=` of two values of one enumerated type. Raises Refusal."""
    if isinstance(a, Lit) and not isinstance(b, Lit):
        op, a, b = _MIRRORED[op], b, a
    type_ = a.type if isinstance(a.type, Enumeration) else b.type
    a, b = (replace(e, type=type_) if isinstance(e, Hole | Lit) else e for e in (a, b))
    check_ordered(type_)
    if not (isinstance(a.type, Enumeration) and isinstance(b.type, Enumeration) and a.type == b.type):
        raise unsupported("comparing an enumerated type with another", "Cast both: x::text < y.")
    if not (isinstance(b, Lit) and b.text is not None):
        return Call("bool", op, (rank(a), rank(b)))
    labels, place = a.type.labels, _place(a.type, b.text)
    kept = {"<": labels[:place], "<=": labels[: place + 1], ">": labels[place + 1 :], ">=": labels[place:]}[op]
    items = tuple(Lit(a.type, label) for label in kept or labels)
    return InList("bool", a, items, negated=not kept)


def as_enumeration(value: Expr, type_: Enumeration) -> Expr:
    """Return a text as a value of an enumerated type; NULL where it is no label. Raises Refusal for such a constant."""
    if isinstance(value.type, Enumeration) and value.type == type_:
        return value
    if isinstance(value, Hole):
        return replace(value, type=type_)
    if isinstance(value, Lit):
        if value.text is not None:
            _place(type_, value.text)
        return Lit(type_, value.text)
    if isinstance(value, Case):
        default = as_enumeration(value.default, type_) if value.default is not None else None
        return Case(type_, tuple((test, as_enumeration(result, type_)) for test, result in value.whens), default)
    return Case(type_, ((InList("bool", value, tuple(Lit(type_, label) for label in type_.labels)), value),), None)


def _place(type_: Enumeration, text: str) -> int:
    if text not in type_.labels:
        known = ", ".join(type_.labels[:20])
        raise Refusal(
            INVALID_TEXT_REPRESENTATION,
            f'invalid input value for enum {type_.name}: "{text}"',
            hint=f"Write one of its labels: {known}.",
        )
    return type_.labels.index(text)
