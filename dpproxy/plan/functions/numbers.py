"""Number functions of the allow-list beyond arithmetic: buckets, trigonometry, bits, formats of whole numbers.

Knows: PostgreSQL's meaning and types of them. Must not know: engines. Where PostgreSQL raises (asin(2), log(-1), a bucket of NaN)
the value is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from dpproxy.errors import INVALID_ARGUMENT_FOR_WIDTH_BUCKET, INVALID_PARAMETER_VALUE, Refusal
from dpproxy.plan.functions.operators import check_count, coerce, common_type, compare, multiply, negate, plus
from dpproxy.plan.functions.plain import Builder, float_number, number
from dpproxy.plan.functions.texts import whole_number
from dpproxy.plan.properties.facts import facts, literal_number
from dpproxy.plan.refusals import CONSTANT, unsupported
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, common
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit

FIRST = "dpproxy_first"
"""Our own function: of a value, NULL is the least it can be."""
_LARGEST = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
MAX_BUCKETS = 10_000
MAX_THRESHOLDS = 200
MAX_DIGITS = 15
RADIANS_PER_DEGREE = Lit("float8", "0.0174532925199432957692")


def cot(args: Sequence[Expr]) -> Expr:
    """The cotangent; NULL where the tangent is 0."""
    check_count("cot", args, 1)
    tangent = Call("float8", "tan", (float_number(args[0], "`cot`"),))
    return Case("float8", ((compare("<>", tangent, Lit("float8", "0")), multiply("/", Lit("float8", "1"), tangent)),), None)


def radians(args: Sequence[Expr]) -> Expr:
    check_count("radians", args, 1)
    return multiply("*", float_number(args[0], "`radians`"), RADIANS_PER_DEGREE)


def degrees(args: Sequence[Expr]) -> Expr:
    check_count("degrees", args, 1)
    return multiply("/", float_number(args[0], "`degrees`"), RADIANS_PER_DEGREE)


def constant(expr: Expr, what: str) -> Fraction:
    value = literal_number(expr.type, expr.text) if isinstance(expr, Lit) and expr.text is not None else None
    if value is None:
        raise unsupported(f"{what} that is not a constant", CONSTANT)
    return value


def width_bucket(args: Sequence[Expr]) -> Expr:
    """width_bucket(x, low, high, count); the form with an array of thresholds is `thresholds`."""
    check_count("width_bucket", args, 4)
    value, low, high = (number(a, "`width_bucket`") for a in args[:3])
    buckets = whole_number(args[3], "the number of buckets")
    if not 0 < buckets <= MAX_BUCKETS:
        raise Refusal(INVALID_ARGUMENT_FOR_WIDTH_BUCKET, f"the number of buckets must be between 1 and {MAX_BUCKETS}")
    if constant(low, "a bound of `width_bucket`") >= constant(high, "a bound of `width_bucket`"):
        raise unsupported("`width_bucket` with a lower bound that is not below the upper one")
    kinds = {value.type, low.type, high.type}
    exact = "numeric" in kinds and not kinds & set(FLOATS)  # PostgreSQL takes whole numbers alone as float8
    type_ = "numeric" if exact else "float8"
    if not exact and not _apart(constant(low, "a bound"), constant(high, "a bound")):
        raise unsupported("`width_bucket` with bounds that are equal, or infinite, as floats")
    bounds = tuple(Lit(type_, x.text) for x in (low, high) if isinstance(x, Lit))
    value = value if value.type == type_ else Cast(type_, value)
    return Call("int4", "bucket_numeric" if exact else "bucket_float", (value, *bounds, Lit("int4", str(buckets))))


LARGEST = 10**300


def _apart(low: Fraction, high: Fraction) -> bool:
    """Whether two bounds are finite and different as floats: PostgreSQL raises where they are not, at the first row."""
    return max(abs(low), abs(high)) <= LARGEST and float(low) < float(high)


def thresholds(value: Expr, bounds: Sequence[Expr]) -> Expr:
    """Bind width_bucket(x, ARRAY[...]): how many of the ascending thresholds are not above x."""
    type_ = common_type("width_bucket", [value.type, *(b.type for b in bounds)])
    known = [coerce(b, type_) for b in bounds]
    if not 0 < len(known) <= MAX_THRESHOLDS or not all(isinstance(b, Lit) and b.text is not None for b in known):
        raise unsupported("`width_bucket` with these thresholds", "List up to 200 constants in ascending order.")
    order = [literal_number(b.type, b.text or "") for b in known if isinstance(b, Lit)]
    if None not in order and any(a > b for a, b in pairwise(order)):  # type: ignore[operator]
        raise Refusal(INVALID_PARAMETER_VALUE, "the thresholds of width_bucket must ascend")
    value = coerce(value, type_)
    below = tuple((compare("<", value, b), Lit("int4", str(i))) for i, b in enumerate(known))
    last = (compare(">=", value, known[-1]), Lit("int4", str(len(known))))
    return Case("int4", (*below, last), None)


def div(args: Sequence[Expr]) -> Expr:
    """Bind div(), the whole part of a quotient, as numeric."""
    check_count("div", args, 2)
    a, b = (coerce(number(x, "`div`"), "numeric") for x in args)
    if {a.type, b.type} & set(FLOATS):
        raise unsupported("`div` of floats", "Use trunc(a / b).")
    if a.type in INTEGERS and b.type in INTEGERS:
        return Cast("numeric", multiply("/", a, b))
    return Call("numeric", "trunc", (multiply("/", a, b), Lit("int4", "0")))


def log(args: Sequence[Expr]) -> Expr:
    """Bind log(x), to base 10, and log(base, x)."""
    check_count("log", args, 1, 2)
    if len(args) == 1:
        value = number(args[0], "`log`")
        return Call("numeric" if value.type == "numeric" else "float8", "log", (value,))
    base, value = (Cast("numeric", number(a, "`log`")) for a in args)
    return multiply("/", Call("numeric", "ln", (value,)), Call("numeric", "ln", (base,)))


def _bits(name: str) -> Builder:
    def build(args: Sequence[Expr]) -> Expr:
        values = [coerce(a, "int4") for a in args]
        if any(v.type not in INTEGERS for v in values):
            raise unsupported("a bit operator on other types than whole numbers", "Cast to a whole number first: x::int.")
        type_ = common([v.type for v in values])
        if name == "bitleft":
            by = whole_number(values[1], "a shift")
            if not 0 <= by < 16:
                raise unsupported("shifting by 16 bits or more", "Multiply or divide by a power of two.")
            return multiply("*", values[0], Lit(values[0].type, str(2 ** min(by, 14 if values[0].type == "int2" else by))))
        if name == "bitright" and not 0 <= whole_number(values[1], "a shift") < 16:
            raise unsupported("shifting by 16 bits or more", "Multiply or divide by a power of two.")
        return Call(values[0].type if name == "bitright" else type_, name, tuple(values))

    return build


BITS = {name: _bits(name) for name in ("bitand", "bitor", "bitxor", "bitnot", "bitright", "bitleft")}


def _nulls(test: str) -> Builder:
    def build(args: Sequence[Expr]) -> Expr:
        if not args:
            raise unsupported("counting no arguments")
        total: Expr | None = None
        for value in args:
            one = Cast("int4", Call("bool", test, (coerce(value, "text"),)))
            total = one if total is None else plus(total, one)
        assert total is not None
        return total

    return build


_FORMAT = re.compile(r"(FM)?([09]*)0")


def number_format(value: Expr, form: str) -> Expr | None:
    """Bind to_char(number, '000'): leading zeros, a place for the sign unless FM, # where it does not fit. None for other
    formats."""
    match = _FORMAT.fullmatch(form.upper())
    if match is None or "9" in match.group(2) or value.type not in NUMBERS or len(form) > MAX_DIGITS:
        return None
    places = len(match.group(2)) + 1
    size = Cast("int8", Call(value.type, "round", (value,)) if value.type not in INTEGERS else value)
    top, blank = Lit("int8", str(10**places - 1)), "" if match.group(1) else " "
    zeros = Call("text", "lpad", (Cast("text", Call("int8", "abs", (size,))), Lit("int4", str(places)), Lit("text", "0")))

    def written(sign: str, digits: Expr) -> Expr:
        return Call("text", "concat", (Lit("text", sign), digits)) if sign else digits

    hashes = Lit("text", "#" * places)
    return Case(
        "text",
        (
            (compare(">", size, top), written(blank, hashes)),
            (compare("<", size, negate(top)), written("-", hashes)),
            (compare("<", size, Lit("int8", "0")), written("-", zeros)),
            (compare(">=", size, Lit("int8", "0")), written(blank, zeros)),
        ),
        None,
    )


def _first(args: Sequence[Expr]) -> Expr:
    """A number, the least it can be where it is NULL (`percentile_by_rank`)."""
    check_count(FIRST, args, 1)
    value = number(args[0], "a percentile")
    known = facts(value)
    if known.bound.lo is None or not known.nullable:
        return value
    least = max(known.bound.lo.__floor__(), -_LARGEST.get(value.type, 10**30))
    return Call(value.type, "coalesce", (value, Lit(value.type, str(least))))


def _pi(args: Sequence[Expr]) -> Expr:
    check_count("pi", args, 0)
    return Lit("float8", "3.141592653589793")


FUNCTIONS: dict[str, Builder] = {
    "cot": cot, "radians": radians, "degrees": degrees, "pi": _pi, "width_bucket": width_bucket,
    FIRST: _first, "div": div, "log": log, "num_nulls": _nulls("is_null"), "num_nonnulls": _nulls("is_not_null"),
}  # fmt: skip
