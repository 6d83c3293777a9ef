"""The allow-list: PostgreSQL functions and operators that may run below a measurement.

Knows: names, argument kinds, result types. Must not know: engines (they spell the operations), policies. Every entry is
deterministic and total, or has a total spelling in every engine. What is not here is refused by name.
A builder takes bound arguments and returns an expression; it raises Refusal for arguments it can't make total.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from dpproxy.errors import DATATYPE_MISMATCH, INVALID_PARAMETER_VALUE, SUBSTRING_ERROR, UNDEFINED_FUNCTION, Refusal
from dpproxy.plan.functions.folding import folded_constants
from dpproxy.plan.logical.expr import (
    Call,
    Case,
    Cast,
    Expr,
    Hole,
    Lit,
)
from dpproxy.plan.properties.interval_fields import MAX_INTERVAL_MONTHS, interval_text
from dpproxy.plan.refusals import unsupported
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TEXTS, TIMES, arithmetic, common

Builder = Callable[[Sequence[Expr]], Expr]

TRUNC_UNITS = {"microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year"}
TRUNC_UNITS |= {"decade"}  # centuries begin in year 1 for PostgreSQL, in year 0 for DuckDB
MAX_PAD = 1000  # characters lpad/rpad may make: memory, not privacy


def literal_text(expr: Expr, what: str) -> str:
    """The text of a constant argument that must be known before the statement runs."""
    if isinstance(expr, Lit) and expr.text is not None:
        return expr.text
    raise unsupported(f"{what} that is not a constant")


def coerce(expr: Expr, type_: str) -> Expr:
    """A constant of unknown type takes the type its neighbour asks for."""
    if isinstance(expr, Lit) and expr.type == "unknown":
        return typed_literal(type_, expr.text)
    if isinstance(expr, Hole) and expr.type == "unknown":
        return Hole(type_, expr.index)
    return expr


def typed_literal(type_: str, text: str | None) -> Expr:
    """A string constant as a value of a type. Raises Refusal when it is not plain ISO (the binder then asks the facade)."""
    import datetime as dt

    if text is None or type_ in TEXTS or type_ in ("unknown", "uuid"):
        return Lit(type_, text)
    value = text.strip()
    try:
        if type_ in INTEGERS:
            return Lit(type_, str(int(value)))
        if type_ in ("numeric", *FLOATS):
            if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", value):
                raise ValueError(value)
            return Lit(type_, value)
        if type_ == "bool":
            return Lit(type_, {"t": "true", "true": "true", "yes": "true", "on": "true", "1": "true", "f": "false",
                               "false": "false", "no": "false", "off": "false", "0": "false"}[value.lower()])  # fmt: skip
        if type_ == "date":
            return Lit(type_, dt.date.fromisoformat(value[:10] if _midnight(value) else value).isoformat())
        if type_ in ("timestamp", "timestamptz"):
            stamp = dt.datetime.fromisoformat(value)
            if stamp.tzinfo is not None and type_ == "timestamptz":
                raise ValueError(value)
            return Lit(type_, stamp.replace(tzinfo=None).isoformat(sep=" "))
        if type_ == "interval":
            return Lit(type_, interval_text(value))
        if type_ == "time" and re.fullmatch(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", value):
            return Lit(type_, dt.time.fromisoformat(value).isoformat())
    except (ValueError, KeyError):
        pass
    raise NotPlain(type_, text)


class NotPlain(Exception):
    """A constant whose spelling only PostgreSQL can read ('Jan 5, 2024', 'yesterday'): the facade is asked."""

    def __init__(self, type_: str, text: str) -> None:
        super().__init__(type_)
        self.type, self.text = type_, text


def _midnight(value: str) -> bool:
    return bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}[ T]00:00(:00(\.0+)?)?", value))


# --- operators -----------------------------------------------------------------------------------------------------


def compare(op: str, a: Expr, b: Expr) -> Expr:
    a, b = coerce(a, b.type), coerce(b, a.type)
    if a.type == "unknown":
        a, b = coerce(a, "text"), coerce(b, "text")
    if _class(a.type) != _class(b.type):
        raise unsupported(f"comparing {a.type} with {b.type}", "Cast one of them.")
    return Call("bool", op, (a, b))


def _class(type_: str) -> str:
    if type_ in NUMBERS:
        return "number"
    if type_ in (*TEXTS, "unknown"):
        return "text"
    return "instant" if type_ in TIMES else type_


def same_kind(a: str, b: str) -> bool:
    """Whether values of two types can stand in one column."""
    return _class(a) == _class(b)


def common_type(what: str, types: list[str]) -> str:
    """The common type of the branches of CASE, the arguments of coalesce() and the like. Raises Refusal 42804."""
    type_ = common(types)
    for other in types:
        if other != "unknown" and not same_kind(type_, other):
            raise Refusal(DATATYPE_MISMATCH, f"{what} types {type_} and {other} cannot be matched")
    return type_


def plus(a: Expr, b: Expr) -> Expr:
    a, b = _operands(a, b)
    if a.type in NUMBERS and b.type in NUMBERS:
        return folded_constants("+", a, b) or Call(arithmetic(a.type, b.type), "+", (a, b))
    if b.type in TIMES and a.type not in TIMES:
        a, b = b, a
    return _shift("add", a, b)


def minus(a: Expr, b: Expr) -> Expr:
    a, b = _operands(a, b)
    if a.type in NUMBERS and b.type in NUMBERS:
        return folded_constants("-", a, b) or Call(arithmetic(a.type, b.type), "-", (a, b))
    if a.type == "date" and b.type == "date":
        return Call("int4", "date_diff", (a, b))
    if a.type in TIMES and b.type in TIMES:
        return Call("interval", "ts_diff", (_timestamp(a), _timestamp(b)))
    return _shift("sub", a, b)


def _operands(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Constants of unknown type beside a time are intervals for + and times for -; beside a number, numbers."""
    if a.type == "unknown" and b.type in NUMBERS:
        a = coerce(a, b.type)
    if b.type == "unknown":
        b = coerce(b, "interval" if a.type in TIMES else a.type)
    return a, b


