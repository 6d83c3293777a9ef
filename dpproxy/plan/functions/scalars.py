"""The allow-list's general functions: of text, of numbers, choices between values, and the day or hour a time falls in.

Knows: names, kinds of arguments, types of results. Must not know: engines (they spell the operations), policies. Every entry is
deterministic and total, or has a total spelling in every engine. What is in no list of this room is refused by name.
A builder takes bound arguments and returns an expression; it raises Refusal for arguments that it can't make total.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.plan.functions import enumerations
from dpproxy.plan.functions.operators import (
    as_text,
    as_timestamp,
    check_count,
    coerce,
    common_type,
    compare,
    literal_text,
    multiply,
)
from dpproxy.plan.functions.plain import Builder
from dpproxy.plan.operations.catalogue import cut_to
from dpproxy.plan.operations.units import CUT
from dpproxy.plan.refusals import OTHER_ARGUMENTS, OTHER_TYPE, unsupported
from dpproxy.sql.types import TEXTS, TIMES
from dpproxy.table_terms import Enumeration
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit

MAX_PAD = 1000  # characters lpad/rpad may make: memory, not privacy


def _round(name: str) -> Builder:
    def build(args: Sequence[Expr]) -> Expr:
        if len(args) not in (1, 2):
            raise unsupported(f"`{name}` with {len(args)} arguments", OTHER_ARGUMENTS)
        value = coerce(args[0], "numeric")
        if len(args) == 1:
            type_ = value.type if value.type in ("numeric", "float8", "float4") else "float8"
            return Call(type_, name, (value,))
        digits = int(literal_text(coerce(args[1], "int4"), f"the digits of `{name}`"))
        if abs(digits) > 15:
            raise unsupported(f"`{name}` to more than 15 digits", "Ask for fewer: what is released has noise of its own.")
        return Call("numeric", name, (value, Lit("int4", str(digits))))

    return build


def _choice(op: str) -> Builder:
    def build(args: Sequence[Expr]) -> Expr:
        type_ = common_type(op.upper(), [a.type for a in args])
        if isinstance(type_, Enumeration) and op != "coalesce":
            return enumerations.chosen(op, [coerce(a, type_) for a in args], type_)
        return Call(type_, op, tuple(coerce(a, type_) for a in args))

    return build


def _nullif(args: Sequence[Expr]) -> Expr:
    check_count("nullif", args, 2)
    a, b = args
    test = compare("=", a, b)
    assert isinstance(test, Call)
    return Call(test.args[0].type, "nullif", test.args)


def date_trunc(args: Sequence[Expr]) -> Expr:
    if len(args) != 2:
        raise unsupported("`date_trunc` with a time zone", "Write date_trunc('day', x AT TIME ZONE 'Europe/Paris').")
    unit = literal_text(args[0], "the unit of `date_trunc`").lower()
    if unit not in CUT:
        raise unsupported(f"`date_trunc` to {unit}", f"Units are {', '.join(sorted(CUT))}.")
    value = coerce(args[1], "timestamp")
    if value.type not in TIMES:
        raise unsupported(f"`date_trunc` of {value.type}", OTHER_TYPE)
    result = "timestamp" if value.type == "timestamp" else "timestamptz"
    return cut_to(result, Lit("text", unit), as_timestamp(value))


def _concat(args: Sequence[Expr]) -> Expr:
    """NULL is an empty text, a boolean one letter, as its output function writes it (`||` casts it)."""
    parts = tuple(boolean_letter(coerce(a, "text")) for a in args)
    safe = tuple(Call("text", "coalesce", (p if p.type in TEXTS else Cast("text", p), Lit("text", ""))) for p in parts)
    return Call("text", "concat", safe)


def boolean_letter(value: Expr) -> Expr:
    if value.type != "bool":
        return value
    return Case("text", ((value, Lit("text", "t")), (Call("bool", "not", (value,)), Lit("text", "f"))), None)


def _pad(name: str) -> Builder:
    def build(args: Sequence[Expr]) -> Expr:
        if len(args) not in (2, 3):
            raise unsupported(f"`{name}` with {len(args)} arguments", OTHER_ARGUMENTS)
        size = int(literal_text(coerce(args[1], "int4"), f"the length of `{name}`"))
        if not 0 <= size <= MAX_PAD:
            raise unsupported(f"`{name}` to {size} characters")
        fill = coerce(args[2], "text") if len(args) == 3 else Lit("text", " ")
        if not literal_text(fill, f"the fill of `{name}`"):
            raise unsupported(f"`{name}` with an empty fill")
        return Call("text", name, (as_text(args[0], f"`{name}`"), Lit("int4", str(size)), fill))

    return build


def _trim(name: str) -> Builder:
    def build(args: Sequence[Expr]) -> Expr:
        if len(args) not in (1, 2):
            raise unsupported(f"`{name}` with {len(args)} arguments", OTHER_ARGUMENTS)
        chars = as_text(args[1], f"`{name}`") if len(args) > 1 else Lit("text", " ")
        return Call("text", name, (as_text(args[0], f"`{name}`"), chars))

    return build


def _power(args: Sequence[Expr]) -> Expr:
    check_count("power", args, 2)
    a, b = args
    a, b = coerce(a, "float8"), coerce(b, "float8")
    return Call("numeric" if "numeric" in (a.type, b.type) else "float8", "power", (a, b))


def _mod(args: Sequence[Expr]) -> Expr:
    check_count("mod", args, 2)
    a, b = args
    return multiply("%", a, b)


def _date(args: Sequence[Expr]) -> Expr:
    check_count("date", args, 1)
    (value,) = args
    return Cast("date", coerce(value, "date"))


def _sign(args: Sequence[Expr]) -> Expr:
    check_count("sign", args, 1)
    (value,) = args
    return Cast("numeric" if value.type == "numeric" else "float8", Call("int8", "sign", (value,)))


def _if(args: Sequence[Expr]) -> Expr:
    check_count("if", args, 3)
    test, yes, no = args
    type_ = common_type("CASE", [yes.type, no.type])
    return Case(type_, ((test, coerce(yes, type_)),), coerce(no, type_))


FUNCTIONS: dict[str, Builder] = {
    "trim": _trim("trim"), "btrim": _trim("trim"), "ltrim": _trim("ltrim"), "rtrim": _trim("rtrim"),
    "lpad": _pad("lpad"), "rpad": _pad("rpad"), "concat": _concat,
    "sign": _sign, "round": _round("round"), "trunc": _round("trunc"), "power": _power, "pow": _power, "mod": _mod,
    "coalesce": _choice("coalesce"), "greatest": _choice("greatest"), "least": _choice("least"), "nullif": _nullif,
    "date_trunc": date_trunc, "date": _date, "if": _if,
}  # fmt: skip
