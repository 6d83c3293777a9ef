"""Dates and times on the allow-list: their fields (EXTRACT), ages, bins, and dates put together from numbers.

Knows: PostgreSQL's fields. Must not know: engines, formats, time zones. A field that engines lack is computed of one that all
have; what PostgreSQL would raise for is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.functions.literals import check_count, coerce, literal_text, typed_literal
from dpproxy.plan.functions.operators import compare, minus, multiply, negate, plus
from dpproxy.plan.functions.scalars import Builder
from dpproxy.plan.refusals import CONSTANT, OTHER_TYPE, unsupported
from dpproxy.sql.strftime import PARTS
from dpproxy.sql.types import INTEGERS, NUMBERS, TIMES
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit

_WHOLE = {"year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "hour", "minute", "isoyear"}
_DERIVED = {"century": (99, 100), "millennium": (999, 1000)}
_FRACTIONS = {"milliseconds": 1000, "microseconds": 10**6}
_OF_INTERVALS = {"year", "month", "day", "hour", "minute", "second", "epoch", "milliseconds", "microseconds"}
_OF_TIMES = {"hour", "minute", "second", "epoch", "milliseconds", "microseconds"}
_FIELDS = (
    f"Fields are {', '.join(sorted(_WHOLE | _DERIVED.keys() | _OF_TIMES))}; of an interval {', '.join(sorted(_OF_INTERVALS))}."
)
_ALIASES = {"millisecond": "milliseconds", "microsecond": "microseconds", "century": "century", "hr": "hour", "min": "minute",
            "sec": "second", "mon": "month", "centuries": "century", "millennia": "millennium"}  # fmt: skip


def timestamp(value: Expr, what: str) -> Expr:
    """Return a date or timestamp as a timestamp."""
    value = coerce(value, "timestamp")
    if value.type not in TIMES:
        raise unsupported(f"{what} of {value.type}", OTHER_TYPE)
    return value if value.type != "date" else Cast("timestamp", value)


def extract(unit: str, value: Expr, *, result: str = "numeric") -> Expr:
    unit = unit.lower()
    unit = _ALIASES.get(unit, unit[:-1] if unit.endswith("s") and unit[:-1] in _WHOLE | {"second", "decade"} else unit)
    value = coerce(value, "timestamp")
    if value.type == "interval" and unit not in _OF_INTERVALS:
        raise unsupported(f"EXTRACT({unit}) of an interval", _FIELDS)
    if value.type == "time" and unit not in _OF_TIMES:
        raise unsupported(f"EXTRACT({unit}) of a time", "Fields of a time are hour, minute, second, epoch.")
    if value.type not in (*TIMES, "interval", "time"):
        raise unsupported(f"EXTRACT of {value.type}", OTHER_TYPE)
    if unit in _OF_TIMES - {"epoch"} and value.type == "date":
        value = Cast("timestamp", value)
    if unit in ("epoch", "second"):
        return Call(result, unit, (value,))
    if unit in _FRACTIONS:
        seconds = multiply("*", Call("numeric", "second", (value,)), Lit("int4", str(_FRACTIONS[unit])))
        return Cast(result, Call("numeric", "round", (seconds, Lit("int4", str(9 - len(str(_FRACTIONS[unit])))))))
    if unit == "julian" and value.type == "date":
        return Cast(result, plus(minus(value, Lit("date", "1970-01-01")), Lit("int4", "2440588")))
    # the engine yields a whole number; numeric (or float8, for date_part) is PostgreSQL's type of it
    return Cast(result, part(unit, value))


def part(unit: str, value: Expr) -> Expr:
    """Bind a field that is a whole number."""
    if unit in _WHOLE:
        return Call("int8", unit, (value,))
    year, zero = Call("int8", "year", (value,)), Lit("int8", "0")
    if unit == "decade":
        ten = Lit("int8", "10")
        before = multiply("/", minus(Lit("int8", "8"), year), ten)
        whens = ((compare(">", year, zero), multiply("/", year, ten)), (compare("<", year, zero), negate(before)))
        return Case("int8", whens, None)
    if unit in _DERIVED:  # centuries begin in the year 1
        rest, size = (Lit("int8", str(n)) for n in _DERIVED[unit])
        up, down = multiply("/", plus(year, rest), size), multiply("/", minus(rest, year), size)
        return Case("int8", ((compare(">", year, zero), up), (compare("<", year, zero), negate(down))), None)
    raise unsupported(f"EXTRACT({unit})", _FIELDS)


def _date_part(args: Sequence[Expr]) -> Expr:
    check_count("date_part", args, 2)
    return extract(literal_text(args[0], "the unit of `date_part`"), args[1], result="float8")


def _part(name: str) -> Builder:
    """A part of a date as a function of its own, as other engines have it."""

    def build(args: Sequence[Expr]) -> Expr:
        check_count(name, args, 1)
        return Cast("int4", extract(name, coerce(args[0], "timestamp")))

    return build


def make_timestamp(args: Sequence[Expr]) -> Expr:
    """make_timestamp(year, month, day, hour, minute, second), the time of day a constant."""
    check_count("make_timestamp", args, 6)
    hour, minute, second = (literal_text(a, "the time of day of `make_timestamp`") for a in args[3:])
    if not all(part.isdigit() for part in (hour, minute, second)) or int(hour) > 24 or int(minute) > 59 or int(second) > 60:
        raise unsupported("`make_timestamp` with this time of day", "Use whole numbers, or date + time.")
    return plus(
        Cast("timestamp", make_date(args[:3])), typed_literal("interval", f"{hour} hours {minute} minutes {second} seconds")
    )


# --- putting together, ages, bins


def make_date(args: Sequence[Expr]) -> Expr:
    check_count("make_date", args, 3)
    parts = [coerce(a, "int4") for a in args]
    if any(p.type not in NUMBERS for p in parts):
        raise unsupported("`make_date` of other than numbers")
    return Call("date", "make_date", tuple(p if p.type in INTEGERS else Cast("int4", p) for p in parts))


def age(later: Expr, earlier: Expr) -> Expr:
    return Call("interval", "age", (timestamp(later, "`age`"), timestamp(earlier, "`age`")))


def date_bin(args: Sequence[Expr]) -> Expr:
    check_count("date_bin", args, 3)
    stride, value = coerce(args[0], "interval"), timestamp(args[1], "`date_bin`")
    origin = coerce(args[2], "timestamp")
    if isinstance(origin, Lit) and origin.type == "date":
        origin = typed_literal("timestamp", origin.text)
    if not isinstance(stride, Lit) or not isinstance(origin, Lit) or not stride.text or not origin.text:
        raise unsupported("`date_bin` of a stride or origin that is not constant", CONSTANT)
    months, days, micros = (int(x) for x in stride.text.split())
    if months or days * 86400 * 10**6 + micros <= 0:
        raise Refusal(
            FEATURE_NOT_SUPPORTED, "timestamps cannot be binned into intervals containing months or years", hint="Use date_trunc."
        )
    type_ = "timestamptz" if value.type == "timestamptz" else "timestamp"
    return Call(type_, "date_bin", (stride, value, Lit("timestamp", origin.text)))


_MAKES = {"years": "1 year", "months": "1 month", "weeks": "7 days", "days": "1 day", "hours": "1 hour", "mins": "1 minute",
          "secs": "1 second"}  # fmt: skip


def make_interval(named: Sequence[tuple[str, Expr]]) -> Expr:
    """make_interval(days => n): one field, or several that are constants."""
    total: Expr | None = None
    for name, value in named:
        if name not in _MAKES:
            raise unsupported(f"`make_interval` with {name}")
        one = multiply("*", coerce(value, "int4"), typed_literal("interval", _MAKES[name]))
        total = one if total is None else plus(total, one)
    if total is None:
        raise unsupported("`make_interval` without named fields", "Name the field: make_interval(days => n).")
    return total


def _isfinite(args: Sequence[Expr]) -> Expr:
    check_count("isfinite", args, 1)
    value = coerce(args[0], "timestamp")
    if value.type not in TIMES:
        raise unsupported(f"`isfinite` of {value.type}", OTHER_TYPE)
    return Call("bool", "isfinite", (value,))


def _age(args: Sequence[Expr]) -> Expr:
    check_count("age", args, 2)
    return age(*args)


FUNCTIONS: dict[str, Builder] = {
    "date_part": _date_part, "make_date": make_date, "date_from_parts": make_date, "make_timestamp": make_timestamp,
    **{name: _part(name) for name in PARTS}, "age": _age, "date_bin": date_bin, "isfinite": _isfinite,
}  # fmt: skip