def _shift(direction: str, a: Expr, b: Expr) -> Expr:
    if a.type == "date" and b.type in INTEGERS:
        return Call("date", f"date_{direction}", (a, b))
    if a.type in TIMES and (b.type == "interval" or isinstance(b, Hole)):
        return Call("timestamptz" if a.type == "timestamptz" else "timestamp", f"ts_{direction}", (_timestamp(a), b))
    if a.type == "interval" and b.type == "interval" and isinstance(a, Lit) and isinstance(b, Lit):
        sign = 1 if direction == "add" else -1
        left, right = ([int(x) for x in (e.text or "0 0 0").split()] for e in (a, b))
        return Lit("interval", " ".join(str(x + sign * y) for x, y in zip(left, right, strict=True)))
    raise unsupported(f"arithmetic of {a.type} and {b.type}")


def _timestamp(expr: Expr) -> Expr:
    return expr if expr.type in ("timestamp", "timestamptz") else Cast("timestamp", expr)


def multiply(op: str, a: Expr, b: Expr) -> Expr:
    a, b = _operands(a, b)
    if a.type == "interval" or b.type == "interval":
        return _scale_interval(op, a, b)
    if a.type not in NUMBERS or b.type not in NUMBERS:
        raise unsupported(f"`{op}` of {a.type} and {b.type}")
    type_ = arithmetic(a.type, b.type)
    if op == "%" and type_ in FLOATS:
        raise Refusal(
            UNDEFINED_FUNCTION, f"operator does not exist: {a.type} % {b.type}", hint="Cast the operands: x::numeric % y."
        )
    if op == "/" and type_ in INTEGERS:
        return Call(type_, "int/", (a, b))
    return folded_constants(op, a, b) or Call(type_, op, (a, b))


def _scale_interval(op: str, a: Expr, b: Expr) -> Expr:
    if b.type == "interval":
        a, b = b, coerce(a, "int4")
    if op == "*" and isinstance(a, Lit) and isinstance(b, Lit) and b.type in INTEGERS and a.text and b.text:
        text = " ".join(str(int(x) * int(b.text)) for x in a.text.split())
        months, days, _ = (int(x) for x in text.split())
        if abs(months) <= MAX_INTERVAL_MONTHS and abs(days) <= 4_000_000:
            return Lit("interval", text)
    if op == "*" and isinstance(a, Lit) and a.text and b.type in INTEGERS:
        return _times_interval(b, a.text)
    raise unsupported(
        "arithmetic with an interval that is not a constant", "Use n * interval '1 day', where n is a whole number."
    )


SPAN_YEARS = 4000  # an interval beyond it is added to nothing: engines' own guard


def _times_interval(number: Expr, unit: str) -> Expr:
    """So many intervals; NULL beyond what is ever added to a timestamp."""
    months, days, micros = (abs(int(x)) for x in unit.split())
    size = Fraction(months, 12) + Fraction(days, 365) + Fraction(micros, 365 * 86400 * 10**6)
    most = min(int(SPAN_YEARS / size), 2**31 - 1) if size else 1
    return Call("interval", "interval_times", (number, Lit("interval", unit), Lit("int8", str(most))))


def negate(a: Expr) -> Expr:
    a = coerce(a, "float8")
    if isinstance(a, Lit) and a.type in NUMBERS and a.text is not None:
        return Lit(a.type, a.text[1:] if a.text.startswith("-") else f"-{a.text}")
    if isinstance(a, Lit) and a.type == "interval" and a.text is not None:
        return Lit("interval", " ".join(str(-int(x)) for x in a.text.split()))
    if a.type not in NUMBERS:
        raise unsupported(f"`-` of {a.type}")
    return Call(a.type, "neg", (a,))


# --- functions -----------------------------------------------------------------------------------------------------


def _text(name: str, result: str = "text", kinds: str = "t") -> Builder:
    """A function over text: `kinds` gives each argument's kind, `t` text, `i` a whole number."""

    def build(args: Sequence[Expr]) -> Expr:
        if len(args) != len(kinds):
            raise unsupported(f"`{name}` with {len(args)} arguments")
        bound = [coerce(a, "text" if k == "t" else "int4") for a, k in zip(args, kinds, strict=True)]
        for argument, kind in zip(bound, kinds, strict=True):
            wanted = (*TEXTS, "unknown") if kind == "t" else INTEGERS
            if argument.type not in wanted:
                raise unsupported(f"`{name}` of {argument.type}")
            if kind == "i":
                literal_text(argument, f"an argument of `{name}`")
        return Call(result, name, tuple(bound))

    return build


def _numeric(name: str, *, floats: bool = False, keep: bool = True) -> Builder:
    """A function of one number. `floats`: the result is float8 or numeric; `keep`: whole numbers stay what they are."""

    def build(args: Sequence[Expr]) -> Expr:
        (value,) = _exactly(name, args, 1)
        value = coerce(value, "float8")
        if value.type not in NUMBERS:
            raise unsupported(f"`{name}` of {value.type}")
        type_ = value.type
        if floats:
            type_ = "numeric" if type_ == "numeric" else "float8"
        elif not keep and type_ in INTEGERS:
            type_ = "float8"
        return Call(type_, name, (value,))

    return build


def _exactly(name: str, args: Sequence[Expr], count: int) -> Sequence[Expr]:
    if len(args) != count:
        raise unsupported(f"`{name}` with {len(args)} arguments")
    return args


def _round(name: str) -> Builder:
    def build(args: Sequence[Expr]) -> Expr:
        if len(args) not in (1, 2):
            raise unsupported(f"`{name}` with {len(args)} arguments")
        value = coerce(args[0], "numeric")
        if len(args) == 1:
            type_ = value.type if value.type in ("numeric", "float8", "float4") else "float8"
            return Call(type_, name, (value,))
        digits = int(literal_text(coerce(args[1], "int4"), f"the digits of `{name}`"))
        if abs(digits) > 15:
            raise unsupported(f"`{name}` to more than 15 digits")
        return Call("numeric", name, (value, Lit("int4", str(digits))))

    return build


def _choice(op: str) -> Builder:
    def build(args: Sequence[Expr]) -> Expr:
        type_ = common_type(op.upper(), [a.type for a in args])
        return Call(type_, op, tuple(coerce(a, type_) for a in args))

    return build


def _nullif(args: Sequence[Expr]) -> Expr:
    a, b = _exactly("nullif", args, 2)
    test = compare("=", a, b)
    assert isinstance(test, Call)
    return Call(test.args[0].type, "nullif", test.args)


def date_trunc(args: Sequence[Expr]) -> Expr:
    if len(args) != 2:
        raise unsupported("`date_trunc` with a time zone")
    unit = literal_text(args[0], "the unit of `date_trunc`").lower()
    if unit not in TRUNC_UNITS:
        raise unsupported(f"`date_trunc` to {unit}")
    value = coerce(args[1], "timestamp")
    if value.type not in TIMES:
        raise unsupported(f"`date_trunc` of {value.type}")
    result = "timestamp" if value.type == "timestamp" else "timestamptz"
    return Call(result, "trunc_time", (Lit("text", unit), _timestamp(value)))


def _concat(args: Sequence[Expr]) -> Expr:
    """NULL is an empty text, a boolean one letter, as its output function writes it (`||` casts it)."""
    parts = tuple(boolean_letter(coerce(a, "text")) for a in args)
    safe = tuple(Call("text", "coalesce", (p if p.type in TEXTS else Cast("text", p), Lit("text", ""))) for p in parts)
    return Call("text", "concat", safe)


def boolean_letter(value: Expr) -> Expr:
    if value.type != "bool":
        return value
    return Case("text", ((value, Lit("text", "t")), (Call("bool", "not", (value,)), Lit("text", "f"))), None)


def concatenation(a: Expr, b: Expr) -> Expr:
    return Call("text", "concat", (coerce(a, "text"), coerce(b, "text")))


def _substring(args: Sequence[Expr]) -> Expr:
    if len(args) not in (2, 3):
        raise unsupported("`substring` of this form")
    start = int(literal_text(coerce(args[1], "int4"), "the start of `substring`"))
    value = coerce(args[0], "text")
    if value.type not in TEXTS:
        raise unsupported(f"`substring` of {value.type}")
    length = int(literal_text(coerce(args[2], "int4"), "the length of `substring`")) if len(args) == 3 else None
    if start < 1:
        length = None if length is None else length + start - 1
        start = 1
    if length is not None and length < 0:
        raise Refusal(SUBSTRING_ERROR, "negative substring length not allowed")
    if length is None:
        return Call("text", "substring_from", (value, Lit("int4", str(start))))
    return Call("text", "substring", (value, Lit("int4", str(start)), Lit("int4", str(length))))


def as_text(value: Expr, what: str) -> Expr:
    value = coerce(value, "text")
    if value.type not in TEXTS:
        raise unsupported(f"{what} of {value.type}")
    return value


def _pad(name: str) -> Builder:
    def build(args: Sequence[Expr]) -> Expr:
        if len(args) not in (2, 3):
            raise unsupported(f"`{name}` with {len(args)} arguments")
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
            raise unsupported(f"`{name}` with {len(args)} arguments")
        chars = as_text(args[1], f"`{name}`") if len(args) > 1 else Lit("text", " ")
        return Call("text", name, (as_text(args[0], f"`{name}`"), chars))

    return build


def _split_part(args: Sequence[Expr]) -> Expr:
    value, mark, at = _exactly("split_part", args, 3)
    index = literal_text(coerce(at, "int4"), "the field of `split_part`")
    if int(index) == 0:
        raise Refusal(INVALID_PARAMETER_VALUE, "field position must not be zero")
    if not literal_text(coerce(mark, "text"), "the delimiter of `split_part`"):
        raise unsupported("`split_part` with an empty delimiter")
    return Call("text", "split_part", (as_text(value, "`split_part`"), coerce(mark, "text"), Lit("int4", index)))


def _power(args: Sequence[Expr]) -> Expr:
    a, b = _exactly("power", args, 2)
    a, b = coerce(a, "float8"), coerce(b, "float8")
    return Call("numeric" if "numeric" in (a.type, b.type) else "float8", "power", (a, b))


def _mod(args: Sequence[Expr]) -> Expr:
    a, b = _exactly("mod", args, 2)
    return multiply("%", a, b)


def _date(args: Sequence[Expr]) -> Expr:
    (value,) = _exactly("date", args, 1)
    return Cast("date", coerce(value, "date"))


def _sign(args: Sequence[Expr]) -> Expr:
    (value,) = _exactly("sign", args, 1)
    return Cast("numeric" if value.type == "numeric" else "float8", Call("int8", "sign", (value,)))


def _if(args: Sequence[Expr]) -> Expr:
    test, yes, no = _exactly("if", args, 3)
    type_ = common_type("CASE", [yes.type, no.type])
    return Case(type_, ((test, coerce(yes, type_)),), coerce(no, type_))


FUNCTIONS: dict[str, Builder] = {
    "lower": _text("lower"), "upper": _text("upper"), "length": _text("length", "int4"),
    "char_length": _text("length", "int4"), "character_length": _text("length", "int4"),
    "trim": _trim("trim"), "btrim": _trim("trim"), "ltrim": _trim("ltrim"), "rtrim": _trim("rtrim"),
    "replace": _text("replace", kinds="ttt"), "reverse": _text("reverse"), "md5": _text("md5"),
    "strpos": _text("strpos", "int4", "tt"), "starts_with": _text("starts_with", "bool", "tt"),
    "left": _text("left", kinds="ti"), "right": _text("right", kinds="ti"), "split_part": _split_part,
    "substr": _substring, "substring": _substring, "lpad": _pad("lpad"), "rpad": _pad("rpad"), "concat": _concat,
    "abs": _numeric("abs"), "floor": _numeric("floor", keep=False), "ceil": _numeric("ceil", keep=False),
    "ceiling": _numeric("ceil", keep=False), "sqrt": _numeric("sqrt", floats=True), "ln": _numeric("ln", floats=True),
    "log10": _numeric("log", floats=True), "exp": _numeric("exp", floats=True),
    "sign": _sign, "round": _round("round"), "trunc": _round("trunc"), "power": _power, "pow": _power, "mod": _mod,
    "coalesce": _choice("coalesce"), "greatest": _choice("greatest"), "least": _choice("least"), "nullif": _nullif,
    "date_trunc": date_trunc, "date": _date, "if": _if,
}  # fmt: skip
